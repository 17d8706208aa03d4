"""What a test is given: the scores of every case on both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseScores:
    """The scores of one case on both sides, each side with at least one."""

    baseline: tuple[float, ...]
    current: tuple[float, ...]

    def difference(self, sign: int) -> float:
        """Return the mean here less the mean there, times ``sign``."""
        current = math.fsum(self.current) / len(self.current)
        return sign * (current - math.fsum(self.baseline) / len(self.baseline))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The cases that are compared, and how.

    Attributes:
        cases: the scores of each on both sides, repeats in the order they were made.
        units: the unit of each case: equal numbers share their chance; a case each if None.
        sign: 1 where higher is better, -1 where lower is.
        margin: >= 0, in units of the score: a drop of no more is none.
        alpha: one-sided level of intervals, in (0, 0.5).
    """

    cases: Sequence[CaseScores]
    units: Sequence[int] | None = None
    sign: int = 1
    margin: float = 0.0
    alpha: float = 0.05

    @property
    def differences(self) -> list[float]:
        """The mean here less the mean there of each case, negative is worse."""
        return [case.difference(self.sign) for case in self.cases]

    @property
    def effect(self) -> float:
        """The mean of the differences, each case counted once."""
        return math.fsum(self.differences) / len(self.cases)

    @property
    def sides(self) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
        """The scores of every case in the baseline, and here."""
        return [case.baseline for case in self.cases], [case.current for case in self.cases]
