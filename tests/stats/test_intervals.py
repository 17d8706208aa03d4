from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_llmeval.stats.intervals import (
    mean_interval,
    pass_rate_interval,
    wilson_interval,
    within_share,
)

quick = settings(max_examples=60)

samples = st.lists(st.integers(0, 10).map(lambda n: n / 10), min_size=2, max_size=20)


@quick
@given(samples.filter(lambda sample: len(set(sample)) > 1), st.floats(0.01, 0.4))
def test_interval_of_cases_is_the_t_interval_of_scipy(sample: list[float], alpha: float) -> None:
    expected = stats.ttest_1samp(sample, 0).confidence_interval(1 - 2 * alpha)
    found = mean_interval(sample, alpha=alpha)
    assert found.mean == pytest.approx(np.mean(sample))
    assert found.interval == pytest.approx((expected.low, expected.high))


def test_one_case_has_no_interval() -> None:
    assert mean_interval([0.5], alpha=0.05).interval is None


def test_cases_without_spread_have_no_interval() -> None:
    assert mean_interval([0.7, 0.7, 0.7], alpha=0.05).interval is None


def test_one_unit_of_several_cases_has_no_interval() -> None:
    found = mean_interval([0.5, 0.7, 0.9], [0, 0, 0], alpha=0.05)
    assert (found.interval, found.units) == (None, 1)


def test_fewer_than_two_effective_units_have_no_interval() -> None:
    found = mean_interval([0.5, 0.7, 0.9, 0.1], [0, 0, 0, 1], alpha=0.05)
    assert (found.interval, found.units) == (None, 2)


def test_cases_of_one_unit_widen_the_interval() -> None:
    sample = [0.1, 0.2, 0.5, 0.6, 0.8, 0.9]
    apart = mean_interval(sample, alpha=0.05).interval
    tied = mean_interval(sample, [0, 0, 1, 1, 2, 2], alpha=0.05).interval
    assert apart is not None
    assert tied is not None
    assert tied[1] - tied[0] > apart[1] - apart[0]


@quick
@given(st.integers(1, 60), st.floats(0.001, 0.49))
def test_interval_of_hits_or_misses_alone_ends_where_the_scale_does(
    trials: int, alpha: float
) -> None:
    assert wilson_interval(0, trials, alpha=alpha)[0] == 0.0
    assert wilson_interval(trials, trials, alpha=alpha)[1] == 1.0


@quick
@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_interval_of_a_case_is_the_wilson_interval_of_scipy(counts: tuple[int, int]) -> None:
    expected = stats.binomtest(*counts).proportion_ci(0.9, method="wilson")
    found = wilson_interval(*counts, alpha=0.05)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_cases_that_all_passed_have_an_interval_as_wide_as_their_number_says() -> None:
    found = pass_rate_interval([1.0] * 20, trials=100, alpha=0.05).interval
    assert found is not None
    assert found[1] == 1.0
    expected = wilson_interval(20, 20, alpha=0.05, quantile=float(stats.t.ppf(0.95, 19)))
    assert found == pytest.approx(expected)


def test_one_trial_a_case_is_worth_one_trial() -> None:
    rates = [1.0] * 14 + [0.0] * 6
    found = pass_rate_interval(rates, trials=20, alpha=0.05).interval
    expected = wilson_interval(14, 20, alpha=0.05, quantile=float(stats.t.ppf(0.95, 19)))
    assert found == pytest.approx(expected)


def test_repeats_are_never_worth_more_than_as_many_independent_trials() -> None:
    rates = [0.5, 0.5, 0.5, 0.5, 0.6]
    found = pass_rate_interval(rates, trials=50, alpha=0.05).interval
    expected = wilson_interval(26, 50, alpha=0.05, quantile=float(stats.t.ppf(0.95, 4)))
    assert found == pytest.approx(expected)


def test_a_single_unit_has_no_interval_of_pass_rates() -> None:
    found = pass_rate_interval([0.5, 0.7], [1, 1], trials=10, alpha=0.05)
    assert (found.interval, found.units, found.mean) == (None, 1, pytest.approx(0.6))


@quick
@given(st.lists(st.integers(0, 5).map(lambda n: n / 5), min_size=2, max_size=20))
def test_interval_of_pass_rates_holds_the_mean_and_stays_in_range(rates: list[float]) -> None:
    found = pass_rate_interval(rates, trials=5 * len(rates), alpha=0.05)
    assert found.interval is not None
    low, high = found.interval
    assert 0 <= low <= found.mean + 1e-9
    assert found.mean - 1e-9 <= high <= 1


def test_interval_of_pass_rates_covers_what_it_says_near_the_ceiling() -> None:
    random = np.random.default_rng(5)
    covered = by_t = 0
    for _ in range(500):
        rates = random.binomial(3, random.beta(20, 1, size=15)) / 3
        found = pass_rate_interval(rates, trials=45, alpha=0.05).interval
        plain = mean_interval(rates, alpha=0.05).interval
        assert found is not None
        covered += found[0] <= 20 / 21 <= found[1]
        by_t += plain is not None and plain[0] <= 20 / 21 <= plain[1]
    assert covered / 500 > 0.88
    assert by_t < covered


@pytest.mark.parametrize(
    ("scores", "ends"),
    [
        ([[0.5, 1.0], [0.9]], (-0.1, 1.0)),
        ([[0.0, 0.5], [0.9]], (0.0, 1.1)),
        ([[0.0], [1.0]], (0.0, 1.0)),
        ([[0.2], [0.9]], (-0.1, 1.1)),
        ([[0.0], [3.0]], (-0.1, 1.1)),
        ([[-1.0], [1.0]], (-0.1, 1.1)),
    ],
)
def test_interval_of_a_share_ends_where_a_share_does(
    scores: list[list[float]], ends: tuple[float, float]
) -> None:
    assert within_share((-0.1, 1.1), scores) == ends
