"""What docs/planning.md shows is run."""

from __future__ import annotations

import re
import shlex

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.runs.store import RunStore
from tests.docs.pages import blocks, commands, text_of
from tests.project import Project

PAGE = "docs/planning.md"

# counts, and slips one time in ten
MODEL = r"""
def answer(messages, *, draw, **params):
    right = messages[-1]["content"].partition(":")[2].count("mango")
    return str(right + (draw.rng.random() < 0.1))
"""


def typed(command: str) -> Result:
    program, *arguments = shlex.split(command)
    assert program == "llmeval"
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_every_command_of_the_page_works(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.path)
    *plans, until, doctor = commands(PAGE)
    others = [*plans, doctor]
    assert [command.split()[1] for command in (*others, until)] == [
        "plan",
        "plan",
        "plan",
        "doctor",
        "until",
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


def test_the_smallest_drops_of_the_page_are_those_of_the_command() -> None:
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in re.findall(r"^\| *repeats \|[^|]* cases.*\n(?:\|.*\n)+", text_of(PAGE), re.M)[
            0
        ].splitlines()
    ]
    assert [row[0] for row in rows] == ["1", "3", "5", "10"]
    for repeats, *drops in rows:
        for cases, drop in zip(head[1:], drops, strict=True):
            said = typed(
                "llmeval plan --rates 0.5,0.9 --drop 0.1"
                f" --cases {cases.split()[0]} --repeats {repeats}"
            ).output

            assert f"the smallest drop found in 80 % of builds is 0{drop}\n" in said


def test_the_sampled_task_of_the_page_runs(project: Project) -> None:
    (evals,) = blocks(PAGE, language="python")
    project.write(model=MODEL, test_evals=evals.text)

    result = project.run("--llm-repeats=3")

    assert result.ret == 0
    (path,) = project.runs()
    run = RunStore(project.path / ".llmeval").load(path)
    assert len(run.cases) == 20
    assert "test_evals.py::test_counts[seed1-0]" in {case.id for case in run.cases}
    scores = [trial.scores["pass"] for trial in run.trials]
    assert 0.8 < sum(scores) / len(scores) < 1.0
