"""Streams: the JSON texts of their chunks, and the reply that the chunks make up.

Four forms are known: server-sent events (openai, anthropic and all who speak like them), one
JSON object a line (ollama), one JSON array (Google, unless asked for events), and Amazon's binary
frames.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from json import dumps, loads
from typing import Any
from zlib import crc32

from pytest_llmeval.cache.key import parse_json, value_at
from pytest_llmeval.models.message import objects

JsonObject = Mapping[str, Any]

DONE = b"[DONE]"
MOST_OPEN = 256  # items of a list that come at once, more than any vendor has
_LINE_END = re.compile(rb"\r\n|\r|\n")
_EMPTY: tuple[object, ...] = (None, "", [], {})
# Lists of which each chunk has a piece of an item; of choices also where none is numbered.
_CHOICES = ("choices", "candidates")
_LISTS = (*_CHOICES, "content", "parts", "tool_calls")
_MESSAGES = ("message", "content")  # whose texts come in pieces
_TEXTS = ("response", "text")  # that come in pieces wherever they stand
_WHOLE = ("role", "id", "type")  # are not cut, and may be said with each chunk

# Of Amazon's frames.
_PRELUDE = struct.Struct(">III")  # size of the frame and of its headers, and a checksum of both
_SUM = struct.Struct(">I")
_STRING = 7  # the one type of header that models are known to send


def stream_pieces(body: bytes) -> Iterator[bytes]:
    """Cut a stream into the JSON texts of its chunks, and ``[DONE]`` if it ends so."""
    if body[:1] == b"\0":  # the size of the first frame
        return _framed_events(body)
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
        items = loads(body)
    except (ValueError, RecursionError):
        yield body
    else:
        for item in items:
            yield dumps(item).encode()


def _event_data(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Read the data of server-sent events; an event counts when a blank line ends it."""
    data: list[bytes] = []
    for line in lines:
        if line.startswith(b"data:"):
            data.append(line.removeprefix(b"data:").removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []
    if data == [DONE]:  # nobody misses a blank line behind it
        yield DONE


def _framed_events(body: bytes) -> Iterator[bytes]:
    """Cut a stream of Amazon's into the texts of its events; a frame that was cut is no JSON."""
    place = 0
    while place < len(body):
        try:
            size, room, _ = _PRELUDE.unpack_from(body, place)
            payload, end = place + _PRELUDE.size + room, place + size - _SUM.size
            (told,) = _SUM.unpack_from(body, end)
            is_whole = payload <= end and told == crc32(body[place:end])
            headers = dict(_headers(body[place + _PRELUDE.size : payload])) if is_whole else {}
            event = loads(body[payload:end] or b"{}") if is_whole else None
        except (struct.error, IndexError, ValueError):
            event = None
        if not isinstance(event, dict):
            yield body[place:]
            return
        yield _event_piece(headers, event)
        place += size


def _headers(raw: bytes) -> Iterator[tuple[str, str]]:
    while raw:
        begin = 1 + raw[0]
        kind, size = struct.unpack_from(">BH", raw, begin)
        if kind != _STRING:
            raise ValueError(kind)
        yield raw[1:begin].decode(), raw[begin + 3 : begin + 3 + size].decode()
        raw = raw[begin + 3 + size :]


def _event_piece(headers: Mapping[str, str], event: Mapping[str, Any]) -> bytes:
    """Word an event as a chunk of other vendors: a failure, a chunk of a model's own, or itself."""
    failure = headers.get(":exception-type") or headers.get(":error-code")
    if failure:
        message = event.get("message") or headers.get(":error-message")
        return dumps({"error": {"type": failure, "message": message}}).encode()
    own = event.get("bytes")
    return b64decode(own) if isinstance(own, str) else dumps(event).encode()


def joined(chunks: Iterable[JsonObject]) -> dict[str, Any]:
    """Put chunks together to the reply that one piece would be.

    Args:
        chunks: each a part of such a reply: texts of messages go on, items of a list with the same
            ``index`` are one, and any other value replaces an earlier one unless it is empty.
    """
    whole: dict[str, Any] = {}
    for chunk in chunks:
        _add(whole, chunk, in_message=False)
    return whole


def _add(whole: dict[str, Any], piece: JsonObject, *, in_message: bool) -> None:
    for name, value in piece.items():
        known = whole.get(name)
        is_within = in_message or name in _MESSAGES
        if isinstance(value, list) and name in _LISTS:
            whole[name] = known if isinstance(known, list) else []
            _add_items(whole[name], objects(value), of=name, in_message=is_within)
        elif isinstance(value, dict):
            whole[name] = known if isinstance(known, dict) else {}
            _add(whole[name], value, in_message=is_within)
        elif isinstance(value, str) and _is_cut(name, value, known, in_message=is_within):
            whole[name] = None  # a text that nobody else holds grows in its place
            known = known if isinstance(known, str) else ""
            known += value
            whole[name] = known
        elif name not in whole or value not in _EMPTY:
            whole[name] = value


def _is_cut(name: str, value: str, known: object, *, in_message: bool) -> bool:
    is_repeated = name in _WHOLE or (name == "name" and value == known)
    return name in _TEXTS or (in_message and not is_repeated)


def _add_items(
    items: list[dict[str, Any]], pieces: Iterable[dict[str, Any]], *, of: str, in_message: bool
) -> None:
    """Add each piece to the item with its number; some providers number all items alike."""
    for piece in pieces:
        is_numbered = "index" in piece or of in _CHOICES
        latest = islice(reversed(items), MOST_OPEN)
        alike = (one for one in latest if one.get("index") == piece.get("index"))
        item = next(alike, None) if is_numbered else _goes_on(piece, items)
        if item is None or _begins(piece, item):
            items.append(item := {})
        _add(item, piece, in_message=in_message or of == "tool_calls")


def _goes_on(piece: JsonObject, items: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the last item if both have nothing but a text: Google numbers no parts."""
    last = items[-1] if items else {}
    are_alike = piece.keys() == last.keys() and piece.get("thought") == last.get("thought")
    return last if are_alike and isinstance(piece.get("text"), str) else None


def _begins(piece: JsonObject, known: JsonObject) -> bool:
    """Tell whether a piece begins another block, or call of a tool, than the one of its number."""
    if piece.get("id") and known.get("id"):
        return bool(piece["id"] != known["id"])
    if "function" not in piece:
        return bool(piece.get("type") and known.get("type"))
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
