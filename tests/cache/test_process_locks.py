"""What a process does about claims when it cannot have one, seen from inside."""

from __future__ import annotations

import errno
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache import process_locks
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.process_locks import FILE, ProcessLocks, file_lock, lack_of_locks
from pytest_llmeval.errors import CacheUnusable
from tests.cache.calls import locked


def test_where_the_system_has_no_such_locks_nothing_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.spec_from_file_location("claims_elsewhere", process_locks.__file__)
    assert spec is not None
    assert spec.loader is not None
    elsewhere: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, elsewhere)  # as dataclasses want it
    spec.loader.exec_module(elsewhere)

    with locked(elsewhere.ProcessLocks(tmp_path, patience=1, warn=print), "draw"):
        assert not (tmp_path / FILE).exists()


def make_locks(directory: Path) -> ProcessLocks:
    return ProcessLocks(directory, patience=30, warn=sys.exit)


def test_what_another_process_claims_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lockf, refusals = process_locks.fcntl.lockf, [BlockingIOError(), PermissionError()]

    def refuse_twice(*arguments: Any) -> None:
        if refusals:
            raise refusals.pop()
        lockf(*arguments)

    monkeypatch.setattr(process_locks.fcntl, "lockf", refuse_twice)
    own = make_locks(tmp_path)

    with locked(own, "draw"):
        assert refusals == []
    own.close()


@pytest.mark.parametrize("unknown", ["to this system", "to us"])
def test_who_has_waited_too_long_for_somebody_unknown_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unknown: str
) -> None:
    def refuse(*_arguments: Any) -> None:
        raise BlockingIOError

    warned: list[str] = []
    monkeypatch.setattr(process_locks.fcntl, "lockf", refuse)
    if unknown == "to us":
        monkeypatch.setattr(process_locks.sys, "platform", "elsewhere")
    own = ProcessLocks(tmp_path, patience=0.01, warn=warned.append)

    with locked(own, "draw"):
        pass
    own.close()

    assert [line.partition(" waits")[0] for line in warned] == ["another process"]


def test_a_file_that_another_thread_has_opened_or_replaced_is_not_opened_again(
    tmp_path: Path,
) -> None:
    own = make_locks(tmp_path)
    with locked(own, "draw"):
        before = own._opened
        assert before is not None
        own._open_instead(before._replace(descriptor=-1))
        own._open_instead(None)
        assert own._opened is before
    own.close()


def no_room(*_arguments: object) -> int:
    raise OSError(28, "no space left")


def lock(own: ProcessLocks) -> None:
    with locked(own, "draw"):
        pass


@pytest.mark.parametrize("is_there_again", [False, True])
def test_a_file_that_was_removed_is_made_anew(tmp_path: Path, is_there_again: bool) -> None:
    own, other = make_locks(tmp_path), make_locks(tmp_path)
    lock(own)
    before = own._opened
    (tmp_path / FILE).unlink()
    if is_there_again:
        lock(other)

    with locked(own, "draw"):
        assert own._opened is not before
        assert (tmp_path / FILE).stat().st_ino == own._opened.identity.st_ino
    other.close()
    own.close()


def test_without_room_for_a_file_that_was_removed_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make_locks(tmp_path)  # a warning that it was waited for in vain would end the test
    lock(own)
    (tmp_path / FILE).unlink()
    monkeypatch.setattr(process_locks.Files, "open", no_room)
    waits: list[float] = []
    monkeypatch.setattr(process_locks.Clock, "sleep", waits.append)

    lock(own)
    assert waits == [process_locks.SHORTEST_PAUSE]
    own.close()


@pytest.mark.parametrize("kind", ["hard link", "pipe"])
def test_what_may_be_somebody_elses_is_not_written_to(tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    if kind == "pipe":
        os.mkfifo(tmp_path / FILE)
    else:
        (tmp_path / FILE).hardlink_to(victim)
    own = make_locks(tmp_path)
    lock(own)

    assert victim.read_text() == "theirs"
    own.close()


def refuse_locks(*_arguments: Any) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.mark.parametrize("name", [".", "not/yet/made"])
def test_a_disk_without_locks_is_told_at_once_with_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert lack_of_locks(tmp_path / name) == ""
    monkeypatch.setattr(process_locks.fcntl, "lockf", refuse_locks)

    told = lack_of_locks(tmp_path / name)

    assert "no file can be locked in" in told
    assert "No locks available" in told
    assert "--llm-dir" in told
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_tried_is_no_lack_of_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(process_locks.Files, "open", refuse)
    assert lack_of_locks(tmp_path / "missing") == ""
    monkeypatch.undo()
    monkeypatch.setattr(process_locks, "fcntl", None)  # as on Windows
    assert lack_of_locks(tmp_path) == ""


def test_a_cache_on_a_disk_without_locks_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_locks.fcntl, "lockf", refuse_locks)
    warned: list[str] = []
    store = Store(tmp_path, warn=warned.append)

    for _ in range(2):  # at the second time from memory
        with pytest.raises(CacheUnusable, match=r"no file can be locked .*--llm-dir"):
            store.find("name")

    assert not (tmp_path / "cache").exists()
    assert warned == []


@pytest.mark.parametrize(("owner", "name"), [("fcntl", "flock"), ("", "fcntl")])
def test_where_there_are_no_locks_of_whole_files_all_are_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str, name: str
) -> None:
    monkeypatch.setattr(
        getattr(process_locks, owner, process_locks), name, refuse_locks if owner else None
    )
    with file_lock(tmp_path / "lock"), file_lock(tmp_path / "lock"):
        pass
