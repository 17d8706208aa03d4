"""Requests and replies of every vendor, read as messages: who said or called what.

A stored text may be anything, so nothing here trusts its form; what is not known is a message of
its JSON, and what is no JSON a message of its text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from pytest_llmeval.cache.key import parse_json, value_at
from pytest_llmeval.cache.reply import StoredReply
from pytest_llmeval.cache.requests import Parts, flat_fields
from pytest_llmeval.transcripts.streams import joined_stream, objects

MessageKind = Literal["text", "thought", "call", "result", "media", "other", "missing"]

ASSISTANT, USER, SYSTEM, TOOL = "assistant", "user", "system", "tool"
# Fields of a request that hold messages, in the order in which a model reads them.
_ASKING = {
    "instructions": SYSTEM,
    "system": SYSTEM,
    "systemInstruction": SYSTEM,
    "messages": USER,
    "message": USER,
    "prompt": USER,
    "input": USER,
    "contents": USER,
    "content": USER,
    "requests": USER,
    "texts": USER,
    "query": USER,
}
_THOUGHTS = ("thinking", "reasoning_content", "reasoning", "summary", "tool_plan")
_CALLS = ("function_call", "tool_use", "server_tool_use", "custom_tool_call")
_RESULTS = ("function_call_output", "tool_result", "custom_tool_call_output")
_MEDIA = ("image", "audio", "file", "document", "video")
_SAID = ("content", "refusal")
# Fields that make a message, or a part of one, Google's.
_GOOGLES = ("parts", "thought", "functionCall", "functionResponse", "inlineData", "fileData")
_ANSWERS = ("text", "choices", "candidates", "output", "content", "message", "response")
_EMBEDDINGS = ("embeddings", "embedding")
_ROLES = {"model": ASSISTANT}  # as Google calls it
_CUT = re.compile(r"\((\d+) characters, sha256 ")  # see ``cache.requests``
_VERBS = {"call": " calls", "thought": " thinks", "result": " returns"}
SHOWN_NUMBERS = 4


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that was said.

    Attributes:
        role: who said it: system, user, assistant, tool, or another word of a vendor.
        text: what; of a call of a tool its name and arguments, of an image its type and size.
        kind: what it is; ``missing`` of one whose text is not here.
    """

    role: str
    text: str
    kind: MessageKind = "text"

    @property
    def label(self) -> str:
        """Who did what: ``assistant calls``; of what was plainly said the role alone."""
        return f"{self.role}{_VERBS.get(self.kind, '')}"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request.

    Attributes:
        messages: all that the model was to read.
        settings: every other field, such as ``temperature``, with its value as JSON.
    """

    messages: tuple[Message, ...]
    settings: Mapping[str, str]


def read_request(parts: Parts) -> Asked:
    """Read a stored request."""
    body = parts["body"]
    if not isinstance(body, dict):
        return Asked((Message(USER, _as_json(body), "other"),), {})
    settings = {name: value for name, value in body.items() if name not in _ASKING}
    if parts["provider"] == "function":
        settings = {"function": parts["path"], **settings}
    elif "model" not in body:  # Google has it in the path
        settings = {"path": parts["path"], **settings}
    try:
        found = (_messages(body.get(name), role) for name, role in _ASKING.items())
        return Asked(tuple(chain.from_iterable(found)), dict(flat_fields("", settings)))
    except RecursionError:
        return Asked((Message(USER, "nested too deeply to be shown", "other"),), {})


def read_reply(reply: StoredReply) -> tuple[Message, ...]:
    """Read a stored reply; a stream as if it had come in one piece."""
    try:
        answer = parse_json(reply.body)
    except ValueError:  # no UTF-8, too
        answer = None
    if not isinstance(answer, dict):
        answer = joined_stream(reply.body)
    try:
        messages = tuple(_answers(answer)) if isinstance(answer, dict) else ()
    except RecursionError:
        answer, messages = None, ()
    if not messages and isinstance(answer, dict) and not answer.keys().isdisjoint(_ANSWERS):
        return (Message(ASSISTANT, ""),)
    return messages or (Message(ASSISTANT, reply.body.decode("utf-8", "replace"), "other"),)


def _answers(answer: Mapping[str, Any]) -> Iterator[Message]:
    if isinstance(answer.get("text"), str):  # of a function model
        yield Message(ASSISTANT, answer["text"])
    for choice in objects(answer.get("choices")):
        yield from _messages(choice.get("message", choice.get("text")), ASSISTANT)
    for candidate in objects(answer.get("candidates")):
        yield from _messages(value_at(candidate.get("content"), "parts"), ASSISTANT)
    for name in _ANSWERS[3:]:
        value = answer.get(name)
        yield from _messages(value_at(value, "message") or value, ASSISTANT)  # so Amazon's output
    vectors = [one.get("embedding") for one in objects(answer.get("data"))]
    vectors += [vector for name in _EMBEDDINGS for vector in _vectors(answer.get(name))]
    for vector in vectors:
        if vector is not None:
            yield Message(ASSISTANT, _embedding(vector), "other")


def _messages(value: Any, role: str) -> Iterator[Message]:
    """Read a message, a part of one, or a list of either."""
    if isinstance(value, str):
        yield from [Message(role, value)] if value else []
    elif isinstance(value, list):
        for part in value:
            yield from _messages(part, role)
    elif isinstance(value, dict):
        named = str(value.get("role") or role)
        yield from _message(value, _ROLES.get(named, named))
    elif value is not None:
        yield Message(role, _as_json(value), "other")


def _message(part: Mapping[str, Any], role: str) -> Iterator[Message]:
    kind = str(part.get("type"))
    function = part.get("function")
    medium = next((name for name in _MEDIA if name in kind), None)
    if kind in _CALLS:
        arguments = part.get("arguments", part.get("input"))
        yield Message(role, _call(part.get("name"), arguments), "call")
    elif isinstance(function, dict):
        yield Message(role, _call(function.get("name"), function.get("arguments")), "call")
    elif kind in _RESULTS or (role == TOOL and "content" in part):
        for message in _messages(part.get("output", part.get("content")), TOOL):
            yield Message(TOOL, message.text, "result")
    elif medium and not kind.endswith("_call"):
        yield Message(role, _medium(medium, part), "media")
    elif not part.keys().isdisjoint(_GOOGLES):
        yield from _googles(part, role)
    elif isinstance(part.get("text"), str):
        yield Message(role, part["text"])
    else:
        yield from _said(part, role)


def _googles(part: Mapping[str, Any], role: str) -> Iterator[Message]:
    """Read a message of Google's, or one of its parts."""
    call, result = part.get("functionCall"), part.get("functionResponse")
    medium = part.get("inlineData", part.get("fileData"))
    if call is not None:
        yield Message(role, _call(value_at(call, "name"), value_at(call, "args")), "call")
    elif result is not None:
        yield Message(TOOL, _as_json(value_at(result, "response")), "result")
    elif isinstance(medium, dict):
        kind = str(medium.get("mimeType", "file")).partition("/")[0]
        yield Message(role, _medium(kind, {**medium, "mimeType": ""}), "media")
    elif part.get("thought") is True:
        yield Message(role, str(part.get("text", "")), "thought")
    else:
        yield from _messages(part.get("parts"), role)


def _said(whole: Mapping[str, Any], role: str) -> Iterator[Message]:
    """Read the fields of a message, in the order in which a model writes them."""
    if whole.keys().isdisjoint((*_THOUGHTS, *_SAID, "tool_calls")):
        yield Message(role, _as_json(whole), "other")
    for name in _THOUGHTS:
        for message in _messages(whole.get(name), role):
            yield Message(role, message.text, "thought")
    for name in _SAID:
        yield from _messages(whole.get(name), role)
    for image in _listed(whole.get("images")):
        yield Message(role, _medium("image", {"data": image}), "media")
    for call in _listed(whole.get("tool_calls")):
        yield from _messages(call, role)


def _call(name: object, arguments: object) -> str:
    text = arguments if isinstance(arguments, str) else _as_json(arguments or {})
    return f"{name}({text})"


def _medium(name: str, part: Mapping[str, Any]) -> str:
    """Name an image or the like by its address, or by the size of what was sent."""
    texts = [json.loads(text) for field, text in flat_fields("", part) if field != "type"]
    longest = max((text for text in texts if isinstance(text, str)), key=len, default="")
    if longest.startswith(("http://", "https://")):
        return f"{name} {longest}"
    cut = _CUT.search(longest)
    return f"{name} of {cut[1] if cut else len(longest)} characters"


def _vectors(value: object) -> list[Any]:
    if isinstance(value, dict):  # Google has an object around each
        return [value.get("values")]
    listed = _listed(value)
    if listed and isinstance(listed[0], dict):
        return [value_at(one, "values") for one in listed]
    return listed if listed and isinstance(listed[0], list) else [listed or None]


def _embedding(vector: object) -> str:
    if not isinstance(vector, list):
        return f"an embedding of {len(str(vector))} characters"
    shown = [*map(str, vector[:SHOWN_NUMBERS]), *["..."] * (len(vector) > SHOWN_NUMBERS)]
    noun = "number" if len(vector) == 1 else "numbers"
    return f"an embedding of {len(vector)} {noun}: {', '.join(shown)}"


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
