"""The mean of each side by itself, with its interval."""

from __future__ import annotations

import math

import pytest

from pytest_llmeval.gate.describe import describe
from pytest_llmeval.settings import GateRules
from tests.gate.builders import a_call, a_case, a_run, compared, runs, scored_runs

MIXED = ["ppppm", "pmpmm", "ppppp", "mmmmm", "ppmpm", "pppmp", "mmmpm"]


def test_each_mean_has_the_interval_of_a_run_by_itself() -> None:
    baseline, run = runs(list(zip(MIXED, reversed(MIXED), strict=True)))
    found = compared(baseline, run)
    (before,), (after,) = describe(baseline), describe(run)
    assert found.effect.baseline_mean_interval == pytest.approx(before.interval)
    assert found.effect.mean_interval == pytest.approx(after.interval)


def test_the_level_is_that_of_the_gate() -> None:
    baseline, run = runs(list(zip(MIXED, MIXED, strict=True)))
    found = compared(baseline, run, GateRules(alpha=0.2))
    (after,) = describe(run, alpha=0.2)
    assert found.effect.mean_interval == pytest.approx(after.interval)


def test_a_replay_has_the_interval_of_its_baseline() -> None:
    baseline = a_run(*(a_case(f"c{at}", one) for at, one in enumerate(MIXED)))
    run = a_run(*(a_case(f"c{at}", one[:3]) for at, one in enumerate(MIXED)))
    found = compared(baseline, run)
    assert found.effect.mean_interval == found.effect.baseline_mean_interval is not None
    assert found.effect.mean_interval[0] < found.effect.mean < found.effect.mean_interval[1]


def test_other_scores_have_a_t_interval_and_one_case_has_none() -> None:
    scores = [[0.2, 0.4], [0.6, 0.6], [0.9, 0.7]]
    found = compared(*scored_runs(scores, scores))
    assert found.effect.mean_interval is not None
    assert found.effect.mean_interval[0] < found.effect.mean < found.effect.mean_interval[1]
    assert compared(*scored_runs(scores[:1], scores[:1])).effect.mean_interval is None


def test_ratios_have_geometric_means_in_theirs() -> None:
    baseline = [[1.0, 2.0], [2.0, 4.0], [3.0, 5.0], [1.5, 2.5], [0.5, 1.0], [2.0, 2.0]]
    current = [[2 * score for score in scores] for scores in baseline]
    found = compared(*scored_runs(baseline, current), GateRules(test="log-ratio"))
    assert found.effect.baseline_mean_interval is not None
    assert found.effect.mean_interval == pytest.approx(
        tuple(2 * end for end in found.effect.baseline_mean_interval)
    )
    low, high = found.effect.baseline_mean_interval
    assert math.sqrt(low * high) == pytest.approx(found.effect.baseline_mean)


def test_cases_that_share_a_draw_tell_less_of_a_mean_though_it_cancels_in_the_difference() -> None:
    def sharing(index: int) -> tuple[object, ...]:
        return (a_call("S", "s0", trial=None), a_call("own", f"{index}", trial=index))

    alone = compared(*runs(list(zip(MIXED, MIXED, strict=True))))
    run = a_run(*(a_case(f"c{at}", one, calls=sharing) for at, one in enumerate(MIXED)))
    shared = compared(run, run)
    assert alone.effect.baseline_mean_interval is not None
    assert shared.effect.baseline_mean_interval is None  # a single unit


def test_without_a_common_case_there_is_none() -> None:
    found = compared(a_run(a_case("a", "pp")), a_run(a_case("b", "pp")))
    assert (found.effect.baseline_mean_interval, found.effect.mean_interval) == (None, None)
