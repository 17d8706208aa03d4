"""What a killed session left is removed by a later one, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_llmeval.engine.rerun.scratch import A_DAY, scratch_folder


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left(folder: Path, *, by: int | str, age: float = A_DAY + 60) -> Path:
    """Make the folder of a process."""
    made = folder / f"llmeval-{by}-x1"
    (made / "project").mkdir(parents=True)
    (made / "project" / "app.py").touch()
    os.utime(made, (time.time() - age, time.time() - age))
    return made


def dead() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_it_is_there_as_long_as_it_is_needed(scratch: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == Path(os.path.realpath(scratch))
        (folder / "outcome.json").touch()
    assert list(scratch.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="nobody can ask whether a process lives")
def test_what_a_killed_session_left_goes_after_a_day(scratch: Path) -> None:
    pid = dead()
    old = left(scratch, by=pid)
    with scratch_folder():
        assert not old.exists()


def test_what_may_be_in_use_stays(scratch: Path) -> None:
    kept = [
        left(scratch, by=os.getpid()),
        left(scratch, by=os.getppid()),
        left(scratch, by=dead(), age=A_DAY - 60),
        left(scratch, by="x"),
        left(scratch, by="9" * 30),
    ]
    with scratch_folder():
        assert all(folder.exists() for folder in kept)


@pytest.mark.skipif(os.name == "nt", reason="files have no numbers of users")
def test_a_folder_of_somebody_else_and_a_link_stay(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = left(scratch, by=dead())
    link = scratch / f"llmeval-{dead()}-x2"
    link.symlink_to(others)
    monkeypatch.setattr("os.getuid", lambda: others.stat().st_uid + 1)
    with scratch_folder():
        assert (others / "project" / "app.py").exists()
        assert link.is_symlink()
