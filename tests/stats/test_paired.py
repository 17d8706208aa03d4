from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_llmeval.stats.intervals import negligible, unit_mean
from pytest_llmeval.stats.t_tests import paired_test
from tests.stats.reference import vector

quick = settings(max_examples=60)

scores = st.floats(-1, 1, allow_subnormal=False).map(lambda score: round(score, 6))
differences = st.lists(scores, min_size=3, max_size=20).filter(lambda d: np.std(d) > 1e-3)


def case_differences(given: dict[str, list[list[float | None]]]) -> list[float]:
    def means(side: str) -> list[float]:
        scored = ([s for s in case if s is not None] for case in given[side])
        return [sum(case) / len(case) for case in scored]

    return [
        current - baseline
        for current, baseline in zip(means("branch"), means("baseline"), strict=True)
    ]


def test_eight_cases_of_five_repeats_agree_with_the_computed_reference() -> None:
    case8x5 = vector("engine_case8x5")
    expected = case8x5["expected"]
    found = paired_test(case_differences(case8x5["given"]), alpha=0.025)
    assert found.statistic == pytest.approx(expected["t"], rel=1e-9)
    assert found.dof == expected["df"]
    assert found.standard_error == pytest.approx(expected["se"], rel=1e-9)
    assert found.tails.worse == pytest.approx(expected["p_regress_one_sided"], rel=1e-9)
    assert found.interval == pytest.approx(expected["ci95"], rel=1e-9)


def test_unequal_numbers_of_trials_give_the_unweighted_mean_of_case_means() -> None:
    unbalanced = vector("unbalanced_case_means")
    found = case_differences(unbalanced["given"])
    assert found == pytest.approx(unbalanced["expected"]["case_diffs"], abs=1e-12)
    assert unit_mean(found).mean == pytest.approx(unbalanced["expected"]["mean"], abs=1e-12)
    assert paired_test(found).tails.worse == pytest.approx(
        unbalanced["expected"]["p_regress"], abs=1e-12
    )


@pytest.mark.parametrize("flips", [1, 2, 3])
def test_flips_of_single_draws_among_a_hundred_agree_with_the_computed_reference(
    flips: int,
) -> None:
    expected = vector(f"replay_{flips}_of_100_changed_1_to_0")["expected"]
    found = paired_test([-1.0] * flips + [0.0] * (100 - flips))
    assert found.statistic == pytest.approx(expected["t"], rel=1e-9)
    assert found.tails.worse == pytest.approx(expected["p"], rel=1e-9)


@pytest.mark.parametrize("name", ["degenerate_constant_nonzero", "degenerate_constant_nonzero_m3"])
def test_one_shift_of_all_cases_has_the_p_of_that_many_like_signs(name: str) -> None:
    shift = vector(name)
    found = paired_test(shift["given"]["differences"])
    assert found.statistic is None
    assert found.tails.worse == pytest.approx(shift["expected"]["engine_p_sign_flip"], abs=1e-12)


def test_no_difference_at_all_has_p_one() -> None:
    zeros = vector("degenerate_all_zero_by_chance")
    found = paired_test(zeros["given"]["differences"])
    assert (found.tails.worse, found.tails.better) == (
        zeros["expected"]["p"],
        zeros["expected"]["p"],
    )


def test_same_shift_has_neither_t_nor_interval() -> None:
    found = paired_test([-0.1] * 7)
    assert (found.statistic, found.dof, found.interval, found.standard_error) == (
        None,
        None,
        None,
        0.0,
    )


def test_same_shift_upwards_is_an_improvement() -> None:
    found = paired_test([0.1] * 7)
    assert (found.tails.worse, found.tails.better) == (1.0, 0.5**7)


def test_same_shift_counts_units_not_cases() -> None:
    assert paired_test([-0.1] * 12, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]).tails.worse == 0.5**6


@pytest.mark.parametrize(("margin", "p"), [(0.05, 0.5**6), (0.1, 1.0), (0.2, 1.0)])
def test_same_shift_must_lie_beyond_the_margin(margin: float, p: float) -> None:
    assert paired_test([-0.1] * 6, margin=margin).tails.worse == p


def test_rounding_errors_are_no_spread() -> None:
    found = paired_test([0.1 + 0.2 - 0.3 - 0.1, -0.1, -0.1, -0.1, -0.1, -0.1])
    assert found.statistic is None


def test_what_is_negligible_grows_with_the_largest_value() -> None:
    assert negligible([0.1, -0.2]) == 1e-12
    assert negligible([3.0, -500.0]) == 5e-10
    assert negligible([]) == 1e-12


def test_margin_is_added_to_the_mean_for_a_drop_only() -> None:
    sample = [-0.3, -0.1, -0.2, 0.05, -0.4, -0.1, -0.25]
    found = paired_test(sample, margin=0.1)
    expected = stats.ttest_1samp(sample, -0.1, alternative="less")
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.tails.worse == pytest.approx(expected.pvalue)
    improved = stats.ttest_1samp(sample, 0, alternative="greater")
    assert found.tails.better == pytest.approx(improved.pvalue)


def test_standard_error_is_the_jackknife_over_units() -> None:
    values = np.array([0.1, 0.3, -0.2, 0.4, 0.0, -0.6])
    left_out = [values[2:], values[[0, 1, 3, 4, 5]], values[:3]]
    apart = [float(np.mean(rest) - np.mean(values)) for rest in left_out]
    expected = math.sqrt(2 / 3 * sum(one**2 for one in apart))
    assert unit_mean(values, [7, 7, 1, 4, 4, 4]).standard_error == pytest.approx(expected)


def test_units_of_unlike_size_count_for_fewer() -> None:
    found = unit_mean(np.arange(20.0), [0] * 11 + list(range(1, 10)))
    assert found.units == 10
    assert found.effective_units == pytest.approx(400 / (121 + 9))
    assert found.dof == 2


def test_degrees_of_freedom_are_those_of_the_effective_units() -> None:
    labels = [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
    found = paired_test([(-1) ** at * 0.1 - 0.02 * at for at in range(17)], labels)
    assert found.dof == 289 // (16 + 13) - 1


def test_a_single_unit_has_no_standard_error() -> None:
    found = unit_mean([0.1, 0.4], [3, 3])
    assert found.standard_error is None
    assert found.dof == 0


@quick
@given(differences, st.floats(0.01, 0.4), st.floats(0, 0.5))
def test_one_case_a_unit_is_the_paired_t_test_of_scipy(
    sample: list[float], alpha: float, margin: float
) -> None:
    found = paired_test(sample, margin=margin, alpha=alpha)
    worse = stats.ttest_1samp(sample, -margin, alternative="less")
    both = stats.ttest_1samp(sample, 0).confidence_interval(1 - 2 * alpha)
    assert found.tails.worse == pytest.approx(worse.pvalue, rel=1e-9)
    assert found.interval == pytest.approx((both.low, both.high), rel=1e-9, abs=1e-12)


@quick
@given(differences)
def test_exchanging_the_sides_exchanges_the_p_values(sample: list[float]) -> None:
    found = paired_test(sample)
    mirrored = paired_test([-difference for difference in sample])
    assert found.tails.worse == pytest.approx(mirrored.tails.better, rel=1e-9)
    assert found.statistic == pytest.approx(-(mirrored.statistic or 0.0), rel=1e-9, abs=1e-12)


@quick
@given(differences, st.floats(0.1, 100))
def test_a_larger_scale_leaves_t_and_p(sample: list[float], scale: float) -> None:
    found = paired_test(sample)
    scaled = paired_test([scale * difference for difference in sample])
    assume(scaled.statistic is not None)
    assert found.statistic == pytest.approx(scaled.statistic, rel=1e-6, abs=1e-9)
    assert found.tails.worse == pytest.approx(scaled.tails.worse, rel=1e-6)
