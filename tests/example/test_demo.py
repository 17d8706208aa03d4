from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.warm_python import warm_python


@pytest.fixture
def run_demo(demo: Path, tmp_path: Path):
    """Run the demo as on a fresh machine: an empty home, no settings of git or pytest."""
    home = tmp_path / "home"
    temporary = tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()

    def run(*arguments: str | Path, script: Path = demo / "demo.py"):
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temporary)}
        return subprocess.run(
            [warm_python(), script, *arguments],
            cwd=home,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    return run


def test_the_demo_tells_its_story_and_leaves_nothing_behind(run_demo, tmp_path: Path):
    done = run_demo()

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.partition("### What was shown ")[2].splitlines()[1:] == [
        "exit 0  main recorded",
        "exit 0  comment: all replies came from the cache, so nothing can have changed",
        "exit 1  shorter-prompt: test_topic REGRESSED, and the build fails",
        "exit 0  worked-examples: test_topic improved, and the build passes",
    ]
    assert list(tmp_path.glob("tmp/*")) == []


def test_the_demo_fails_loudly_when_the_story_does_not_come_true(
    run_demo, demo: Path, example: Path, tmp_path: Path
):
    """A "worse" prompt that is in truth another good one must not pass for a regression."""
    staged = tmp_path / "demo"
    shutil.copytree(demo, staged)
    plain = (example / "triage" / "prompt.txt").read_text(encoding="utf-8")
    examples = (demo / "examples.txt").read_text(encoding="utf-8")
    (staged / "shorter_prompt.txt").write_text(plain + examples, encoding="utf-8")
    shutil.copytree(example, tmp_path / "example_project")
    tickets = tmp_path / "example_project" / "triage" / "tickets.jsonl"
    few = tickets.read_text(encoding="utf-8").splitlines(keepends=True)[::6]
    tickets.write_text("".join(few), encoding="utf-8")

    done = run_demo("--keep", tmp_path / "played", script=staged / "demo.py")

    assert done.returncode == 1
    assert done.stderr == (
        "\nDEMO FAILED: `pytest --llm-baseline=main` ended with exit code 0, not 1\n"
    )
    assert (tmp_path / "played" / ".git").is_dir()


def test_a_folder_that_is_there_is_not_played_in(run_demo, tmp_path: Path):
    done = run_demo("--keep", tmp_path)

    assert done.returncode == 1
    assert "is there already" in done.stderr
