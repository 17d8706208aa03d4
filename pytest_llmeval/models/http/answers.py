"""Answers read out of replies, with the facts of their calls; in streams and in one piece.

A stream is read to its end before anything is made of it, so that only its bytes count and
not how they were cut into chunks.

A reply that is no complete answer is turned into the HTTP failure that a vendor would have
sent, had the failure come before the first chunk. So it is tried again, slows the provider's
pace down, counts as infrastructure or content and is worded by the SDK like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from json import dumps, loads
from typing import cast

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.cache.reply import SUCCESS, StoredReply
from pytest_llmeval.models.http.dialect import AnswerCheck, AnswerFields, Dialect
from pytest_llmeval.models.http.http_reply import OWN_TYPE, HttpReply, status_of
from pytest_llmeval.models.http.stream import DONE, JsonObject, stream_pieces

STREAM_TYPES = ("text/event-stream", "application/x-ndjson")
END_TYPES = ("response.completed", "response.incomplete", "message_stop")


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
        last: the body in one piece that was read last, and its JSON.
    """

    dialect: Dialect
    is_stream: bool
    answers: AnswerCheck | None = None
    last: tuple[bytes, JsonObject] = b"", {}

    def accepts(self, stored: StoredReply) -> bool:
        """Return whether a stored reply is an answer: earlier versions kept others, too."""
        try:
            return self.answers is None or bool(self.read(stored.body, stored.headers))
        except NoAnswer:
            return False

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
            reply = read_stream(body, self.dialect)
        else:
            reply = _read_plain(body, self.dialect.answer_fields)
        if self.answers is not None and not self.answers(reply):
            raise _own_error(
                "the reply holds no text, refusal, call of a tool or embedding, and no reason "
                "why it ended, or it ended in an error; nothing was stored",
                code="llmeval_no_answer",
            )
        if not is_stream:
            self.last = body, reply
        return reply, is_stream


def with_facts(reply: HttpReply, expected: Expected) -> HttpReply:
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
        headers = {**reply.headers, "content-type": "application/json"}
        body = dumps({"error": exc.error}).encode()
        return replace(reply, status=exc.status, headers=headers, body=body)
    begun = {"first_chunk_seconds": reply.first_chunk_seconds} if is_stream else {}
    facts = {**expected.dialect.read_facts(content), **begun, "seconds": reply.seconds}
    return replace(reply, facts=facts)


def read_stream(body: bytes, dialect: Dialect) -> JsonObject:
    """Put the chunks of a complete stream together.

    Args:
        body: all that came.
        dialect: of the vendor, who knows what a chunk adds to the reply.

    Returns:
        The reply that it would be in one piece.

    Raises:
        NoAnswer: it is not complete, is damaged, or tells of an error.
    """
    chunks: list[JsonObject] = []
    is_complete = False
    for data in stream_pieces(body):
        if data.startswith(DONE):  # the SDKs read no further
            is_complete = True
            break
        try:
            chunk = loads(data)
        except (ValueError, RecursionError):
            chunk = None
        if not isinstance(chunk, dict):
            raise _damaged()
        _refuse_error(chunk)
        is_complete = is_complete or chunk.get("type") in END_TYPES or chunk.get("done") is True
        chunks.append(chunk)
    try:
        reply = dialect.join(chunks)
    except RecursionError:
        raise _damaged() from None
    if not is_complete and not dialect.is_whole(reply):
        raise _own_error(
            "the streamed reply ended without its end mark (data: [DONE], response.completed, "
            'message_stop, or a line with "done": true), so it is not complete and nothing was '
            "stored. If this server never sends one, ask without stream=True",
            code="llmeval_stream_cut",
        )
    return reply


def _damaged() -> NoAnswer:
    return _own_error(
        "the streamed reply holds a line that is no JSON object; nothing was stored",
        code="llmeval_stream_damaged",
    )


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
        reply = loads(body)
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
    is_error = bool(error) or "error" in (reply.get("type"), reply.get("object"))
    # A reply of any vendor may hold something besides its error.
    if is_error and not any(
        reply.get(name) and isinstance(reply[name], list | dict) for name in fields
    ):
        words = error if isinstance(error, dict | str) and error else reply
        raise _vendor_error(words, where="an error in place of a reply")
    if reply.get("choices") != []:
        for name, kind in fields.items():
            if isinstance(reply.get(name), kind):
                return cast("JsonObject", reply)
    raise _own_error(
        f"the reply holds none of {', '.join(fields)}, so it answers nothing; nothing was stored",
        code="llmeval_no_answer",
    )


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
