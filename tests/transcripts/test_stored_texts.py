from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmeval.records import Call, Slot
from pytest_llmeval.transcripts.transcript import StoredTexts
from tests.transcripts.recorded import Recorder, said, user


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".llmeval"


@pytest.fixture
def recorder(home: Path) -> Iterator[Recorder]:
    recorder = Recorder(home)
    yield recorder
    recorder.store.close()


def text_of(home: Path, call: Call) -> str | None:
    with StoredTexts(home) as stored:
        reply = stored.reply(call)
    return None if reply is None else reply[0].text


def test_a_draw_is_found_by_its_id_among_those_of_its_slot(recorder: Recorder, home: Path) -> None:
    first = recorder.call([user("Peru?")], said("Lima"), trial=0)
    second = recorder.call([user("Peru?")], said("Cusco"), trial=0)
    recorder.store.add(f"{first.key}/0/0/spare/{'d' * 32}", b"no reply")

    assert first.key == second.key
    assert (text_of(home, first), text_of(home, second)) == ("Lima", "Cusco")
    with StoredTexts(home) as stored:
        assert stored.has(first)
        assert not stored.has(replace(first, draw="e" * 32))


def test_nothing_else_stands_in_for_a_draw_that_is_not_here(recorder: Recorder, home: Path) -> None:
    call = recorder.call([user("Peru?")], said("Lima"), trial=1)

    assert text_of(home, replace(call, draw="e" * 32)) is None
    assert text_of(home, replace(call, slot=Slot(10, 0))) is None
    assert text_of(home, replace(call, draw=None)) is None


def test_a_request_is_found_by_its_key(recorder: Recorder, home: Path) -> None:
    call = recorder.call([user("Peru?")], said("Lima"), trial=0)

    with StoredTexts(home) as stored:
        found = stored.request(call.key)
        missing = stored.request("0" * 64)

    assert found is not None
    assert found.messages[0].text == "Peru?"
    assert missing is None


def test_what_an_open_cache_has_just_written_is_seen(recorder: Recorder, home: Path) -> None:
    call = recorder.call([user("Peru?")], said("Lima"), trial=0)
    assert (home / "cache" / "cache.db-wal").stat().st_size

    assert text_of(home, call) == "Lima"


def test_a_closed_cache_is_read_without_a_file_made_or_changed(
    recorder: Recorder, home: Path
) -> None:
    call = recorder.call([user("Peru?")], said("Lima"), trial=0)
    recorder.store.close()
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}

    assert text_of(home, call) == "Lima"
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


def test_where_there_is_no_cache_none_is_made(recorder: Recorder, home: Path) -> None:
    call = recorder.call([user("Peru?")], said("Lima"), trial=0)
    recorder.store.close()
    shutil.rmtree(home)

    assert text_of(home, call) is None
    assert not home.exists()


@pytest.mark.parametrize(
    "column", ["value = x'00'", "value = 'text'", "mode = 4", "filename = 'x'"]
)
def test_a_row_that_was_planted_or_damaged_is_a_text_that_is_not_here(
    recorder: Recorder, home: Path, column: str
) -> None:
    call = recorder.call([user("Peru?")], said("Lima"), trial=0)
    recorder.store.close()
    with sqlite3.connect(home / "cache" / "cache.db") as connection:
        connection.execute(f"UPDATE Cache SET {column}")  # noqa: S608 - the statements above
    connection.close()

    assert text_of(home, call) is None
    with StoredTexts(home) as stored:
        assert stored.request(call.key) is None


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 9000])
def test_a_damaged_database_is_left_as_it_is(
    recorder: Recorder, home: Path, content: bytes
) -> None:
    call = recorder.call([user("Peru?")], said("Lima"), trial=0)
    recorder.store.close()
    database = home / "cache" / "cache.db"
    database.write_bytes(content)

    assert text_of(home, call) is None
    assert database.read_bytes() == content
    assert [path.name for path in database.parent.iterdir()] == ["cache.db"]


def test_a_database_that_breaks_further_in_is_no_crash(recorder: Recorder, home: Path) -> None:
    calls = [recorder.call([user(f"{n}?")], said("Lima" * n), trial=0) for n in range(300)]
    recorder.store.close()
    database = home / "cache" / "cache.db"
    content = database.read_bytes()
    database.write_bytes(content[:8192] + b"\xa5" * (len(content) - 8192))

    assert {text_of(home, call) for call in calls[::20]} == {None}
    with StoredTexts(home) as stored:
        assert stored.request(calls[0].key) is None


def test_a_folder_that_is_a_link_is_not_followed(
    recorder: Recorder, home: Path, tmp_path: Path
) -> None:
    call = recorder.call([user("Peru?")], said("Lima"), trial=0)
    recorder.store.close()
    (home / "cache").rename(tmp_path / "elsewhere")
    (home / "cache").symlink_to(tmp_path / "elsewhere")

    assert text_of(home, call) is None
