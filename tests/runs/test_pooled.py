"""Which cases of two runs asked the same, and whose trials make one baseline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.records import CONFIRM, CONFIRMED, POOLED, Outcome, Run
from pytest_llmeval.runs.pooled import (
    draws_again,
    further_trials,
    own_trials,
    pooled,
    unchanged_cases,
)
from tests.gate.builders import CallsOfTrial, a_call, a_case, a_run

NAME = "test_suite.py::test_f"
ID = f"{NAME}[a]"


def told(run: Run, *, test: str = "t", fixture: str = "f") -> Run:
    return replace(run, tests={NAME: test}, fixtures={NAME: {"model": fixture}})


def test_a_case_with_the_same_test_fixtures_and_parameters_is_unchanged() -> None:
    run = told(a_run(a_case("a", "p", parameters="1" * 64), a_case("new", "p")))
    earlier = told(a_run(a_case("a", "m", parameters="1" * 64), a_case("old", "p")))
    assert unchanged_cases(run, earlier) == {ID}


@pytest.mark.parametrize(
    "earlier",
    [
        told(a_run(a_case("a", "p", parameters="2" * 64))),
        told(a_run(a_case("a", "p", parameters="1" * 64)), test="u"),
        told(a_run(a_case("a", "p", parameters="1" * 64)), fixture="g"),
        a_run(a_case("a", "p", parameters="1" * 64)),
    ],
)
def test_a_case_of_which_one_of_these_differs_is_changed(earlier: Run) -> None:
    assert unchanged_cases(told(a_run(a_case("a", "p", parameters="1" * 64))), earlier) == set()


def test_what_neither_run_tells_is_no_difference() -> None:
    assert unchanged_cases(a_run(a_case("a", "p")), a_run(a_case("a", "p"))) == {ID}


def test_other_draws_of_a_request_are_told_from_replays_and_from_other_requests() -> None:
    run = a_run(a_case("a", "pp"))
    assert not draws_again(run, run)
    assert not draws_again(run, a_run(a_case("a", "pp", request="v2")))
    assert draws_again(run, a_run(a_case("a", "pp", draws="other")))


def further(newest: Run, *older: Run) -> list[int]:
    """How many further trials each older run has."""
    return [len(run.trials) for run in further_trials(newest, older)]


def test_trials_of_the_same_requests_are_counted_on() -> None:
    newest, older = a_run(a_case("a", "pp")), a_run(a_case("a", "mmm", draws="old"))
    found = pooled(newest, further_trials(newest, [older]), most=4)

    assert [trial.index for trial in found.trials] == [0, 1, POOLED, POOLED + 1]
    assert [trial.outcome for trial in found.trials[2:]] == [Outcome.MISSED] * 2
    assert found.cases == newest.cases


def test_trials_of_one_repeat_keep_one_index_over_cases() -> None:
    newest = a_run(a_case("a", "pp"), a_case("b", "pp"))
    fresh = a_run(a_case("a", "mm", draws="o", first=10), a_case("b", "m", draws="o", first=11))
    (found,) = further_trials(newest, [fresh])
    assert [(trial.case[-2], trial.index - POOLED) for trial in found.trials] == [
        ("a", 0), ("a", 1), ("b", 1),
    ]  # fmt: skip


def test_trials_by_which_a_fall_was_looked_at_again_are_told_from_others() -> None:
    newest = a_run(a_case("a", "p"))
    fresh, other = (a_run(a_case("a", "p", draws=name)) for name in ("fresh", "other"))
    older = [replace(fresh, made=CONFIRM), other]
    found = pooled(newest, further_trials(newest, older), most=4)
    assert [trial.index for trial in found.trials] == [0, 2 * POOLED, CONFIRMED + POOLED]


def test_newer_runs_come_first() -> None:
    newest = a_run(a_case("a", "p"))
    older = [a_run(a_case("a", "pp", draws=name)) for name in ("one", "two")]
    found = pooled(newest, further_trials(newest, older), most=4)
    assert [trial.index // POOLED for trial in found.trials] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    "older",
    [
        a_run(a_case("a", "pp")),  # a replay
        a_run(a_case("a", "pp", request="v2", draws="old")),
        a_run(a_case("a", "ee", draws="old")),
        a_run(a_case("a", "pp", calls=lambda _: ())),
        a_run(a_case("a", "pp", draws="old", parameters="2" * 64)),
        a_run(a_case("a", "pp", calls=lambda index: [a_call("a v1", f"s{index}", trial=None)])),
        a_run(a_case("a", "pp", calls=lambda index: [a_call(f"{index}", "x", trial=index)])),
    ],
)
def test_other_trials_are_not(older: Run) -> None:
    assert further(a_run(a_case("a", "pp")), older) == [0]


def test_a_case_whose_requests_quote_its_replies_is_never_counted_on() -> None:
    def calls(draws: str) -> CallsOfTrial:
        return lambda index: [
            a_call("first", f"{draws}{index}", trial=index),
            a_call(f"quotes {draws}{index}", f"{draws}/{index}", trial=index),
        ]

    newest, older = (a_run(a_case("a", "pp", calls=calls(name))) for name in ("one", "other"))
    assert further(newest, older) == [0]


def test_draws_of_another_served_model_are_not_counted_on() -> None:
    def served(name: str, draws: str) -> CallsOfTrial:
        return lambda index: [replace(a_call("k", f"{draws}{index}", trial=index), served=name)]

    newest = a_run(a_case("a", "pp", calls=served("m-1", "new")))
    moved = a_run(a_case("a", "pp", calls=served("m-2", "old")))
    same = a_run(a_case("a", "pp", calls=served("m-1", "old")))
    assert further(newest, moved, same) == [0, 2]


def test_a_baseline_without_the_trials_of_older_runs_is_the_newest_run() -> None:
    newest, older = a_run(a_case("a", "pp")), a_run(a_case("a", "mmm", draws="old"))
    assert own_trials(pooled(newest, further_trials(newest, [older]), most=4)) == newest
