"""A commit is checked out from a repository of our own, and the user's one stays as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_llmeval.cache import process_locks
from pytest_llmeval.cache.process_locks import file_lock
from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.git import has_commit
from pytest_llmeval.runs.own_repository import LOCK, OwnRepository
from tests.platforms import needs
from tests.runs.conftest import Project

fcntl = needs("fcntl", "files are locked in another way")


@pytest.fixture
def own(project: Project) -> OwnRepository:
    own = OwnRepository(project.top / ".llmeval", top=project.top)
    own.prepare()
    return own


def everything_of(project: Project) -> dict[str, bytes]:
    """The content of all files of the user's repository but its objects, by path."""
    folder = project.top / ".git"
    files = [path for path in folder.rglob("*") if path.is_file() and "objects" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_commit_is_checked_out_whole_and_removed(project, own, tmp_path):
    first = project.head
    (project.top / "prompt.txt").write_text("Name it.\n")
    second, place = project.commit(), tmp_path / "elsewhere" / "project"
    before = everything_of(project)

    with own.worktree(first, place):
        assert (place / "prompt.txt").read_text() == "Name the capital.\n"
        found = Project(place).state
        assert (found.commit, found.dirty, found.branch) == (first, False, None)

    assert not place.exists()
    assert list((own.path / "worktrees").glob("*")) == []
    assert (project.head, everything_of(project)) == (second, before)


def test_it_is_removed_after_ctrl_c(project, own, tmp_path):
    place = tmp_path / "elsewhere"

    def interrupted() -> None:
        with own.worktree(project.head, place):
            (place / "made-by-a-test.txt").write_text("")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not place.exists()


def test_commits_made_since_are_seen(project, own):
    assert has_commit(project.commit(), top=own.path)


def test_what_is_not_here_is_said_in_the_words_of_git(project, own, tmp_path):
    unknown = "0123456789" * 4
    assert not has_commit(unknown, top=own.path)
    with pytest.raises(GitFailed, match="0123456789"), own.worktree(unknown, tmp_path / "place"):
        pass
    assert not (tmp_path / "place").exists()


def test_hooks_of_the_user_do_not_run(project, own, tmp_path, monkeypatch):
    hooks, config = tmp_path / "hooks", tmp_path / "config"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (hooks / "post-checkout").chmod(0o755)
    config.write_text(f"[core]\n\thooksPath = {hooks}\n[safe]\n\tbareRepository = explicit\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))

    with own.worktree(project.head, tmp_path / "place"):
        assert not (tmp_path / "ran").exists()


def test_a_commit_at_the_end_of_a_cut_history_is_checked_out(project, tmp_path):
    base = project.commit()
    project.commit()
    project.git("clone", "--quiet", "--depth=2", project.top.as_uri(), str(tmp_path / "shallow"))
    shallow = Project(tmp_path / "shallow")
    own = OwnRepository(shallow.top / ".llmeval", top=shallow.top)
    own.prepare()

    with own.worktree(base, tmp_path / "place"):
        assert Project(tmp_path / "place").head == base


def test_it_is_not_made_through_a_link(project, tmp_path):
    directory = project.top / ".llmeval"
    directory.mkdir()
    (directory / "git").symlink_to(tmp_path)
    with pytest.raises(OSError, match="symbolic link"):
        OwnRepository(directory, top=project.top).prepare()


def test_a_machine_without_git_says_so(project, own, no_git):
    with pytest.raises(GitFailed, match="git cannot be run"):
        own.prepare()
    assert os.environ["PATH"]


def test_a_repository_of_other_hashes_is_read_too(tmp_path: Path) -> None:
    top = tmp_path / "project"
    project = Project(top)
    top.mkdir()
    project.git("init", "--quiet", "--object-format=sha256")
    commit = project.commit()
    own = OwnRepository(top / ".llmeval", top=top)
    own.prepare()

    assert len(commit) == 64
    assert has_commit(commit, top=own.path)


def test_it_is_used_where_there_are_no_locks_for_files(project, own, monkeypatch, tmp_path):
    monkeypatch.setattr(process_locks, "fcntl", None)
    with own.worktree(project.head, tmp_path / "place"):
        assert (tmp_path / "place").exists()


def test_one_session_at_a_time_writes_in_it(own):
    with (own.path / LOCK).open("a") as file:
        with file_lock(own.path / LOCK), pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("place", [".gitattributes", ".git/info/attributes"])
def test_filters_of_the_user_act_in_it(project: Project, tmp_path: Path, place: str) -> None:
    for way in ("clean", "smudge"):
        project.git("config", f"filter.turned.{way}", "tr a-z zyxwvutsrqponmlkjihgfedcba")
    (project.top / place).parent.mkdir(exist_ok=True)
    (project.top / place).write_text("secret.txt filter=turned\n")
    (project.top / "secret.txt").write_text("be brief\n")
    commit = project.commit()
    own = OwnRepository(tmp_path / ".llmeval", top=project.top)
    own.prepare()

    with own.worktree(commit, tmp_path / "place"):
        assert (tmp_path / "place" / "secret.txt").read_text() == "be brief\n"

    assert own.filters["GIT_CONFIG_KEY_0"].startswith("filter.turned.")
    assert project.git("show", f"{commit}:secret.txt") != "be brief"
