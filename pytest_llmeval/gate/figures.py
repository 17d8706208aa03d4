"""The figures of a comparison, as far as they do not depend on other comparisons."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_llmeval.gate.changes import all_repeats_identical
from pytest_llmeval.gate.comparison import Method
from pytest_llmeval.gate.pairing import Pair, Pairing
from pytest_llmeval.gate.scoring import mean_of, values_of
from pytest_llmeval.gate.units import units_of
from pytest_llmeval.records import GateRules
from pytest_llmeval.stats.exact import CaseScores, Tails, are_binary, exact_within_case, sign_flip
from pytest_llmeval.stats.paired import negligible, paired_test, unit_mean

# a t-test over fewer effective units is valid but nearly powerless
FEWEST_UNITS_FOR_T = 6
# of scores that are no hits and misses: each case is shuffled 9999 times
MOST_CASES_SPLIT = 200


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
        interval: with a t-test only; ``t``, ``dof`` and ``standard_error`` likewise.
        extent: the measures of what was tested.
        samples: what the exact test and the formula of the smallest drop look at.
        p_within_case: the exact test's p for a drop, None where units hold several cases.
    """

    method: Method
    extent: Extent
    samples: Samples
    p: float
    p_improved: float
    t: float | None = None
    dof: int | None = None
    standard_error: float | None = None
    interval: tuple[float, float] | None = None
    p_within_case: float | None = None


def measure(pairing: Pairing) -> Extent:
    """Count the common cases, at least one, and average their differences."""
    pairs, changed = pairing.pairs, pairing.changed
    units = zip(pairs, units_of(pairs), strict=True)
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
        zero=negligible(differences),
    )


def _baseline_mean(pair: Pair) -> float:
    """Return the mean to which the difference of a case adds: of all trials if it has none."""
    return mean_of(pair.all_there) if pair.kind is None else pair.mean_there


def significance(pairing: Pairing, extent: Extent, *, rules: GateRules) -> Significance:
    """Test whether the changed cases fell.

    Args:
        pairing: with at least one changed case, and not several in one unit alone.
        extent: its measures.
        rules: level and margin.
    """
    samples = _sample(pairing.changed)
    within = None
    if extent.units == extent.changed and _is_worth_splitting(samples.cases):
        within = exact_within_case(samples.cases, sign=pairing.subject.sign)
    differences = [pair.difference for pair in pairing.changed]
    if extent.whole_units < FEWEST_UNITS_FOR_T:
        found = _by_permutation(differences, extent, samples=samples, within=within)
    else:
        found = _by_spread(differences, extent, samples=samples, rules=rules)
        if within and any(len(pair.here) < len(pair.there) for pair in pairing.changed):
            found = _with_consent(found, within)
    return replace(found, p_within_case=within.worse if within else None)


def _is_worth_splitting(cases: Sequence[CaseScores]) -> bool:
    """Whether the exact test is cheap enough to be shown beside a t-test."""
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
        method=found.method,
        extent=extent,
        samples=samples,
        p=found.p_worse,
        p_improved=found.p_better,
        t=found.t,
        dof=found.dof,
        standard_error=share * found.standard_error if ends else None,
        interval=(share * ends[0], share * ends[1]) if ends else None,
    )


def _by_permutation(
    differences: Sequence[float], extent: Extent, *, samples: Samples, within: Tails | None
) -> Significance:
    # below six units a test at the margin is out of reach: the verdict holds D against it
    tails = within or sign_flip(_unit_sums(differences, extent.unit_labels))
    return Significance(
        method="exact-within-case" if within else "sign-flip",
        extent=extent,
        samples=samples,
        p=tails.worse,
        p_improved=tails.better,
    )


def _unit_sums(differences: Sequence[float], labels: Sequence[int]) -> list[float]:
    by_unit: defaultdict[int, list[float]] = defaultdict(list)
    for difference, label in zip(differences, labels, strict=True):
        by_unit[label].append(difference)
    return [math.fsum(of_unit) for of_unit in by_unit.values()]


def _sample(changed: Sequence[Pair]) -> Samples:
    """Return the scores of changed cases, of each the first if all repeats are one draw."""
    identical = all_repeats_identical(
        side for pair in changed for side in (pair.all_there, pair.all_here)
    )
    used = slice(1) if identical else slice(None)
    return Samples(
        cases=tuple(
            CaseScores(
                there=values_of(pair.there[used]),
                here=values_of(pair.here[used]),
            )
            for pair in changed
        ),
        identical_repeats=identical,
    )
