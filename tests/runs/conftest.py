from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_llmeval.runs.ci import ON_LAPTOP
from pytest_llmeval.runs.git import GitState, read_state
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.store import RunStore
from tests.project import GIT_CONFIG
from tests.runs.builders import make_run


class Project:
    """A git repository with a store of runs in it."""

    def __init__(self, top: Path, *, commits: int = 0) -> None:
        self.top = top
        self.store = RunStore(top / ".llmeval")
        self.ci = ON_LAPTOP
        self._seconds = 0
        self._commits = commits

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.top), *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def begin(self) -> Project:
        self.top.mkdir(exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main", "--template=")
        info = self.top / ".git" / "info"
        info.mkdir()
        (info / "exclude").write_text(".llmeval\n")
        return self

    def commit(self) -> str:
        """Commit everything, and a file that differs each time; returns the hash."""
        self._commits += 1
        (self.top / f"commit-{self._commits}.txt").write_text(f"{self.top}\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message=commit {self._commits}")
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    @property
    def state(self) -> GitState:
        return read_state(self.top)

    @property
    def refs(self) -> Refs:
        return Refs(self.store, self.state, self.ci)

    def record(self, commit: str | None = None, **changes) -> str:
        """Store a run of a commit, of HEAD if none is given; returns its id."""
        self._seconds += 1
        run_id = f"20261121T0841{self._seconds:02}-1a2b3c"
        run = make_run(id=run_id, commit=commit or self.head, **changes)
        self.store.save(run)
        return run_id


@pytest.fixture(autouse=True)
def _own_git(monkeypatch, tmp_path):
    """Git as it is out of the box, and no repository but those of the test."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(GIT_CONFIG))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "ada@example.org")


@pytest.fixture
def project(tmp_path, monkeypatch, originals):
    """A repository with one commit on main; the working directory is its top."""
    first = Project(originals / "runs")
    if not first.top.exists():
        first.begin()
        (first.top / "prompt.txt").write_text("Name the capital.\n")
        (first.top / "test_evals.py").write_text("from pytest_llmeval import llm_eval\n")
        first.commit()
    project = Project(tmp_path / "project", commits=1)
    shutil.copytree(first.top, project.top)
    monkeypatch.chdir(project.top)
    return project


@pytest.fixture
def no_git(monkeypatch, tmp_path):
    """A machine without git."""
    monkeypatch.setenv("PATH", str(tmp_path))
