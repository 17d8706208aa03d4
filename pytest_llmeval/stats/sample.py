"""The scores of both sides that a test takes, and the p-values that it gives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

HITS = frozenset({0.0, 1.0})
# with fewer there is no spread to be estimated
FEWEST_REPEATS = 2


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


# the p-values of a test that found nothing at all to judge by: neither direction is shown
NOTHING_SHOWN = Tails(worse=1.0, better=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignificanceResult:
    """The result of a test of the current run against the baseline.

    Attributes:
        tails: the p-values, each in [0, 1].
        statistic: t, z, or the total of a permutation test, negative is worse; chi-square
            for the tests that are named so. None where nothing varies, so that no t exists:
            the p-values are then those of so many like signs (``same-shift``).
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
