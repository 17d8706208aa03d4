from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pytest_llmeval.cache.disk import SharedCache
from pytest_llmeval.cache.queries import RowReader
from pytest_llmeval.cache.reply import Value
from pytest_llmeval.errors import RowRefused

NAMES = ("k/0/0/0", "k/0/0/1", "k/0/0/spare/d", "k/0/00", "k/0/1/0", "other")


def value(reader: RowReader, name: str) -> Value | None:
    return reader.find(name)[0]


def values(reader: RowReader, beginning: str) -> list[Value]:
    return [row.value for row in reader.below(beginning)]


@pytest.fixture
def database(cache: SharedCache, folder: Path) -> Path:
    cache.add_all([(name, name.encode()) for name in NAMES])
    return folder / "cache.db"


def test_rows_are_found_by_the_beginning_of_their_names(database: Path) -> None:
    reader = RowReader(database)

    assert values(reader, "k/0/0/") == [b"k/0/0/spare/d", b"k/0/0/1", b"k/0/0/0"]
    assert values(reader, "nothing/") == []
    assert value(reader, "other") == b"other"
    assert value(reader, "nothing") is None
    reader.close()
    reader.close()
    assert (value(reader, "other"), values(reader, "k/0/0/")) == (None, [])


def test_what_is_open_elsewhere_is_read_with_what_was_just_written(
    cache: SharedCache, database: Path
) -> None:
    assert database.with_name("cache.db-wal").stat().st_size
    reader = RowReader(database)
    cache.add_all([("late", b"late")])

    assert value(reader, "late") == b"late"
    reader.close()


def test_a_closed_database_is_read_without_a_file_beside_it(
    cache: SharedCache, database: Path
) -> None:
    cache.close()
    reader = RowReader(database)

    assert value(reader, "other") == b"other"
    assert [path.name for path in database.parent.iterdir()] == ["cache.db"]
    reader.close()


def test_rows_of_others_are_refused(cache: SharedCache, database: Path) -> None:
    cache.close()
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE Cache SET mode = 4")
    connection.close()
    reader = RowReader(database)

    assert {type(value) for value in values(reader, "k/0/0/")} == {RowRefused}
    assert isinstance(value(reader, "other"), RowRefused)
    reader.close()


@pytest.mark.parametrize("has_log", [False, True])
def test_where_there_is_no_database_there_are_no_rows(tmp_path: Path, has_log: bool) -> None:
    database = tmp_path / "cache.db"
    if has_log:
        database.with_name("cache.db-wal").write_bytes(b"x")
    reader = RowReader(database)

    assert (value(reader, "other"), values(reader, "k/0/0/")) == (None, [])
    assert not database.exists()


def test_what_is_no_database_has_no_rows(tmp_path: Path) -> None:
    database = tmp_path / "cache.db"
    database.write_bytes(b"no database" * 100)
    reader = RowReader(database)

    assert (value(reader, "other"), values(reader, "k/0/0/")) == (None, [])
    reader.close()


def test_a_database_that_breaks_while_it_is_read_has_no_rows(
    cache: SharedCache, database: Path
) -> None:
    cache.close()
    reader = RowReader(database)
    content = database.read_bytes()
    with database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (len(content) - 4096))

    assert (value(reader, "nothing"), values(reader, "k/0/0/")) == (None, [])
    reader.close()


def test_whether_any_slot_has_several_replies_is_known(cache: SharedCache, folder: Path) -> None:
    reader = RowReader(folder / "cache.db")
    cache.add_all([("k/0/0/0", b""), ("k/0/1/0", b""), ("k/shared/1/0", b"")])
    assert not reader.has_choice()

    cache.add_all([("k/shared/1/1", b"")])

    assert reader.has_choice()
    reader.close()
    assert not reader.has_choice()
    assert not RowReader(folder / "nothing.db").has_choice()


def test_a_spare_reply_is_one_of_several(cache: SharedCache, folder: Path) -> None:
    cache.add_all([("k/0/0/0", b""), ("k/0/0/spare/d", b"")])

    assert RowReader(folder / "cache.db").has_choice()
