"""Amazon's binary event streams, read as the JSON texts of their events."""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Iterator, Mapping
from json import dumps, loads
from typing import Any
from zlib import crc32

_PRELUDE = struct.Struct(">III")  # size of the frame and of its headers, and a checksum of both
_SUM = struct.Struct(">I")
_STRING = 7  # the one type of header that models are known to send


def is_framed(body: bytes) -> bool:
    """Tell a stream of frames from one of text: it begins with the size of the first of them."""
    return body[:1] == b"\0"


def frame_pieces(body: bytes) -> Iterator[bytes]:
    """Cut a stream into the JSON texts of its events; the rest of one that was cut is none."""
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
        yield _piece(headers, event)
        place += size


def _headers(raw: bytes) -> Iterator[tuple[str, str]]:
    while raw:
        begin = 1 + raw[0]
        kind, size = struct.unpack_from(">BH", raw, begin)
        if kind != _STRING:
            raise ValueError(kind)
        yield raw[1:begin].decode(), raw[begin + 3 : begin + 3 + size].decode()
        raw = raw[begin + 3 + size :]


def _piece(headers: Mapping[str, str], event: Mapping[str, Any]) -> bytes:
    """Word an event as a chunk of other vendors: a failure, a chunk of a model's own, or itself."""
    failure = headers.get(":exception-type") or headers.get(":error-code")
    if failure:
        message = event.get("message") or headers.get(":error-message")
        return dumps({"error": {"type": failure, "message": message}}).encode()
    own = event.get("bytes")
    return b64decode(own) if isinstance(own, str) else dumps(event).encode()
