"""Answers read out of replies, with the facts of their calls; in streams and in one piece.

A stream is read to its end before anything is made of it, so that only its bytes count and
not how they were cut into chunks. Four forms are known: server-sent events (openai, anthropic
and all who speak like them), one JSON object a line (ollama), one JSON array (Google, unless
asked for events), and Amazon's binary frames.

A reply that is no complete answer is turned into the HTTP failure that a vendor would have
sent, had the failure come before the first chunk. So it is tried again, slows the provider's
pace down, counts as infrastructure or content and is worded by the SDK like any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.cache.reply import SUCCESS, StoredReply
from pytest_llmeval.models.http.frames import frame_pieces, is_framed
from pytest_llmeval.models.http.http_reply import OWN_TYPE, HttpReply, status_of

if TYPE_CHECKING:
    from pytest_llmeval.models.http.exchange import Dialect

JsonObject = Mapping[str, object]
AnswerCheck = Callable[[JsonObject], bool]
AnswerFields = Mapping[str, type | tuple[type, ...]]

STREAM_TYPES = ("text/event-stream", "application/x-ndjson")
END_TYPES = ("response.completed", "response.incomplete", "message_stop")
_DONE = b"[DONE]"
# Fields in which most vendors' replies have their answer, and its type.
ANSWER_FIELDS: AnswerFields = {
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
_EMPTY: tuple[object, ...] = (None, "", [], {})
_LINE_END = re.compile(rb"\r\n|\r|\n")


def no_answer(_: JsonObject) -> bool:
    """Tell of every reply that it is none, where nothing better is known."""
    return False


class NoAnswer(Exception):
    """A success is no complete answer.

    Attributes:
        status: of the HTTP failure that it amounts to.
        error: as a vendor words it: ``message``, ``type``, ``code``.
    """

    def __init__(self, status: int, error: JsonObject) -> None:
        """Keep both."""
        super().__init__(str(error.get("message")))
        self.status = status
        self.error = error


@dataclass(slots=True, kw_only=True)
class Expected:
    """The kind of reply that a request wants; it reads each body once.

    Attributes:
        dialect: of the vendor who is asked.
        is_stream: the request wanted a stream; some servers send one unasked, and some call it
            by another content type.
        answers: tells whether a reply of a model is an answer; None where no model was asked.
    """

    dialect: Dialect
    is_stream: bool
    answers: AnswerCheck | None = None
    _last: tuple[bytes, JsonObject] = b"", {}

    def accepts(self, stored: StoredReply) -> bool:
        """Return whether a stored reply is an answer: earlier versions kept others, too."""
        try:
            return self.answers is None or bool(self.read(stored.body, stored.headers))
        except NoAnswer:
            return False

    def plain(self, stored: StoredReply) -> Any:
        """Return the JSON that an accepted reply in one piece is."""
        body, reply = self._last
        return reply if body is stored.body else json.loads(stored.body)

    def read(self, body: bytes, headers: Mapping[str, str]) -> tuple[JsonObject, bool]:
        """Read the body of a success.

        Returns:
            The JSON object that it is, or that the chunks of its stream make up; and whether it
            came as a stream.

        Raises:
            NoAnswer: it is no complete answer.
        """
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        is_stream = self.is_stream or content_type in STREAM_TYPES
        if is_stream:
            reply = read_stream(body, is_whole=self.dialect.is_whole)
        else:
            reply = _read_plain(body, self.dialect.answer_fields)
        if self.answers is not None and not self.answers(reply):
            raise _own_error(
                "the reply holds no text, refusal, call of a tool or embedding, and no reason "
                "why it ended, or it ended in an error; nothing was stored",
                code="llmeval_no_answer",
            )
        if not is_stream:
            self._last = body, reply
        return reply, is_stream


def settled(reply: HttpReply, expected: Expected) -> HttpReply:
    """Add to a success the facts of its call, or make of it the failure that it is.

    Args:
        reply: read to its end.
        expected: the kind of reply that was asked for.
    """
    if reply.status not in SUCCESS:
        return reply
    try:
        content, is_stream = expected.read(reply.body, reply.headers)
    except NoAnswer as exc:
        return replace(
            reply,
            status=exc.status,
            headers={**reply.headers, "content-type": "application/json"},
            body=json.dumps({"error": exc.error}).encode(),
        )
    begun = {"first_chunk_seconds": reply.first_chunk_seconds} if is_stream else {}
    facts = {**expected.dialect.read_facts(content), **begun, "seconds": reply.seconds}
    return replace(reply, facts=facts)


def read_stream(body: bytes, *, is_whole: AnswerCheck = no_answer) -> JsonObject:
    """Put the chunks of a complete stream together.

    Args:
        body: all that came.
        is_whole: tells of what the chunks make up whether it is whole without an end mark.

    Returns:
        One object like a plain reply, with its model, fingerprint and usage.

    Raises:
        NoAnswer: it is not complete, is damaged, or tells of an error.
    """
    summary: dict[str, object] = {}
    is_complete = False
    for data in stream_pieces(body):
        if data.startswith(_DONE):  # the SDKs read no further
            return summary
        piece = _parsed(data)
        _refuse_error(piece)
        for part in (piece, piece.get("response"), piece.get("message")):
            if isinstance(part, dict):
                _add(summary, part)
        is_complete = is_complete or piece.get("type") in END_TYPES or piece.get("done") is True
    if not is_complete and not is_whole(summary):
        raise _own_error(
            "the streamed reply ended without its end mark (data: [DONE], response.completed, "
            'message_stop, or a line with "done": true), so it is not complete and nothing was '
            "stored. If this server never sends one, ask without stream=True",
            code="llmeval_stream_cut",
        )
    return summary


def stream_pieces(body: bytes) -> Iterator[bytes]:
    """Cut a stream into the JSON texts of its chunks, and ``[DONE]`` if it ends so."""
    if is_framed(body):
        return frame_pieces(body)
    begin = body.lstrip()[:1]
    if begin == b"[":
        return _array_items(body)
    lines = _LINE_END.split(body)
    if not lines[-1]:
        lines.pop()  # what follows the last line end is no line
    return filter(bytes.strip, lines) if begin == b"{" else _event_data(lines)


def _array_items(body: bytes) -> Iterator[bytes]:
    """Take a stream that is one JSON array apart; one that was cut is no JSON, and stays whole."""
    try:
        items = json.loads(body)
    except (ValueError, RecursionError):
        yield body
    else:
        for item in items:
            yield json.dumps(item).encode()


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
        raise _own_error(
            "the streamed reply holds a line that is no JSON object; nothing was stored",
            code="llmeval_stream_damaged",
        )
    return cast("JsonObject", piece)


def _add(summary: dict[str, object], part: JsonObject) -> None:
    """Add a chunk to the summary; a later value replaces an earlier one unless it is empty."""
    for name, value in part.items():
        known = summary.get(name)
        if name in ("choices", "candidates") and isinstance(value, list):
            summary[name] = _choices(known if isinstance(known, list) else [], value)
        else:
            summary[name] = _later(known, value, depth=1)


def _later(known: object, value: object, *, depth: int) -> object:
    if depth and isinstance(value, dict) and isinstance(known, dict):
        return known | {
            name: _later(known.get(name), one, depth=depth - 1) for name, one in value.items()
        }
    return known if value in _EMPTY and known is not None else value


def _choices(known: list[JsonObject], pieces: list[object]) -> list[JsonObject]:
    """Put the pieces of each choice together; a chunk may have none, as one with the usage."""
    choices = {str(choice.get("index")): choice for choice in known}
    for piece in pieces:
        if isinstance(piece, dict):
            place = str(piece.get("index"))
            choices[place] = cast("JsonObject", _later(choices.get(place, {}), piece, depth=2))
    return list(choices.values())


def _refuse_error(piece: JsonObject) -> None:
    error = piece.get("error")
    kind = piece.get("type")
    if kind == "response.failed":
        error = value_at(piece, "response", "error")
    if not error and kind not in ("error", "response.failed"):
        return
    # The Responses API spells an error out on the event itself.
    raise _vendor_error(error or piece, where="an error that ended the stream")


def _read_plain(body: bytes, fields: AnswerFields) -> JsonObject:
    """Read a reply in one piece; gateways send their errors with status 200, too.

    Args:
        body: all that came.
        fields: that have room for an answer, and their types.

    Raises:
        NoAnswer: it is no JSON object, is an error, or has no place for an answer.
    """
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        raise _own_error(
            "the reply is not complete, valid JSON; nothing was stored", code="llmeval_not_json"
        ) from None
    if not isinstance(reply, dict):
        raise _own_error(
            "the reply is no JSON object, so it answers nothing; nothing was stored",
            code="llmeval_no_object",
        )
    error = reply.get("error")
    if (reply.get("object", "response"), reply.get("status")) == ("response", "failed"):
        raise _vendor_error(error or {}, where="the error of a response that failed")
    if (error or "error" in (reply.get("type"), reply.get("object"))) and not _answers(
        reply, fields
    ):
        words = error if isinstance(error, dict | str) and error else reply
        raise _vendor_error(words, where="an error in place of a reply")
    rooms = [name for name, kind in fields.items() if isinstance(reply.get(name), kind)]
    if reply.get("choices") == [] or not rooms:
        raise _own_error(
            f"the reply holds none of {', '.join(fields)}, so it answers nothing; "
            "nothing was stored",
            code="llmeval_no_answer",
        )
    return cast("JsonObject", reply)


def _answers(reply: JsonObject, fields: AnswerFields) -> bool:
    """Return whether a reply of any vendor holds something besides its error."""
    return any(isinstance(reply.get(name), list | dict) and reply[name] for name in fields)


def _vendor_error(error: object, *, where: str) -> NoAnswer:
    """Turn an error that came with status 200 into a failure.

    Its message begins with the vendor's own words, by which it is classified.
    """
    fields = error if isinstance(error, dict) else {"message": str(error)}
    message = f"{fields.get('message') or 'it says no more'} ({where})"
    return NoAnswer(status_of(fields), {**fields, "message": message})


def _own_error(message: str, *, code: str) -> NoAnswer:
    error = {"message": message, "type": OWN_TYPE, "code": code}
    return NoAnswer(HTTPStatus.BAD_GATEWAY, error)
