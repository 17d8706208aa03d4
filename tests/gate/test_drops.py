"""The smallest drop that a comparison could have caught."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pytest_llmeval.gate.results import FunctionComparison
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.detection import detectable_shift
from tests.gate.builders import a_case, a_run, compared, joined, runs, scored_runs
from tests.gate.worked import SPREAD, among, by_formula

ALL_PASSED = [("ppppp", "ppppp")]


def drop_of(found: FunctionComparison) -> float:
    assert found.evidence.smallest_detectable_drop is not None
    return found.evidence.smallest_detectable_drop


def by_spread(found: FunctionComparison) -> float:
    """The root of the noncentral t at the spread that was seen, on the suite's scale."""
    differences = [one.difference for one in found.compared if one.kind]
    error = float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    shift = detectable_shift(dof=len(differences) - 1, alpha=0.05)
    return shift * error * len(differences) / found.effect.cases


# by the spread that was seen


def test_t_finds_the_drop_at_the_root_of_the_noncentral_t() -> None:
    found = compared(*SPREAD)
    assert found.effect.method == "paired-t"
    assert drop_of(found) == pytest.approx(by_spread(found), rel=1e-6)


def test_drop_is_on_the_scale_of_the_suite() -> None:
    replays = a_run(*(a_case(f"r{at}", scores=[0.5]) for at in range(18)))
    alone, among_replays = compared(*SPREAD), compared(*(joined(one, replays) for one in SPREAD))
    assert drop_of(among_replays) == pytest.approx(drop_of(alone) / 4)


def test_drop_near_the_ceiling_is_not_trusted_to_the_spread_alone() -> None:
    found = compared(*runs([("p" * 10, "ppppp")] * 11 + [("p" * 10, "ppppm")]))
    formula = by_formula([10] * 12, [10] * 12, after=[5] * 12, baseline=(120, 120), dof=11)
    assert formula > by_spread(found)
    assert drop_of(found) == pytest.approx(formula)


@pytest.mark.unmeasured
def test_t_knows_no_least_p_and_finds_a_drop_in_any_family() -> None:
    six = runs([("ppppp", "ppppm")] * 5 + [("ppppp", "ppppp")])
    assert among(9, *six).evidence.smallest_detectable_drop is not None


def test_drop_beyond_the_range_of_pass_scores_is_unknown() -> None:
    found = compared(*runs([("ppppp", "mmmmm"), ("mmmmm", "ppppp")] * 3))
    assert found.effect.method == "paired-t"
    assert by_spread(found) > 1
    assert found.evidence.smallest_detectable_drop is None


def test_drop_that_the_formula_does_not_find_is_unknown() -> None:
    # a baseline of failures has nowhere to fall to, however small the spread
    found = compared(*runs([("mmmmm", "mmmmm")] * 7 + [("mmmmm", "mmmmp")]))
    assert found.effect.method == "paired-t"
    assert found.evidence.smallest_detectable_drop is None


# by the formula, for pass scores


@pytest.mark.parametrize("units", [6, 8])
def test_same_shift_takes_the_formula_with_quantiles_of_t(units: int) -> None:
    found = compared(*runs([("ppppp", "ppppm")] * units, replayed=units))
    baseline = (10 * units, 10 * units)
    five = [5] * units
    formula = by_formula(five, five, after=five, baseline=baseline, dof=units - 1)
    assert found.effect.method == "same-shift"
    assert drop_of(found) == pytest.approx(formula / 2)


def test_exact_test_takes_the_formula_with_normal_quantiles() -> None:
    found = compared(*runs([("pppmp", "pppmp"), ("ppppp", "ppppm")]))
    formula = by_formula([4, 5], [5, 5], after=[5, 5], baseline=(9, 10))
    assert found.effect.method == "exact-within-case"
    assert drop_of(found) == pytest.approx(formula)


def test_overall_rate_is_that_of_the_whole_baseline() -> None:
    both = [a_case("replayed", "mmmmmmmmmm")]
    baseline = a_run(a_case("a", "ppppp"), a_case("b", "ppppm"), *both, a_case("gone", "mm"))
    run = a_run(a_case("a", "pppmm", request="v2"), a_case("b", "ppppp", request="v2"), *both)
    found = compared(baseline, run, GateRules(max_gone=1.0))
    formula = by_formula([5, 4], [5, 5], after=[5, 5], baseline=(9, 22))
    assert drop_of(found) == pytest.approx(formula * 2 / 3)


def test_formula_counts_the_trials_that_enter_the_difference() -> None:
    found = compared(*runs([("ppppp", "p" * 9), ("ppppp", "p" * 9)]))
    formula = by_formula([5, 5], [5, 5], after=[9, 9], baseline=(10, 10))
    assert drop_of(found) == pytest.approx(formula)


def test_identical_repeats_are_one_draw_in_the_formula() -> None:
    names = [f"c{at}" for at in range(5)]
    baseline = a_run(*(a_case(name, "ppppp", replies="yes") for name in names))
    run = a_run(*(a_case(name, "ppp", replies="yes", request="v2") for name in names))
    found = compared(baseline, run)
    formula = by_formula([1] * 5, [1] * 5, after=[1] * 5, baseline=(5, 5))
    assert found.evidence.identical_repeats
    assert drop_of(found) == pytest.approx(formula)


# by the formula, for other scores


def test_exact_test_of_other_scores_takes_the_variance_within_the_cases() -> None:
    found = compared(*scored_runs([[0.9, 0.7, 0.8], [0.5, 0.6, 0.4]], [[0.7, 0.8], [0.5, 0.5]]))
    squares = 0.02 + 0.02 + 0.005 + 0.0
    variance = squares / (2 + 2 + 1 + 1)
    error = math.sqrt(variance * 2 * (1 / 3 + 1 / 2)) / 2
    expected = (stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) * error
    assert found.effect.method == "exact-within-case"
    assert drop_of(found) == pytest.approx(expected)


def test_other_scores_without_a_spread_within_cases_have_no_drop() -> None:
    found = compared(*scored_runs([[0.9] * 4, [0.4] * 4], [[0.8] * 4, [0.4] * 4]))
    assert found.evidence.smallest_detectable_drop is None


def test_other_scores_without_repeats_have_no_drop() -> None:
    found = compared(*scored_runs([[0.9], [0.4]] * 3, [[0.8], [0.3]] * 3))
    assert found.effect.method == "same-shift"
    assert found.evidence.smallest_detectable_drop is None


# too few draws


def test_sign_flips_have_no_drop() -> None:
    names = "abcde"
    baseline = a_run(*(a_case(n, "ppppp", cluster=str(n < "c")) for n in names))
    run = a_run(*(a_case(n, "ppppm", request="v2", cluster=str(n < "c")) for n in names))
    found = compared(baseline, run)
    assert found.effect.method == "sign-flip"
    assert found.evidence.smallest_detectable_drop is None


def test_same_shift_of_few_units_in_a_large_family_has_no_drop() -> None:
    six = runs([("ppppp", "ppppp")] * 6)
    assert among(2, *six).evidence.smallest_detectable_drop is not None  # 3 / 64 < 0.05
    assert among(3, *six).evidence.smallest_detectable_drop is None  # 4 / 64


def test_exact_test_with_too_few_draws_has_no_drop() -> None:
    # were all scores here the worst, p would be 1 / 20: not below 0.05
    assert compared(*runs([("ppp", "ppp")])).evidence.smallest_detectable_drop is None


def test_exact_test_that_a_total_failure_could_not_pass_has_no_drop() -> None:
    found = compared(*runs([("mmmmmmmmmp", "pppppppppp")] * 2))
    assert found.evidence.smallest_detectable_drop is None


@pytest.mark.unmeasured
def test_exact_test_in_a_large_family_has_no_drop() -> None:
    one = runs([("ppppp", "ppppp")])  # at best 1 / 252
    assert among(11, *one).evidence.smallest_detectable_drop is not None
    assert among(12, *one).evidence.smallest_detectable_drop is None


def test_exact_test_of_other_scores_with_few_splits_has_no_drop() -> None:
    found = compared(*scored_runs([[0.9, 0.7, 0.8]], [[0.7, 0.8, 0.6]]))
    assert found.evidence.smallest_detectable_drop is None  # 1 / 20
    more = compared(*scored_runs([[0.9, 0.7, 0.8, 0.75]], [[0.7, 0.8, 0.6]]))
    assert more.evidence.smallest_detectable_drop is not None  # 1 / 35


@pytest.mark.parametrize("replayed", [0, 1000])
def test_drop_is_never_zero(replayed: int) -> None:
    assert drop_of(compared(*runs(ALL_PASSED * 7, replayed=replayed))) > 0
