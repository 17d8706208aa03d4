"""The scores of every case on both sides, and checks whether a test fits them.

Each check answers in one plain sentence what the data lack, "" for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_llmeval.stats.significance.paired import unit_mean

HITS = frozenset({0.0, 1.0})
# with fewer there is no spread to be estimated
FEWEST_UNITS = 2
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


def lacks_comparable_cases(sample: Sample) -> str:
    """Check that there is a case, and that all have finite scores on both sides."""
    if not sample.cases:
        return "there is no case to compare"
    empty = sum(not (case.baseline and case.current) for case in sample.cases)
    if empty:
        return f"{empty} cases have no score on one of the sides: leave them out"
    broken = sum(not all(map(math.isfinite, case.baseline + case.current)) for case in sample.cases)
    if broken:
        return f"{broken} cases hold a score that is not finite: leave errored trials out"
    if sample.units is not None and len(sample.units) != len(sample.cases):
        return f"there are {len(sample.units)} units for {len(sample.cases)} cases: give one each"
    return ""


def lacks_units(sample: Sample) -> str:
    """Check that there are units enough to estimate a spread."""
    found = unit_mean([0.0] * len(sample.cases), sample.units)
    if found.dof + 1 >= FEWEST_UNITS:
        return ""
    return (
        f"it needs {FEWEST_UNITS} independent units, the {len(sample.cases)} cases are worth "
        f"{found.effective_units:.2g}: use exact-within-case or sign-flip"
    )


def lacks_independent_cases(sample: Sample) -> str:
    """Check that cases do not share their chance."""
    if sample.units is None or len(set(sample.units)) == len(sample.cases):
        return ""
    return (
        f"it takes every case as independent, the {len(sample.cases)} cases form "
        f"{len(set(sample.units))} units: use paired-t or sign-flip"
    )


def lacks_binary_scores(sample: Sample) -> str:
    """Check that all scores are hits and misses."""
    if are_binary(sample.cases):
        return ""
    return "it counts hits, and some scores are neither 0 nor 1: use paired-t"


def lacks_single_draws(sample: Sample) -> str:
    """Check that cases have one draw each: pairing repeats multiplies false alarms."""
    repeated = sum(max(len(case.baseline), len(case.current)) > 1 for case in sample.cases)
    if not repeated:
        return ""
    return f"it pairs single draws, and {repeated} cases were repeated: use paired-t"


def lacks_positive_scores(sample: Sample) -> str:
    """Check that a logarithm can be taken of all scores."""
    bad = sum(min(case.baseline + case.current) <= 0 for case in sample.cases)
    if not bad:
        return ""
    return f"it compares ratios, and {bad} cases hold a score that is not above 0: use paired-t"


def lacks_whole_repeats(sample: Sample) -> str:
    """Check that every case took part in every repeat."""
    for side, scores in zip(("baseline", "run"), sample.sides, strict=True):
        numbers = sorted({len(of_case) for of_case in scores})
        if len(numbers) > 1:
            return (
                f"it compares whole repeats, and the cases of the {side} have between "
                f"{numbers[0]} and {numbers[-1]}: use paired-t"
            )
        if numbers[0] < FEWEST_REPEATS:
            return f"it compares whole repeats, and the {side} has only 1: use paired-t"
    return ""
