"""diskcache, made safe and quick: bytes by name, nothing unpickled, one sync for many threads.

Anybody who can write into the cache directory can plant rows and files. diskcache alone would
unpickle them (CVE-2025-69872), or read and delete any file that a row names. ``RefusingDisk`` keeps
diskcache from every row, and ``open_cache`` refuses such files.

This is the only module that imports diskcache; an idle session never loads it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import stat
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any, NoReturn

from diskcache.core import DBNAME, DEFAULT_SETTINGS, METADATA, Cache, Disk, Timeout

from pytest_llmeval.cache import queries
from pytest_llmeval.cache.reply import NewRow
from pytest_llmeval.errors import RowRefused
from pytest_llmeval.originals import Clock, Files

__all__ = ["DBNAME", "SharedCache", "Timeout", "open_cache"]

Outcome = bool | Exception

TIMEOUT = 60.0  # seconds to wait for the lock of another process

# diskcache keeps its settings in the database; a process that opens the cache with other settings
# changes these for all. Its defaults evict: of 3,000 rows over the size limit 240 were left.
SETTINGS: dict[str, Any] = {
    "statistics": 0,
    "tag_index": 0,
    "eviction_policy": "none",
    "cull_limit": 0,
    "size_limit": 2**62,
    "disk_min_file_size": 2**62,  # every value in the database, none in a file
    "sqlite_synchronous": 2,  # FULL: what is acknowledged outlives a power cut
    "sqlite_mmap_size": 0,  # a mapped file that is cut short kills the process (SIGBUS)
}
INSERT = "INSERT INTO Cache(key, raw, store_time, access_time, size, mode, filename, value) VALUES "
ROW = f"(?, 1, ?, ?, 0, {queries.MODE_RAW}, NULL, ?)"
ROW_OF_THREE = f"(?1, 1, ?3, ?3, 0, {queries.MODE_RAW}, NULL, ?2)"
TAKEN = "SELECT key FROM Cache WHERE raw = 1 AND key IN"
# Not OR IGNORE: a row that breaks another rule, of somebody else's table, is damage.
INSERT_IF_NEW = f"{INSERT}{ROW_OF_THREE} ON CONFLICT (key, raw) DO NOTHING"
DELETE = "DELETE FROM Cache WHERE key = ? AND raw = 1"
RENAME = "UPDATE Cache SET key = ?2 WHERE key = ?1 AND raw = 1"
SUPER_JOURNAL_END = bytes.fromhex("d9d505f920a163d7")


class RefusingDisk(Disk):  # type: ignore[misc]  # diskcache has no types
    """Refuse diskcache to read a row or remove a file: ``queries`` alone reads rows."""

    def get(self, *_row: object) -> NoReturn:
        """Refuse a row.

        Raises:
            RowRefused: always.
        """
        raise RowRefused("diskcache would unpickle it, or follow it to a file")

    fetch = remove = get


class SharedCache(queries.Rows, Cache):  # type: ignore[misc]  # diskcache has no types
    """A cache with one connection for all threads, which must take turns.

    diskcache opens a connection a thread. Our threads live as long as a trial or a call, and there
    are hundreds of these. From Python 3.13 on, a connection that ends with its thread without being
    closed is a ResourceWarning.
    """

    def __init__(self, directory: Path) -> None:
        self._database = directory / DBNAME
        self._connection: sqlite3.Connection | None = None
        try:
            super().__init__(directory, timeout=TIMEOUT, disk=RefusingDisk, **SETTINGS)
        except BaseException:
            self.close()
            raise

    @property
    def _con(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = sqlite3.connect(
                self._database, self._timeout, isolation_level=None, check_same_thread=False
            )
            queries.harden(self._connection)
            _refuse_foreign_settings(self._connection)
            for name, value in {**DEFAULT_SETTINGS, **SETTINGS}.items():
                if name.startswith("sqlite_"):
                    self.reset(name, value, update=False)
        return self._connection

    def add_all(self, rows: Sequence[NewRow]) -> list[bool]:
        """Write rows in one transaction, each unless its name is taken.

        If all rows are new, one statement writes them, else four do. Each statement is a turn of
        the interpreter's lock: beside 64 trials in flight, the five statements of diskcache's
        ``add`` held every reply back by 30 ms.

        Returns:
            For each row whether it was written.

        Raises:
            sqlite3.DatabaseError, Timeout: none was written.
        """
        try:
            self._insert(rows)
        except sqlite3.IntegrityError:  # a name has a row already, say
            with self.transact():
                return self._insert_new(rows)
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise Timeout from exc  # as diskcache calls it
            raise
        return [True] * len(rows)

    def _insert_new(self, rows: Sequence[NewRow]) -> list[bool]:
        """Write the rows whose names are not taken, also not by an earlier row."""
        names = [name for name, _ in rows]
        marks = ", ".join("?" * len(names))
        taken = {name for (name,) in self._ask(f"{TAKEN} ({marks})", *names)}
        is_new = []
        for name in names:
            is_new.append(name not in taken)
            taken.add(name)
        self._insert(list(compress(rows, is_new)))
        return is_new

    def _insert(self, rows: Sequence[NewRow]) -> None:
        values: list[object] = []
        for name, value in rows:
            values += name, Clock.wall(), Clock.wall(), value
        if values:
            self._con.execute(INSERT + ", ".join([ROW] * len(rows)), values)

    def _ask(self, query: str, *values: object) -> list[Any]:
        return self._con.execute(query, values).fetchall()

    def rewrite(self, plan: queries.Plan[queries.AnyChange]) -> queries.AnyChange:
        """Change many rows in one transaction; see ``Store.rewrite``."""
        with self.transact():
            change = plan(queries.all_pages(lambda before: self.page("*", before)))
            self._con.executemany(DELETE, [(name,) for name in change.removed])
            # In this order: a renamed row takes a name that was just removed or renamed.
            self._con.executemany(RENAME, change.renamed)
            now = Clock.wall()
            self._con.executemany(INSERT_IF_NEW, [(*one, now) for one in change.added])
        return change

    def delete_all(self) -> None:
        """Delete every row in one transaction, and give the room back if no other process reads.

        Raises:
            sqlite3.DatabaseError, Timeout: none was deleted.
        """
        with self.transact():
            self._con.execute("DELETE FROM Cache")
        with contextlib.suppress(sqlite3.OperationalError):
            self._con.execute("VACUUM")

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def open_cache(directory: Path) -> SharedCache:
    """Open the cache in a directory, made with mode 0700 if there is none.

    Raises:
        sqlite3.DatabaseError: the database is damaged, or files were planted beside it.
        sqlite3.OperationalError: it cannot be opened now (full, locked, read-only). OSError: the
        directory cannot be made or read.
    """
    with contextlib.suppress(FileExistsError):
        Files.mkdir(directory, 0o700)
    _refuse_planted_files(directory)
    return SharedCache(directory)


def _refuse_planted_files(directory: Path) -> None:
    # SQLite would write through a link. A journal that ends in the name of a super-journal makes
    # SQLite delete the file of that name; our journals have none (nothing is ever attached).
    kinds = {}
    for name in Files.listdir(directory):
        with contextlib.suppress(FileNotFoundError):  # another process removed the journal
            kinds[name] = Files.lstat(directory / name).st_mode
    links = [name for name, mode in kinds.items() if stat.S_ISLNK(mode)]
    if links:
        raise sqlite3.DatabaseError(f"{', '.join(sorted(links))} is a symbolic link")
    for name, mode in kinds.items():
        # A pipe or a device may have no end; SQLite itself refuses folders.
        if name.startswith(DBNAME) and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise sqlite3.DatabaseError(f"{name} is no regular file")
    journal = directory / f"{DBNAME}-journal"
    with contextlib.suppress(FileNotFoundError):
        # The end of the journal alone: a file with holes may be larger than memory.
        if Files.tail(journal, -len(SUPER_JOURNAL_END)) == SUPER_JOURNAL_END:
            raise sqlite3.DatabaseError(f"{journal.name} names a file to delete")


def _refuse_foreign_settings(connection: sqlite3.Connection) -> None:
    # diskcache makes every stored setting an attribute of itself (its directory, its methods).
    try:
        names = {name for (name,) in connection.execute("SELECT key FROM Settings")}
    except sqlite3.OperationalError:
        return  # a new database has no such table yet
    foreign = names - DEFAULT_SETTINGS.keys() - METADATA.keys()
    if foreign:
        raise sqlite3.DatabaseError(f"it has settings that diskcache does not know: {foreign}")


@dataclass(eq=False, slots=True)
class _Batch:
    """Rows that are committed together, and a lock for each thread that waits for the commit.

    With one lock for all, every thread would wake up at every commit.
    """

    rows: list[NewRow] = field(default_factory=list)
    outcomes: Sequence[Outcome] | None = None
    waiting: list[threading.Lock] = field(default_factory=list)


class GroupCommit:
    """Collects the rows that threads add during a commit, and commits these rows together.

    The first thread of a batch commits the whole batch, after the batch before. If that thread is
    interrupted, the next thread of the batch commits it.

    Args:
        commit: writes rows in one transaction; one outcome a row, an exception if it is refused.
            Must not call ``add``, which would wait for itself.
    """

    def __init__(self, commit: Callable[[Sequence[NewRow]], Sequence[Outcome]]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._is_busy = False
        self._open = _Batch()

    def add(self, name: str, value: bytes, *, beside: Sequence[NewRow] = ()) -> bool:
        """Add a row and return when it is durable.

        Args:
            name: of the row.
            value: of the row.
            beside: rows to write in the same transaction, without an outcome.

        Returns:
            Whether it was written.

        Raises:
            Exception: the one by which the row was refused or the transaction failed.
        """
        turn = None
        with self._lock:
            batch, place = self._open, len(self._open.rows)
            batch.rows += ((name, value), *beside)
            if self._is_busy:
                turn = threading.Lock()
                turn.acquire()
                batch.waiting.append(turn)
            else:
                self._is_busy = True
                self._open = _Batch()
        if turn is not None:
            self._wait(turn, batch)
        outcomes = batch.outcomes or self._lead(batch)  # without outcomes it is this thread's turn
        outcome = outcomes[place]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _wait(self, turn: threading.Lock, batch: _Batch) -> None:
        """Wait until the batch is committed, or it is this thread's turn to commit it."""
        try:
            turn.acquire()
        except BaseException:  # Ctrl-C: another thread will commit the row
            with self._lock:
                if turn in batch.waiting:
                    batch.waiting.remove(turn)
                elif not batch.outcomes:
                    self._hand_on(batch)
            raise

    def _lead(self, batch: _Batch) -> Sequence[Outcome]:
        try:
            batch.outcomes = self._commit(batch.rows)
        except Exception as exc:
            batch.outcomes = [exc] * len(batch.rows)
        finally:
            with self._lock:
                self._hand_on(batch)
        return batch.outcomes

    def _hand_on(self, batch: _Batch) -> None:
        """Wake the threads that waited for a batch, and the thread that commits the next batch."""
        if batch.outcomes:
            while batch.waiting:
                batch.waiting.pop().release()
        following = batch if batch.waiting else self._open
        self._is_busy = bool(following.waiting)
        if following is self._open and self._is_busy:
            self._open = _Batch()
        if self._is_busy:
            following.waiting.pop(0).release()
