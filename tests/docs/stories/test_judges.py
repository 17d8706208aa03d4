"""What docs/judges.md shows is run, and what it says of judges holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.runs.store import RunStore
from tests.docs.pages import blocks
from tests.project import Project
from tests.servers.openai_server import OpenAIServer, Received, Scripted, serving

CONFTEST, EVALS = (block.text for block in blocks("docs/judges.md", language="python"))
DESK, JUDGE = "openai/gpt-6-luna", "openai/gpt-6-sol"


class Models(OpenAIServer):
    """A desk that is always polite, and a judge whose first verdicts can be spoilt."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.verdicts: list[str] = []
        self.is_away = False

    def _say(self, body: Mapping[str, Any], number: int) -> str:
        if body["model"] != "gpt-6-sol":
            return f"Of course, at once. ({number})"
        return self.verdicts.pop(0) if self.verdicts else "A\n"

    def take(self, received: Received) -> Scripted:
        if self.is_away and received.json["model"] == "gpt-6-sol":
            return Scripted(status=401, body={})
        return super().take(received)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Models]:
    yield from serving(Models(), monkeypatch)


@pytest.fixture
def judged(project: Project, models: Models) -> Project:
    (project.path / "test_evals.py").unlink()
    project.write(conftest=CONFTEST, test_support=EVALS)
    project.write(pytest_ini=f"[pytest]\nllm_model = {DESK}\n")
    project.commit()
    return project


def last_run(project: Project) -> Run:
    found = RunStore(project.path / ".llmeval").newest()
    assert found is not None
    return found.run


def test_the_example_runs_and_its_verdicts_are_the_scores(judged: Project) -> None:
    result = judged.run("-v")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*5/5 passed, score 1.000*"])


def test_a_verdict_is_the_draw_of_the_trial_that_asks(judged: Project) -> None:
    judged.run()

    for trial in last_run(judged).trials:
        assert [call.model for call in trial.calls] == [DESK, JUDGE]
        assert {call.slot.trial for call in trial.calls} == {trial.index}


def test_verdicts_are_replayed_and_need_no_judge(judged: Project, models: Models) -> None:
    judged.run()
    made = len(models.requests)

    result = judged.run("--llm-baseline=last")

    assert result.ret == 0
    assert len(models.requests) == made == 20
    result.stdout.fnmatch_lines(["*0 calls made, 20 replayed*"])


def test_a_verdict_without_a_grade_is_drawn_again(judged: Project, models: Models) -> None:
    models.verdicts = ["A reply like this is a C"]
    judged.run("--llm-concurrency=1")

    (first, *_) = last_run(judged).trials
    assert first.outcome is Outcome.PASSED
    assert [str(call.slot) for call in first.calls] == ["0/0", "0/0", "0/1"]


def test_a_judge_that_gives_no_grade_crashes_the_trial(judged: Project, models: Models) -> None:
    models.verdicts = ["a", "Grade: A", ""]
    result = judged.run("--llm-concurrency=1")

    (first, *others) = last_run(judged).trials
    assert first.outcome is Outcome.CRASHED
    assert {trial.outcome for trial in others} == {Outcome.PASSED}
    result.stdout.fnmatch_lines(["worst*test_support_is_helpful?refund?*4/5*ValueError: *"])


def test_a_judge_that_is_away_errs_the_trial_and_can_be_asked_later(
    judged: Project, models: Models
) -> None:
    models.is_away = True
    judged.run()
    away = last_run(judged)
    assert {trial.outcome for trial in away.trials} == {Outcome.ERRORED}
    assert all(not trial.scores for trial in away.trials)
    models.is_away = False

    result = judged.run()

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*10 calls made, 10 replayed*"])


def test_a_changed_rubric_is_named(judged: Project) -> None:
    judged.run()
    judged.git("switch", "-qc", "stricter")
    judged.write(conftest=CONFTEST.replace("is polite,", "is polite and friendly,"))
    judged.commit()

    result, report = judged.gate("--llm-baseline=main")

    result.stdout.fnmatch_lines(["*test_support_is_helpful: its fixture judge changed*"])
    (function,) = report["functions"]
    assert function["fixtures_changed"] == ["judge"]
    assert not function["test_changed"]


def test_of_a_rubric_from_a_file_is_said_which_call_is_new(judged: Project) -> None:
    read = 'Path(__file__).with_name("rubric.txt").read_text()'
    conftest = f"from pathlib import Path\n{CONFTEST}\nRUBRIC = {read}\n"
    judged.write(conftest=conftest, rubric_txt="Say A.")
    judged.commit()
    judged.run()
    judged.git("switch", "-qc", "stricter")
    judged.write(rubric_txt="Say A or B.")
    judged.commit()

    result = judged.run("--llm-baseline=main")

    result.stdout.fnmatch_lines(["*the request after that, to openai/gpt-6-sol, is new*"])
    result.stdout.no_fnmatch_line("*its fixture judge changed*")


def test_another_judge_is_named_by_its_model(judged: Project) -> None:
    judged.run()
    judged.git("switch", "-qc", "cheaper")
    judged.write(conftest=CONFTEST.replace("openai/gpt-6-sol", "openai/gpt-6-luna"))
    judged.commit()

    result = judged.run("--llm-baseline=main")

    result.stdout.fnmatch_lines(
        ["*model: openai/gpt-6-luna, openai/gpt-6-sol -> openai/gpt-6-luna*"]
    )
