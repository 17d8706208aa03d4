"""Tests of a comparison: how far chance explains that the changed cases differ."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from pytest_llmeval.checks import MARGIN_TESTS, FixedTest
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import Interval, Method
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.exact import (
    exact_within_case,
    least_p_of_splits,
    sign_flip,
)
from pytest_llmeval.stats.methods import TESTS
from pytest_llmeval.stats.repeats import error_of_totals
from pytest_llmeval.stats.sample import CaseScores, Sample, SignificanceResult, Tails, are_binary
from pytest_llmeval.stats.t_tests import (
    FEWEST_UNITS_FOR_T,
    FEWEST_WORDINGS,
    crossed_test,
    negligible,
    paired_test,
    unit_sums,
)

FEWEST_TOPICS = 2
# of scores that are no hits and misses, just for show: 9999 shuffles of a case take .2 ms
MOST_CASES_SPLIT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """Result of the test of a comparison, on the scale of the suite.

    Attributes:
        p: one-sided, for a drop: beyond the margin with a t-test, else for any.
        p_improved: one-sided, for any improvement.
        interval: from the spread of 6 units or more, or of a table of wordings;
            ``standard_error`` and its degrees of freedom ``error_dof`` likewise.
        t: of a t-test over cases only.
        statistic: of the test: t, z, chi-square, or the total of a permutation test; None
            where there is none. ``dof`` are its degrees of freedom, None without any.
        p_within_case: the exact test's p for a drop, None where units hold several cases.
        p_adjusted: for a drop, among the ``family_size`` comparisons that share the error
            rate; ``p_improved_adjusted`` for an improvement.
        penalty: by what the p-value is multiplied where all others show nothing.
    """

    method: Method
    p: float
    p_improved: float
    t: float | None = None
    statistic: float | None = None
    dof: float | None = None
    standard_error: float | None = None
    error_dof: float | None = None
    interval: Interval | None = None
    p_within_case: float | None = None
    p_adjusted: float = 1.0
    p_improved_adjusted: float = 1.0
    family_size: int = 1
    penalty: int = 1


def tied_repeats(pairing: Pairing) -> CaseScores | None:
    """Return what stands in for units where cases that share draws form too few of them.

    Args:
        pairing: with at least one common case.

    Returns:
        The totals of whole repeats, enough of them or not; None where units can be tested,
        where repeats cannot, and where a test was chosen that takes two units.
    """
    if pairing.are_units or pairing.whole_units >= FEWEST_UNITS_FOR_T:
        return None
    if pairing.test not in MARGIN_TESTS and not pairing.is_one_unit:
        return None
    return None if pairing.identical_repeats else pairing.whole_repeats


def are_enough(repeats: CaseScores | None, *, alpha: float) -> bool:
    """Tell whether a single test of whole repeats could find anything."""
    return repeats is not None and least_p_of_splits([repeats]) < alpha


def significance(pairing: Pairing, *, repeats: CaseScores | None, rules: GateRules) -> Significance:
    """Test whether the changed cases fell.

    Args:
        pairing: with at least one changed case; several in one unit only if ``repeats``
            are enough.
        repeats: as ``tied_repeats`` says.
        rules: level and margin.
    """
    if repeats is not None and are_enough(repeats, alpha=rules.alpha):
        return _by_repeats(repeats, pairing)
    fewer = any(len(pair.current) < len(pair.baseline) for pair in pairing.changed)
    within = None
    if pairing.are_units and (fewer or _is_worth_showing(pairing)):
        within = exact_within_case(pairing.samples, sign=pairing.sign)
    test = pairing.test
    table = wording_table(pairing) if test in MARGIN_TESTS else None
    if table is not None:
        found = _by_wordings(table, pairing, rules=rules)
    elif test in get_args(FixedTest):
        # the t-test, where there is one, beside a test that needs no number of cases
        found = Significance(method="none", p=1.0, p_improved=1.0)
        if pairing.whole_units >= FEWEST_UNITS_FOR_T:
            found = _by_spread(pairing, rules=rules)
        found = _as_chosen(found, pairing)
    elif pairing.whole_units < FEWEST_UNITS_FOR_T:
        if test == "sign-flip":
            within = None
        found = _by_permutation(pairing, within=within)
    else:
        found = _as_chosen(_by_spread(pairing, rules=rules), pairing)
        if within and fewer:
            found = _with_consent(found, within)
    return replace(found, p_within_case=within.worse if within else None)


def _is_worth_showing(pairing: Pairing) -> bool:
    """Whether the exact test is cheap enough to be shown beside a t-test that needs it not."""
    return len(pairing.samples) <= MOST_CASES_SPLIT or are_binary(pairing.samples)


def _with_consent(found: Significance, within: Tails) -> Significance:
    """Let a t-test speak only as far as the exact test agrees.

    With fewer trials here than in the baseline the differences are skewed: of rare misses
    one against ten, the t-test alone cries wolf in up to .47 of builds. The larger of the
    two p-values is valid where either test is.
    """
    return replace(
        found, p=max(found.p, within.worse), p_improved=max(found.p_improved, within.better)
    )


def _by_spread(pairing: Pairing, *, rules: GateRules) -> Significance:
    found = paired_test(
        pairing.differences, pairing.units, margin=rules.margin / pairing.share, alpha=rules.alpha
    )
    method: Method = "same-shift" if found.statistic is None else "paired-t"
    return _of_spread(method, found, tails=found.tails, share=pairing.share)


def _of_spread(
    method: Method, found: SignificanceResult, *, tails: Tails, share: float
) -> Significance:
    """Lead the result of a t-test from the scale of some cases to that of the suite."""
    return Significance(
        method=method,
        p=tails.worse,
        p_improved=tails.better,
        t=found.statistic,
        statistic=found.statistic,
        dof=found.dof,
        standard_error=share * found.standard_error if found.interval else None,
        error_dof=found.dof,
        interval=shrunk(found.interval, share),
    )


def shrunk(ends: Interval | None, share: float) -> Interval | None:
    """Lead an interval from the scale of some cases to that of the suite."""
    return (share * ends[0], share * ends[1]) if ends else None


def _as_chosen(found: Significance, pairing: Pairing) -> Significance:
    """Put the test that was chosen in the place of the t-test; the interval stays its.

    Where all moved alike, a test of cases has no more than their signs.
    """
    test = pairing.test
    if test == "paired-t" or (found.interval is None and test not in get_args(FixedTest)):
        return found
    if test == "log-ratio":
        return replace(found, method=test)
    result = TESTS[test].run(sample_of(pairing))
    return replace(
        found,
        method=test,
        t=None,
        statistic=result.statistic,
        dof=result.dof,
        p=result.tails.worse,
        p_improved=result.tails.better,
    )


def sample_of(pairing: Pairing) -> Sample:
    """Return the changed cases as a test that was chosen takes them."""
    return Sample(cases=pairing.samples, units=pairing.units, sign=pairing.sign)


def wording_table(pairing: Pairing) -> NDArray[np.float64] | None:
    """Cross the topics of the changed cases with their wordings.

    Returns:
        The differences of all changed cases, and of the unchanged ones between them: a row a
        topic, a column a wording. None unless the table speaks of wordings in general: at
        least 3 of them, at least 2 independent topics, and a case for each topic in each.
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


def _by_wordings(table: NDArray[np.float64], pairing: Pairing, *, rules: GateRules) -> Significance:
    """Test for cases and wordings in general: the table holds every changed case."""
    share = table.size / len(pairing.pairs)
    beyond = crossed_test(table + rules.margin / share, alpha=rules.alpha)
    found = crossed_test(table, alpha=rules.alpha)
    tails = Tails(worse=beyond.tails.worse, better=found.tails.better)
    statistic = beyond.statistic
    return _of_spread("crossed", replace(found, statistic=statistic), tails=tails, share=share)


def _by_permutation(pairing: Pairing, *, within: Tails | None) -> Significance:
    # below six units a test at the margin is out of reach: the verdict holds D against it
    tails = within or sign_flip(unit_sums(pairing.differences, pairing.units))
    return Significance(
        method="exact-within-case" if within else "sign-flip",
        p=tails.worse,
        p_improved=tails.better,
        statistic=math.fsum(pairing.differences),
    )


def _by_repeats(repeats: CaseScores, pairing: Pairing) -> Significance:
    tails = exact_within_case([repeats], sign=pairing.sign)
    error = error_of_totals(repeats)
    has_spread = error > negligible([*repeats.baseline, *repeats.current])
    return Significance(
        method="whole-repeats",
        p=tails.worse,
        p_improved=tails.better,
        statistic=repeats.difference(pairing.sign),
        standard_error=error / len(pairing.pairs) if has_spread else None,
        error_dof=len(repeats.baseline) + len(repeats.current) - 2 if has_spread else None,
    )
