"""What would settle a comparison that was left inconclusive."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pytest_llmeval.gate.results import FunctionComparison, Verdict
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.detection import detectable_shift
from tests.gate.builders import a_case, a_run, compared, joined, runs, scored_runs
from tests.gate.worked import SPREAD, among, by_formula

MARGIN, TARGET = 0.02, 0.1


def spread_of(found: FunctionComparison) -> float:
    return float(np.std([one.difference for one in found.compared if one.kind], ddof=1))


def detectable(error: float, units: int) -> float:
    return detectable_shift(dof=units - 1, alpha=0.05) * error


def test_settled_comparison_names_no_remedy() -> None:
    found = compared(*runs([("p" * 10, "p" * 10)] * 40))
    assert found.verdict is Verdict.NO_SIGNIFICANT_CHANGE
    assert (found.evidence.settle_cases, found.evidence.settle_repeats) == (None, None)


# more cases


def test_more_cases_of_the_same_spread_would_catch_the_target() -> None:
    found = compared(*SPREAD, GateRules(margin=MARGIN))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.evidence.settle_cases is not None
    deviation, needed = spread_of(found), 6 + found.evidence.settle_cases
    assert MARGIN + detectable(deviation / math.sqrt(needed), needed) <= TARGET
    assert MARGIN + detectable(deviation / math.sqrt(needed - 1), needed - 1) > TARGET


def test_more_cases_keep_the_share_of_changed_ones() -> None:
    replays = a_run(*(a_case(f"r{at}", scores=[0.5]) for at in range(2)))
    found = compared(*(joined(one, replays) for one in SPREAD), GateRules(target=0.08))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.evidence.settle_cases is not None

    def drop(cases: int) -> float:
        units = math.floor(cases * 6 / 8)
        return 6 / 8 * detectable(spread_of(found) / math.sqrt(cases * 6 / 8), units)

    needed = 8 + found.evidence.settle_cases
    assert drop(needed) <= 0.08 < drop(needed - 1)


@pytest.mark.parametrize(("fall", "margin", "target"), [(0.05, 0.0, 0.10), (0.07, 0.01, 0.13)])
def test_more_cases_would_also_judge_the_difference_that_was_seen(
    fall: float, margin: float, target: float
) -> None:
    # the target itself is caught long before such a drop is told from 0, or from the target
    decisive = max(target - fall, fall - margin)
    baseline = [[0.5, 0.5]] * 40
    current = [[0.5 - fall + (-1) ** at * 4 * decisive] * 2 for at in range(40)]
    found = compared(*scored_runs(baseline, current), GateRules(margin=margin, target=target))
    assert (found.verdict, found.effect.method) == (Verdict.INCONCLUSIVE, "paired-t")
    assert found.evidence.smallest_detectable_drop is not None
    assert margin + found.evidence.smallest_detectable_drop < target
    assert found.evidence.settle_cases is not None
    needed = 40 + found.evidence.settle_cases

    def reach(cases: int) -> float:
        return float(stats.t.ppf(0.95, cases - 1)) * spread_of(found) / math.sqrt(cases)

    assert reach(needed) < decisive < reach(needed - 1)


def test_more_cases_for_the_exact_test_satisfy_the_formula() -> None:
    found = compared(*runs([("ppppm", "ppppp")] * 3))
    assert (found.verdict, found.effect.method) == (Verdict.INCONCLUSIVE, "exact-within-case")
    assert found.evidence.settle_cases is not None

    def drop(cases: int) -> float:
        # the overall rate stays that of the baseline at hand
        return by_formula(
            [4] * cases, [5] * cases, after=[5] * cases, baseline=(12, 15), dof=cases - 1
        )

    needed = 3 + found.evidence.settle_cases
    assert drop(needed) <= TARGET < drop(needed - 1)


def test_no_number_of_cases_is_named_where_something_else_is_lacking() -> None:
    # the target would be caught, p is below alpha by itself, but not in so large a family
    five = runs([("p" * 20, "p" * 20)] * 4 + [("p" * 20, "p" * 14 + "m" * 6)])
    found = among(5, *five)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.evidence.settle_cases, found.evidence.settle_repeats) == (None, None)


def test_no_number_of_cases_is_named_without_a_variance() -> None:
    found = compared(*scored_runs([[0.9]] * 3, [[0.7]] * 3))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert (found.evidence.settle_cases, found.evidence.settle_repeats) == (None, None)


def test_units_of_several_cases_name_no_remedy() -> None:
    names = "abcde"
    baseline = a_run(*(a_case(n, "ppppp", cluster=str(n < "c")) for n in names))
    run = a_run(*(a_case(n, "ppppm", request="v2", cluster=str(n < "c")) for n in names))
    found = compared(baseline, run)
    assert (found.verdict, found.effect.method) == (Verdict.INCONCLUSIVE, "sign-flip")
    assert (found.evidence.settle_cases, found.evidence.settle_repeats) == (None, None)


# more repeats


def test_more_repeats_on_both_sides_shrink_what_is_chance_within_the_cases() -> None:
    found = compared(*SPREAD)
    assert found.evidence.settle_repeats is not None
    variance = np.mean([0.005, 0.02, 0.045, 0.02, 0, 0.005, 0.005, 0.02, 0, 0, 0.005, 0])
    between = spread_of(found) ** 2 / 6 - variance / 6

    def drop(repeats: int) -> float:
        within = variance * (2 / repeats) / 6
        return detectable(math.sqrt(max(0, between) + within), 6)

    assert drop(found.evidence.settle_repeats) <= TARGET < drop(found.evidence.settle_repeats - 1)


def test_repeats_that_the_baseline_has_already_need_no_more_there() -> None:
    baseline = [[0.9, 0.8, 0.6, 0.7] * 5, [0.7, 0.5, 0.5, 0.7] * 5, [0.3, 0.5, 0.4, 0.2] * 5] * 2
    current = [[0.6, 0.9], [0.3, 0.6], [0.2, 0.6]] * 2
    found = compared(*scored_runs(baseline, current))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.evidence.settle_repeats is not None
    assert found.evidence.settle_repeats < 20
    squares = [np.var(one) * len(one) for one in (*baseline, *current)]
    variance = sum(squares) / (6 * 19 + 6)
    between = spread_of(found) ** 2 / 6 - variance * (1 / 20 + 1 / 2) / 6

    def drop(repeats: int) -> float:
        within = variance * (1 / 20 + 1 / repeats) / 6
        return detectable(math.sqrt(max(0, between) + within), 6)

    assert drop(found.evidence.settle_repeats) <= TARGET < drop(found.evidence.settle_repeats - 1)


def test_more_repeats_keep_the_share_of_changed_cases() -> None:
    replays = a_run(*(a_case(f"r{at}", scores=[0.5]) for at in range(6)))
    alone = compared(*SPREAD)
    among_replays = compared(
        *(joined(one, replays) for one in SPREAD), GateRules(target=TARGET / 2)
    )
    assert among_replays.evidence.settle_repeats == alone.evidence.settle_repeats


def test_more_repeats_do_not_help_where_the_cases_differ_among_themselves() -> None:
    baseline = [[0.5, 0.5]] * 8
    current = [[0.5 + (-1) ** at * 0.3] * 2 for at in range(8)]
    found = compared(*scored_runs(baseline, current))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.evidence.settle_cases is not None
    assert found.evidence.settle_repeats is None


def test_more_repeats_for_the_exact_test_satisfy_the_formula() -> None:
    found = compared(*runs([("ppppm", "ppppp")] * 3))
    assert found.evidence.settle_repeats is not None
    rate = (4 + 12.5 / 16) / 6

    def drop(repeats: int) -> float:
        # hits of so many trials that their expected rate stays what it is
        hits = rate * (repeats + 1) - 12.5 / 16
        return by_formula([hits] * 3, [repeats] * 3, after=[repeats] * 3, baseline=(12, 15))

    assert drop(found.evidence.settle_repeats) <= TARGET < drop(found.evidence.settle_repeats - 1)


@pytest.mark.parametrize("reply", ["yes", None])
def test_more_repeats_do_not_help_where_they_are_all_one_draw(reply: str | None) -> None:
    baseline = a_run(*(a_case(name, "ppppp", replies=reply) for name in "abc"))
    run = a_run(*(a_case(name, "ppppp", replies=reply, request="v2") for name in "abc"))
    found = compared(baseline, run)
    assert found.evidence.settle_cases is not None
    assert (found.evidence.settle_repeats is None) is (reply is not None)
