from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_llmeval.stats.expected import (
    ExpectedMean,
    expect_mean,
    pooled_prediction,
    repeat_prediction,
    repeats_for_width,
    shift_p,
)

quick = settings(max_examples=40)


def suite(cases: int = 40, repeats: int = 4, *, seed: int = 0) -> list[list[float]]:
    random = np.random.default_rng(seed)
    rates = random.choice([0.15, 0.5, 0.9], size=(cases, 1))
    scores: list[list[float]] = (random.random((cases, repeats)) < rates).astype(float).tolist()
    return scores


def drifting() -> list[list[float]]:
    return [[1.0, 0.0, 1.0, 0.0]] * 12


def test_steady_repeats_are_expected_by_the_spread_within_cases() -> None:
    found, pooled = expect_mean(suite()), pooled_prediction(suite())
    assert pooled is not None
    assert (found.spread, found.interval, found.drifts) == (pooled, pooled.interval, False)
    assert found.width == pytest.approx(2 * pooled.half_width)


def test_equation_3_is_shown_beside_it() -> None:
    by_repeats = repeat_prediction(np.mean(suite(), axis=0))
    assert by_repeats is not None
    assert expect_mean(suite()).by_repeats == by_repeats.interval


def test_repeats_that_drift_are_expected_by_equation_3() -> None:
    found = expect_mean(drifting())
    by_repeats = repeat_prediction(np.mean(drifting(), axis=0))
    assert (found.spread, found.drifts) == (by_repeats, True)


def test_rates_are_never_expected_beyond_0_and_1() -> None:
    low, high = expect_mean([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]).interval or (-1.0, 2.0)
    assert low >= 0.0
    assert high == 1.0


def test_scores_may_be_expected_anywhere() -> None:
    _, high = expect_mean([[0.9, 2.0], [1.0, 0.0]]).interval or (0.0, 0.0)
    assert high > 1.0


def test_trials_that_all_agree_leave_room_for_misses_that_were_not_seen() -> None:
    found = expect_mean([[1.0] * 3] * 10)
    assert (found.spread, found.by_repeats) == (None, None)
    # six misses would all fall into the later run with a chance of 1 in 64, below 2.5 %
    assert found.interval == pytest.approx((1 - 5 / 30, 1.0))


def test_cases_that_never_pass_may_pass_in_a_later_run() -> None:
    found = expect_mean([[1.0] * 3] * 10 + [[0.0] * 3] * 10)
    assert found.interval == pytest.approx((0.5 - 5 / 60, 0.5 + 5 / 60))


@pytest.mark.parametrize("rate", [0.99, 0.95, 0.9])
def test_trials_that_agree_cover_a_later_run(rate: float) -> None:
    random = np.random.default_rng(4)
    seen = random.random((4000, 30)) < rate
    later = (random.random((4000, 30)) < rate).mean(axis=1)
    low, _ = expect_mean([[1.0] * 3] * 10).interval or (1.0, 1.0)
    assert np.mean(seen.all(axis=1) & (later < low - 1e-9)) <= 0.025


@pytest.mark.parametrize(
    "samples", [[[1.0], [0.0]], [[0.5, 0.5], [0.7, 0.7]], [[1.0, 1.0, 1.0], [0.0]]]
)
def test_nothing_is_expected_without_repeats_or_of_scores_that_never_vary(
    samples: list[list[float]],
) -> None:
    found = expect_mean(samples)
    assert (found.interval, found.width, found.width_at(9)) == (None,) * 3
    assert repeats_for_width(found, width=0.1, limit=50) is None


def narrowed(found: ExpectedMean, repeats: int) -> float:
    width = found.width_at(repeats)
    assert width is not None
    return width


def test_width_at_the_repeats_at_hand_is_the_width() -> None:
    for samples in (suite(), [[0.1, 0.4, 0.2], [0.3, 0.5, 0.9]], [[1.0] * 3] * 10):
        found = expect_mean(samples)
        assert narrowed(found, found.repeats) == pytest.approx(found.width)


def test_repeats_for_a_width_are_the_fewest_that_reach_it() -> None:
    found = expect_mean(suite())
    number = repeats_for_width(found, width=0.05, limit=1000)
    assert number is not None
    assert narrowed(found, number) <= 0.05 < narrowed(found, number - 1)


def test_more_than_the_limit_is_not_named() -> None:
    assert repeats_for_width(expect_mean(suite()), width=0.001, limit=30) is None


def test_a_width_that_is_reached_needs_no_more() -> None:
    assert repeats_for_width(expect_mean(suite()), width=0.9, limit=30) is None


@quick
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=1, max_size=6),
    st.integers(2, 60),
)
def test_more_repeats_never_widen_an_interval(cases: list[list[int]], repeats: int) -> None:
    found = expect_mean(cases)
    if found.width is not None:
        assert math.isfinite(narrowed(found, repeats))
        assert narrowed(found, repeats + 1) <= narrowed(found, repeats)


@pytest.mark.unmeasured
@pytest.mark.parametrize(("cases", "width"), [(30, 0.2), (100, 0.1)])
def test_looking_until_it_is_narrow_keeps_the_coverage(cases: int, width: float) -> None:
    random, most = np.random.default_rng(5), 30
    covered = 0
    for _ in range(200):
        rates = random.choice([0.15, 0.5, 0.9], p=[0.25, 0.15, 0.6], size=(cases, 1))
        scores = (random.random((cases, 2 * most)) < rates).astype(float)
        repeats = 3
        while True:
            found = expect_mean(scores[:, :repeats].tolist())
            assert found.interval is not None
            if repeats == most or (found.width or 1) <= width:
                break
            needed = repeats_for_width(found, width=width, limit=most) or most
            repeats = min(needed, 2 * repeats)
        low, high = found.interval
        covered += low <= scores[:, most : most + repeats].mean() <= high
    assert covered / 200 > 0.91


@pytest.mark.unmeasured
def test_two_runs_that_differ_by_chance_are_called_shifted_as_rarely_as_the_level_says() -> None:
    random, told = np.random.default_rng(6), 0
    rates = random.choice([0.15, 0.5, 0.9], size=(40, 1))
    for _ in range(400):
        one, other = ((random.random((40, n)) < rates).astype(float).tolist() for n in (5, 3))
        p = shift_p(one, other)
        told += p is not None and p < 0.05
    assert 8 <= told <= 34


def test_a_shift_is_seen_and_its_p_is_that_of_a_z_test() -> None:
    one, other = [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]
    variances = [(2 / 3 + 0.0) / 3, (2 / 3 + 0.5) / 3]
    z = (2 / 3 + 2 / 3 - 0.5) / math.sqrt(sum(v * (1 / 3 + 1 / 2) for v in variances))
    assert shift_p(one, other) == pytest.approx(2 * stats.norm.sf(z))


def test_where_nothing_varies_but_the_means_there_is_no_chance() -> None:
    assert shift_p([[1.0, 1.0]], [[0.0]]) == 0.0
    assert shift_p([[1.0, 1.0]], [[1.0]]) is None
    assert shift_p([[1.0], [0.0]], [[0.0], [0.0]]) is None
