"""What docs/planning.md shows is run."""

from __future__ import annotations

import shlex

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.runs.store import RunStore
from tests.docs.pages import blocks, commands, text_of
from tests.project import Project

PAGE = "docs/planning.md"

# knows the three tasks, and slips one time in ten
MODEL = r"""
import re


def answer(messages, *, draw, **params):
    question = messages[-1]["content"]
    numbers = [int(number) for number in re.findall(r"\d+", question)]
    if "median" in question:
        right = sorted(numbers)[len(numbers) // 2]
    elif "times" in question:
        right = numbers[0] * numbers[1]
    else:
        right = question.partition(":")[2].count("mango")
    return str(right + (draw.rng.random() < 0.1))
"""


def typed(command: str) -> Result:
    program, *arguments = shlex.split(command)
    assert program == "llmeval"
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_every_command_of_the_page_works(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.path)
    until, *others = commands(PAGE)
    assert [command.split()[1] for command in (until, *others)] == [
        "until",
        "plan",
        "plan",
        "plan",
        "selfcheck",
    ]

    first = typed(until)

    assert first.exit_code in (0, 1)
    assert first.stdout.splitlines()[0] in text_of(PAGE)
    project.git("switch", "-qc", "side")
    project.write(app='PROMPT = "Say yes to {case}. rate=0.6"')
    project.commit("worse")
    project.run("--llm-repeats=5")
    for command in others:
        done = typed(command)
        assert done.exit_code == 0, done.output


def test_the_sampled_tasks_of_the_page_run(project: Project) -> None:
    (evals,) = blocks(PAGE, language="python")
    project.write(model=MODEL, test_evals=evals.text)

    result = project.run("--llm-repeats=3")

    assert result.ret == 0
    (path,) = project.runs()
    run = RunStore(project.path / ".llmeval").load(path)
    assert len(run.cases) == 60
    assert "test_evals.py::test_counts[seed1-0]" in {case.id for case in run.cases}
    scores = [trial.scores["pass"] for trial in run.trials]
    assert 0.8 < sum(scores) / len(scores) < 1.0
