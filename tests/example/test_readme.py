"""The README of the example, followed to the letter."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.warm_python import warm_python

NO_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
SOMEONE = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Someone"), ("EMAIL", "someone@example.org"))
}


@pytest.fixture
def readme(example: Path) -> str:
    return (example / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def type_in(example: Path, tmp_path: Path):
    """A copy of the example as the README wants it, and a way to type a command there."""
    project = tmp_path / "triage-copy"
    unwanted = shutil.ignore_patterns("__pycache__", ".llmeval", ".pytest_cache")
    shutil.copytree(example, project, ignore=unwanted)
    commands = os.pathsep.join([str(Path(warm_python()).parent), os.environ["PATH"]])
    environment = {"PATH": commands, "HOME": str(tmp_path)} | NO_SETTINGS | SOMEONE

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            shlex.split(command),
            cwd=project,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    for command in ("git init -q -b main", "git add .", "git commit -q -m first"):
        assert run(command).returncode == 0
    return run


def console_blocks(readme: str) -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", readme, re.DOTALL)
    return [re.findall(r"^\$ (.*)$", block, re.MULTILINE) for block in blocks]


def test_the_three_commands_work_as_the_readme_says(readme, type_in):
    record, switch, compare = console_blocks(readme)[0]

    assert type_in(record).returncode == 0
    assert type_in(switch).returncode == 0
    compared = type_in(compare)

    assert compared.returncode == 0
    assert re.search(r"^unchanged .*: 2 functions", compared.stdout, re.MULTILINE)


def test_the_worked_example_of_the_readme_is_one_for_the_simulator(readme, triage):
    (example,) = re.findall(r"```text\n(.*?)```", readme, re.DOTALL)
    prompt = (triage.app.HERE / "prompt.txt").read_text(encoding="utf-8")
    undented = example.replace("\n  ", "\n").strip()

    chance = triage.simulator.chance_of_being_right(
        prompt + f"\n{undented}\n" * 3, triage.labels.TOPICS, kind="easy"
    )

    assert chance == pytest.approx(0.976)


def test_a_real_model_without_a_key_is_told_so(readme, type_in):
    command = console_blocks(readme)[1][0].removeprefix("OPENAI_API_KEY=... ")

    done = type_in(f"{command} --llm-repeats=1 -k dark-mode")

    assert done.returncode == 1
    assert "OPENAI_API_KEY is not set" in done.stdout
