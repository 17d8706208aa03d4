"""A session after one in which a provider was away: only what got no reply is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmeval.records import Run
from pytest_llmeval.runs.store import RunStore
from tests.project import Project, make_project

# Trials that are listed in down.txt find the provider down.
MODEL = '''
from pathlib import Path

HERE = Path(__file__).parent


def answer(messages, *, draw):
    """Says yes in every second draw."""
    question = messages[-1]["content"]
    with (HERE / "calls.log").open("a") as file:
        file.write(f"{question} {draw.trial}\\n")
    if f"{question} {draw.trial}" in (HERE / "down.txt").read_text().splitlines():
        raise ConnectionError("down")
    return "no" if draw.trial % 2 else "yes"
'''

EVALS = """
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats=4)
@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_it(llm, case):
    llm.ask("first")
    assert llm.ask(case).text == "yes"
"""
ADVICE = "errored trials have no score: run again; only calls without a reply are sent again"
LOST = ["a 1", "c 0", "c 1", "c 2", "c 3"]


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    made = make_project(pytester)
    (made.path / ".gitignore").write_text("__pycache__/\ncalls.log\ndown.txt\nout/\n")
    made.write(model=MODEL, test_evals=EVALS)
    made.commit()
    return made


def outcomes(project: Project) -> dict[str, str]:
    """Put the outcomes of a case's trials as letters, passed and missed and errored."""
    found = RunStore(project.path / ".llmeval").newest()
    assert found is not None
    run: Run = found.run
    shown: dict[str, str] = {}
    for trial in run.trials:
        name = trial.case.partition("[")[2].rstrip("]")
        shown[name] = shown.get(name, "") + str(trial.outcome)[0]
    return shown


def test_only_what_got_no_reply_is_asked(project: Project) -> None:
    down, log = Path(project.path / "down.txt"), Path(project.path / "calls.log")
    down.write_text("\n".join(LOST))
    result = project.run()
    assert outcomes(project) == {"a": "pepm", "b": "pmpm", "c": "eeee"}
    assert ADVICE in result.outlines
    down.write_text("")
    log.unlink()

    result = project.run()

    assert sorted(log.read_text().splitlines()) == LOST
    assert outcomes(project) == {"a": "pmpm", "b": "pmpm", "c": "pmpm"}
    assert ADVICE not in result.outlines
    log.unlink()
    project.run("--llm-cache=replay").assert_outcomes(passed=3)
    assert not log.exists()


def test_a_replay_is_no_reason_to_run_again(project: Project) -> None:
    (project.path / "down.txt").touch()
    assert ADVICE not in project.run("--llm-cache=replay").outlines
