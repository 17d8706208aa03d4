"""The figures of a comparison: effect, test, interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import FunctionComparison, Verdict
from pytest_llmeval.settings import GateRules
from tests.gate.builders import CaseAndTrials, a_case, a_run, compared, runs, scored_runs
from tests.stats.reference import vector


def in_clusters(sizes: Sequence[int], falls: Sequence[str]) -> FunctionComparison:
    """A cluster of each size, all of whose cases fall to the same outcomes."""
    baseline: list[CaseAndTrials] = []
    current: list[CaseAndTrials] = []
    for label, (size, outcomes) in enumerate(zip(sizes, falls, strict=True)):
        for at in range(size):
            name = f"{label}-{at}"
            baseline.append(a_case(name, "ppppp", cluster=str(label)))
            current.append(a_case(name, outcomes, request="v2", cluster=str(label)))
    return compared(a_run(*baseline), a_run(*current))


EIGHT = [
    ("ppmpp", "pmmpm"),
    ("mpmmp", "mmmmp"),
    ("ppppp", "pppmp"),
    ("mmmmm", "mmmmm"),
    ("pmppm", "mmpmm"),
    ("pppmp", "pmpmp"),
    ("mmpmm", "mmmmm"),
    ("ppppm", "ppppp"),
]


# the suite effect


def test_suite_effect_spreads_the_changed_cases_over_all() -> None:
    found = compared(*runs([("pppp", "pppm"), ("pppp", "ppmm")], replayed=2))
    assert (found.effect.cases, found.effect.changed) == (4, 2)
    assert found.effect.difference == pytest.approx(-0.75 / 4)
    assert found.effect.difference_changed == pytest.approx(-0.375)


def test_unequal_numbers_of_trials_give_the_unweighted_mean_of_case_means() -> None:
    found = compared(*runs([("pmp", "pm"), ("ppppm", "pmp"), ("mmmmp", "m"), ("pp", "pm")]))
    expected = [-1 / 6, 2 / 3 - 0.8, -0.2, -0.5]
    assert found.effect.difference == pytest.approx(sum(expected) / 4)


def test_baseline_mean_is_over_all_common_cases_and_all_their_scored_trials() -> None:
    baseline = a_run(a_case("a", "ppmm"), a_case("b", "ppp"), a_case("only there", "mmm"))
    run = a_run(a_case("a", "pp"), a_case("b", "ppm", request="v2"), a_case("new", "mm"))
    assert compared(baseline, run).effect.baseline_mean == pytest.approx((0.5 + 1) / 2)


def test_means_and_difference_add_up() -> None:
    baseline = a_run(a_case("a", "ppmm"), a_case("b", "ppp"))
    found = compared(baseline, a_run(a_case("a", "pp"), a_case("b", "ppm", request="v2")))
    assert found.effect.mean == pytest.approx(0.75 - 1 / 6)


def test_means_add_up_where_lower_is_better() -> None:
    baseline = [
        a_case("a", scores=[0.2, 0.4], better="lower"),
        a_case("b", scores=[0.3, 0.3], better="lower"),
    ]
    current = [
        a_case("a", scores=[0.6, 0.6], request="v2", better="lower"),
        a_case("b", scores=[0.3, 0.3], better="lower"),
    ]
    found = compared(a_run(*baseline), a_run(*current))
    assert found.effect.difference == pytest.approx(-0.15)
    assert (found.effect.baseline_mean, found.effect.mean) == (
        pytest.approx(0.3),
        pytest.approx(0.45),
    )


def test_without_a_common_case_there_is_no_difference() -> None:
    found = compared(a_run(a_case("a", "p")), a_run(a_case("b", "p")))
    assert (found.effect.difference, found.effect.difference_changed, found.effect.mean) == (
        None,
        None,
        None,
    )


# which test


def test_six_units_are_tested_by_t() -> None:
    found = compared(*runs([("ppppp", "ppppm")] * 5 + [("ppppp", "pppmm")]))
    assert (found.effect.method, found.evidence.dof) == ("paired-t", 5)


def test_five_units_are_tested_within_the_cases() -> None:
    found = compared(*runs([("ppppp", "ppppm")] * 4 + [("ppppp", "pppmm")]))
    assert (found.effect.method, found.evidence.t, found.evidence.dof) == (
        "exact-within-case",
        None,
        None,
    )


def test_six_units_that_moved_alike_have_the_p_of_like_signs() -> None:
    found = compared(*runs([("ppppp", "ppppm")] * 6))
    assert (found.effect.method, found.evidence.p, found.evidence.p_improved) == (
        "same-shift",
        0.5**6,
        1.0,
    )
    # they fell by one trial each, and one case more would; above is one that rose by one
    assert found.evidence.interval == pytest.approx((-0.2, -0.03181827))


def test_units_of_several_cases_are_tested_by_sign_flips_below_six() -> None:
    found = in_clusters([2, 2, 1, 1], ["ppmmm", "pppmm", "pmmmm", "pmmmm"])
    assert (found.effect.method, found.evidence.p) == ("sign-flip", 0.5**4)


def test_sign_flips_add_the_differences_within_a_unit() -> None:
    found = in_clusters([2, 1, 1], ["ppppm", "ppmmm", "ppmmm"])
    assert found.evidence.p == 0.5**3
    mixed = compared(
        a_run(*(a_case(name, "pm", cluster="x" if name in "ab" else None) for name in "abcd")),
        a_run(
            a_case("a", "mm", request="v2", cluster="x"),
            a_case("b", "pp", request="v2", cluster="x"),
            a_case("c", "mm", request="v2"),
            a_case("d", "mm", request="v2"),
        ),
    )
    # a and b cancel: the signs of c and d alone decide, and both fell
    assert mixed.evidence.p == 0.25


def test_effective_units_decide_on_the_test_not_units() -> None:
    # 10 units, but one of them holds 11 of the 20 cases: u* = 400 / 130
    found = in_clusters([11] + [1] * 9, ["ppppm"] * 5 + ["pppmm"] * 5)
    assert (found.effect.units, found.effect.method) == (10, "sign-flip")


def test_single_changed_case_is_tested_within_the_case() -> None:
    found = compared(*runs([("ppppp", "mmmmm")], replayed=3))
    assert (found.effect.units, found.effect.method) == (1, "exact-within-case")
    assert found.evidence.p == pytest.approx(1 / math.comb(10, 5))


def test_several_cases_of_one_unit_are_not_tested() -> None:
    found = in_clusters([3], ["mmmmm"])
    assert (found.effect.units, found.effect.method, found.evidence.family_size) == (1, "none", 0)
    assert (found.evidence.t, found.evidence.dof, found.evidence.p, found.evidence.p_improved) == (
        None,
        None,
        None,
        None,
    )
    assert (found.evidence.p_adjusted, found.evidence.p_within_case, found.evidence.interval) == (
        None,
        None,
        None,
    )
    assert found.evidence.smallest_detectable_drop is None


# the t-test


def test_eight_cases_of_five_repeats_agree_with_the_computed_reference() -> None:
    expected = vector("engine_case8x5")["expected"]
    found = compared(*runs(EIGHT), GateRules(alpha=0.025))
    assert found.effect.difference == pytest.approx(expected["mean_diff"], rel=1e-9)
    assert found.evidence.t == pytest.approx(expected["t"], rel=1e-9)
    assert found.evidence.p == pytest.approx(expected["p_regress_one_sided"], rel=1e-9)
    assert found.evidence.interval == pytest.approx(expected["ci95"], rel=1e-9)
    assert found.evidence.interval_level == 0.95
    assert found.evidence.p_within_case == pytest.approx(
        expected["exact_within_case_p_one_sided"], rel=1e-9
    )


def test_replays_do_not_enter_the_test() -> None:
    alone, among_replays = compared(*runs(EIGHT)), compared(*runs(EIGHT, replayed=24))
    assert among_replays.evidence.t == pytest.approx(alone.evidence.t)
    assert among_replays.evidence.p == pytest.approx(alone.evidence.p)
    assert among_replays.evidence.dof == 7


def test_interval_is_on_the_scale_of_the_suite() -> None:
    alone, among_replays = compared(*runs(EIGHT)), compared(*runs(EIGHT, replayed=24))
    assert alone.evidence.interval is not None
    assert among_replays.evidence.interval == pytest.approx(
        [end / 4 for end in alone.evidence.interval]
    )
    assert among_replays.evidence.interval_level == pytest.approx(0.9)


def test_margin_is_held_against_the_suite_effect() -> None:
    found = compared(*runs(EIGHT, replayed=24), GateRules(margin=0.02))
    differences = np.array([one.difference for one in found.compared if one.kind])
    expected = stats.ttest_1samp(differences, -0.02 * 32 / 8, alternative="less")
    assert found.evidence.t == pytest.approx(expected.statistic)
    assert found.evidence.p == pytest.approx(expected.pvalue)
    improved = stats.ttest_1samp(differences, 0, alternative="greater")
    assert found.evidence.p_improved == pytest.approx(improved.pvalue)


def test_margin_of_a_same_shift_is_held_against_the_suite_effect() -> None:
    six = [("ppppp", "ppppm")] * 6
    assert compared(*runs(six, replayed=6), GateRules(margin=0.09)).evidence.p == 0.5**6
    assert compared(*runs(six, replayed=6), GateRules(margin=0.1, target=0.2)).evidence.p == 1.0


def test_units_of_several_cases_have_their_residuals_summed() -> None:
    found = in_clusters([2] * 7, ["ppppm", "pppmm", "ppmmm", "ppppp", "ppppm", "ppmmm", "pmmmm"])
    d = np.array([-0.2, -0.4, -0.6, 0.0, -0.2, -0.6, -0.8])
    residuals = 2 * (d - d.mean())
    error = math.sqrt(7 / 6 * np.sum(residuals**2)) / 14
    assert found.effect.method == "paired-t"
    assert found.evidence.t == pytest.approx(d.mean() / error)
    assert found.evidence.dof == 6


# below six units


def test_margin_does_not_enter_the_exact_test() -> None:
    three = [("ppppp", "ppmmm")] * 3
    plain, with_margin = (compared(*runs(three), GateRules(margin=m)) for m in (0.0, 0.09))
    assert plain.evidence.p == with_margin.evidence.p


def test_exact_test_mirrors_for_an_improvement() -> None:
    worse = compared(*runs([("ppppp", "pmmmm")] * 2))
    better = compared(*runs([("pmmmm", "ppppp")] * 2))
    assert worse.evidence.p == pytest.approx(better.evidence.p_improved)


def test_exact_test_takes_the_trials_that_enter_the_difference() -> None:
    found = compared(*runs([("pp", "mmmmmmm")]))
    assert found.evidence.p == pytest.approx(1 / math.comb(9, 2))


def test_exact_test_turns_around_where_lower_is_better() -> None:
    baseline = a_run(a_case("a", scores=[0.0, 0.0], better="lower"))
    run = a_run(a_case("a", scores=[1.0, 1.0], request="v2", better="lower"))
    assert compared(baseline, run).evidence.p == pytest.approx(1 / 6)


def test_scores_that_are_not_binary_are_split_in_every_way() -> None:
    baseline = a_run(a_case("a", scores=[0.8, 0.9]))
    run = a_run(a_case("a", scores=[0.2, 0.3], request="v2"))
    found = compared(baseline, run)
    assert (found.effect.method, found.evidence.p) == ("exact-within-case", pytest.approx(1 / 6))


def test_p_within_case_is_unknown_where_units_hold_several_cases() -> None:
    assert in_clusters([2] * 7, ["ppppm", "pppmm"] * 3 + ["ppppm"]).evidence.p_within_case is None


def test_p_within_case_is_shown_for_a_same_shift() -> None:
    found = compared(*runs([("ppppp", "ppppm")] * 6))
    assert found.evidence.p_within_case == pytest.approx(0.5**6)


# identical repeats


def test_identical_repeats_are_one_draw_in_the_exact_test() -> None:
    baseline = a_run(a_case("a", "ppppp", replies="yes"))
    run = a_run(a_case("a", "mmmmm", replies="no", request="v2"))
    found = compared(baseline, run)
    assert found.evidence.identical_repeats
    assert found.evidence.p == pytest.approx(0.5)


def test_unlike_replies_on_one_side_are_draws_of_their_own() -> None:
    baseline = a_run(a_case("a", "ppppp", replies="yes"))
    run = a_run(a_case("a", "mmmmm", request="v2"))
    found = compared(baseline, run)
    assert not found.evidence.identical_repeats
    assert found.evidence.p == pytest.approx(1 / math.comb(10, 5))


def test_replies_of_unchanged_cases_do_not_matter_for_identical_repeats() -> None:
    baseline = a_run(a_case("a", "pp", replies="yes"), a_case("b", "pp"))
    run = a_run(a_case("a", "mm", replies="no", request="v2"), a_case("b", "pp"))
    assert compared(baseline, run).evidence.identical_repeats


def test_equal_scores_are_no_evidence_for_identical_repeats() -> None:
    assert not compared(*runs([("ppppp", "mmmmm")])).evidence.identical_repeats


def test_identical_repeats_leave_the_difference_to_all_trials() -> None:
    # a scorer of changing mood: the first trial missed, the second passed
    baseline = a_run(a_case("a", "pp", replies="yes"))
    run = a_run(a_case("a", "mp", replies="no", request="v2"))
    found = compared(baseline, run)
    assert found.effect.difference == -0.5
    assert found.evidence.p == pytest.approx(0.5)


# the family


def two_functions(first: tuple[str, str], second: tuple[str, str]) -> Sequence[FunctionComparison]:
    outcomes = {"test_a": first, "test_b": second}
    baseline = a_run(*(a_case("x", one, function=f) for f, (one, _) in outcomes.items()))
    run = a_run(
        *(a_case("x", other, function=f, request="v2") for f, (_, other) in outcomes.items())
    )
    return compare(baseline, run, GateRules()).functions


def test_p_values_of_all_functions_are_adjusted_together() -> None:
    one, other = two_functions(("ppppp", "mmmmm"), ("ppppp", "pmmmm"))
    assert (one.evidence.family_size, other.evidence.family_size) == (2, 2)
    assert one.evidence.p_adjusted == pytest.approx(2 * (one.evidence.p or 0))
    assert other.evidence.p_adjusted == pytest.approx(other.evidence.p)


def test_drops_and_improvements_are_two_families() -> None:
    one, other = two_functions(("mmmmm", "ppppp"), ("ppppp", "mmmmm"))
    assert one.evidence.p_improved_adjusted == pytest.approx(2 * (one.evidence.p_improved or 0))
    assert other.evidence.p_adjusted == pytest.approx(2 * (other.evidence.p or 0))


def test_functions_without_a_test_are_no_members_of_the_family() -> None:
    baseline = a_run(a_case("a", "ppppp"), a_case("b", "ppppp", function="test_g"))
    run = a_run(a_case("a", "mmmmm", request="v2"), a_case("b", "ppppp", function="test_g"))
    tested, unchanged = compare(baseline, run, GateRules()).functions
    assert (tested.evidence.family_size, tested.evidence.p_adjusted) == (1, tested.evidence.p)
    assert (unchanged.effect.method, unchanged.evidence.p_adjusted) == ("none", None)


def test_each_metric_is_a_member_of_the_family() -> None:
    gate = ("score", "pass")
    baseline = a_run(a_case("a", scores=[0.9, 0.8], gate=gate))
    run = a_run(a_case("a", scores=[0.2, 0.1], gate=gate, request="v2"))
    assert [one.evidence.family_size for one in compare(baseline, run, GateRules()).functions] == [
        2,
        2,
    ]


# the denominators


def test_trials_are_counted_by_how_they_ended() -> None:
    baseline = a_run(a_case("a", "ppmce"), a_case("b", "sss"))
    run = a_run(a_case("a", "pp"), a_case("b", "ppm"))
    counts = compared(baseline, run).baseline_trials
    assert (counts["scored"], counts["missed"], counts["crashed"]) == (4, 1, 1)
    assert (counts["errored"], counts["skipped"], counts["without_value"]) == (1, 3, 0)


def test_scored_trials_without_a_value_are_counted() -> None:
    baseline = a_run(a_case("a", "ppp", scores=[0.5, None, None]))
    counts = compared(baseline, baseline).trials
    assert (counts["scored"], counts["without_value"]) == (3, 2)


def test_trials_of_cases_that_only_one_side_has_are_counted_too() -> None:
    found = compared(
        a_run(a_case("a", "pp"), a_case("gone", "mm")),
        a_run(a_case("a", "pp"), a_case("new", "ppp")),
    )
    assert (found.baseline_trials["scored"], found.trials["scored"]) == (4, 5)


def test_of_a_partial_run_only_the_cases_that_ran_are_counted() -> None:
    baseline = a_run(a_case("a", "pp"), a_case("b", "mmm"), a_case("c", "mmm"))
    run = a_run(a_case("a", "pp"), a_case("b", ""), partial=("test_f",))
    found = compared(baseline, run)
    assert (found.baseline_trials["scored"], found.trials["scored"]) == (2, 2)
    assert found.partial
    assert (found.effect.cases, found.effect.baseline_cases) == (1, 3)


def test_function_that_a_stop_cut_short_is_partial_too() -> None:
    baseline = a_run(a_case("a", "pp"), a_case("b", "mmm"))
    found = compared(baseline, a_run(a_case("a", "pp"), a_case("b", ""), complete=False))
    assert (found.partial, found.effect.cases, found.row) == (True, 1, 6)
    assert found.baseline_trials["scored"] == 2
    new = compare(a_run(), a_run(a_case("a", "pp"), a_case("b", "")), GateRules()).functions
    assert [one.partial for one in new] == [True]


def test_cases_of_one_side_are_named() -> None:
    baseline = a_run(a_case("a", "pp"), a_case("gone", "pp"), a_case("b", "pp"))
    run = a_run(a_case("new", "pp"), a_case("a", "pp"), a_case("b", ""), partial=("test_f",))
    found = compared(baseline, run)
    assert found.only_here == ("test_suite.py::test_f[new]",)
    assert found.deselected == ("test_suite.py::test_f[gone]",)


def test_mismatched_cases_are_named_and_are_on_both_sides() -> None:
    baseline = a_run(a_case("0", "pp", positional=True, parameters="d1"))
    run = a_run(a_case("0", "pp", positional=True, parameters="d2", request="v2"))
    found = compared(baseline, run)
    assert found.mismatched == ("test_suite.py::test_f[0]",)
    assert (found.only_here, found.only_in_baseline) == ((), ())


# fewer trials here than in the baseline


def test_with_fewer_trials_here_a_t_test_needs_the_consent_of_the_exact_one() -> None:
    # rare passes, ten draws against one: the t-test alone is sure
    baseline = ["pmmmmmmmmm", "mmmmmmmmmm", "pmmmmmmmmm", "mmmmmmmmmm"] * 2
    found = compared(*runs([(outcomes, "m") for outcomes in baseline]))
    assert found.evidence.t is not None
    assert found.evidence.dof == 7
    alone = stats.t.cdf(found.evidence.t, found.evidence.dof)
    assert alone < 0.05
    # each of the 4 passes is among the 10 of 11 that the baseline has; seen counts by half
    assert found.evidence.p_within_case == pytest.approx((10 / 11) ** 4)
    assert found.evidence.p == pytest.approx((10 / 11) ** 4 / 2)
    assert found.evidence.p > 0.05
    assert found.verdict != "regressed"


def test_with_as_many_trials_here_the_t_test_speaks_alone() -> None:
    found = compared(*runs(EIGHT))
    assert found.evidence.t is not None
    assert found.evidence.dof is not None
    assert found.evidence.p == pytest.approx(stats.t.cdf(found.evidence.t, found.evidence.dof))


def test_means_stay_within_the_range_of_scores_where_draws_are_replayed_in_part() -> None:
    # the scorer changed: two replayed trials that missed pass now, the other eight are not run
    found = compared(a_run(a_case("a", "mmpppppppp")), a_run(a_case("a", "pp")))
    assert found.effect.difference == 1.0
    assert (found.effect.baseline_mean, found.effect.mean) == (0.0, 1.0)


def test_scores_of_many_cases_are_not_split_just_for_show() -> None:
    pairs = [([0.1, 0.5], [0.2, 0.6])] * 201
    baseline = [a_case(str(at), scores=old) for at, (old, _) in enumerate(pairs)]
    current = [a_case(str(at), scores=new, request="v2") for at, (_, new) in enumerate(pairs)]
    assert compared(a_run(*baseline), a_run(*current)).evidence.p_within_case is None


def test_a_t_test_on_many_scores_with_fewer_repeats_here_asks_the_exact_test_too() -> None:
    baseline = [[0.0] * 9 + [0.5 if at < 8 else 0.0] for at in range(201)]
    found = compared(*scored_runs(baseline, [[0.0]] * 201))
    assert found.evidence.t is not None
    assert found.evidence.dof is not None
    assert stats.t.cdf(found.evidence.t, found.evidence.dof) < 0.01
    # each of the 8 rare scores fell into the 10 of 11 trials that the baseline has
    # and what was seen counts by half
    assert found.evidence.p == pytest.approx((10 / 11) ** 8 / 2, abs=0.015)
    assert found.verdict is not Verdict.REGRESSED
