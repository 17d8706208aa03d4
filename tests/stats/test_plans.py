from __future__ import annotations

import numpy as np
import pytest

from pytest_llmeval.stats.suite_size import (
    Components,
    Design,
    assumed_components,
    cases_needed,
    detectable_drop,
    fallen,
    plan,
    power_of,
    recorded_components,
    repeats_needed,
)

MIX = np.repeat([0.15, 0.5, 0.9], [5, 3, 12])
DESIGN = Design(
    cases=60, baseline=10, current=5, components=assumed_components(MIX, fallen(MIX, 0.05))
)


def scores(cases: int, repeats: int, *, seed: int = 3) -> list[list[float]]:
    random = np.random.default_rng(seed)
    rates = np.resize(MIX, cases)[:, np.newaxis]
    drawn: list[list[float]] = (random.random((cases, repeats)) < rates).astype(float).tolist()
    return drawn


def test_plan_tells_what_is_found_now_and_what_is_needed() -> None:
    found = plan(DESIGN, drop=0.05, power=0.9)
    assert found.power == power_of(DESIGN, drop=0.05)
    assert found.smallest_drop == detectable_drop(DESIGN)
    assert found.cases == cases_needed(DESIGN, drop=0.05, power=0.9)
    assert found.repeats == repeats_needed(DESIGN, drop=0.05, power=0.9)
    assert found.repeats_on_both_sides == repeats_needed(
        DESIGN, drop=0.05, power=0.9, baseline_too=True
    )


def test_curves_hold_what_there_is_and_what_is_needed() -> None:
    found = plan(DESIGN, drop=0.1, power=0.8)
    repeats = [point.repeats for point in found.by_repeats]
    cases = [each.cases for each in found.by_cases]
    assert repeats == sorted({1, 2, 3, 5, 10, 20, 30, found.repeats})
    assert cases == sorted({30, 60, 120, 180, 300, 600, found.cases})


def test_curve_over_cases_keeps_the_repeats() -> None:
    for each in plan(DESIGN, drop=0.05, power=0.8).by_cases:
        assert (each.repeats, each.calls) == (5, 5 * each.cases)
        assert each.power == power_of(
            Design(cases=each.cases, baseline=10, current=5, components=DESIGN.components),
            drop=0.05,
        )


def test_single_case_is_planned_with() -> None:
    found = plan(
        Design(cases=1, baseline=1, current=1, components=DESIGN.components), drop=0.05, power=0.8
    )
    assert (found.power, found.smallest_drop, found.repeats) == (0.0, None, None)
    assert found.cases is not None


def test_components_of_a_run_are_those_of_the_rates_it_was_drawn_from() -> None:
    found = recorded_components(scores(20_000, 5), drop=0.2, pass_scores=True)
    expected = assumed_components(MIX, fallen(MIX, 0.2))
    assert found is not None
    assert found.within_baseline == pytest.approx(expected.within_baseline, abs=0.005)
    assert found.within_current == pytest.approx(expected.within_current, abs=0.005)
    assert found.between == pytest.approx(expected.between, abs=0.001)


def test_run_that_passed_throughout_would_vary_after_a_drop() -> None:
    found = recorded_components([[1.0] * 5] * 8, drop=0.1, pass_scores=True)
    assert found is not None
    assert (found.within_baseline, found.between) == (0.0, 0.0)
    assert found.within_current == pytest.approx(0.1 * 0.9)


def test_other_scores_are_thought_to_vary_after_a_drop_as_before() -> None:
    found = recorded_components([[0.2, 0.4], [0.7, 0.9]], drop=0.055, pass_scores=False)
    assert found is not None
    assert found.within_current == found.within_baseline == pytest.approx(0.02)
    assert found.between == pytest.approx(0.1**2 * (0.125 - 0.01))


def test_scores_around_zero_are_thought_to_fall_alike() -> None:
    found = recorded_components([[-1.0, -0.5], [1.0, 0.5]], drop=0.1, pass_scores=False)
    assert found == Components(within_baseline=0.125, within_current=0.125, between=0.0)


@pytest.mark.parametrize("samples", [[[1.0, 0.0]], [[1.0], [0.0], [1.0]]])
def test_components_of_a_run_need_two_cases_and_repeats(samples: list[list[float]]) -> None:
    assert recorded_components(samples, drop=0.1, pass_scores=True) is None
