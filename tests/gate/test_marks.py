"""What a mark of a branch asks for less than main's is not followed, or fails where data lack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.marks import below_min_score, held_to_marks
from pytest_llmeval.gate.results import Comparison, Verdict
from pytest_llmeval.records import POOLED, Outcome, Run
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.settings import GateRules
from tests.gate.builders import CaseAndTrials, a_case, a_run, notes

CASES = 8
FALLEN = "test_f[c0] (pass 0.000, 0.8)"


def marked(one: CaseAndTrials, **asked: Any) -> CaseAndTrials:
    return replace(one, case=replace(one.case, **asked))


def suite(first: str = "p", request: str = "v1", **asked: Any) -> Run:
    """A run of eight cases under a mark; the first one ends so, the others pass."""
    others = (a_case(f"c{at}", "p") for at in range(1, CASES))
    cases = (a_case("c0", first, request=request), *others)
    return a_run(*(marked(one, **asked) for one in cases))


def held(baseline: Run, run: Run, *, is_green: bool = True) -> Comparison:
    found = compare(baseline, run, GateRules(), typed=())
    return held_to_marks(found, baseline, run, is_green=is_green)


@pytest.mark.parametrize("mine", [None, 0.0, 0.79, 0.8, 0.9])
def test_a_case_must_reach_the_min_score_of_main(mine: float | None) -> None:
    main, branch = suite(min_score=0.8), suite("m", request="v2", min_score=mine)

    found = held(main, branch)

    assert (found.fails, worded(found.below).partition(". ")[0].endswith(FALLEN)) == (True, True)
    lower = mine is None or mine < 0.8
    said = f"test_f: min_score={mine if mine is None else f'{mine:g}'} was not followed: "
    assert [note.startswith(said) for note in notes(found)] == [True] * lower
    # its own min_score failed it, perhaps
    assert not held(main, branch, is_green=False).fails


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pppp", "pppp"),  # it did not fall
        ("mmmm", "mmmm"),  # main's fell short, too
        ("pmmm", "mmmm"),
        ("ssss", "mmmm"),  # main has no score of it
        ("pppp", "ssss"),  # other rows of the table judge what has no score here
    ],
)
def test_what_fails_on_main_too_or_has_no_score_is_not_held(before: str, after: str) -> None:
    main = suite(before, min_score=0.8)
    assert held(main, suite(after, request="v2")).below is None


def test_a_case_that_main_lacks_has_no_other_min_score() -> None:
    main, here = a_run(a_case("a", "pp")), a_run(a_case("a", "pp"), a_case("b", "mm"))
    found = held(main, here)
    assert (found.below, found.fails, found.notes) == (None, False, ())


def test_main_is_as_its_own_run_has_it() -> None:
    """Trials of older runs count in the baseline, and did not fail the job of main."""
    main = suite(min_score=0.8)
    older = [
        replace(main.trials[0], index=POOLED + at, outcome=Outcome.MISSED, scores={"pass": 0.0})
        for at in range(4)
    ]
    found = held(replace(main, trials=(*main.trials, *older)), suite("m", request="v2"))
    assert FALLEN in worded(found.below)


@pytest.mark.parametrize(("least", "scores"), [(70.0, [60.0, 62.0]), (-1.0, [-3.0, -2.0])])
def test_scores_may_have_any_scale(least: float, scores: list[float]) -> None:
    case = marked(a_case("a", scores=scores), min_score=least)
    assert below_min_score(case.trials, case.case) == ("score", f"{sum(scores) / 2:.3f}")
    enough = replace(case.case, min_score=sum(scores) / 2)
    assert below_min_score(case.trials, enough) is None


def test_a_metric_that_is_recorded_no_longer_is_below() -> None:
    case = marked(a_case("a", "pp", gate=("tone",)), min_score=0.5)
    assert below_min_score(case.trials, case.case) == ("tone", "none")
    assert below_min_score(case.trials, replace(case.case, min_score=None)) is None


FEWER = "test_f: repeats=1 here, and 4 in the baseline: inconclusive fails the build, "


@pytest.mark.parametrize(
    ("main", "mine", "fails"),
    [
        ({"marked": 4}, {"repeats": 1, "marked": 1}, True),
        ({"marked": 4}, {"repeats": 1, "marked": 4}, False),  # typed for this session
        ({"marked": 4}, {"repeats": 3, "marked": 1}, False),  # likewise
        ({"marked": 4}, {"repeats": 4, "marked": 4}, False),
        ({"marked": 1, "repeats": 4}, {"repeats": 1, "marked": 1}, False),  # typed for main
        ({"marked": 0, "repeats": 4}, {"repeats": 1, "marked": 1}, False),  # an earlier version
    ],
)
def test_too_little_data_fails_where_the_mark_asks_for_fewer_repeats(
    main: dict[str, int], mine: dict[str, int], fails: bool
) -> None:
    found = held(suite(**main), suite("m", request="v2", **mine))

    assert (found.verdict, found.fails) == (Verdict.INCONCLUSIVE, fails)
    assert [note.startswith(FEWER) for note in notes(found)] == [True] * fails


def test_enough_data_of_fewer_repeats_passes() -> None:
    found = held(suite(marked=4), suite(repeats=1, marked=1))
    assert (found.verdict, found.fails) == (Verdict.UNCHANGED, False)
    assert len(notes(found)) == 1
