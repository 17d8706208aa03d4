"""What lies in a cache, row by row: draws by request, slot and generation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pytest_llmeval.cache.reply import Row, decode
from pytest_llmeval.cache.storage.queries import StoredRow
from pytest_llmeval.errors import RowRefused

NAME = re.compile(
    r"(?P<key>[0-9a-f]{64})/(?P<slot>(?:shared|[0-9]{1,9})/[0-9]{1,9})"
    r"/(?:spare/(?P<spare>[0-9a-f]{32})|(?P<generation>[0-9]{1,9}))"
)


class DrawName(NamedTuple):
    """The name of a draw's row.

    Attributes:
        key: of the request.
        slot: as ``str(Slot)`` writes it.
        generation: None for a spare one: another session's draw has its slot.
    """

    key: str
    slot: str
    generation: int | None


@dataclass(frozen=True, slots=True)
class StoredDraw:
    """A draw and where it lies; ``row`` is None if it is not one that we wrote."""

    name: str
    at: DrawName
    row: Row | None
    size: int


def parse_name(name: str) -> DrawName | None:
    """Read the name of a draw's row; None if it is not one."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    generation = match["generation"]
    return DrawName(match["key"], match["slot"], None if generation is None else int(generation))


def draws_in(rows: Iterable[StoredRow]) -> Iterator[StoredDraw]:
    """Pick the draws, the readable ones and those that are refused."""
    for stored in rows:
        at = parse_name(stored.name)
        if at is not None:
            yield StoredDraw(stored.name, at, _decoded(stored.value), len(stored.value or b""))


def _decoded(value: bytes | None) -> Row | None:
    try:
        return None if value is None else decode(value)
    except RowRefused:
        return None
