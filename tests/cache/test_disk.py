from __future__ import annotations

import contextlib
import os
import pickle
import sqlite3
import stat
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diskcache
import pytest

from pytest_llmeval.cache.disk import SharedCache, open_cache
from pytest_llmeval.cache.queries import ReadConnections, ReadOnlyCache, RowChanges
from pytest_llmeval.errors import CacheError, RowRefused

MODE_RAW, MODE_BINARY, MODE_TEXT, MODE_PICKLE = 1, 2, 3, 4
Sql = Callable[..., list[Any]]


class Payload:
    """Unpickling this leaves a file behind."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.canary,)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "somebody else's code was run"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    victim = tmp_path / "a file of the user"
    victim.write_text("precious")
    return victim


@pytest.fixture
def planted(
    request: pytest.FixtureRequest, cache: SharedCache, sql: Sql, canary: Path, victim: Path
) -> str:
    """Turn the row into one that an attacker would plant."""
    pickled = pickle.dumps(Payload(canary))
    attacks: dict[str, tuple[str, tuple[Any, ...]]] = {
        "pickle": ("mode = 4, value = ?", (pickled,)),
        "pickle-file": ("mode = 4, value = NULL, filename = ?", (str(victim),)),
        "file": ("mode = 2, value = NULL, filename = ?", (str(victim),)),
        "relative-file": ("mode = 2, value = NULL, filename = ?", (f"../../{victim.name}",)),
        "text-file": ("mode = 3, value = NULL, filename = ?", (str(victim),)),
        "raw-with-file": ("filename = ?", (str(victim),)),
        "text": ("value = 'text'", ()),
        "number": ("value = 7", ()),
        "null": ("value = NULL", ()),
        "mode": ("mode = 'raw'", ()),
        "not-utf8": ("value = CAST(x'ff' AS TEXT)", ()),
    }
    change, values = attacks[request.param]
    sql(f"UPDATE Cache SET {change} WHERE key = 'name'", *values)  # noqa: S608 - a test
    return str(request.param)


def two_connections(database: Path) -> ReadConnections:
    return ReadConnections(database, [threading.RLock(), threading.RLock()])


every_attack = pytest.mark.parametrize(
    "planted",
    ["pickle", "pickle-file", "file", "relative-file", "text-file", "raw-with-file", "text",
     "number", "null", "mode", "not-utf8"],
    indirect=True,
)  # fmt: skip
attack_by_file = pytest.mark.parametrize(
    "planted",
    ["pickle-file", "file", "relative-file", "text-file", "raw-with-file"],
    indirect=True,
)


# Attacks 1 and 3 of CVE-2025-69872: code in a value, a file named by a row


@every_attack
@pytest.mark.parametrize(
    "read",
    [
        lambda cache: cache.get("name"),
        lambda cache: cache.read("name"),
        lambda cache: cache.peekitem(),
        lambda cache: cache.pop("name"),
    ],
    ids=["get", "read", "peekitem", "pop"],
)
def test_a_planted_row_is_not_read(
    planted: str, cache: SharedCache, read: Callable[[SharedCache], Any], canary: Path, victim: Path
) -> None:
    with pytest.raises(CacheError):
        read(cache)
    assert not canary.exists()
    assert victim.read_text() == "precious"


@every_attack
@pytest.mark.parametrize("reading", [two_connections, ReadOnlyCache])
def test_a_planted_row_is_not_read_without_diskcache(
    planted: str,
    reading: Callable[[Path], ReadConnections | ReadOnlyCache],
    cache: SharedCache,
    folder: Path,
    canary: Path,
) -> None:
    cache.close()
    with contextlib.closing(reading(folder / "cache.db")) as rows:
        (found,) = rows.find("name")
    assert isinstance(found, RowRefused)
    assert not canary.exists()


# Attack 4: a file named by a row is deleted with the row


@attack_by_file
@pytest.mark.parametrize(
    "delete",
    [
        lambda cache: cache.delete("name"),
        lambda cache: cache.clear(),
        lambda cache: cache.set("name", b"other"),
        lambda cache: cache.pop("name"),
    ],
    ids=["delete", "clear", "set", "pop"],
)
def test_a_file_named_by_a_planted_row_is_not_deleted(
    planted: str, cache: SharedCache, delete: Callable[[SharedCache], Any], victim: Path
) -> None:
    with pytest.raises(CacheError, match="follow it to a file"):
        delete(cache)
    assert victim.read_text() == "precious"


@attack_by_file
def test_a_file_named_by_an_expired_row_is_not_deleted_and_its_name_is_taken(
    planted: str, cache: SharedCache, sql: Sql, victim: Path
) -> None:
    sql("UPDATE Cache SET expire_time = 1")
    assert cache.add_all([("name", b"other"), ("a", b"1")]) == [False, True]
    assert victim.read_text() == "precious"


# Attack 2: code in a name


@pytest.mark.parametrize(
    "listing",
    [list, lambda cache: list(reversed(cache)), lambda cache: list(cache.iterkeys())],
    ids=["list", "reversed", "iterkeys"],
)
def test_a_planted_name_is_not_unpickled_by_listing(
    cache: SharedCache, listing: Callable[[SharedCache], Any], sql: Sql, canary: Path
) -> None:
    sql("UPDATE Cache SET key = ?, raw = 0", pickle.dumps(Payload(canary)))
    with pytest.raises(CacheError, match="would unpickle it"):
        listing(cache)
    assert not canary.exists()


@pytest.mark.parametrize("name", [7, b"name", 1.5])
def test_a_row_whose_name_is_no_text_is_passed_over(
    cache: SharedCache, name: object, sql: Sql
) -> None:
    sql("UPDATE Cache SET key = ?", name)
    assert cache.page("*", before=2**63 - 1) == []


def test_a_text_that_is_marked_as_pickled_is_passed_over(cache: SharedCache, sql: Sql) -> None:
    sql("UPDATE Cache SET raw = 0")
    assert cache.page("*", before=2**63 - 1) == []
    assert cache.find("name") == [None]


def test_a_name_that_is_no_utf8_is_an_odd_name(cache: SharedCache, sql: Sql) -> None:
    sql("UPDATE Cache SET key = CAST(x'61ff' AS TEXT)")
    assert [row.name for row in cache.page("*", before=2**63 - 1)] == ["a\ufffd"]


# What we write ourselves


def test_rows_are_text_and_bytes_in_the_database_alone(
    cache: SharedCache, folder: Path, sql: Sql
) -> None:
    big = os.urandom(3_000_000)
    assert cache.add_all([("big", big)]) == [True]
    assert cache.find("big") == [big]
    assert [row.name for row in cache.page("*", before=2**63 - 1)] == ["big", "name"]
    assert sql("SELECT DISTINCT raw, mode, filename, expire_time FROM Cache") == [
        (1, MODE_RAW, None, None)
    ]
    cache.close()
    assert [file.name for file in folder.iterdir()] == ["cache.db"]


# Many rows at once


def test_each_row_of_a_transaction_is_written_unless_its_name_is_taken(cache: SharedCache) -> None:
    rows = [("a", b"1"), ("name", b"2"), ("b", b"3"), ("a", b"4")]
    assert cache.add_all(rows) == [True, False, True, False]
    assert cache.find("a", "name", "b") == [b"1", b"value", b"3"]


def test_a_transaction_that_fails_writes_no_row(cache: SharedCache, sql: Sql) -> None:
    sql("CREATE TRIGGER t BEFORE INSERT ON Cache WHEN NEW.key = 'b' BEGIN"
        " SELECT RAISE(ABORT, 'no b'); END")  # fmt: skip
    with pytest.raises(sqlite3.DatabaseError, match="no b"):
        cache.add_all([("a", b"1"), ("b", b"2")])
    assert cache.find("a") == [None]
    assert cache.add_all([("a", b"1")]) == [True]


def test_a_row_that_breaks_a_rule_of_others_is_not_told_as_one_whose_name_is_taken(
    cache: SharedCache, sql: Sql
) -> None:
    sql("CREATE UNIQUE INDEX planted ON Cache(mode)")
    rows = [("another", b"value")]

    with pytest.raises(sqlite3.IntegrityError):  # else who adds it would try for ever
        cache.add_all(rows)
    with pytest.raises(sqlite3.IntegrityError):
        cache.rewrite(lambda _rows: RowChanges(added=rows))


def test_a_full_disk_is_told_as_it_is(cache: SharedCache) -> None:
    cache._con.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        cache.add_all([("a", b"x" * 100_000)])


# Opening


def test_settings_are_ours_and_replace_those_of_an_earlier_opener(folder: Path, sql: Sql) -> None:
    diskcache.Cache(str(folder)).close()
    open_cache(folder).close()
    settings = dict(sql("SELECT key, value FROM Settings"))
    wanted = {
        "eviction_policy": "none",
        "cull_limit": 0,
        "size_limit": 2**62,
        "disk_min_file_size": 2**62,
        "sqlite_synchronous": 2,
        "statistics": 0,
        "tag_index": 0,
    }
    assert {name: settings[name] for name in wanted} == wanted


def test_connection_is_durable_patient_and_wary(cache: SharedCache) -> None:
    pragmas = ["journal_mode", "synchronous", "mmap_size", "trusted_schema", "cell_size_check"]
    found = [cache._con.execute(f"PRAGMA {pragma}").fetchone()[0] for pragma in pragmas]
    assert found == ["wal", 2, 0, 0, 1]
    assert cache.timeout == 60


def test_closing_ends_the_connection_and_the_next_use_opens_another(cache: SharedCache) -> None:
    connection = cache._con
    cache.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    assert cache.find("name") == [b"value"]


def test_threads_share_one_connection(cache: SharedCache) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(cache.find, "name").result() == [b"value"]
        assert pool.submit(lambda: cache._con).result() is cache._con


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_directory_is_private_whatever_the_umask(home: Path, umask: int) -> None:
    home.mkdir()
    before = os.umask(umask)
    try:
        open_cache(home / "cache").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((home / "cache").stat().st_mode) == 0o700


def test_a_path_with_a_dollar_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELSEWHERE", "elsewhere")
    cache = open_cache(tmp_path / "$ELSEWHERE")
    cache.close()
    assert (tmp_path / "$ELSEWHERE" / "cache.db").exists()


def test_a_setting_that_would_become_an_attribute_is_refused(
    cache: SharedCache, folder: Path, sql: Sql, tmp_path: Path
) -> None:
    cache.close()
    sql("INSERT INTO Settings VALUES ('_directory', ?)", str(tmp_path))
    with pytest.raises(sqlite3.DatabaseError, match="_directory"):
        open_cache(folder)
    assert not (tmp_path / "cache.db").exists()


@pytest.mark.parametrize("name", ["cache.db", "cache.db-wal", "cache.db-journal", "other"])
def test_a_planted_link_is_refused(folder: Path, victim: Path, name: str) -> None:
    folder.mkdir()
    (folder / name).symlink_to(victim)
    with pytest.raises(sqlite3.DatabaseError, match=f"{name} is a symbolic link"):
        open_cache(folder)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["cache.db", "cache.db-wal", "cache.db-shm", "cache.db-journal"])
def test_a_planted_pipe_is_refused_and_not_waited_for(folder: Path, name: str) -> None:
    folder.mkdir()
    os.mkfifo(folder / name)
    with pytest.raises(sqlite3.DatabaseError, match=f"{name} is no regular file"):
        open_cache(folder)


@pytest.mark.parametrize("name", ["cache.db-wal", "cache.db-shm", "cache.db-journal"])
def test_a_file_of_holes_that_is_larger_than_memory_does_no_harm(
    cache: SharedCache, folder: Path, name: str
) -> None:
    cache.close()
    with (folder / name).open("wb") as file:
        file.truncate(2**43)
    again = open_cache(folder)
    assert again.find("name") == [b"value"]
    again.close()


def super_journal(database: Path, victim: Path) -> bytes:
    """A rollback journal after which SQLite deletes a file: any file."""
    magic = bytes.fromhex("d9d505f920a163d7")
    pages = database.stat().st_size // 4096
    header = magic + struct.pack(">5I", 0, 0, pages, 512, 4096)
    name = os.fsencode(victim)
    lock_page = 0x40000000 // 4096 + 1
    trailer = struct.pack(">I", lock_page) + name + struct.pack(">2I", len(name), sum(name))
    return header.ljust(512, b"\0") + trailer + magic


def test_a_planted_journal_that_deletes_a_file_is_refused(
    cache: SharedCache, folder: Path, victim: Path
) -> None:
    cache.close()
    database = folder / "cache.db"
    (folder / "cache.db-journal").write_bytes(super_journal(database, victim))
    with pytest.raises(sqlite3.DatabaseError, match="names a file to delete"):
        open_cache(folder)
    assert victim.exists()


def test_without_us_that_journal_does_delete_a_file(
    cache: SharedCache, folder: Path, victim: Path
) -> None:
    cache.close()
    database = folder / "cache.db"
    (folder / "cache.db-journal").write_bytes(super_journal(database, victim))
    diskcache.Cache(str(folder)).close()
    if victim.exists():
        pytest.skip(f"SQLite {sqlite3.sqlite_version} does so no more")


def test_an_ordinary_journal_is_none_of_our_business(cache: SharedCache, folder: Path) -> None:
    cache.close()
    (folder / "cache.db-journal").touch()
    again = open_cache(folder)
    assert again.find("name") == [b"value"]
    again.close()
