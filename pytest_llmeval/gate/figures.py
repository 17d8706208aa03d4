"""The figures of a comparison, as far as they do not depend on other comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from pytest_llmeval.gate.changes import all_repeats_identical
from pytest_llmeval.gate.comparison import Method
from pytest_llmeval.gate.pairing import Pair, Pairing
from pytest_llmeval.gate.units import units_of
from pytest_llmeval.gate.whole_repeats import whole_repeats
from pytest_llmeval.gate.wordings import WordingTable, wording_table, wordings_of
from pytest_llmeval.ranges import AnyTest, FixedTest, GateTest
from pytest_llmeval.records import SECONDS_METRIC
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.significance.crossed import crossed_test
from pytest_llmeval.stats.significance.exact import exact_within_case, least_p_of_splits, sign_flip
from pytest_llmeval.stats.significance.methods import TESTS
from pytest_llmeval.stats.significance.paired import negligible, paired_test, unit_mean, unit_sums
from pytest_llmeval.stats.significance.repeats import error_of_totals
from pytest_llmeval.stats.significance.sample import CaseScores, Sample, are_binary
from pytest_llmeval.stats.significance.tails import Tails

# a t-test over fewer effective units is valid but nearly powerless
FEWEST_UNITS_FOR_T = 6
# of scores that are no hits and misses, just for show: 9999 shuffles of a case take .2 ms
MOST_CASES_SPLIT = 200
# those that look at means and their spread, which is what an interval has
BY_SPREAD: tuple[GateTest, ...] = ("paired-t", "log-ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How large a comparison is and by how much its sides differ.

    Attributes:
        cases: m, the common cases; ``changed`` is k.
        units: u, the independent units that hold changed cases.
        effective_units: u*; ``whole_units`` is that rounded down.
        difference: D, the suite effect, negative is worse.
        difference_changed: mean difference of the changed cases, None without one.
        mean: of the baseline's mean and the suite effect, so that columns add up.
        unit_labels: the unit of each changed case.
        wordings: of the common cases, 0 where the test names none.
        zero: what counts as no difference.
    """

    cases: int
    changed: int
    units: int
    effective_units: float
    whole_units: int
    difference: float
    difference_changed: float | None
    baseline_mean: float
    mean: float
    unit_labels: tuple[int, ...]
    wordings: int
    zero: float

    @property
    def share(self) -> float:
        """The changed cases as a share of all: leads from their scale to the suite's."""
        return self.changed / self.cases

    @property
    def is_one_unit(self) -> bool:
        """Whether several changed cases share their chance, so that no test can judge them."""
        return self.units == 1 and self.changed > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The scores of the changed cases that the exact test and the formula look at.

    Attributes:
        identical_repeats: only the first trials, as all others are the same draw again.
    """

    cases: tuple[CaseScores, ...]
    identical_repeats: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Significance:
    """What the test of a comparison gave, on the scale of the suite.

    Attributes:
        p: one-sided, for a drop: beyond the margin with a t-test, else for any.
        p_improved: one-sided, for any improvement.
        interval: from the spread of 6 units or more, or of a table of wordings;
            ``standard_error`` and its degrees of freedom ``error_dof`` likewise.
        t: of a t-test over cases only.
        statistic: of the test: t, z, chi-square, or the total of a permutation test; None
            where there is none. ``dof`` are its degrees of freedom, None without any.
        extent: the measures of what was tested.
        samples: what the exact test and the formula of the smallest drop look at.
        repeats: the totals of whole repeats, None where they were not what was tested.
        p_within_case: the exact test's p for a drop, None where units hold several cases.
    """

    method: Method
    extent: Extent
    samples: Samples
    p: float
    p_improved: float
    t: float | None = None
    statistic: float | None = None
    dof: float | None = None
    standard_error: float | None = None
    error_dof: float | None = None
    interval: tuple[float, float] | None = None
    repeats: CaseScores | None = None
    p_within_case: float | None = None


def measure(pairing: Pairing) -> Extent:
    """Count the common cases, at least one, and average their differences."""
    pairs, changed = pairing.pairs, pairing.changed
    units = zip(pairs, units_of(pairs, shared=pairing.subject.calls.shared), strict=True)
    labels = tuple(unit for pair, unit in units if pair.kind is not None)
    differences = [pair.difference for pair in changed]
    spread = unit_mean(differences, labels) if changed else None
    baseline_mean = math.fsum(map(_baseline_mean, pairs)) / len(pairs)
    difference = math.fsum(differences) / len(pairs)
    return Extent(
        cases=len(pairs),
        changed=len(changed),
        units=spread.units if spread else 0,
        effective_units=spread.effective_units if spread else 0.0,
        whole_units=spread.dof + 1 if spread else 0,
        difference=difference,
        difference_changed=spread.mean if spread else None,
        baseline_mean=baseline_mean,
        mean=baseline_mean + pairing.subject.sign * difference,
        unit_labels=labels,
        wordings=wordings_of(pairs),
        zero=negligible(differences),
    )


def _baseline_mean(pair: Pair) -> float:
    """Return the mean to which the difference of a case adds: of all trials if it has none."""
    return pair.all_there.mean if pair.kind is None else pair.mean_there


def tied_repeats(pairing: Pairing, extent: Extent) -> CaseScores | None:
    """Return what stands in for units where cases that share draws form too few of them.

    Args:
        pairing: with at least one common case.
        extent: its measures.

    Returns:
        The totals of whole repeats, enough of them or not; None where units can be tested,
        where repeats cannot, and where a test was chosen that takes two units.
    """
    if extent.units == extent.changed or extent.whole_units >= FEWEST_UNITS_FOR_T:
        return None
    if pairing.subject.test not in BY_SPREAD and not extent.is_one_unit:
        return None
    return None if samples_of(pairing).identical_repeats else whole_repeats(pairing.changed)


def are_enough(repeats: CaseScores | None, *, alpha: float) -> bool:
    """Tell whether a single test of whole repeats could find anything."""
    return repeats is not None and least_p_of_splits([repeats]) < alpha


def significance(
    pairing: Pairing, extent: Extent, *, repeats: CaseScores | None, rules: GateRules
) -> Significance:
    """Test whether the changed cases fell.

    Args:
        pairing: with at least one changed case; several in one unit only if ``repeats``
            are enough.
        extent: its measures.
        repeats: as ``tied_repeats`` says.
        rules: level and margin.
    """
    samples = samples_of(pairing)
    if repeats is not None and are_enough(repeats, alpha=rules.alpha):
        return _by_repeats(repeats, extent, samples=samples, sign=pairing.subject.sign)
    fewer_here = any(len(pair.here) < len(pair.there) for pair in pairing.changed)
    within = None
    if extent.units == extent.changed and (fewer_here or _is_worth_showing(samples.cases)):
        within = exact_within_case(samples.cases, sign=pairing.subject.sign)
    differences = [pair.difference for pair in pairing.changed]
    test = pairing.subject.test
    table = wording_table(pairing.pairs, units=extent.units) if test in BY_SPREAD else None
    if table is not None:
        found = _by_wordings(table, extent, samples=samples, rules=rules)
    elif test in get_args(FixedTest):
        found = _for_these_cases(differences, extent, samples=samples, rules=rules)
        found = _as_chosen(found, test, sign=pairing.subject.sign)
    elif extent.whole_units < FEWEST_UNITS_FOR_T:
        if test == "sign-flip":
            within = None
        found = _by_permutation(differences, extent, samples=samples, within=within)
    else:
        found = _by_spread(differences, extent, samples=samples, rules=rules)
        found = _as_chosen(found, test, sign=pairing.subject.sign)
        if within and fewer_here:
            found = _with_consent(found, within)
    return replace(found, p_within_case=within.worse if within else None)


def _is_worth_showing(cases: Sequence[CaseScores]) -> bool:
    """Whether the exact test is cheap enough to be shown beside a t-test that needs it not."""
    return len(cases) <= MOST_CASES_SPLIT or are_binary(cases)


def _with_consent(found: Significance, within: Tails) -> Significance:
    """Let a t-test speak only as far as the exact test agrees.

    With fewer trials here than in the baseline the differences are skewed: of rare misses
    one against ten, the t-test alone cries wolf in up to .47 of builds. The larger of the
    two p-values is valid where either test is.
    """
    return replace(
        found, p=max(found.p, within.worse), p_improved=max(found.p_improved, within.better)
    )


def _by_spread(
    differences: Sequence[float], extent: Extent, *, samples: Samples, rules: GateRules
) -> Significance:
    share = extent.share
    found = paired_test(
        differences, extent.unit_labels, margin=rules.margin / share, alpha=rules.alpha
    )
    ends = found.interval
    return Significance(
        method="same-shift" if found.statistic is None else "paired-t",
        extent=extent,
        samples=samples,
        p=found.tails.worse,
        p_improved=found.tails.better,
        t=found.statistic,
        statistic=found.statistic,
        dof=found.dof,
        standard_error=share * found.standard_error if ends else None,
        error_dof=found.dof,
        interval=(share * ends[0], share * ends[1]) if ends else None,
    )


def _for_these_cases(
    differences: Sequence[float], extent: Extent, *, samples: Samples, rules: GateRules
) -> Significance:
    """Say what the t-test does, where it can, beside a test that needs no number of cases."""
    if extent.whole_units >= FEWEST_UNITS_FOR_T:
        return _by_spread(differences, extent, samples=samples, rules=rules)
    return Significance(method="none", extent=extent, samples=samples, p=1.0, p_improved=1.0)


def _as_chosen(found: Significance, test: AnyTest, *, sign: int) -> Significance:
    """Put the test that was chosen in the place of the t-test; the interval stays its.

    Where all moved alike, a test of cases has no more than their signs.
    """
    if test == "paired-t" or (found.interval is None and test not in get_args(FixedTest)):
        return found
    if test == "log-ratio":
        return replace(found, method=test)
    sample = Sample(cases=found.samples.cases, units=found.extent.unit_labels, sign=sign)
    result = TESTS[test].run(sample)
    return replace(
        found,
        method=test,
        t=None,
        statistic=result.statistic,
        dof=result.dof,
        p=result.tails.worse,
        p_improved=result.tails.better,
    )


def _by_wordings(
    table: WordingTable, extent: Extent, *, samples: Samples, rules: GateRules
) -> Significance:
    """Test for cases and wordings in general: the table holds every changed case."""
    share = table.size / extent.cases
    differences = np.array(table.differences)
    beyond = crossed_test(differences + rules.margin / share, alpha=rules.alpha)
    found = crossed_test(differences, alpha=rules.alpha)
    ends = found.interval
    return Significance(
        method="crossed",
        extent=extent,
        samples=samples,
        p=beyond.tails.worse,
        p_improved=found.tails.better,
        t=beyond.statistic,
        statistic=beyond.statistic,
        dof=found.dof,
        standard_error=share * found.standard_error if ends else None,
        error_dof=found.dof,
        interval=(share * ends[0], share * ends[1]) if ends else None,
    )


def _by_permutation(
    differences: Sequence[float], extent: Extent, *, samples: Samples, within: Tails | None
) -> Significance:
    # below six units a test at the margin is out of reach: the verdict holds D against it
    tails = within or sign_flip(unit_sums(differences, extent.unit_labels))
    return Significance(
        method="exact-within-case" if within else "sign-flip",
        extent=extent,
        samples=samples,
        p=tails.worse,
        p_improved=tails.better,
        statistic=math.fsum(differences),
    )


def _by_repeats(
    repeats: CaseScores, extent: Extent, *, samples: Samples, sign: int
) -> Significance:
    tails = exact_within_case([repeats], sign=sign)
    error = error_of_totals(repeats)
    has_spread = error > negligible([*repeats.baseline, *repeats.current])
    return Significance(
        method="whole-repeats",
        extent=extent,
        samples=samples,
        repeats=repeats,
        p=tails.worse,
        p_improved=tails.better,
        statistic=repeats.difference(sign),
        standard_error=error / extent.cases if has_spread else None,
        error_dof=len(repeats.baseline) + len(repeats.current) - 2 if has_spread else None,
    )


def samples_of(pairing: Pairing) -> Samples:
    """Return the scores of the changed cases, of each the first if all repeats are one draw.

    A reply that is the same again took time of its own.
    """
    changed = pairing.changed
    identical = pairing.subject.metric != SECONDS_METRIC and all_repeats_identical(
        side for pair in changed for side in (pair.all_there, pair.all_here)
    )
    used = slice(1) if identical else slice(None)
    return Samples(
        cases=tuple(
            CaseScores(
                baseline=pair.there.values[used],
                current=pair.here.values[used],
            )
            for pair in changed
        ),
        identical_repeats=identical,
    )
