"""What is said of a function that stopped early, and of the trials that were saved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.gate.results import FunctionComparison, Look, Row, Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.sentences import stopped_words, within_case_remark
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.settings import GateRules
from tests.reports.judgements import RELEASE, judgement_of, section_of, stopped, suite

LOOK = Look(repeats=2, p=0.00091, z=3.1, limit=2.538, sequential_p=0.0123)
FELL = FunctionComparison(
    function="test_a.py::test_f",
    metric="pass",
    better="higher",
    verdict=Verdict.REGRESSED,
    row=Row.REGRESSED,
    looks=(LOOK,),
    stopped_at=2,
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "regressed after 2 of 5 repeats (p 0.00091, limit 0.0056)"),
        (
            {"looks": (LOOK._replace(p=1e-9),)},
            "regressed after 2 of 5 repeats (p <0.0001, limit 0.0056)",
        ),
        ({"looks": ()}, "stopped after 2 of 5 repeats"),
        (
            {"verdict": Verdict.NO_SIGNIFICANT_CHANGE},
            "stopped after 2 of 5 repeats: a fall of 0.10 is ruled out",
        ),
        (
            {"verdict": Verdict.NO_SIGNIFICANT_CHANGE, "scale": "log"},
            "stopped after 2 of 5 repeats: a change for the worse by a factor of 1.1 is ruled out",
        ),
        ({"verdict": Verdict.INCONCLUSIVE}, "stopped after 2 of 5 repeats"),
    ],
)
def test_why_a_function_stopped_is_said(changes: dict[str, object], words: str) -> None:
    one = replace(FELL, **changes)  # type: ignore[arg-type]
    assert stopped_words(one, GateRules(), repeats=5) == words


def text_of(judgement: Judgement) -> str:
    return "\n".join(line.text for line in section_of(judgement, Page(200)))


def test_a_section_says_what_stopped_and_what_was_saved() -> None:
    text = text_of(stopped())
    assert "\n  regressed after 2 of 5 repeats (p 0.00066, limit 0.0095)\n" in text
    assert "74 of 110 trials run, as 1 function stopped early" in text
    assert "22 cases, 74 trials" in text
    assert "(not usable as a baseline: the run is incomplete, as it stopped early)" in text


def test_a_run_that_is_compared_with_another_one_than_its_session_did_says_so() -> None:
    judgement = stopped()
    assert judgement.run is not None
    other = replace(judgement, run=replace(judgement.run, compared_with=RELEASE.run_id))
    assert (
        "stopped early, after 2 of 5 repeats, when it was compared with another baseline"
        in text_of(other)
    )


def test_a_run_that_was_interrupted_after_a_look_says_how_much_was_judged() -> None:
    run = stopped().run
    assert run is not None
    run = replace(run, looks=dict.fromkeys(run.looks, 5), stopped=False)
    text = text_of(judgement_of(run, baseline=suite()))
    assert "judged after 2 of 5 repeats: the session ended in the next round" in text
    assert "stopped early" not in text


def test_json_has_the_looks_and_the_stop() -> None:
    fell = make_report(stopped()).side.compared[0].of
    assert (fell.stopped_at, [look.repeats for look in fell.looks]) == (2, [2])


def test_a_run_that_ran_to_its_end_has_nothing_to_say() -> None:
    run = suite()
    looks = {case.function: case.repeats for case in run.cases}
    judgement = replace(stopped(), run=replace(run, looks=looks), comparison=None)
    assert "stopped early" not in text_of(judgement)


def test_these_very_cases_fell_by_the_limit_of_the_look_alone() -> None:
    evidence = replace(FELL.evidence, p_within_case=0.02)
    one = replace(FELL, verdict=Verdict.INCONCLUSIVE, evidence=evidence)
    assert within_case_remark(one, GateRules()) == ""
