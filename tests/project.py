"""A small application with evals in a git repository of its own, for tests of the plugin."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from tests.report_schema import check_report

GIT_CONFIG = Path(__file__).with_name("gitconfig")
MODEL = '''
from pathlib import Path

CALLS = Path(__file__).with_name("calls.log")


def answer(messages, *, draw, **params):
    """Says the rate that the prompt names, at that rate; notes every call."""
    with CALLS.open("a") as file:
        file.write(f"{draw.trial}\\n")
    question = messages[-1]["content"]
    rate = float(question.rpartition("rate=")[2] or 1)
    return "yes" if draw.rng.random() < rate else "no"
'''

EVALS = """
import pytest
from pytest_llmeval import llm_eval
from app import PROMPT


@llm_eval(repeats=5)
@pytest.mark.parametrize("case", [f"case-{i}" for i in range(20)])
def test_says_yes(llm, case):
    assert llm.ask(PROMPT.format(case=case)).text == "yes"
"""

# For sessions of which no figure counts: a third of the trials, in a third of the time.
SMALL = EVALS.replace("range(20)", "range(10)").replace("repeats=5", "repeats=3")

APP = 'PROMPT = "Say yes to {case}. rate=0.8"\n'

INI = """
[pytest]
llm_model = function/model:answer
pythonpath = .
"""


class Project:
    """Files, commits and sessions of one project."""

    def __init__(self, pytester: pytest.Pytester | SimpleNamespace) -> None:
        self.pytester = pytester
        self.path = pytester.path

    def write(self, **files: str) -> None:
        """Write files; ``app=`` is app.py, ``pytest_ini=`` is pytest.ini."""
        for name, text in files.items():
            stem, _, ending = name.rpartition("_")
            file = f"{stem}.{ending}" if ending in ("ini", "json", "txt", "toml") else f"{name}.py"
            path = self.path / file
            path.write_text(dedent(text))
            # Bytecode goes by size and second: of two versions so alike the older would run.
            for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
                stale.unlink()

    def git(self, *arguments: str) -> str:
        """Run git in the project."""
        environment = os.environ | {
            "GIT_CONFIG_GLOBAL": str(GIT_CONFIG),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "T",
            "GIT_AUTHOR_EMAIL": "t@example.com",
            "GIT_COMMITTER_NAME": "T",
            "GIT_COMMITTER_EMAIL": "t@example.com",
        }
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=environment, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def commit(self, message: str = "change") -> str:
        """Commit everything and return the hash."""
        self.git("add", "-A")
        self.git("commit", "-qm", message)
        return self.git("rev-parse", "HEAD")

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in this process."""
        return self.pytester.runpytest("-p", "no:cacheprovider", *arguments)

    def gate(self, *arguments: str) -> tuple[pytest.RunResult, dict[str, Any]]:
        """Run pytest with a JSON report, and read it."""
        result = self.run("--llm-report=out/report.json", *arguments)
        report = json.loads((self.path / "out" / "report.json").read_text())
        check_report(report)
        return result, report

    def calls(self) -> int:
        """Count the calls made since the last time, and forget them."""
        log = self.path / "calls.log"
        count = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        return count

    def runs(self) -> list[Path]:
        """List the run files, oldest first."""
        return sorted((self.path / ".llmeval" / "runs").rglob("*.jsonl.gz"), key=lambda p: p.name)


def made_once(
    original: Path, pytester: pytest.Pytester, make: Callable[[Project], None]
) -> Project:
    """Make a project that takes a session to make; where that was done before, copy it.

    Args:
        original: where the project lies that was made first.
        make: does it, to one with a commit on main.
    """
    if original.exists():
        shutil.copytree(original, pytester.path, dirs_exist_ok=True)
        return Project(pytester)
    project = make_project(pytester)
    make(project)
    # Bytecode remembers where it was made.
    shutil.copytree(project.path, original, ignore=shutil.ignore_patterns("__pycache__"))
    return project


def make_project(pytester: pytest.Pytester) -> Project:
    """Make the project with one commit on main."""
    project = Project(pytester)
    shutil.copytree(_committed().name, project.path, dirs_exist_ok=True)
    return project


def make_small_project(pytester: pytest.Pytester) -> Project:
    """Make the project with fewer cases and repeats, with two commits on main."""
    project = make_project(pytester)
    project.write(test_evals=SMALL)
    project.commit("small")
    return project


@functools.cache
def _committed() -> TemporaryDirectory[str]:
    """Make the project for the first time: to copy it takes a tenth of what git takes."""
    folder = TemporaryDirectory(prefix="project-")
    project = Project(SimpleNamespace(path=Path(folder.name)))
    project.write(model=MODEL, test_evals=EVALS, app=APP, pytest_ini=INI)
    (project.path / ".gitignore").write_text("__pycache__/\ncalls.log\nout/\n.pytest_cache/\n")
    project.git("init", "-q", "-b", "main", "--template=")
    project.commit("main")
    return folder
