from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from pytest_llmeval.models.limits.journal import DAY, Journal, note_end, process_name
from pytest_llmeval.settings import Settings


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "not yet made"


@pytest.fixture
def path(directory: Path) -> Path:
    return directory / "pace" / "session.jsonl"


def shared_file(directory: Path) -> Journal:
    return Journal(directory, "session", folder="pace")


def test_others_read_each_entry_once(directory: Path) -> None:
    reader, writer = shared_file(directory), shared_file(directory)
    writer.append(1)
    writer.append(2)

    assert reader.unread() == [[1], [2]]
    assert reader.unread() == []
    writer.append(3)
    assert reader.unread() == [[3]]


def test_without_a_file_there_is_no_entry(directory: Path) -> None:
    assert shared_file(directory).unread() == []
    assert not directory.exists()


def test_a_line_in_the_making_is_read_when_it_is_whole(directory: Path, path: Path) -> None:
    reader = shared_file(directory)
    shared_file(directory).append(1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    assert reader.unread() == []

    path.write_bytes(whole)
    assert reader.unread() == [[1]]


def test_a_file_that_was_removed_begins_anew(directory: Path) -> None:
    reader, writer = shared_file(directory), shared_file(directory)
    for number in range(3):
        writer.append(number)
    reader.unread()
    writer.remove()
    writer.remove()
    writer.append(4)

    assert reader.unread() == [[4]]


def test_it_keeps_out_of_git_and_leaves_no_folder(directory: Path, path: Path) -> None:
    shared_file(directory).append("entry")
    assert (directory / ".gitignore").read_text() == "*\n"
    assert path.exists()

    shared_file(directory).remove()
    assert [entry.name for entry in directory.iterdir()] == [".gitignore"]


def test_only_its_owner_may_read_it(directory: Path, path: Path) -> None:
    shared_file(directory).append("entry")

    assert os.stat(path).st_mode & 0o077 == 0  # noqa: PTH116


@pytest.mark.parametrize("line", [b"", b"{", b'{"a": 1}', b"\xff", b"1"])
def test_a_line_that_is_no_list_is_skipped(directory: Path, path: Path, line: bytes) -> None:
    shared_file(directory).append(1)
    path.write_bytes(line + b"\n" + path.read_bytes())

    assert shared_file(directory).unread() == [[1]]


def append_many(directory: Path) -> None:
    writer = shared_file(directory)
    for number in range(200):
        writer.append(number)


def test_processes_that_write_at_once_lose_no_line(directory: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=append_many, args=(directory,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert len(shared_file(directory).unread()) == 400


def test_the_processes_of_a_session_read_the_same(tmp_path: Path) -> None:
    one, other = (Journal(tmp_path, "session") for _ in range(2))
    one.append("take", "a:0", "1")
    assert other.unread() == [["take", "a:0", "1"]]
    other.append("take", "b:0", "2")
    one.append("end", "a:0", "1", "1")

    assert other.unread() == [["take", "b:0", "2"], ["end", "a:0", "1", "1"]]
    assert one.unread() == [["take", "a:0", "1"], ["take", "b:0", "2"], ["end", "a:0", "1", "1"]]
    assert one.unread() == []


def test_a_line_that_a_killed_process_left_unfinished_spoils_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "session")
    journal.append("take", "a:0", "1")
    with (tmp_path / "caps" / "session.jsonl").open("ab") as file:
        file.write(b'\n["take", "b:')
    journal.append("take", "c:0", "1")

    assert journal.unread() == [["take", "a:0", "1"], ["take", "c:0", "1"]]


def test_the_file_is_there_from_the_first_entry_to_the_end(tmp_path: Path) -> None:
    directory = tmp_path / ".llmeval"
    journal = Journal(directory, "session")
    assert journal.unread() == []
    note_end(journal, "gw0")
    assert not directory.exists()

    journal.append("take", "gw0:0", "1")
    note_end(journal, "gw0")
    assert (directory / ".gitignore").exists()
    assert journal.unread()[-1] == ["gone", "gw0"]

    journal.remove()
    assert not (directory / "caps").exists()
    journal.remove()


def test_what_killed_sessions_left_goes_after_a_day(tmp_path: Path) -> None:
    ages = {"living": DAY / 2, "killed": DAY + 60}
    for session, age in ages.items():
        Journal(tmp_path, session).append("take", "a:0", "1")
        then = time.time() - age
        os.utime(tmp_path / "caps" / f"{session}.jsonl", (then, then))
    journal = Journal(tmp_path, "this")
    journal.append("take", "a:0", "1")

    assert {file.stem for file in (tmp_path / "caps").iterdir()} == {"living", "this"}
    assert journal.unread() == [["take", "a:0", "1"]]


def test_a_folder_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "caps").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="caps is a symbolic link"):
        Journal(tmp_path, "session").append("take", "a:0", "1")

    assert list((tmp_path / "theirs").iterdir()) == []


def test_processes_of_a_baseline_have_names_of_their_own() -> None:
    names = {
        process_name(worker, Settings(session="", makes_baseline=is_base))
        for worker in ("", "gw0")
        for is_base in (False, True)
    }
    assert names == {"here", "gw0", "base-here", "base-gw0"}
