from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.power import TTestPower

from pytest_llmeval.stats.sample import CaseScores
from pytest_llmeval.stats.suite_size import (
    Components,
    Design,
    assumed_components,
    cases_needed,
    detectable_drop,
    estimated_components,
    fallen,
    plan,
    power_of,
    repeats_needed,
)
from tests.stats.ab_post import RATES, SHARES

quick = settings(max_examples=60)

# the mix of cases of the A/B post, each as often as its share says
MIX = np.repeat(RATES, np.rint(np.array(SHARES) * 20).astype(int))
SPREAD = assumed_components(MIX, fallen(MIX, 0.05))


def design(cases: float = 100, baseline: float = 5, current: float = 5) -> Design:
    return Design(cases=cases, baseline=baseline, current=current, components=SPREAD)


@quick
@given(st.integers(2, 500), st.floats(0, 0.3), st.floats(0.001, 0.4))
def test_power_is_that_of_statsmodels(cases: int, drop: float, alpha: float) -> None:
    planned = replace(design(cases), alpha=alpha)
    size = drop / (planned.standard_error * np.sqrt(cases))
    expected = TTestPower().power(size, cases, alpha, alternative="larger")
    assert power_of(planned, drop=drop) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("repeats", "cases"), [(1, 683), (2, 343), (3, 230), (5, 139), (10, 71), (20, 37)]
)
def test_cases_for_a_drop_of_five_points_are_those_of_the_simulated_table(
    repeats: int, cases: int
) -> None:
    assert cases_needed(design(1, repeats, repeats), drop=0.05) == cases


@pytest.mark.parametrize(("repeats", "cases"), [(1, 408), (3, 159), (5, 109), (10, 71)])
def test_ten_repeats_in_the_baseline_save_cases(repeats: int, cases: int) -> None:
    assert cases_needed(design(1, 10, repeats), drop=0.05) == cases


@pytest.mark.parametrize(
    ("cases", "repeats", "simulated"),
    [
        (30, 1, 0.13),
        (30, 5, 0.31),
        (64, 5, 0.52),
        (100, 5, 0.684),
        (100, 10, 0.908),
        (200, 3, 0.75),
    ],
)
def test_planned_power_is_what_simulations_found(
    cases: int, repeats: int, simulated: float
) -> None:
    planned = design(cases, repeats, repeats)
    assert power_of(planned, drop=0.05) == pytest.approx(simulated, abs=0.025)


def test_the_smallest_drop_is_found_with_eighty_percent_power() -> None:
    drop = detectable_drop(design())
    assert drop is not None
    assert power_of(design(), drop=drop) == pytest.approx(0.8, abs=1e-6)


def test_repeats_needed_are_the_fewest_that_find_the_drop() -> None:
    found = repeats_needed(design(100, baseline=10), drop=0.05)
    assert found is not None
    assert power_of(design(100, 10, found), drop=0.05) >= 0.8
    assert power_of(design(100, 10, found - 1), drop=0.05) < 0.8


def test_a_large_suite_needs_one_repeat() -> None:
    assert repeats_needed(design(1000, baseline=10), drop=0.05) == 1


def test_more_repeats_here_cannot_make_up_for_too_few_in_the_baseline() -> None:
    assert repeats_needed(design(100, baseline=1), drop=0.05) is None
    assert repeats_needed(design(100, baseline=1), drop=0.05, baseline_too=True) == 7


def test_a_drop_too_small_for_a_million_cases_is_out_of_reach() -> None:
    assert cases_needed(design(), drop=1e-5) is None


@quick
@given(st.floats(0, 6), st.lists(st.floats(-9, 6), min_size=4, max_size=4), st.floats(-6, -0.31))
def test_every_search_of_a_plan_ends(log_cases: float, logs: list[float], log_alpha: float) -> None:
    baseline, current, between, drop = (10**log for log in logs)
    parts = Components(within_baseline=baseline, within_current=current, between=between)
    planned = Design(
        cases=int(10**log_cases), baseline=5, current=5, components=parts, alpha=10**log_alpha
    )
    assert 0 <= power_of(planned, drop=drop) <= 1 + 1e-9
    needed = cases_needed(planned, drop=drop)
    assert needed is None or 1 < needed <= 1_000_000
    repeats = repeats_needed(planned, drop=drop)
    assert repeats is None or 1 <= repeats <= 1000
    smallest = detectable_drop(planned)
    assert smallest is None or 0 < smallest < np.inf


def test_curve_gives_calls_power_and_smallest_drop() -> None:
    curve = plan(design(100, baseline=10), drop=0.05, power=0.8).by_repeats
    points = [point for point in curve if point.repeats in {1, 5, 20}]
    assert [point.calls for point in points] == [100, 500, 2000]
    for point in points:
        planned = design(100, 10, point.repeats)
        assert point.power == power_of(planned, drop=0.05)
        assert point.smallest_drop == detectable_drop(planned)
    assert points[0].power < points[1].power < points[2].power


def test_one_case_finds_nothing() -> None:
    assert power_of(design(1), drop=0.5) == 0.0
    assert detectable_drop(design(1)) is None


@pytest.mark.parametrize(("cases", "power"), [(4, 0.0), (5, 1.0)])
def test_without_chance_every_case_falls_and_enough_like_signs_find_it(
    cases: int, power: float
) -> None:
    sure = replace(design(cases), components=Components(within_baseline=0.0, within_current=0.0))
    assert power_of(sure, drop=0.1) == power
    assert power_of(sure, drop=0.0) == 0.0
    assert detectable_drop(sure) is None


@quick
@given(st.integers(2, 10**6), st.floats(0, 1))
def test_power_is_a_probability_at_any_size(cases: int, drop: float) -> None:
    assert 0.0 <= power_of(design(cases), drop=drop) <= 1.0


def cases_of(size: int, *, repeats: int = 5, drop: float = 0.05) -> list[CaseScores]:
    random = np.random.default_rng(1)
    rates = random.choice(MIX, size=(size, 1))
    baseline = (random.random((size, repeats)) < rates).astype(float).tolist()
    current = (random.random((size, repeats)) < fallen(rates, drop)).astype(float).tolist()
    return [
        CaseScores(baseline=tuple(t), current=tuple(h))
        for t, h in zip(baseline, current, strict=True)
    ]


def test_estimated_components_are_those_that_were_simulated() -> None:
    found = estimated_components(cases_of(4000, drop=0.3))
    expected = assumed_components(MIX, fallen(MIX, 0.3))
    assert found is not None
    assert found.within_baseline == pytest.approx(expected.within_baseline, abs=0.005)
    assert found.within_current == pytest.approx(expected.within_current, abs=0.005)
    assert found.between == pytest.approx(expected.between, abs=0.005)


def test_estimated_components_give_the_spread_of_the_differences_back() -> None:
    cases = cases_of(200, drop=0.4)
    found = estimated_components(cases)
    assert found is not None
    error = Design(cases=200, baseline=5, current=5, components=found).standard_error
    assert error == pytest.approx(np.std([c.difference(1) for c in cases], ddof=1) / np.sqrt(200))


def test_spread_between_cases_is_never_negative() -> None:
    alike = [CaseScores(baseline=(0.0, 1.0), current=(1.0, 0.0))] * 4
    found = estimated_components(alike)
    assert found is not None
    assert found.between == 0.0


@pytest.mark.parametrize(
    "cases",
    [
        [],
        [CaseScores(baseline=(0.0, 1.0), current=(1.0, 0.0))],
        [CaseScores(baseline=(0.0,), current=(1.0, 0.0))] * 3,
        [CaseScores(baseline=(0.0, 1.0), current=(1.0,))] * 3,
    ],
)
def test_components_are_unknown_without_repeats_or_cases(cases: list[CaseScores]) -> None:
    assert estimated_components(cases) is None


def test_rates_fall_by_one_factor() -> None:
    assert fallen([0.2, 0.6], 0.1) == pytest.approx([0.15, 0.45])
