"""Stored requests and replies as messages: who said or called what.

A stored text may be anything, so this module trusts no form; a text that is no JSON is a message of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_llmeval.cache.key import parse_json
from pytest_llmeval.cache.reply import StoredReply
from pytest_llmeval.cache.requests import Parts, flat_fields
from pytest_llmeval.models.http.dialect import Dialect
from pytest_llmeval.models.http.stream import JsonObject, stream_pieces
from pytest_llmeval.models.message import (
    ASSISTANT,
    USER,
    Message,
    as_json,
    embeddings_in,
    messages_in,
)
from pytest_llmeval.models.vendors.vendor import vendor_named
from pytest_llmeval.vendors import VENDORS

# The dialect of a function model, and of a vendor that is not known any more.
_PLAIN = Dialect(provider="function", paths=(), key_variable="", read_facts=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request.

    Attributes:
        messages: all that the model was to read.
        settings: every other field, such as ``temperature``, with its value as JSON.
    """

    messages: tuple[Message, ...]
    settings: Mapping[str, str]


def dialect_of(parts: Parts) -> Dialect:
    """Find the vendor in whose dialect a stored request is."""
    name = parts["provider"]
    return vendor_named(name) if name in VENDORS else _PLAIN


def read_request(parts: Parts) -> Asked:
    """Read a stored request."""
    body, dialect = parts["body"], dialect_of(parts)
    if not isinstance(body, dict):
        return Asked((Message(USER, as_json(body), "other"),), {})
    settings = {name: value for name, value in body.items() if name not in dialect.asking}
    if parts["provider"] == "function":
        settings = {"function": parts["path"], **settings}
    elif "model" not in body:  # Google has the model in the path
        settings = {"path": parts["path"], **settings}
    try:
        messages = tuple(
            message
            for name, role in dialect.asking.items()
            for message in messages_in(dialect.common(body.get(name)), role)
        )
        return Asked(messages, dict(flat_fields("", settings)))
    except RecursionError:
        return Asked((Message(USER, "nested too deeply to be shown", "other"),), {})


def read_reply(reply: StoredReply, dialect: Dialect) -> tuple[Message, ...]:
    """Read a stored reply; a stream as if it had come in one piece."""
    try:
        chunks = filter(None, map(_object, stream_pieces(reply.body)))
        answer = _object(reply.body) or dialect.join(chunks)
        said = [*dialect.said(answer)]
        messages = [one for value in said for one in messages_in(dialect.common(value), ASSISTANT)]
        messages += embeddings_in(answer)
    except RecursionError:
        said, messages = [], []
    if said and not messages:
        return (Message(ASSISTANT, ""),)
    whole = Message(ASSISTANT, reply.body.decode("utf-8", "replace"), "other")
    return tuple(messages) or (whole,)


def _object(text: bytes) -> JsonObject | None:
    """Read a JSON object; None if it is none."""
    try:
        parsed = parse_json(text)
    except ValueError:  # such as a text that is no UTF-8
        return None
    return parsed if isinstance(parsed, dict) else None
