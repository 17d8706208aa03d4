from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_llmeval.stats.exact import exact_within_case, fewest_repeats
from pytest_llmeval.stats.expected import drift_p
from pytest_llmeval.stats.sample import CaseScores, in_step, totals_of_repeats
from pytest_llmeval.stats.t_tests import error_of_totals, welch

quick = settings(max_examples=60)

samples = st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=2, max_size=12)
spread = samples.filter(lambda sample: len(set(sample)) > 1)


@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")  # scipy's, of one side alike
@quick
@given(spread, samples)
def test_welch_is_that_of_scipy(baseline: list[float], current: list[float]) -> None:
    found = welch(baseline, current)
    expected = stats.ttest_ind(current, baseline, equal_var=False, alternative="less")
    assert (found.statistic, found.dof) == pytest.approx(
        (expected.statistic, expected.df), abs=1e-12
    )
    assert found.tails.worse == pytest.approx(expected.pvalue, rel=1e-9)


@quick
@given(samples, samples)
def test_exchanging_the_sides_mirrors_welch(baseline: list[float], current: list[float]) -> None:
    found, other = welch(baseline, current), welch(current, baseline)
    assert found.tails.worse == pytest.approx(other.tails.better, rel=1e-9)


@quick
@given(spread, spread, st.floats(0.1, 50), st.floats(-5, 5))
def test_shift_and_scale_leave_the_t_of_welch(
    baseline: list[float], current: list[float], scale: float, shift: float
) -> None:
    moved = welch(*([scale * value + shift for value in side] for side in (baseline, current)))
    assert moved.statistic == pytest.approx(welch(baseline, current).statistic, rel=1e-6, abs=1e-9)


def test_repeats_without_spread_that_differ_have_the_p_of_the_most_extreme_deal() -> None:
    fell = welch([0.8] * 4, [0.7] * 3)
    assert (fell.statistic, fell.dof) == (None, None)
    assert (fell.tails.worse, fell.tails.better) == (1 / 35, 1.0)
    assert welch([0.7] * 3, [0.8] * 4).tails.better == 1 / 35


def test_repeats_that_are_all_alike_show_nothing() -> None:
    found = welch([0.7] * 4, [0.7] * 3)
    assert (found.tails.worse, found.tails.better) == (1.0, 1.0)


def test_repeats_in_step_are_those_that_every_case_has() -> None:
    assert in_step([[1, 2, 3], [4, 5]]) == [[1, 2], [4, 5]]


def test_repeats_that_jump_together_drift() -> None:
    random = np.random.default_rng(0)
    steady = random.random((60, 6)) < 0.7
    found = drift_p(steady.astype(float))
    assert found is not None
    assert found > 0.05
    broken = steady.copy()
    broken[:, 3:] &= random.random((60, 3)) < 0.6
    jumped = drift_p(broken.astype(float))
    assert jumped is not None
    assert jumped < 0.001


def test_drift_holds_the_spread_of_repeats_against_the_spread_within_cases() -> None:
    scores = np.array([[0.1, 0.4, 0.3], [0.9, 0.5, 0.8]])
    found = drift_p(scores)
    explained = scores.var(axis=1, ddof=1).sum() / 4
    statistic = 2 * scores.mean(axis=0).var(ddof=1) / explained
    assert found == pytest.approx(stats.chi2.sf(statistic, 2))


def test_drift_is_found_without_cause_as_rarely_as_the_level_says() -> None:
    random = np.random.default_rng(1)
    rates = random.beta(4, 2, size=(40, 1))
    found = [drift_p((random.random((40, 5)) < rates).astype(float)) for _ in range(600)]
    alarms = np.mean([p is not None and p < 0.05 for p in found])
    assert 0.02 < alarms < 0.09


@pytest.mark.parametrize("scores", [[[0.1], [0.4]], [[0.5, 0.5], [1.0, 1.0]]])
def test_drift_cannot_be_told_without_repeats_or_without_spread(
    scores: list[list[float]],
) -> None:
    assert drift_p(scores) is None


NAN = float("nan")


def test_totals_of_repeats_test_as_their_sums_do() -> None:
    random = np.random.default_rng(3)
    baseline, current = random.random((4, 5)), random.random((4, 4)) - 0.2
    found = totals_of_repeats(baseline, current)
    assert found is not None
    sums = [side.sum(axis=0) for side in (baseline, current)]
    assert np.ptp(np.array(found.baseline) - sums[0]) == pytest.approx(0, abs=1e-12)
    expected = stats.permutation_test(
        (sums[1], sums[0]), lambda one, other: np.mean(one) - np.mean(other), alternative="less"
    )
    assert exact_within_case([found]).worse == pytest.approx(expected.pvalue)


def test_value_that_is_missing_counts_as_the_mean_of_its_case() -> None:
    ten = [[0.0, 1.0]] * 9
    found = totals_of_repeats([[NAN, 1.0], *ten], [[1.0, 0.4], *ten])
    assert found is not None
    assert found.baseline == pytest.approx((-4.5, 4.5 + 0.2))
    assert found.current == pytest.approx((-4.5 + 0.2, 4.5 - 0.4))


def test_repeat_in_which_more_than_a_tenth_is_missing_does_not_count() -> None:
    found = totals_of_repeats([[0.0, 1.0, NAN]] * 2 + [[0.0, 1.0, 1.0]] * 8, [[0.0]] * 10)
    assert found is not None
    assert (len(found.baseline), len(found.current)) == (2, 1)


def test_side_without_a_repeat_that_counts_has_no_totals() -> None:
    assert totals_of_repeats([[0.0], [NAN]], [[1.0], [1.0]]) is None


def test_error_of_totals_is_the_pooled_one_of_student() -> None:
    found = CaseScores(baseline=(3.0, 4.0, 4.5), current=(1.0, 2.5))
    expected = stats.ttest_ind(found.current, found.baseline)
    assert found.difference(1) / error_of_totals(found) == pytest.approx(expected.statistic)


@pytest.mark.parametrize(("alpha", "repeats"), [(0.05, 4), (0.06, 3), (0.01, 5), (0.4, 2)])
def test_fewest_repeats_have_a_split_below_the_level(alpha: float, repeats: int) -> None:
    assert fewest_repeats(alpha) == repeats
