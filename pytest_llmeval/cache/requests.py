"""Requests as they are kept beside their replies.

A kept request is never sent again. A value under the name of a secret is blanked, and long texts (a
document, an image) are cut, with a digest of the whole. A request has a row of its own, which no
replay reads. A stored value is zlib over one line of JSON.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from json import dumps
from typing import Any

from pytest_llmeval.cache.key import PARTS, Canonical, is_secret_name
from pytest_llmeval.cache.reply import TIME, NewRow, StoredRow, pack_object, unpack_object
from pytest_llmeval.errors import RowRefused
from pytest_llmeval.originals import Clock

SCHEMA = 1
PREFIX = "request/"
LONGEST = 10_000  # characters of a text that are kept
BLANKED = "***"

Parts = Mapping[str, Any]  # the parts of a canonical request that may be kept, by name


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request as its row has it.

    Attributes:
        key: of the request.
        parts: of the canonical request.
        session: the one that asked first.
    """

    key: str
    parts: Parts
    session: str


def row_name(key: str) -> str:
    """Name the row of a request."""
    return f"{PREFIX}{key}"


def parts_to_keep(request: Canonical) -> Parts:
    """Write the parts of a request that may be kept."""
    parts = {name: getattr(request, name) for name in PARTS}
    return parts | {"body": trimmed(request.body)}


def request_rows(key: str, request: Canonical, *, session: str) -> Iterator[NewRow]:
    """Give the row to store with a reply, unless there is one; none if it cannot be kept."""
    created = Clock.now().strftime(TIME)
    try:
        parts = parts_to_keep(request)
        value = pack_object(
            {"schema": SCHEMA, "request": parts, "created": created, "session": session}
        )
        if value is not None:
            yield row_name(key), value
    except RecursionError:  # nested deeper than Python code can follow
        return


def stored_requests(rows: Iterable[StoredRow]) -> Iterator[StoredRequest]:
    """Read requests from these rows; pass over rows that are refused or hold none."""
    for row in rows:
        try:
            if row.name.startswith(PREFIX):
                line = unpack_request(row.value)
                key = row.name.removeprefix(PREFIX)
                yield StoredRequest(key, line["request"], line["session"])
        except RowRefused:
            continue


def unpack_request(value: bytes | RowRefused) -> dict[str, Any]:
    """Read the line of a row, and check it.

    Raises:
        RowRefused: it is no request of ours.
    """
    line: dict[str, Any] = unpack_object(value)
    if line.get("schema") != SCHEMA:
        raise RowRefused("it is no request of a known schema")
    parts = line.get("request")
    if not isinstance(parts, dict) or parts.keys() != set(PARTS):
        raise RowRefused("its request lacks a part")
    if not isinstance(line.get("session"), str):
        raise RowRefused("it names no session")
    return line


def trimmed(value: Any) -> Any:
    """Return a value of JSON as it may be kept: without secrets, and with long texts cut."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else _cut(value)
    if isinstance(value, Mapping):
        return {
            name: BLANKED if is_secret_name(str(name)) or name == "headers" else trimmed(part)
            for name, part in value.items()
        }
    return [trimmed(part) for part in value] if isinstance(value, list | tuple) else value


def _cut(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:LONGEST]}... ({len(text)} characters, sha256 {digest[:16]})"


def flat_fields(field: str, value: Any) -> Iterator[tuple[str, str]]:
    """List the fields in a JSON value, ``messages[0].content``, each with its value as JSON."""
    if isinstance(value, Mapping) and value:
        for name in value:
            yield from flat_fields(f"{field}.{name}" if field else str(name), value[name])
    elif isinstance(value, list) and value:
        for index, part in enumerate(value):
            yield from flat_fields(f"{field}[{index}]", part)
    else:
        yield field or "body", dumps(value, ensure_ascii=False)
