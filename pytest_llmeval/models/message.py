"""Messages: who said or called what, in the words that most vendors share.

A text may be anything, so nothing here trusts its form; what is not known is a message of its JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json import dumps, loads
from typing import Any, Literal

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.cache.requests import flat_fields

MessageKind = Literal["text", "thought", "call", "result", "media", "other", "missing"]

ASSISTANT, USER, SYSTEM, TOOL = "assistant", "user", "system", "tool"
ROLES = frozenset((ASSISTANT, USER, SYSTEM, TOOL, "developer"))
# Fields of a request that hold messages, in the order in which a model reads them.
ASKING: Mapping[str, str] = {
    "instructions": SYSTEM, "system": SYSTEM, "messages": USER, "prompt": USER, "input": USER,
}  # fmt: skip
_THOUGHTS = ("thinking", "reasoning_content", "reasoning", "summary", "tool_plan")
_CALLS = ("function_call", "tool_use", "server_tool_use", "custom_tool_call")
_RESULTS = ("function_call_output", "tool_result", "custom_tool_call_output")
_MEDIA = ("image", "audio", "file", "document", "video")
_SAID = ("content", "refusal")
_ANSWERS = ("output", "content", "message", "response")
_EMBEDDINGS = ("embeddings", "embedding")
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


def said_in(reply: Mapping[str, Any]) -> Sequence[object]:
    """List what a reply says: messages, parts of one, or texts."""
    said = [reply["text"]] if isinstance(reply.get("text"), str) else []
    for choice in listed(reply.get("choices")):
        if isinstance(choice, dict):
            said.append(choice.get("message", choice.get("text")))
    for name in _ANSWERS:
        if name in reply:
            said.append(reply[name])
    return said


def as_it_is(value: Any) -> Any:
    """Change nothing: the words are those of most vendors."""
    return value


def text_of(content: object) -> str:
    """Read the text of a message: one text, or the parts of which it consists."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_text_of_part, content))
    return "" if content is None else as_json(content)


def _text_of_part(part: object) -> str:
    text = part.get("text") if isinstance(part, Mapping) else part
    return text if isinstance(text, str) else ""


def messages_in(value: Any, role: str) -> Iterator[Message]:
    """Read a message, a part of one, or a list of either."""
    if isinstance(value, str):
        yield from [Message(role, value)] if value else []
    elif isinstance(value, list):
        for part in value:
            yield from messages_in(part, role)
    elif isinstance(value, dict):
        yield from _message(value, str(value.get("role") or role))
    elif value is not None:
        yield Message(role, as_json(value), "other")


def _message(part: Mapping[str, Any], role: str) -> Iterator[Message]:
    kind = str(part.get("type"))
    function = part.get("function")
    medium = next((name for name in _MEDIA if name in kind), None)
    if kind in _CALLS:
        arguments = part.get("arguments", part.get("input"))
        yield Message(role, call_text(part.get("name"), arguments), "call")
    elif isinstance(function, dict):
        yield Message(role, call_text(function.get("name"), function.get("arguments")), "call")
    elif kind in _RESULTS or (role == TOOL and "content" in part):
        for message in messages_in(part.get("output", part.get("content")), TOOL):
            yield Message(TOOL, message.text, "result")
    elif medium and not kind.endswith("_call"):
        yield Message(role, medium_text(medium, part), "media")
    elif isinstance(part.get("text"), str):
        yield Message(role, part["text"])
    else:
        yield from _said(part, role)


def _said(whole: Mapping[str, Any], role: str) -> Iterator[Message]:
    """Read the fields of a message, in the order in which a model writes them."""
    if whole.keys().isdisjoint((*_THOUGHTS, *_SAID, "tool_calls")):
        yield Message(role, as_json(whole), "other")
    for name in _THOUGHTS:
        for message in messages_in(whole.get(name), role):
            yield Message(role, message.text, "thought")
    for name in _SAID:
        yield from messages_in(whole.get(name), role)
    for image in listed(whole.get("images")):
        yield Message(role, medium_text("image", {"data": image}), "media")
    for call in listed(whole.get("tool_calls")):
        yield from messages_in(call, role)


def call_text(name: object, arguments: object) -> str:
    """Word a call of a tool."""
    text = arguments if isinstance(arguments, str) else as_json(arguments or {})
    return f"{name}({text})"


def medium_text(name: str, part: Mapping[str, Any]) -> str:
    """Name an image or the like by its address, or by the size of what was sent."""
    texts = [loads(text) for field, text in flat_fields("", part) if field != "type"]
    longest = max((text for text in texts if isinstance(text, str)), key=len, default="")
    if longest.startswith(("http://", "https://")):
        return f"{name} {longest}"
    cut = _CUT.search(longest)
    return f"{name} of {cut[1] if cut else len(longest)} characters"


def embeddings_in(reply: Mapping[str, Any]) -> Iterator[Message]:
    """Tell of the embeddings of a reply."""
    vectors = [one.get("embedding") for one in objects(reply.get("data"))]
    vectors += [vector for name in _EMBEDDINGS for vector in _vectors(reply.get(name))]
    for vector in vectors:
        if vector is not None:
            yield Message(ASSISTANT, _embedding(vector), "other")


def _vectors(value: object) -> list[Any]:
    if isinstance(value, dict):  # Google has an object around each
        return [value.get("values")]
    vectors = listed(value)
    if vectors and isinstance(vectors[0], dict):
        return [value_at(one, "values") for one in vectors]
    return vectors if vectors and isinstance(vectors[0], list) else [vectors or None]


def _embedding(vector: object) -> str:
    if not isinstance(vector, list):
        return f"an embedding of {len(str(vector))} characters"
    shown = [*map(str, vector[:SHOWN_NUMBERS]), *["..."] * (len(vector) > SHOWN_NUMBERS)]
    noun = "number" if len(vector) == 1 else "numbers"
    return f"an embedding of {len(vector)} {noun}: {', '.join(shown)}"


def listed(value: object) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def fields_of(value: object) -> dict[str, Any]:
    """Return an object of JSON; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


# Writes any value that JSON has as a text of it.
as_json = partial(dumps, ensure_ascii=False)


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in what may be a list of them."""
    return [one for one in listed(value) if isinstance(one, dict)]
