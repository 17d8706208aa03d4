"""Many rows at a time: found by their names, read page by page, changed in one go."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from pytest_llmeval.cache.failures import RowRefused

SIZE = 500  # rows of a page: some 500 KB
FIRST = 2**63 - 1
# The rows that diskcache's ``add`` takes for present. They must be the same: a name that is
# taken, and yet has no row, would be sought for ever.
FIND = (
    "SELECT {place}, mode, filename, value FROM Cache"
    " WHERE key = ? AND raw = 1 AND (expire_time IS NULL OR expire_time > ?)"
)
PAGE = (
    "SELECT rowid, key, mode, filename, value FROM Cache"
    " WHERE rowid < ? AND raw = 1 AND typeof(key) = 'text' AND key GLOB ?"
    " AND (expire_time IS NULL OR expire_time > ?) ORDER BY rowid DESC LIMIT ?"
)


class StoredRow(NamedTuple):
    """A row as it lies there; a larger ``place`` was written later.

    Attributes:
        value: None if it is not one that we wrote.
    """

    place: int
    name: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Change:
    """What to do with the rows of a cache, in this order.

    Attributes:
        removed: names.
        renamed: old and new names.
        added: names and values; one whose name is taken is left out.
    """

    removed: Sequence[str] = ()
    renamed: Sequence[tuple[str, str]] = ()
    added: Sequence[tuple[str, bytes]] = ()


Plan = Callable[[Iterator[StoredRow]], Change]
Found = bytes | RowRefused | None  # a value, why it is refused, or that there is no such row


def find_rows(
    connection: sqlite3.Connection, names: Sequence[str], *, fetch: Callable[..., bytes]
) -> list[Found]:
    """Read the values of a few rows as they are at one moment.

    Args:
        connection: hardened.
        names: of the rows.
        fetch: reads a value, or refuses it.

    Returns:
        What was found, in the order of the names.
    """
    found: list[Found] = [None] * len(names)
    now = time.time()
    asked = [part for name in names for part in (name, now)]
    for place, mode, filename, value in connection.execute(_finding(len(names)), asked).fetchall():
        try:
            found[place] = fetch(mode, filename, value, False)
        except RowRefused as exc:
            found[place] = exc
    return found


@cache
def _finding(count: int) -> str:
    """Write the query for so many rows: it takes two thirds of the time of one with IN."""
    return " UNION ALL ".join(FIND.format(place=place) for place in range(count))


def read_page(
    connection: sqlite3.Connection, pattern: str, *, before: int, fetch: Callable[..., bytes]
) -> list[StoredRow]:
    """Read the next rows, the newest first.

    Args:
        connection: hardened.
        pattern: which names, as SQLite's GLOB has it.
        before: only rows of a lower place.
        fetch: reads a value, or refuses it.
    """
    rows = connection.execute(PAGE, (before, pattern, time.time(), SIZE)).fetchall()
    return [
        StoredRow(place, name, _fetched(fetch, mode, filename, value))
        for place, name, mode, filename, value in rows
    ]


def all_pages(read: Callable[[int], list[StoredRow]]) -> Iterator[StoredRow]:
    """Read page after page.

    Args:
        read: the rows before this place; none at the end.
    """
    page = read(FIRST)
    while page:
        yield from page
        page = read(page[-1].place)


def _fetched(
    fetch: Callable[..., bytes], mode: object, filename: object, value: object
) -> bytes | None:
    try:
        return fetch(mode, filename, value, False)
    except RowRefused:
        return None
