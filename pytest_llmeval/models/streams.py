"""Whether a streamed reply is complete, and what its chunks say together; bytes in, facts out.

A stream is read to its end before anything is made of it, so that only its bytes count and
not how they were cut into chunks. Two forms are known: server-sent events (openai, anthropic
and all who speak like them) and one JSON object a line (ollama).

Whatever is no complete reply is turned into the HTTP failure that a vendor would have sent,
had the failure come before the first chunk: so it is tried again, slows the provider's pace
down, counts as infrastructure or content and is worded by the SDK like any other.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import cast

from pytest_llmeval.models.retries import OVERLOADED, WireReply

JsonObject = Mapping[str, object]

STREAM_TYPES = ("text/event-stream", "application/x-ndjson")
END_TYPES = ("response.completed", "response.incomplete", "message_stop")
ERROR_STATUSES = range(400, 600)
_DONE = b"[DONE]"
# Where the vendors' replies have what was asked for, and of what kind it is.
_ANSWERS: Mapping[str, type | tuple[type, ...]] = {
    "choices": list,
    "content": (list, str),
    "data": list,
    "embedding": list,
    "embeddings": list,
    "message": dict,
    "output": list,
    "response": str,
    "results": list,
}
_SURELY_ANSWERS = re.compile(rb'"(choices|content|data|embeddings?|output)"\s*:\s*\[\s*[^\]\s]')
_LINE_END = re.compile(rb"\r\n|\r|\n")

# By code or type of an error event: the status with which a plain request would have failed.
_STATUSES = {
    "rate_limit_exceeded": HTTPStatus.TOO_MANY_REQUESTS,
    "rate_limit_error": HTTPStatus.TOO_MANY_REQUESTS,
    "insufficient_quota": HTTPStatus.TOO_MANY_REQUESTS,
    "overloaded_error": OVERLOADED,
    "billing_error": HTTPStatus.PAYMENT_REQUIRED,
    "invalid_request_error": HTTPStatus.BAD_REQUEST,
    "invalid_prompt": HTTPStatus.BAD_REQUEST,
    "context_length_exceeded": HTTPStatus.BAD_REQUEST,
    "content_filter": HTTPStatus.BAD_REQUEST,
    "content_policy_violation": HTTPStatus.BAD_REQUEST,
    "image_content_policy_violation": HTTPStatus.BAD_REQUEST,
}


class StreamFailed(Exception):
    """A stream, or a response, is no complete reply.

    Attributes:
        status: of the HTTP failure that it amounts to.
        error: as a vendor words it: ``message``, ``type``, ``code``.
    """

    def __init__(self, status: int, error: JsonObject) -> None:
        """Keep both."""
        super().__init__(str(error.get("message")))
        self.status = status
        self.error = error


def read_chunks(chunks: Iterable[bytes], *, started: float) -> tuple[bytes, float | None]:
    """Read a reply to its end.

    Args:
        chunks: decoded bytes, as they come.
        started: when it was asked for, on ``time.perf_counter``.

    Returns:
        All bytes, and after how many seconds the first came; None if none did.
    """
    came: list[bytes] = []
    first = None
    for chunk in chunks:
        if first is None:
            first = time.perf_counter() - started
        came.append(chunk)
    return b"".join(came), first


def settled(reply: WireReply, *, was_asked_for: bool) -> WireReply:
    """Tell of a stream what it says, or the failure that it is.

    A plain reply is left alone, unless it only tells of an error or is no JSON object.

    Args:
        reply: read to its end.
        was_asked_for: the request wanted a stream; some servers send one unasked, and some
            call it by another content type.
    """
    content_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        return reply
    try:
        if was_asked_for or content_type in STREAM_TYPES:
            return replace(reply, summary=read_stream(reply.body))
        _refuse_no_answer(reply.body)
    except StreamFailed as exc:
        return replace(
            reply,
            status=exc.status,
            headers={**reply.headers, "content-type": "application/json"},
            body=json.dumps({"error": exc.error}).encode(),
        )
    return reply


def times(reply: WireReply) -> dict[str, float | None]:
    """Tell how long a reply took, as facts of the call; of a stream also when it began."""
    if reply.summary is None:
        return {"seconds": reply.seconds}
    return {"first_chunk_seconds": reply.first_chunk_seconds, "seconds": reply.seconds}


def read_stream(body: bytes) -> JsonObject:
    """Put together what the chunks of a complete stream say of the call.

    Returns:
        As the one object of a plain reply has them: model, fingerprint, usage.

    Raises:
        StreamFailed: it is not complete, is damaged, or tells of an error.
    """
    summary: dict[str, object] = {}
    is_complete = False
    for data in _pieces(body):
        if data.startswith(_DONE):  # the SDKs read no further
            return summary
        piece = _parsed(data)
        _refuse_error(piece)
        for part in (piece, piece.get("response"), piece.get("message")):
            if isinstance(part, dict):
                _add(summary, part)
        is_complete = is_complete or piece.get("type") in END_TYPES or piece.get("done") is True
    if not is_complete:
        raise _broken(
            "the streamed reply ended without its end mark (data: [DONE], response.completed, "
            'message_stop, or a line with "done": true), so it is not complete and nothing was '
            "stored. If this server never sends one, ask without stream=True",
            code="llmeval_stream_cut",
        )
    return summary


def _pieces(body: bytes) -> Iterator[bytes]:
    is_json_lines = body.lstrip().startswith(b"{")
    lines = _LINE_END.split(body)
    if not lines[-1]:
        lines.pop()  # what follows the last line end is no line
    return filter(bytes.strip, lines) if is_json_lines else _event_data(lines)


def _event_data(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Read the data of server-sent events; an event counts when a blank line ends it."""
    data: list[bytes] = []
    for line in lines:
        if line.startswith(b"data:"):
            data.append(line.removeprefix(b"data:").removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []
    if data == [_DONE]:  # nobody misses a blank line behind it
        yield _DONE


def _parsed(data: bytes) -> JsonObject:
    try:
        piece = json.loads(data)
    except (ValueError, RecursionError):
        piece = None
    if not isinstance(piece, dict):
        raise _broken(
            "the streamed reply holds a line that is no JSON object; nothing was stored",
            code="llmeval_stream_damaged",
        )
    return cast("JsonObject", piece)


def _add(summary: dict[str, object], part: JsonObject) -> None:
    """Add what a chunk says; what comes later counts, but only where it says something."""
    for name, value in part.items():
        known = summary.get(name)
        if isinstance(value, dict) and isinstance(known, dict):
            summary[name] = known | {key: one for key, one in value.items() if one is not None}
        elif value is not None:
            summary[name] = value


def _refuse_error(piece: JsonObject) -> None:
    error = piece.get("error")
    kind = piece.get("type")
    if kind == "response.failed":
        response = piece.get("response")
        error = response.get("error") if isinstance(response, dict) else None
    if not error and kind not in ("error", "response.failed"):
        return
    # The Responses API spells an error out on the event itself.
    raise _told(error or piece, before="the stream ended in an error")


def _refuse_no_answer(body: bytes) -> None:
    """Refuse what came with status 200 and is no answer: gateways send their errors so.

    What is no JSON at all is left to who reads it.
    """
    tells_of_error = b'"error"' in body or b'"failed"' in body
    if body.lstrip()[:1] == b"{" and not tells_of_error and _SURELY_ANSWERS.search(body):
        return  # spares nearly all replies that are parsed twice
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return
    if not isinstance(reply, dict):
        raise _broken(
            "the reply is no JSON object, so it answers nothing; nothing was stored",
            code="llmeval_no_object",
        )
    error = reply.get("error")
    if (reply.get("object"), reply.get("status")) == ("response", "failed"):
        raise _told(error or {}, before="the response failed")
    if (error or "error" in (reply.get("type"), reply.get("object"))) and not _answers(reply):
        told = error if isinstance(error, dict | str) and error else reply
        raise _told(told, before="the reply is an error")
    if reply.get("choices") == [] or not _has_room_for_answer(reply):
        raise _broken(
            f"the reply holds none of {', '.join(_ANSWERS)}, so it answers nothing; "
            "nothing was stored",
            code="llmeval_no_answer",
        )


def _has_room_for_answer(reply: JsonObject) -> bool:
    return any(isinstance(reply.get(name), kind) for name, kind in _ANSWERS.items())


def _answers(reply: JsonObject) -> bool:
    """Whether a reply of any vendor holds something besides its error."""
    return any(isinstance(reply.get(name), list | dict) and reply[name] for name in _ANSWERS)


def _told(error: object, *, before: str) -> StreamFailed:
    fields = error if isinstance(error, dict) else {"message": str(error)}
    message = f"{before}: {fields.get('message') or 'it says no more'}"
    return StreamFailed(_status_of(fields), {**fields, "message": message})


def _status_of(error: JsonObject) -> int:
    code = error.get("code")
    if isinstance(code, int) and code in ERROR_STATUSES:
        return code
    names = (str(code), str(error.get("type")))
    known = [_STATUSES[name] for name in names if name in _STATUSES]
    return known[0] if known else HTTPStatus.INTERNAL_SERVER_ERROR


def _broken(message: str, *, code: str) -> StreamFailed:
    error = {"message": message, "type": "llmeval", "code": code}
    return StreamFailed(HTTPStatus.BAD_GATEWAY, error)
