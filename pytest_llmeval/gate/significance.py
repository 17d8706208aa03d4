"""Tests of a comparison: how far chance explains its difference, and how small a drop shows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple, get_args

from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import Interval, Method, Name
from pytest_llmeval.settings import MARGIN_TESTS, FixedTest
from pytest_llmeval.stats.arrays import FloatArray, np
from pytest_llmeval.stats.detection import (
    PlannedTest,
    detectable_shift,
    expected_rates,
    smallest_pass_drop,
    smallest_score_drop,
    within_case_variance,
)
from pytest_llmeval.stats.ends import lower_end, upper_end
from pytest_llmeval.stats.exact import (
    exact_within_case,
    least_p_of_splits,
    least_within_case_p,
    sign_flip,
)
from pytest_llmeval.stats.intervals import negligible, unit_sums
from pytest_llmeval.stats.methods import TESTS
from pytest_llmeval.stats.sample import CaseScores, SignificanceResult, Tails
from pytest_llmeval.stats.t_tests import (
    FEWEST_UNITS_FOR_T,
    FEWEST_WORDINGS,
    crossed_test,
    error_of_totals,
    paired_test,
)

FEWEST_TOPICS = 2
# the least p of these tests: so many like signs
SIGNS_COUNT: tuple[Method, ...] = (
    "same-shift",
    "sign-flip",
    "mcnemar",
    "mcnemar-exact",
    "mcnemar-mid-p",
)


class Examined(NamedTuple):
    """A comparison with at least one changed case, the test that was run, and the result of it.

    The result is on the scale of the suite. Its p for a drop is one for a drop beyond the margin
    with a t-test, else for any.
    """

    pairing: Pairing
    method: Method
    found: SignificanceResult

    @property
    def name(self) -> Name:
        """The function and the metric."""
        return self.pairing.name


def tied_repeats(pairing: Pairing) -> CaseScores | None:
    """Return whole repeats, for a test where cases that share draws form too few units.

    Args:
        pairing: with at least one common case.

    Returns:
        The totals of whole repeats, enough of them or not; None where units can be tested,
        where repeats cannot, and where a test was chosen that takes two units.
    """
    if pairing.are_units or not pairing.lacks_units:
        return None
    if pairing.test not in MARGIN_TESTS and not pairing.is_one_unit:
        return None
    return None if pairing.identical_repeats else pairing.whole_repeats


def are_enough(repeats: CaseScores | None, *, alpha: float) -> bool:
    """Tell whether a single test of whole repeats could find anything."""
    return repeats is not None and least_p_of_splits([repeats]) < alpha


def significance(pairing: Pairing, *, repeats: CaseScores | None) -> Examined:
    """Test whether the changed cases fell.

    Args:
        pairing: with at least one changed case; several in one unit only if ``repeats``
            are enough.
        repeats: as ``tied_repeats`` says.
    """
    if repeats is not None and are_enough(repeats, alpha=pairing.rules.alpha):
        tails = exact_within_case([repeats], sign=pairing.sign)
        found = SignificanceResult(tails=tails, statistic=repeats.difference(pairing.sign))
        return Examined(pairing, "whole-repeats", found)
    table = wording_table(pairing) if pairing.test in MARGIN_TESTS else None
    if table is not None:
        return Examined(pairing, "crossed", _with_consent(pairing, _by_wordings(table, pairing)))
    if pairing.test not in get_args(FixedTest):
        return _by_permutation(pairing) if pairing.lacks_units else _by_units(pairing)
    # beside a test that needs no number of cases: the t-test, if there are enough units
    beside = None if pairing.lacks_units else _by_spread(pairing)
    return Examined(pairing, pairing.test, _as_chosen(pairing, beside))


def _by_permutation(pairing: Pairing) -> Examined:
    # below six units no test at the margin is possible: row 8 compares D with the margin
    total = math.fsum(pairing.differences)
    within = None if pairing.test == "sign-flip" else pairing.within_case
    if within:
        found = SignificanceResult(tails=within, statistic=total)
        return Examined(pairing, "exact-within-case", found)
    tails = sign_flip(unit_sums(pairing.differences, pairing.units))
    found = SignificanceResult(tails=tails, statistic=total)
    return Examined(pairing, "sign-flip", _with_consent(pairing, found))


def _by_units(pairing: Pairing) -> Examined:
    """Run the t-test, or the test that was chosen in its place; the interval stays the t-test's.

    Where all cases moved alike, the test is one of their signs alone.
    """
    found = _by_spread(pairing)
    method: Method = pairing.test if found.interval else "same-shift"
    if found.interval and pairing.test not in MARGIN_TESTS:
        found = _as_chosen(pairing, found)
    return Examined(pairing, method, _with_consent(pairing, found))


def _with_consent(pairing: Pairing, found: SignificanceResult) -> SignificanceResult:
    """Ask the exact test too where few cases moved, or the sides have unlike numbers of trials."""
    # The differences of rare events are skewed then. With rare misses and one trial against ten,
    # the t-test alone raises a false alarm in up to .47 of builds, and 3 falls among 50 cases get
    # p = 1/24. The larger of the two p-values is valid if either test is. The exact one counts the
    # observed outcome by half.
    are_few = pairing.moved < FEWEST_UNITS_FOR_T <= pairing.whole_units
    if not (pairing.has_unequal_trials or are_few) or pairing.exact is None:
        return found
    exact = pairing.exact.mid_p
    worse, better = max(found.tails.worse, exact.worse), max(found.tails.better, exact.better)
    return replace(found, tails=Tails(worse=worse, better=better))


def _as_chosen(pairing: Pairing, beside: SignificanceResult | None) -> SignificanceResult:
    """Run the chosen test; error and interval stay the t-test's."""
    found = TESTS[pairing.test].run(pairing.sample)
    if beside is None:
        return found
    return replace(found, standard_error=beside.standard_error, interval=beside.interval)


def _by_spread(pairing: Pairing) -> SignificanceResult:
    margin, alpha = pairing.rules.margin / pairing.share, pairing.rules.alpha
    found = paired_test(pairing.differences, pairing.units, margin=margin, alpha=alpha)
    return _of_suite(found, share=pairing.share)


def _of_suite(found: SignificanceResult, *, share: float) -> SignificanceResult:
    """Scale the result of a t-test from some cases to the suite."""
    return replace(
        found, standard_error=share * found.standard_error, interval=shrunk(found.interval, share)
    )


class Limits(NamedTuple):
    """Limits of how far the mean of the suite may have moved.

    Attributes:
        lower: the end that rules a drop out.
        lower_by_spread: of the t interval; ``lower`` where nothing varies.
        upper: of the t interval; where nothing varies the mirror of ``lower``.
    """

    lower: float
    lower_by_spread: float
    upper: float


def limits_of(tested: Examined, *, alpha: float) -> Limits | None:
    """Return how far the mean of the suite may have moved, at level 1 - 2 alpha.

    None where units are too few, and where scores never vary.
    """
    pairing, method, found = tested
    given = pairing.sample, pairing.differences
    if method != "crossed" and pairing.lacks_units:
        return None
    lower = lower_end(*given, hits=pairing.are_hits, alpha=alpha)
    if found.interval is None:
        upper = upper_end(*given, hits=pairing.are_hits, alpha=alpha)
        if method == "crossed" or lower is None or upper is None:
            return None
        return Limits(pairing.share * lower, pairing.share * lower, pairing.share * upper)
    low, high = found.interval
    if lower is None or (method == "crossed" and low < pairing.share * lower):
        return Limits(low, low, high)
    return Limits(pairing.share * lower, low, high)


def shrunk(ends: Interval | None, share: float) -> Interval | None:
    """Scale an interval from some cases to the suite."""
    return (share * ends[0], share * ends[1]) if ends else None


def wording_table(pairing: Pairing) -> FloatArray | None:
    """Cross the topics of the changed cases with their wordings.

    Returns:
        The differences of all changed cases, and of the unchanged ones between them: a row a
        topic, a column a wording. None unless the table can speak of wordings in general: at least
        3 wordings, at least 2 independent topics, and a case for each topic in each wording.
    """
    changed = [pairing.case(pair) for pair in pairing.changed]
    topics = sorted({case.topic for case in changed if case.topic is not None})
    wordings = sorted({case.wording for case in changed if case.wording is not None})
    if len(wordings) < FEWEST_WORDINGS or len(topics) < FEWEST_TOPICS:
        return None
    cells = {
        (case.topic, case.wording): pair.difference
        for pair in pairing.pairs
        for case in [pairing.case(pair)]
    }
    is_complete = all((topic, wording) in cells for topic in topics for wording in wordings)
    are_units = len(set(pairing.units)) == len(topics)
    if not are_units or len(cells) != len(pairing.pairs) or not is_complete:
        return None
    return np.array([[cells[topic, wording] for wording in wordings] for topic in topics])


def _by_wordings(table: FloatArray, pairing: Pairing) -> SignificanceResult:
    """Test for cases and wordings in general: the table holds every changed case."""
    share, alpha = table.size / len(pairing.pairs), pairing.rules.alpha
    beyond = crossed_test(table + pairing.rules.margin / share, alpha=alpha)
    found = crossed_test(table, alpha=alpha)
    tails = Tails(worse=beyond.tails.worse, better=found.tails.better)
    return _of_suite(replace(found, tails=tails, statistic=beyond.statistic), share=share)


def smallest_drop(tested: Examined, *, alpha: float) -> float | None:
    """Return the drop beyond the margin that the test finds with 80 % power, > 0.

    Args:
        tested: the comparison.
        alpha: one-sided level.

    Returns:
        The drop, on the scale of the suite; None where no drop in the range of the scores would be
        found.
    """
    pairing = tested.pairing
    formula = _drop_by_formula(pairing, alpha=alpha)
    error, dof = _error(tested)
    if error is None or dof is None:
        return formula
    by_spread = error * detectable_shift(dof=dof, alpha=alpha)
    if not pairing.are_hits:
        return by_spread
    if formula is None or by_spread > pairing.share:
        return None
    # the spread that was seen is too hopeful near the ceiling, where failures are few
    return max(by_spread, formula)


def _drop_by_formula(pairing: Pairing, *, alpha: float) -> float | None:
    samples = pairing.samples
    plan = PlannedTest(
        baseline=np.array([float(len(case.baseline)) for case in samples]),
        current=np.array([float(len(case.current)) for case in samples]),
        alpha=alpha,
        dof=None if pairing.lacks_units else pairing.whole_units - 1,
    )
    if pairing.are_hits:
        drop = smallest_pass_drop(_rates(pairing), plan)
    else:
        sides = [scores for case in samples for scores in (case.baseline, case.current)]
        drop = smallest_score_drop(within_case_variance(sides), plan)
    return None if drop is None else drop * pairing.share


def _error(tested: Examined) -> tuple[float | None, float | None]:
    """Return the standard error of the suite effect and its degrees of freedom, if known."""
    pairing, method, found = tested
    totals = pairing.whole_repeats if method == "whole-repeats" else None
    if totals:
        error = error_of_totals(totals)
        if error > negligible([*totals.baseline, *totals.current]):
            return error / len(pairing.pairs), len(totals.baseline) + len(totals.current) - 2
    if found.interval is None:
        return None, None
    # a chosen test has degrees of freedom of its own, or none
    dof_of_error = found.dof if method == "crossed" else pairing.whole_units - 1
    return found.standard_error, dof_of_error


def _rates(pairing: Pairing) -> FloatArray:
    """Return how often each changed case is expected to be good, from the baseline."""
    used = slice(1) if pairing.identical_repeats else slice(None)
    every = [one for scored in pairing.baseline.of_case.values() for one in scored.values[used]]
    good = 1.0 if pairing.sign > 0 else 0.0
    hits = [case.baseline.count(good) for case in pairing.samples]
    overall = (every.count(good) + 0.5) / (len(every) + 1)
    return expected_rates(hits, [len(case.baseline) for case in pairing.samples], overall=overall)


def least_p(pairing: Pairing, method: Method) -> float | None:
    """Return the p of the worst outcome of a test; None for a test that does not know it."""
    if method in SIGNS_COUNT:
        return float(0.5 ** len(set(pairing.units)))
    if method == "whole-repeats" and pairing.whole_repeats is not None:
        return least_p_of_splits([pairing.whole_repeats])
    if method == "exact-within-case":
        return least_within_case_p(pairing.samples, sign=pairing.sign)
    return None
