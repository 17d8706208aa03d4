from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache.disk import SharedCache, open_cache
from pytest_llmeval.cache.queries import ReadConnections, ReadOnlyCache

Sql = Callable[..., list[Any]]


def read_connections(folder: Path) -> ReadConnections:
    return ReadConnections(folder / "cache.db", [threading.RLock(), threading.RLock()])


@pytest.fixture
def readers(cache: SharedCache, folder: Path) -> Iterator[ReadConnections]:
    with contextlib.closing(read_connections(folder)) as readers:
        yield readers


# Beside a connection that writes


def test_a_row_is_found_as_soon_as_it_is_committed(
    cache: SharedCache, readers: ReadConnections
) -> None:
    assert readers.find("other") == [None]
    with cache.transact():
        cache.add_all([("other", b"new")])
        assert readers.find("other") == [None]
        assert readers.find("name") == [b"value"]
    assert readers.find("other") == [b"new"]


@pytest.mark.parametrize("seconds", [-60, 60])
def test_what_is_found_is_what_cannot_be_added(
    seconds: int, cache: SharedCache, readers: ReadConnections, sql: Sql
) -> None:
    sql("UPDATE Cache SET expire_time = ?", time.time() + seconds)
    (found,) = readers.find("name")
    assert [found] == cache.find("name") == [b"value"]
    assert cache.add_all([("name", b"again")]) == [False]


def test_readers_change_nothing_and_are_wary(readers: ReadConnections) -> None:
    pragmas = ["query_only", "mmap_size", "trusted_schema", "cell_size_check"]
    for _, connection in readers._lines:
        found = [connection.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in pragmas]
        assert found == [1, 0, 0, 1]


def test_readers_at_the_same_time_do_not_wait_for_each_other(readers: ReadConnections) -> None:
    with ExitStack() as held, ThreadPoolExecutor(1) as pool:
        first, second = (lock for lock, _ in readers._lines)
        held.enter_context(first)
        assert readers.find("name") == [b"value"]
        with second:
            third = pool.submit(readers.find, "name")
            time.sleep(0.01)
            assert not third.done()
        assert third.result(10) == [b"value"]


def test_readers_wait_for_no_lock(readers: ReadConnections, folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "cache.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert readers.find("name") == [b"value"]


def test_closed_readers_say_so(readers: ReadConnections) -> None:
    readers.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        readers.find("name")


# Where nothing can be written


def test_rows_can_be_read_without_writing(cache: SharedCache, folder: Path) -> None:
    cache.close()
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    rows = ReadOnlyCache(folder / "cache.db")
    assert rows.find("name", "other") == [b"value", None]
    rows.close()
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir()} == before


def test_a_read_only_cache_takes_no_row(cache: SharedCache, folder: Path) -> None:
    cache.close()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        ReadOnlyCache(folder / "cache.db").add_all([("name", b"value")])


def test_a_path_with_a_question_mark_can_be_read(tmp_path: Path) -> None:
    cache = open_cache(tmp_path / "a?b#c%20")
    cache.add_all([("name", b"value")])
    cache.close()
    assert ReadOnlyCache(tmp_path / "a?b#c%20" / "cache.db").find("name") == [b"value"]


@pytest.mark.parametrize("content", [None, b"no database" * 100])
def test_what_cannot_be_read_read_only_is_an_operational_error(
    folder: Path, content: bytes | None
) -> None:
    folder.mkdir()
    if content is not None:
        (folder / "cache.db").write_bytes(content)
    with pytest.raises(sqlite3.OperationalError):
        ReadOnlyCache(folder / "cache.db")


def test_a_read_only_cache_is_read_page_by_page_and_not_rewritten(
    cache: SharedCache, folder: Path
) -> None:
    cache.close()
    read_only = ReadOnlyCache(folder / "cache.db")
    [row] = read_only.page("n*", before=2**63 - 1)
    assert (row.name, row.value) == ("name", b"value")
    assert read_only.page("x*", before=2**63 - 1) == []
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        read_only.rewrite(None)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        read_only.delete_all()
