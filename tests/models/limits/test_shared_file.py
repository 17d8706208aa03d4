from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pytest_llmeval.models.limits.shared_file import DAY
from pytest_llmeval.models.limits.spending import journal_of, note_end


def test_the_processes_of_a_session_read_the_same(tmp_path: Path) -> None:
    one, other = (journal_of(tmp_path, "session") for _ in range(2))
    one.append("take", "a:0", "1")
    assert other.unread() == [["take", "a:0", "1"]]
    other.append("take", "b:0", "2")
    one.append("end", "a:0", "1", "1")

    assert other.unread() == [["take", "b:0", "2"], ["end", "a:0", "1", "1"]]
    assert one.unread() == [["take", "a:0", "1"], ["take", "b:0", "2"], ["end", "a:0", "1", "1"]]
    assert one.unread() == []


def test_a_line_that_a_killed_process_left_unfinished_spoils_no_other(tmp_path: Path) -> None:
    journal = journal_of(tmp_path, "session")
    journal.append("take", "a:0", "1")
    with (tmp_path / "caps" / "session.jsonl").open("ab") as file:
        file.write(b'\n["take", "b:')
    journal.append("take", "c:0", "1")

    assert journal.unread() == [["take", "a:0", "1"], ["take", "c:0", "1"]]


def test_the_file_is_there_from_the_first_entry_to_the_end(tmp_path: Path) -> None:
    directory = tmp_path / ".llmeval"
    journal = journal_of(directory, "session")
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
        journal_of(tmp_path, session).append("take", "a:0", "1")
        then = time.time() - age
        os.utime(tmp_path / "caps" / f"{session}.jsonl", (then, then))
    journal = journal_of(tmp_path, "this")
    journal.append("take", "a:0", "1")

    assert {file.stem for file in (tmp_path / "caps").iterdir()} == {"living", "this"}
    assert journal.unread() == [["take", "a:0", "1"]]


def test_a_folder_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "caps").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="caps is a symbolic link"):
        journal_of(tmp_path, "session").append("take", "a:0", "1")

    assert list((tmp_path / "theirs").iterdir()) == []
