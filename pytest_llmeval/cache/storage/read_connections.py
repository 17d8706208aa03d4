"""Rows read without diskcache, which would write to open a cache and shares one connection."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar
from urllib.parse import quote

from pytest_llmeval.cache.storage.disk import DBNAME, BytesDisk, harden
from pytest_llmeval.cache.storage.queries import Found, StoredRow, find_rows, read_page

T = TypeVar("T")


class Lookups:
    """Two more connections to an open cache: what they read waits for no commit.

    Safe for threads. They never wait for a lock of SQLite's either, and say so by an error;
    ``Store`` then asks the first connection. Two, for there are two who look up at the same
    time: the trial in turn, and calls that see whether another process has paid meanwhile.

    Args:
        directory: of a cache that ``open_cache`` has just opened, and so checked.
    """

    def __init__(self, directory: Path) -> None:
        self._disk = BytesDisk(str(directory))
        self._lines = tuple((threading.Lock(), _connect(directory)) for _ in range(2))

    def find(self, *names: str) -> list[Found]:
        """Read the values of rows; see ``find_rows``.

        Raises:
            sqlite3.Error: the database cannot be read, or was closed.
        """
        free = (line for line in self._lines if not line[0].locked())
        lock, connection = next(free, self._lines[-1])
        with lock:
            return find_rows(connection, names, fetch=self._disk.fetch)

    def close(self) -> None:
        """Close the connections for good."""
        for lock, connection in self._lines:
            with lock:
                connection.close()


class ReadOnlyCache:
    """The rows of a cache in a directory that cannot be written.

    diskcache writes its settings whenever it opens, so it cannot read there. Rows that a killed
    session left in the write-ahead log are not seen.

    Raises:
        sqlite3.OperationalError: there is none, or it is damaged.
    """

    def __init__(self, directory: Path) -> None:
        self._uri = f"file:{quote(str(directory / DBNAME))}?mode=ro&immutable=1"
        self._disk = BytesDisk(str(directory))
        self.find("")

    def find(self, *names: str) -> list[Found]:
        """Read the values of rows; see ``find_rows``.

        Raises:
            sqlite3.OperationalError: the database cannot be read.
        """
        fetch = self._disk.fetch
        return self._ask(lambda connection: find_rows(connection, names, fetch=fetch))

    def page(self, pattern: str, *, before: int) -> list[StoredRow]:
        """Read a page of rows; see ``read_page``."""
        fetch = self._disk.fetch
        return self._ask(
            lambda connection: read_page(connection, pattern, before=before, fetch=fetch)
        )

    def add_all(self, rows: object) -> NoReturn:
        """Refuse to write.

        Raises:
            sqlite3.OperationalError: always.
        """
        raise sqlite3.OperationalError("attempt to write a readonly database")

    def rewrite(self, plan: object) -> NoReturn:
        """Refuse to write: as ``add_all``."""
        self.add_all(plan)

    def delete_all(self) -> NoReturn:
        """Refuse to write: as ``add_all``."""
        self.add_all(())

    def close(self) -> None:
        """Do nothing: no connection outlives its query."""

    def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with contextlib.closing(sqlite3.connect(self._uri, uri=True)) as connection:
                harden(connection)
                return question(connection)
        except sqlite3.DatabaseError as exc:
            # Damage, too: what cannot be written cannot be set aside.
            raise sqlite3.OperationalError(str(exc)) from exc


def _connect(directory: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        directory / DBNAME, 0, isolation_level=None, check_same_thread=False
    )
    harden(connection)
    for pragma in ("mmap_size = 0", "query_only = 1"):
        connection.execute(f"PRAGMA {pragma}")
    return connection
