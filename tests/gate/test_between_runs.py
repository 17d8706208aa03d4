"""Older runs of a baseline are left out where the scores drifted since."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pytest_llmeval.gate.between_runs import without_drift
from pytest_llmeval.records import Run
from tests.gate.builders import CaseAndTrials, a_case, a_run, joined


def recorded(rate: float, seed: int, *, function: str = "test_f", cases: int = 40) -> Run:
    random = np.random.default_rng(seed)
    made: list[CaseAndTrials] = []
    for at in range(cases):
        letters = "".join("p" if hit else "m" for hit in random.random(5) < rate)
        made.append(a_case(f"c{at}", letters, function=function, draws=str(seed)))
    return a_run(*made)


def functions(run: Run) -> set[str]:
    return {case.function.rpartition("::")[2] for case in run.cases}


def test_runs_without_drift_stay() -> None:
    older = [recorded(0.6, 2), recorded(0.6, 3)]
    assert without_drift(recorded(0.6, 1), older) == (older, {})


def test_the_run_before_which_it_drifted_goes_and_all_older_ones_with_it() -> None:
    older = [recorded(0.6, 2), recorded(0.9, 3), recorded(0.6, 4)]
    kept, drifted = without_drift(recorded(0.6, 1), older)

    assert [len(run.trials) for run in kept] == [200, 0, 0]
    assert [*drifted] == ["test_suite.py::test_f"]
    assert drifted["test_suite.py::test_f"] < 0.001


def test_where_a_newer_run_drifted_the_others_made_with_it_go_too() -> None:
    own = recorded(0.9, 1)
    newer = [recorded(0.85, 2), recorded(0.5, 3)]
    later = [
        dataclasses.replace(one, id=f"20991121T0841{at}0-1a2b3c") for at, one in enumerate(newer)
    ]

    kept, drifted = without_drift(own, [*reversed(later), recorded(0.9, 4)])
    assert [len(run.trials) for run in kept] == [0, 0, 0]
    kept, drifted = without_drift(own, [later[0], later[1], recorded(0.9, 4)])
    assert [len(run.trials) for run in kept] == [0, 0, 0]
    assert [*drifted] == ["test_suite.py::test_f"]


def test_other_functions_stay() -> None:
    newest = joined(recorded(0.6, 1), recorded(0.6, 5, function="test_g"))
    older = joined(recorded(0.9, 2), recorded(0.6, 6, function="test_g"))
    kept, drifted = without_drift(newest, [older])
    assert functions(kept[0]) == {"test_g"}
    assert [*drifted] == ["test_suite.py::test_f"]


def test_what_cannot_be_compared_stays() -> None:
    newest = recorded(0.6, 1)
    nothing = dataclasses.replace(newest, cases=(), trials=())
    other = recorded(0.1, 2, function="test_g")
    unscored = a_run(*(a_case(f"c{at}", "ee") for at in range(40)))
    single = a_run(a_case("c0", "p"))
    for older in (nothing, other, unscored):
        assert without_drift(newest, [older])[1] == {}
    assert without_drift(single, [a_run(a_case("c0", "m"))])[1] == {}


@pytest.mark.unmeasured
def test_false_drift_is_as_rare_as_holm_over_functions_and_runs_says() -> None:
    told = sum(
        bool(without_drift(recorded(0.6, seed), [recorded(0.6, seed + at) for at in (1, 2, 3)])[1])
        for seed in range(0, 400, 4)
    )
    assert told <= 4
