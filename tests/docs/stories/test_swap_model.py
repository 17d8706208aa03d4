"""What docs/swap-model.md says of two models, of which one is switched off, is tried."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.runs.store import RunStore
from tests.docs.pages import blocks, commands, in_backticks, text_of
from tests.project import Project
from tests.servers.openai_server import OpenAIServer, Received, Scripted, serving

PAGE = "docs/swap-model.md"
RECORD, PLAN, EXPORT, COMPARE = commands(PAGE)
(NEW_INI,) = (block.text for block in blocks(PAGE, language="ini"))
(SHOWN,) = (block.text for block in blocks(PAGE, language="text"))
NEW = NEW_INI.rpartition("= ")[2].strip()
OLD = SHOWN.partition("model: ")[2].partition(" ->")[0]
JUDGE, OTHER_JUDGE = "openai/judge", "openai/another-judge"
CASES = 8
EVALS = f"""
import pytest
from pytest_llmeval import llm_eval

QUESTIONS = [f"question {{number}}" for number in range({CASES})]


@llm_eval(repeats=2)
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers(llm, question):
    assert llm.ask(question).text == "right"
"""
JUDGED = EVALS.replace("def test_answers(llm,", "def test_answers(llm, llm_score,").replace(
    'assert llm.ask(question).text == "right"',
    f'llm_score(float(llm.ask(llm.ask(question).text, model="{JUDGE}").text))',
)


class Models(OpenAIServer):
    """An old model that is always right, a new one that is wrong in most cases, and judges."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.gone: set[str] = set()

    def _say(self, body: Mapping[str, Any], number: int) -> str:
        asked, model = body["messages"][-1]["content"], f"openai/{body['model']}"
        if model in (JUDGE, OTHER_JUDGE):
            return {"right": "1.0", "wrong": "0.0"}[asked]
        is_hard = asked[-1] in "012345"
        return "wrong" if model == NEW and is_hard else "right"

    def take(self, received: Received) -> Scripted:
        if f"openai/{received.json['model']}" not in self.gone:
            return super().take(received)
        error = {"message": "The model does not exist", "code": "model_not_found"}
        self.requests.append(received)
        return Scripted(status=404, body={"error": error})

    def asked(self) -> list[str]:
        """List the models that were asked since the last time, and forget them."""
        models = sorted({f"openai/{one.json['model']}" for one in self.requests})
        self.requests.clear()
        return models


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Models]:
    yield from serving(Models(), monkeypatch)


@pytest.fixture
def recorded(project: Project, models: Models, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose main has a run of the old model."""
    monkeypatch.chdir(project.path)
    project.write(test_evals=EVALS, pytest_ini=NEW_INI.replace(NEW, OLD))
    project.commit("main")
    project.run("--llm-repeats=3")
    assert models.asked() == [OLD]
    return project


def swap(project: Project) -> None:
    project.git("switch", "-qc", "swap")
    project.write(pytest_ini=NEW_INI)
    project.commit("swap")


def llmeval(command: str) -> str:
    done = CliRunner().invoke(main, shlex.split(command), catch_exceptions=False)
    assert done.exit_code in (0, 1), done.output
    return done.output


def newest(project: Project) -> Run:
    found = RunStore(project.path / ".llmeval").newest()
    assert found is not None
    return found.run


def test_the_names_are_two_that_live() -> None:
    assert OLD != NEW
    assert {OLD, NEW} <= set(in_backticks("docs/models.md"))
    assert f"`{NEW}` follows `{OLD}`" in " ".join(text_of(PAGE).split())


def test_the_commands_before_the_end_can_be_typed(recorded: Project) -> None:
    assert recorded.run(*shlex.split(RECORD)[1:]).ret == 0
    assert "8 cases" in llmeval(PLAN.removeprefix("llmeval "))
    llmeval(EXPORT.removeprefix("llmeval "))
    assert (recorded.path / "replies.jsonl.gz").exists()


def test_the_swap_is_judged_and_named(recorded: Project, models: Models) -> None:
    swap(recorded)
    result = recorded.run(*shlex.split(COMPARE)[1:])

    assert result.ret == 1
    result.stdout.fnmatch_lines(["REGRESSED*"])
    printed = " ".join(str(result.stdout).split())
    for line in SHOWN.splitlines():
        assert " ".join(line.split()) in printed
    assert "random id" not in printed
    assert "llm_accept = test_answers:pass >= " in printed
    assert models.asked() == [NEW]


def test_the_baseline_serves_when_its_model_is_gone(recorded: Project, models: Models) -> None:
    models.gone = {OLD}
    swap(recorded)

    assert recorded.run("--llm-baseline=main").ret == 1
    assert models.asked() == [NEW]
    assert "REGRESSED" in llmeval("compare main swap")
    assert "wrong" in llmeval("diff 'test_answers[question 0]'")
    assert "test_answers" in llmeval("show main")
    assert "test_answers" in llmeval("history")
    assert models.asked() == []


def test_a_run_of_the_new_model_on_main_does_not_stand_for_main(recorded: Project) -> None:
    old_run = newest(recorded).id
    recorded.run(f"--llm-model={NEW}", "--llm-repeats=3")
    assert newest(recorded).typed_model == NEW
    assert f"run {old_run}" in llmeval("show main")
    assert "2/2" not in llmeval("history")  # one point
    swap(recorded)

    recorded.run("--llm-baseline=main").stdout.fnmatch_lines(["REGRESSED*"])
    typed = recorded.run("--llm-baseline=main", f"--llm-model={NEW}")
    typed.stdout.fnmatch_lines(["unchanged*"])


def test_a_run_of_a_typed_model_stands_for_main_where_there_is_no_other(
    recorded: Project,
) -> None:
    for file in recorded.runs():
        file.unlink()
    recorded.run(f"--llm-model={NEW}", "--llm-repeats=3")
    swap(recorded)

    told = recorded.run("--llm-baseline=main").stdout
    told.fnmatch_lines([f"*--llm-model={NEW} was typed for the baseline's run, and is not here"])


def test_two_candidates_on_the_branch_are_compared_by_their_ids(recorded: Project) -> None:
    swap(recorded)
    recorded.run()
    first = newest(recorded).id
    recorded.run("--llm-model=openai/third")

    assert "improved" in llmeval(f"compare {first} {newest(recorded).id}")


def test_what_is_unchanged_is_replayed_without_a_key(
    recorded: Project, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    result = recorded.run("--llm-cache=replay", "--llm-repeats=3")

    assert result.ret == 0
    assert models.asked() == []
    result.stdout.fnmatch_lines(["*0 calls made, 24 replayed*"])


def test_another_assertion_scores_the_stored_replies(recorded: Project, models: Models) -> None:
    models.gone = {OLD}
    recorded.git("switch", "-qc", "stricter")
    recorded.write(test_evals=EVALS.replace('== "right"', '== "Right"'))
    recorded.commit("stricter")
    result = recorded.run("--llm-baseline=main", "--llm-repeats=3")

    result.stdout.fnmatch_lines(["REGRESSED*", "*its test changed*"])
    assert models.asked() == []


def test_another_judge_grades_replies_of_a_model_that_is_gone(
    recorded: Project, models: Models
) -> None:
    recorded.write(test_evals=JUDGED)
    recorded.commit("judged")
    recorded.run()
    assert models.asked() == [JUDGE]
    models.gone = {OLD, JUDGE}
    recorded.write(test_evals=JUDGED.replace(JUDGE, OTHER_JUDGE))
    recorded.commit("another judge")

    assert recorded.run().ret == 0
    assert models.asked() == [OTHER_JUDGE]
    assert {trial.outcome for trial in newest(recorded).trials} == {Outcome.PASSED}


@pytest.mark.parametrize("change", ["prompt", "case", "repeats", "refresh"])
def test_what_needs_the_model_that_is_gone_is_errored_and_never_scored(
    recorded: Project, models: Models, change: str
) -> None:
    models.gone = {OLD}
    recorded.git("switch", "-qc", "later")
    if change == "prompt":
        recorded.write(test_evals=EVALS.replace("question {", "please: question {"))
    elif change == "case":
        recorded.write(test_evals=EVALS.replace("range(8)", "range(9)"))
    recorded.commit("later") if change in ("prompt", "case") else None
    options = {"repeats": "--llm-repeats=5", "refresh": "--llm-cache=refresh"}
    arguments = [options[change]] if change in options else ["--llm-repeats=3"]
    result = recorded.run(*arguments, "--llm-baseline=main")

    assert models.asked() == [OLD]
    trials = newest(recorded).trials
    errored = [trial for trial in trials if trial.outcome is Outcome.ERRORED]
    assert errored
    assert not any(trial.scores for trial in errored)
    assert {value for trial in trials for value in trial.scores.values()} <= {1.0}
    if change != "case":
        result.stdout.fnmatch_lines(["NOT COMPARABLE*", "*The model does not exist*"])
        assert result.ret == 1


def test_a_parameter_that_is_dropped_is_named(recorded: Project) -> None:
    recorded.write(
        test_evals=EVALS.replace("llm.ask(question)", "llm.ask(question, temperature=0.0)")
    )
    recorded.commit("with a temperature")
    recorded.run()
    recorded.git("switch", "-qc", "swap")
    recorded.write(test_evals=EVALS, pytest_ini=NEW_INI)
    recorded.commit("swap")
    result = recorded.run("--llm-baseline=main")

    assert "`temperature: 0.0 -> provider's default`" in text_of(PAGE)
    assert "temperature: 0.0 -> provider's default" in " ".join(str(result.stdout).split())
