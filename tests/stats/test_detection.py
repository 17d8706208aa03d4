from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from pytest_llmeval.stats.detection import (
    PlannedTest,
    detectable_shift,
    expected_rates,
    fewest,
    power_of_t,
    smallest_pass_drop,
    smallest_score_drop,
    within_case_variance,
)
from tests.stats.reference import vector

quick = settings(max_examples=25)


def plan(
    baseline: Sequence[float],
    current: Sequence[float],
    *,
    dof: int | None = None,
    copies: float = 1.0,
) -> PlannedTest:
    return PlannedTest(
        baseline=np.array(baseline, dtype=float),
        current=np.array(current, dtype=float),
        alpha=0.05,
        dof=dof,
        copies=copies,
    )


def test_drop_found_at_a_hundred_cases_agrees_with_the_computed_reference() -> None:
    mde = vector("mde_m100_se002")
    found = detectable_shift(dof=mde["given"]["m"] - 1, alpha=0.05) * mde["given"]["se"]
    assert found == pytest.approx(mde["expected"]["mde"], abs=mde["tolerance"]["abs"])


def test_drop_found_at_eight_cases_agrees_with_the_computed_reference() -> None:
    expected = vector("engine_case8x5")["expected"]
    found = detectable_shift(dof=7, alpha=0.05) * expected["se"]
    assert found == pytest.approx(expected["mde80_one_sided"], abs=1e-6)


def test_number_of_cases_needed_agrees_with_statsmodels() -> None:
    needed = vector("cases_needed")
    sd, delta = needed["given"]["sd_diff"], -needed["given"]["delta"]

    def drop(cases: int) -> float:
        return detectable_shift(dof=cases - 1, alpha=0.05) * sd / math.sqrt(cases)

    assert drop(needed["expected"]["round_up"]) <= delta < drop(needed["expected"]["round_up"] - 1)


@quick
@given(st.integers(5, 500), st.floats(0.001, 0.4))
def test_drop_found_is_the_root_of_the_noncentral_t(dof: int, alpha: float) -> None:
    shift = detectable_shift(dof=dof, alpha=alpha)
    power = stats.nct.sf(stats.t.ppf(1 - alpha, dof), dof, shift)
    assert power == pytest.approx(0.8, abs=1e-6)


@quick
@given(st.floats(-3, 6), st.floats(-6, math.log10(0.499)))
def test_the_search_for_a_detectable_shift_ends(log_dof: float, log_alpha: float) -> None:
    dof, alpha = 10**log_dof, 10**log_alpha
    shift = detectable_shift(dof=dof, alpha=alpha)
    assert 0 < shift < math.inf
    if dof > 0.05:
        critical = float(stats.t.isf(alpha, dof))
        assert power_of_t(shift, dof=dof, critical=critical) == pytest.approx(0.8, abs=1e-6)


def test_a_drop_that_a_fraction_of_a_degree_of_freedom_finds_is_astronomic() -> None:
    assert detectable_shift(dof=0.15, alpha=0.05) == pytest.approx(613_923, rel=1e-4)


@pytest.mark.parametrize(
    ("shift", "dof", "critical"),
    [(40.8, 1, 31.8), (29.9, 1, 31.8), (500.0, 2, 707.0), (30.1, 3, 22.2), (31.0, 500, 30.5)],
)
def test_power_of_a_large_shift_is_that_of_an_integral_over_the_spread(
    shift: float, dof: int, critical: float
) -> None:
    spread = stats.chi(dof, scale=1 / math.sqrt(dof))
    expected, _ = integrate.quad(
        lambda width: spread.pdf(width) * stats.norm.cdf(shift - critical * width),
        0,
        spread.isf(1e-15),
        points=[shift / critical],
        limit=200,
    )
    assert power_of_t(shift, dof=dof, critical=critical) == pytest.approx(expected, abs=1e-9)


@functools.cache
def quantile(level: float, dof: float | None) -> float:
    return float(stats.norm.ppf(level) if dof is None else stats.t.ppf(level, dof))


def needed_by_hand(drop: float, rates: np.ndarray, test: PlannedTest) -> float:
    """The right-hand side of the formula, term by term."""
    k = len(rates)
    null = shifted = 0.0
    for p0, n0, n1 in zip(rates, test.baseline, test.current, strict=True):
        p1 = max(0.0, p0 - drop)
        pooled = (n0 * p0 + n1 * p1) / (n0 + n1)
        null += pooled * (1 - pooled) * (1 / n0 + 1 / n1)
        shifted += p0 * (1 - p0) / n0 + p1 * (1 - p1) / n1
    return float(
        1 / (2 * k * np.mean(test.current))
        + quantile(1 - test.alpha, test.dof) * math.sqrt(null) / k
        + quantile(0.8, test.dof) * math.sqrt(shifted) / k
    )


def smallest_by_hand(rates: np.ndarray, test: PlannedTest) -> float | None:
    for drop in np.linspace(0, 1, 20_001):
        fallen = float(np.mean(np.minimum(rates, drop)))
        if fallen >= needed_by_hand(drop, rates, test):
            return fallen
    return None


@pytest.mark.parametrize(
    ("rates", "test"),
    [
        ([0.9, 0.95, 0.5, 0.99], plan([10, 10, 9, 10], [5, 4, 5, 5])),
        ([0.97] * 3, plan([10] * 3, [5] * 3)),
        ([0.3, 0.9, 0.9, 0.8, 0.7, 0.95, 0.2], plan([10] * 7, [5] * 7, dof=6)),
        ([0.05, 0.9, 0.9, 0.9, 0.9, 0.9], plan([3] * 6, [20] * 6, dof=5)),
    ],
)
def test_smallest_pass_drop_is_the_first_to_satisfy_the_formula(
    rates: list[float], test: PlannedTest
) -> None:
    found = smallest_pass_drop(np.array(rates), test)
    assert found == pytest.approx(smallest_by_hand(np.array(rates), test), abs=1e-4)


def test_pass_drop_that_even_a_total_failure_would_not_show_is_unknown() -> None:
    assert smallest_pass_drop(np.array([0.9]), plan([1], [1])) is None


def test_pass_drop_never_exceeds_the_rates_that_can_fall() -> None:
    rates = np.array([0.02, 0.9, 0.95, 0.9])
    found = smallest_pass_drop(rates, plan([10] * 4, [10] * 4))
    assert found is not None
    assert found < rates.mean()


def test_copies_of_the_cases_count_as_that_many_more() -> None:
    rates, baseline, current = [0.9, 0.8], [10, 10], [5, 5]
    once = smallest_pass_drop(np.array(rates * 3), plan(baseline * 3, current * 3))
    copied = smallest_pass_drop(np.array(rates), plan(baseline, current, copies=3))
    assert copied == pytest.approx(once)


def test_expected_rates_are_drawn_towards_the_overall_rate_by_one_trial() -> None:
    assert expected_rates([10, 0, 2], [10, 10, 4], overall=0.6) == pytest.approx(
        [10.6 / 11, 0.6 / 11, 2.6 / 5]
    )


def test_smallest_score_drop_adds_the_quantiles_of_level_and_power() -> None:
    test = plan([10, 10, 5], [5, 4, 5])
    spread = math.sqrt(0.04 * (1 / 10 + 1 / 5 + 1 / 10 + 1 / 4 + 1 / 5 + 1 / 5)) / 3
    expected = (stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) * spread
    assert smallest_score_drop(0.04, test) == pytest.approx(expected)


def test_smallest_score_drop_takes_t_quantiles_where_there_are_degrees_of_freedom() -> None:
    test = plan([5] * 6, [5] * 6, dof=5)
    expected = (stats.t.ppf(0.95, 5) + stats.t.ppf(0.8, 5)) * math.sqrt(0.04 * 2 / 5 / 6)
    assert smallest_score_drop(0.04, test) == pytest.approx(expected)


def test_smallest_score_drop_of_copies_shrinks_with_their_root() -> None:
    once = smallest_score_drop(0.04, plan([5], [5]))
    assert once is not None
    assert smallest_score_drop(0.04, plan([5], [5], copies=4)) == pytest.approx(once / 2)


@pytest.mark.parametrize("variance", [None, 0.0])
def test_smallest_score_drop_without_variance_is_unknown(variance: float | None) -> None:
    assert smallest_score_drop(variance, plan([5], [5])) is None


def test_within_case_variance_pools_all_samples_of_a_case_and_side() -> None:
    samples = [[0.1, 0.3, 0.5], [0.2], [0.9, 0.7]]
    assert within_case_variance(samples) == pytest.approx((0.08 + 0.0 + 0.02) / 3)


def test_within_case_variance_without_repeats_is_unknown() -> None:
    assert within_case_variance([[0.1], [0.9]]) is None


def test_within_case_variance_of_rounding_errors_is_zero() -> None:
    assert within_case_variance([[0.3, 0.1 + 0.2], [0.5, 0.5]]) == 0.0


@quick
@given(st.integers(0, 50), st.integers(51, 200))
def test_fewest_is_the_smallest_number_that_is_enough(above: int, enough: int) -> None:
    assert fewest(lambda number: number >= enough, above=above, limit=200) == enough


def test_fewest_is_unknown_beyond_the_limit() -> None:
    assert fewest(lambda number: number >= 201, above=3, limit=200) is None


def test_fewest_is_unknown_where_the_number_at_hand_is_enough() -> None:
    assert fewest(lambda _: True, above=3, limit=200) is None
