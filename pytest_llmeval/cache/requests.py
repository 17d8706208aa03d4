"""A request as it is kept beside its replies, so that a later one can be told from it.

It is never sent again: what goes by the name of a secret is blanked, and long texts (a
document, an image) are cut, with a digest of the whole. It has a row of its own, which no
replay reads. A stored value is zlib over one line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pytest_llmeval.cache import strict_json
from pytest_llmeval.cache.key import PARTS, Canonical, is_secret_name
from pytest_llmeval.cache.reply import MAX_HEADER, TIME, inflate
from pytest_llmeval.errors import RowRefused

SCHEMA = 1
PREFIX = "request/"
LONGEST = 10_000  # characters of a text that are kept
BLANKED = "***"

Told = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """What is known of a request.

    Attributes:
        told: the parts of the canonical request, by name.
        session: the one that asked first.
    """

    told: Told
    session: str


def row_name(key: str) -> str:
    """Name the row of a request."""
    return f"{PREFIX}{key}"


def tell(request: Canonical) -> Told:
    """Write down what may be kept of a request."""
    told = {name: getattr(request, name) for name in PARTS}
    return told | {"body": _trimmed(request.body)}


def encode_request(told: Told, *, session: str) -> bytes | None:
    """Write it as the value of a row; None if it is too long even so.

    Raises:
        TypeError, ValueError: the body is no JSON.
    """
    line = {
        "schema": SCHEMA,
        "request": dict(told),
        "created": datetime.now(UTC).strftime(TIME),
        "session": session,
    }
    return pack_request(line)


def pack_request(line: Mapping[str, Any]) -> bytes | None:
    """Put a line as the value of a row; None if it is too long."""
    text = json.dumps(line, separators=(",", ":"), allow_nan=False).encode("ascii")
    return zlib.compress(text, 1) if len(text) <= MAX_HEADER else None


def unpack_request(value: bytes) -> dict[str, Any]:
    """Read the line of a row, and check it.

    Raises:
        RowRefused: ``encode_request`` did not write this.
    """
    try:
        line = strict_json.parse(inflate(value, limit=MAX_HEADER))
    except ValueError as exc:
        raise RowRefused(f"it is no JSON ({exc})") from exc
    if not isinstance(line, dict) or line.get("schema") != SCHEMA:
        raise RowRefused("it is no request of a known schema")
    told = line.get("request")
    if not isinstance(told, dict) or told.keys() != set(PARTS):
        raise RowRefused("its request lacks a part")
    if not isinstance(line.get("session"), str):
        raise RowRefused("it names no session")
    return line


def decode_request(value: bytes) -> KeptRequest:
    """Read what ``encode_request`` wrote.

    Raises:
        RowRefused: it did not write this.
    """
    line = unpack_request(value)
    return KeptRequest(line["request"], line["session"])


def _trimmed(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST else _cut(value)
    if isinstance(value, Mapping):
        return {
            name: BLANKED if is_secret_name(str(name)) or name == "headers" else _trimmed(part)
            for name, part in value.items()
        }
    return [_trimmed(part) for part in value] if isinstance(value, list | tuple) else value


def _cut(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:LONGEST]}... ({len(text)} characters, sha256 {digest[:16]})"
