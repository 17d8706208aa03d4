"""Bytes by name in a database that may be damaged, full, locked, read-only or moved away."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any, TypeVar

from pytest_llmeval.cache import queries
from pytest_llmeval.cache.directory import (
    Identity,
    identity,
    prepare_directory,
    refuse_link,
    set_aside,
)
from pytest_llmeval.cache.disk import DBNAME, GroupCommit, SharedCache, Timeout, open_cache
from pytest_llmeval.cache.locks import call_in_forked_children, lock_awaited_by_forks
from pytest_llmeval.cache.process_locks import lack_of_locks
from pytest_llmeval.cache.reply import NewRow, StoredRow, Value
from pytest_llmeval.errors import CacheError, CacheUnusable
from pytest_llmeval.originals import Clock, Files

T = TypeVar("T")
AnyCache = SharedCache | queries.ReadOnlyCache

ATTEMPTS = 100
PAUSE = 0.01  # seconds; another process needs far less to set a damaged cache aside
READ_ONLY = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)  # the file decides which of these is raised


class Store:
    """Values that are written once and never changed, for all threads and processes.

    Opened at first use and again after ``close``. A damaged cache is set aside and a new one begun.
    A new one is begun, too, if somebody removed or renamed the cache while it was open.

    Rows that threads add at the same time are written together. Lookups have connections of their
    own, and do not wait for these writes. A lookup that fails, for whatever reason, is repeated on
    the connection that writes: only this one deals with damage.

    Args:
        directory: ``.llmeval``; the database lies in its folder ``cache``.
        warn: is given a message that names the place of a damaged cache; must not add rows.

    Attributes:
        add: writes a value, durably, unless the name has one, see ``GroupCommit.add``; raises
            CacheUnusable where the database cannot be written.
        find: reads the values of a few rows, ``below`` all rows whose names have a beginning; see
            ``Rows``. They raise CacheUnusable where the database cannot be read.
    """

    def __init__(self, directory: Path, *, warn: Callable[[str], None]) -> None:
        self._directory = directory
        self._folder = directory / "cache"
        self._database = self._folder / DBNAME
        self._warn = warn
        # A child has SQLite's own locks as at the fork, so no thread may be inside SQLite then. A
        # fork takes the last lock first: ``_drop`` takes the others while it has the last one.
        self._reading = [lock_awaited_by_forks(), lock_awaited_by_forks()]
        self._lock = lock_awaited_by_forks()
        self._cache: AnyCache | None = None
        self._readers: queries.ReadConnections | None = None
        self._inherited: list[object] = []
        self.find: Callable[..., list[Value | None]] = partial(self._read, "find")
        self.below: Callable[[str], list[StoredRow]] = partial(self._read, "below")
        self._begin()
        call_in_forked_children(self._begin)

    def _begin(self) -> None:
        # SQLite forbids a forked child to use or to close a connection of its parent: keep it. The
        # child may not commit rows of its parent's threads, either.
        self._inherited += self._cache, self._readers
        self._cache = self._readers = None
        self.add = GroupCommit(self._write).add
        self._seen: Identity | None = None
        self._hopeless: str | None = None

    def _read(self, how: str, *values: object) -> list[Any]:
        """Ask ``Rows`` by one of its methods."""
        question, readers = methodcaller(how, *values), self._readers
        if readers is not None and self._is_in_place():
            with contextlib.suppress(sqlite3.Error):
                found: list[Any] = question(readers)
                return found
        return self._attempt(question)

    def _write(self, rows: Sequence[NewRow]) -> Sequence[bool]:
        written: Sequence[bool] = self._attempt(methodcaller("add_all", rows))
        return written

    def rows(self, pattern: str = "*") -> Iterator[StoredRow]:
        """Read every row whose name fits, the newest first.

        Raises:
            CacheUnusable: the database cannot be read.
        """
        yield from queries.all_pages(
            lambda before: self._attempt(lambda cache: cache.page(pattern, before))
        )

    def rewrite(self, plan: queries.Plan[queries.AnyChange]) -> queries.AnyChange:
        """Change many rows in one transaction, in which no other process can change any.

        Args:
            plan: gets every row, as ``rows`` yields it, and returns the changes.

        Returns:
            What was changed.

        Raises:
            CacheUnusable: the database cannot be written; nothing was changed.
        """
        return self._attempt(lambda cache: cache.rewrite(plan))

    def clear(self) -> None:
        """Delete every row. The file stays, as sessions that have it open go on writing to it.

        Raises:
            CacheUnusable: the database cannot be written; nothing was deleted.
        """
        self._attempt(methodcaller("delete_all"))

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._drop()

    def _attempt(self, work: Callable[[AnyCache], T]) -> T:
        with self._lock:
            for _ in range(ATTEMPTS):
                if self._hopeless is not None:
                    raise CacheUnusable(self._hopeless)
                try:
                    if self._cache is not None and not self._is_in_place():
                        self._drop()
                    if self._cache is None:
                        self._cache = self._open()
                        self._seen = identity(self._database)
                        if isinstance(self._cache, SharedCache):
                            self._readers = queries.ReadConnections(self._database, self._reading)
                    return work(self._cache)
                except CacheError:
                    raise
                except (TypeError, ValueError) as exc:  # diskcache takes any tables for its own
                    self._recover(f"its tables are not those of diskcache: {exc}")
                except (sqlite3.OperationalError, Timeout, OSError) as exc:
                    self._end_transaction()
                    if identity(self._database) == self._seen:
                        raise self._unusable(exc) from exc
                except sqlite3.DatabaseError as exc:
                    self._recover(str(exc))
                except BaseException:
                    self._end_transaction()
                    raise
            self._hopeless = self._cannot_set_aside("another process seems to be at it")
            raise CacheUnusable(self._hopeless)

    def _end_transaction(self) -> None:
        """Leave no transaction open that could not be ended."""
        if self._cache is not None:
            self._cache.close()

    def _is_in_place(self) -> bool:
        """Whether the path still leads to the database that is open."""
        if isinstance(self._cache, SharedCache) and self._seen is not None:
            # No other file can have the inode of a file that we hold open.
            with contextlib.suppress(OSError):
                return Files.lstat(self._database).st_ino == self._seen[1]
        return identity(self._database) == self._seen

    def _open(self) -> AnyCache:
        try:
            refuse_link(self._folder)
        except OSError as exc:
            self._hopeless = f"the cache of replies is not used: {exc}"
            raise CacheUnusable(self._hopeless) from None
        self._seen = identity(self._database)
        prepare_directory(self._directory)
        self._hopeless = lack_of_locks(self._directory) or None
        if self._hopeless is not None:
            raise CacheUnusable(self._hopeless)
        try:
            return open_cache(self._folder)
        except sqlite3.OperationalError as exc:
            code = getattr(exc, "sqlite_errorcode", 0) & 0xFF
            # diskcache writes when it opens a cache, but rows can be read without diskcache. A
            # cache that another process has just begun to make may open the next time.
            was_there = self._seen is not None and identity(self._database) == self._seen
            if code not in READ_ONLY and not (code in NO_ROOM and was_there):
                raise
            return queries.ReadOnlyCache(self._database, why=str(exc))

    def _drop(self) -> None:
        connections = self._readers, self._cache
        self._readers = self._cache = self._hopeless = None
        for connection in connections:
            if connection is not None:
                connection.close()

    def _unusable(self, exc: Exception) -> CacheUnusable:
        cause = str(exc) or "another process has locked it"  # the error behind diskcache.Timeout
        message = (
            f"the cache of replies {self._folder} cannot be used ({cause}); make room there, let "
            "this user write there, or name another directory with --llm-dir"
        )
        if self._cache is None and Files.are_in_place():
            self._hopeless = message  # waiting for a lock takes a minute: once is enough
        return CacheUnusable(message)

    def _recover(self, damage: str) -> None:
        self._drop()
        try:
            target = set_aside(self._database, seen=self._seen) if self._seen else None
        except OSError as exc:
            self._hopeless = self._cannot_set_aside(str(exc))
            raise CacheUnusable(self._hopeless) from exc
        if target is None:
            Clock.sleep(PAUSE)
            return
        self._warn(
            f"the cache of replies {self._folder} is damaged ({damage}). It was moved to "
            f"{target} and a new one begun, so calls are paid for again. Nothing was deleted: "
            f"`sqlite3 {target / DBNAME} .recover` may bring replies back."
        )

    def _cannot_set_aside(self, cause: str) -> str:
        return (
            f"the cache of replies {self._folder} is damaged and could not be set aside "
            f"({cause}); rename it by hand: mv {self._folder} {self._folder}.damaged"
        )
