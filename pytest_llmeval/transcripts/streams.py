"""The chunks of a streamed reply, put together to the reply that it would be in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_llmeval.cache.key import parse_json, value_at

_FINAL = ("response.completed", "response.incomplete", "stream-end")
_TEXTS = ("text", "thinking", "partial_json")  # of a delta of Anthropic's
_WHOLE = ("role", "id", "type")  # are not cut, and may be said with each chunk

Pieces = dict[str, dict[str, Any]]  # of what comes in several chunks, by its place


def joined_stream(body: bytes) -> dict[str, Any] | None:
    """Put the chunks of a stream of any vendor together; None if it has none."""
    blocks: Pieces = {}
    messages: Pieces = {}
    candidates: dict[str, list[dict[str, Any]]] = {}
    responses: list[str] = []
    for chunk in _chunks(body):
        kind = chunk.get("type", chunk.get("event_type"))
        if kind in _FINAL and isinstance(chunk.get("response"), dict):
            final: dict[str, Any] = chunk["response"]
            return final
        said = _said_by_cohere(chunk)
        if said is not None:
            _add_message(messages.setdefault("None", {}), said)
        elif "content_block" in chunk or "delta" in chunk:
            index = chunk.get("index", chunk.get("contentBlockIndex"))  # the latter is Amazon's
            if index is not None:
                begins = isinstance(chunk.get("content_block"), dict)
                _add_block(_at(blocks, index, begins=begins), chunk)
        for candidate in objects(chunk.get("candidates")):
            _add_parts(candidates.setdefault(str(candidate.get("index")), []), candidate)
        if isinstance(chunk.get("response"), str):
            responses.append(chunk["response"])
        for choice in _pieces_of_messages(chunk):
            place = messages.setdefault(str(choice.get("index")), {})
            whole = choice.get("message") or {"content": choice.get("text")}
            _add_message(place, choice.get("delta") or whole)
    joined = {
        "content": list(blocks.values()),
        "choices": [{"message": _finished(each)} for each in messages.values()],
        "candidates": [{"content": {"parts": each}} for each in candidates.values()],
        "response": "".join(responses) if responses else None,
    }
    return {name: value for name, value in joined.items() if value not in ([], None)} or None


def _chunks(body: bytes) -> Iterator[dict[str, Any]]:
    from pytest_llmeval.models.http.answers import stream_pieces

    for piece in stream_pieces(body):
        try:
            chunk = parse_json(piece)
        except ValueError:
            continue
        if isinstance(chunk, dict):
            yield chunk


def _pieces_of_messages(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    choices = chunk.get("choices")
    if isinstance(choices, list):
        return objects(choices)
    return [chunk] if isinstance(chunk.get("message"), dict) and "type" not in chunk else []


def _said_by_cohere(chunk: dict[str, Any]) -> dict[str, Any] | None:
    """Word an event of Cohere's as a chunk of OpenAI's; None if it is none."""
    message = value_at(chunk, "delta", "message")
    if not isinstance(message, dict):
        return None
    content, call = message.get("content"), message.get("tool_calls")
    parts = content if isinstance(content, dict) else {}
    said = {
        "content": parts.get("text"),
        "reasoning_content": parts.get("thinking", message.get("tool_plan")),
        "tool_calls": [{**call, "index": chunk.get("index")}] if isinstance(call, dict) else None,
    }
    return {name: value for name, value in said.items() if value}


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in what may be a list of them."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _add_parts(parts: list[dict[str, Any]], candidate: dict[str, Any]) -> None:
    """Add a chunk of Google's: a text goes on the last one, unless one of them is a thought."""
    for part in objects(value_at(candidate, "content", "parts")):
        last = parts[-1] if parts else {}
        are_texts = isinstance(part.get("text"), str) and isinstance(last.get("text"), str)
        if are_texts and part.get("thought") == last.get("thought"):
            last["text"] += part["text"]
        elif part.get("text") != "":
            parts.append(dict(part))


def _at(pieces: Pieces, place: object, *, begins: bool) -> dict[str, Any]:
    """Return what has a place; another one begins there where a provider numbers all alike."""
    if begins and str(place) in pieces:
        pieces[f"{place}, {len(pieces)}"] = pieces.pop(str(place))
    return pieces.setdefault(str(place), {})


def _begins_call(piece: dict[str, Any], known: dict[str, Any]) -> bool:
    """Tell whether a chunk begins another call of a tool than the one in its place."""
    if piece.get("id") and known.get("id"):
        return bool(piece["id"] != known["id"])
    name, before = (value_at(one, "function", "name") for one in (piece, known))
    arguments = value_at(known, "function", "arguments")
    if not (name and before and arguments):  # of a name, too, some send a piece at a time
        return False
    return name != before or not isinstance(arguments, str) or _is_json(arguments)


def _is_json(text: str) -> bool:
    try:
        parse_json(text.encode())
    except ValueError:
        return False
    return True


def _add_block(block: dict[str, Any], chunk: dict[str, Any]) -> None:
    """Add an event of Anthropic's to the part of the message that it belongs to."""
    begun, delta = chunk.get("content_block"), chunk.get("delta")
    if isinstance(begun, dict):
        block |= begun
    if isinstance(delta, dict):
        for name in _TEXTS:
            if isinstance(delta.get(name), str):
                place = "input" if name == "partial_json" else name
                known = block.get(place)
                block[place] = (known if isinstance(known, str) else "") + delta[name]


def _add_message(message: dict[str, Any], piece: Any) -> None:
    """Add a chunk of OpenAI's or Ollama's: texts and arguments go on, all else is set."""
    if not isinstance(piece, dict):
        return
    for name, value in piece.items():
        if name == "tool_calls" and isinstance(value, list):
            calls = message.setdefault("tool_calls", {})
            for call in value:
                if isinstance(call, dict):
                    place = call.get("index", len(calls))
                    begins = _begins_call(call, calls.get(str(place), {}))
                    _add_message(_at(calls, place, begins=begins), call)
        elif name == "function" and isinstance(value, dict):
            _add_message(message.setdefault("function", {}), value)
        elif isinstance(value, str) and not _is_repeated(name, value, message):
            known = message.get(name)
            message[name] = (known if isinstance(known, str) else "") + value
        elif value not in (None, ""):
            message[name] = value


def _is_repeated(name: str, value: str, message: dict[str, Any]) -> bool:
    return name in _WHOLE or (name == "name" and value == message.get(name))


def _finished(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    return message | {"tool_calls": list(calls.values())} if isinstance(calls, dict) else message
