"""The scores of both sides that a test takes, by case or by repeat; the p-values of a test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

HITS = frozenset({0.0, 1.0})
# with fewer no spread can be estimated
FEWEST_REPEATS = 2
# a repeat counts if this share of the cases has a value in it
FEWEST_OF_A_REPEAT = 0.9
# 90 % of 30 is not 27 in floating point
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseScores:
    """The scores of one case on both sides, each side with at least one."""

    baseline: tuple[float, ...]
    current: tuple[float, ...]

    def difference(self, sign: int) -> float:
        """Return the current mean less the baseline's, times ``sign``."""
        current = math.fsum(self.current) / len(self.current)
        return sign * (current - math.fsum(self.baseline) / len(self.baseline))


def are_binary(cases: Iterable[CaseScores]) -> bool:
    """Return whether every score is 0 or 1."""
    return all(HITS.issuperset(case.baseline) and HITS.issuperset(case.current) for case in cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The cases to compare, and how to compare them.

    Attributes:
        cases: the scores of each on both sides, repeats in the order they were made.
        units: the unit of each case: equal numbers share their chance; a case each if None.
        sign: 1 where higher is better, -1 where lower is.
    """

    cases: Sequence[CaseScores]
    units: Sequence[int] | None = None
    sign: int = 1

    @property
    def differences(self) -> list[float]:
        """The current mean of each case less the baseline's, negative is worse."""
        return [case.difference(self.sign) for case in self.cases]

    @property
    def sides(self) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
        """The scores of every case in the baseline, and in the current run."""
        return [case.baseline for case in self.cases], [case.current for case in self.cases]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tails:
    """One-sided p-values of a statistic: as low as seen or lower, as high or higher."""

    worse: float
    better: float


# the p-values of a test without anything to judge by, for neither direction
NOTHING_SHOWN = Tails(worse=1.0, better=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignificanceResult:
    """The result of a test of the current run against the baseline.

    Attributes:
        tails: the p-values, each in [0, 1].
        statistic: t, z, or the total of a permutation test, negative is worse; chi-square for the
            tests of that name. None where nothing varies, so that no t exists: the p-values are
            then the chances of so many like signs (``same-shift``).
        dof: degrees of freedom of the statistic; None where it has none.
        standard_error: of the mean difference, by the paired and the crossed test; 0 where
            nothing varies.
        interval: of the mean difference, two-sided, level 1 - 2 alpha, by the paired and the
            crossed test; None where nothing varies.
    """

    tails: Tails
    statistic: float | None = None
    dof: float | None = None
    standard_error: float = 0.0
    interval: tuple[float, float] | None = None


def in_step(samples: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """Return the repeats that every case has, as many scores of each case.

    Args:
        samples: the scores of each case by trial index, at least one case with at least
            one score each.
    """
    fewest = min(map(len, samples))
    return [sample[:fewest] for sample in samples]


def totals_of_repeats(
    baseline: Sequence[Sequence[float]], current: Sequence[Sequence[float]]
) -> CaseScores | None:
    """Add the scores of all cases up in each repeat, to be tested like the scores of one case.

    Without an effect the repeats of both sides are exchangeable, whatever cases share within a
    repeat. Each value counts less the mean of its case over both sides. A missing value counts as
    this mean, so that a lost trial moves no total. A repeat counts if at least nine in ten cases
    have a value in it.

    Args:
        baseline: the values of each case in every repeat, NaN where it has none.
        current: likewise.

    Returns:
        The totals of each side; None where no repeat of a side counts.
    """
    sides = [_nearly_complete(baseline), _nearly_complete(current)]
    if not all(sides):
        return None
    means = [_known_mean(of_case) for of_case in zip(*chain(*sides), strict=True)]
    totals = [tuple(_total(repeat, means) for repeat in side) for side in sides]
    return CaseScores(baseline=totals[0], current=totals[1])


def _nearly_complete(side: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    """Return the repeats that count, each with the values of all cases."""
    fewest = FEWEST_OF_A_REPEAT * len(side) - ROUNDING
    return [
        repeat
        for repeat in zip(*side, strict=True)
        if sum(not math.isnan(value) for value in repeat) >= fewest
    ]


def _total(repeat: Sequence[float], means: Sequence[float]) -> float:
    pairs = zip(repeat, means, strict=True)
    return math.fsum(value - mean for value, mean in pairs if not math.isnan(value))


def _known_mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / max(1, len(known))
