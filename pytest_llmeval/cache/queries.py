"""Rows read by name or page by page, through connections of our own.

diskcache would write to open a cache, and has one connection for all. These connections only read.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import starmap
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

from pytest_llmeval.cache.reply import NewRow, StoredRow, Value
from pytest_llmeval.errors import RowRefused

DATABASE = "cache.db"  # diskcache's; to import that takes a while
MODE_RAW = 1  # diskcache's, for bytes in the database
SIZE = 500  # rows of a page: some 500 KB
FIRST = 2**63 - 1
# A row that expires is somebody else's: our rows never expire, and a taken name has a row.
FIND = "SELECT {place}, mode, filename, value FROM Cache WHERE key = ? AND raw = 1"
PAGE = (
    "SELECT rowid, key, mode, filename, value FROM Cache"
    " WHERE rowid < ? AND raw = 1 AND typeof(key) = 'text' AND key GLOB ?"
    " ORDER BY rowid DESC LIMIT ?"
)
BELOW = (
    "SELECT rowid, key, mode, filename, value FROM Cache"
    " WHERE raw = 1 AND key >= ? AND key < ? ORDER BY rowid DESC"
)
# A second generation, or a spare: read from the index alone.
CHOICE = "SELECT 1 FROM Cache WHERE key GLOB '*/*/*/1' OR key GLOB '*/spare/*' LIMIT 1"
# The advice of https://www.sqlite.org/security.html for a file that may be hostile.
HARDENING = ("trusted_schema = 0", "cell_size_check = 1")


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Rows of a cache to remove, rename and add, in this order.

    Attributes:
        removed: names.
        renamed: old and new names.
        added: names and values; one whose name is taken is left out.
    """

    removed: Sequence[str] = ()
    renamed: Sequence[tuple[str, str]] = ()
    added: Sequence[NewRow] = ()


AnyChange = TypeVar("AnyChange", bound=RowChanges)
Plan = Callable[[Iterator[StoredRow]], AnyChange]


def harden(connection: sqlite3.Connection) -> None:
    """Harden a connection against a hostile database."""
    # A planted text that is not UTF-8 must be an odd text, not an exception.
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    for pragma in HARDENING:
        connection.execute(f"PRAGMA {pragma}")


def checked_value(mode: object, filename: object, value: object) -> Value:
    """Return the value of a row, or why it is refused: pickled, in a file, or not bytes."""
    if filename is not None:
        return RowRefused("it points to a file")
    if mode != MODE_RAW or type(value) is not bytes:
        return RowRefused("its value is pickled or not bytes")
    return value


class Rows(ABC):
    """Reads rows by name or page by page; a subclass provides the connection."""

    @abstractmethod
    def _ask(self, query: str, *values: object) -> list[Any]:
        """Ask over a hardened connection; return the rows.

        Raises:
            sqlite3.Error: the database cannot be read, or was closed.
        """

    def find(self, *names: str) -> list[Value | None]:
        """Read the values of a few rows as they are at one moment.

        Returns:
            The rows, in the order of the names; None where there is no such row.
        """
        query, found = _finding(len(names)), list[Value | None]([None] * len(names))
        for place, *columns in self._ask(query, *names):
            found[place] = checked_value(*columns)
        return found

    def below(self, beginning: str) -> list[StoredRow]:
        """Read all rows whose names have this beginning, the newest first.

        Args:
            beginning: ends in a slash.
        """
        found = self._ask(BELOW, beginning, beginning[:-1] + chr(ord("/") + 1))
        return [*starmap(_stored_row, found)]

    def page(self, pattern: str, before: int) -> list[StoredRow]:
        """Read the next rows, the newest first.

        Args:
            pattern: which names, as SQLite's GLOB has it.
            before: only rows of a lower place.
        """
        return [*starmap(_stored_row, self._ask(PAGE, before, pattern, SIZE))]

    def has_choice(self) -> bool:
        """Tell whether any slot may have several replies."""
        return bool(self._ask(CHOICE))


def _stored_row(place: int, name: str, *columns: object) -> StoredRow:
    return StoredRow(place, name, checked_value(*columns))


@cache
def _finding(count: int) -> str:
    """Write the query for so many rows, which takes two thirds of the time of one with IN."""
    return " UNION ALL ".join(FIND.format(place=n) for n in range(count))


def all_pages(read: Callable[[int], list[StoredRow]]) -> Iterator[StoredRow]:
    """Read page after page.

    Args:
        read: the rows before this place; none at the end.
    """
    page = read(FIRST)
    while page:
        yield from page
        page = read(page[-1].place)


class ReadConnections(Rows):
    """Two more connections to an open cache, which wait for no commit.

    Safe for threads. A connection does not wait for SQLite's locks, but fails; ``Store`` then asks
    the connection that writes. Two threads look rows up at the same time: the trial in turn, and a
    call that checks whether another process has paid meanwhile.

    Args:
        database: of a cache that ``open_cache`` has just opened, and so checked.
        locks: one for each connection.
    """

    def __init__(self, database: Path, locks: Sequence[threading.RLock]) -> None:
        self._lines = [(lock, _connect_to_read(database)) for lock in locks]

    def _ask(self, query: str, *values: object) -> list[Any]:
        lock, connection = self._lines[0]
        if not lock.acquire(blocking=False):
            lock, connection = self._lines[1]
            lock.acquire()
        try:
            return connection.execute(query, values).fetchall()
        finally:
            lock.release()

    def close(self) -> None:
        """Close the connections for good."""
        for lock, connection in self._lines:
            with lock:
                connection.close()


def _connect_to_read(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(database, 0, isolation_level=None, check_same_thread=False)
    harden(connection)
    for pragma in ("mmap_size = 0", "query_only = 1"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


class ReadOnlyCache(Rows):
    """The rows of a cache that cannot be written: the directory is read-only, or the disk is full.

    diskcache writes its settings whenever it opens, so it cannot open such a cache.

    Args:
        database: the file.
        why: why it cannot be written.

    Raises:
        sqlite3.OperationalError: there is none, or it is damaged.
    """

    def __init__(self, database: Path, why: str = "attempt to write a readonly database") -> None:
        self._database = database
        self._why = why
        self.find("")

    def add_all(self, _rows: object = None) -> NoReturn:
        """Refuse to write.

        Raises:
            sqlite3.OperationalError: always.
        """
        raise sqlite3.OperationalError(self._why)

    rewrite = delete_all = add_all

    def close(self) -> None:
        """Do nothing: no connection outlives its query."""

    def _ask(self, query: str, *values: object) -> list[Any]:
        try:
            with contextlib.closing(_connect_to_look(self._database)) as connection:
                return connection.execute(query, values).fetchall()
        except sqlite3.DatabaseError as exc:
            # Damage, too: a cache that cannot be written cannot be set aside.
            raise sqlite3.OperationalError(f"{self._why}: {exc}") from exc


class RowReader(Rows):
    """Rows of a cache that somebody else may have open: nothing is written, mended or set aside.

    Where there is no cache, or it cannot be read, there are no rows.

    Args:
        database: the file; none is made.

    Attributes:
        close: closes the database.
    """

    def __init__(self, database: Path) -> None:
        try:
            self._connection = _connect_to_look(database)
        except sqlite3.Error:
            self._connection = sqlite3.connect(":memory:")  # without a table: it has no rows
        self.close = self._connection.close

    def _ask(self, query: str, *values: object) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error:  # damaged, or closed
            return []


def _connect_to_look(database: Path) -> sqlite3.Connection:
    """Connect without writing; with the rows that a session has left in the write-ahead log."""
    log = database.with_name(f"{database.name}-wal")
    place = f"file:{quote(str(database))}?mode=ro"
    if log.exists() and log.stat().st_size:
        with contextlib.suppress(sqlite3.Error):
            return _opened(place)
    # Without ``immutable`` SQLite makes files beside the database, even to read it.
    return _opened(f"{place}&immutable=1")


def _opened(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, 1, uri=True, isolation_level=None)
    try:
        harden(connection)
        connection.execute("SELECT 1 FROM Cache LIMIT 1")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
