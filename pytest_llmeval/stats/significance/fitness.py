"""Does a test fit the data? Each check answers in one plain sentence, "" if it does."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pytest_llmeval.stats.significance.exact import are_binary
from pytest_llmeval.stats.significance.paired import unit_mean
from pytest_llmeval.stats.significance.sample import Sample

# with fewer there is no spread to be estimated
FEWEST_UNITS = 2
FEWEST_REPEATS = 2


def fits(sample: Sample) -> str:
    """Ask for at least one case, with finite scores on both sides."""
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


def needs_units(sample: Sample) -> str:
    """Ask for units enough to estimate a spread."""
    found = unit_mean([0.0] * len(sample.cases), sample.units)
    if found.dof + 1 >= FEWEST_UNITS:
        return ""
    return (
        f"it needs {FEWEST_UNITS} independent units, the {len(sample.cases)} cases are worth "
        f"{found.effective_units:.2g}: use exact-within-case or sign-flip"
    )


def needs_independent_cases(sample: Sample) -> str:
    """Ask for cases that do not share their chance."""
    if sample.units is None or len(set(sample.units)) == len(sample.cases):
        return ""
    return (
        f"it takes every case as independent, the {len(sample.cases)} cases form "
        f"{len(set(sample.units))} units: use paired-t or sign-flip"
    )


def needs_binary(sample: Sample) -> str:
    """Ask for hits and misses."""
    if are_binary(sample.cases):
        return ""
    return "it counts hits, and some scores are neither 0 nor 1: use paired-t"


def needs_single_draws(sample: Sample) -> str:
    """Ask for one draw a case: pairing repeats multiplies false alarms."""
    repeated = sum(max(len(case.baseline), len(case.current)) > 1 for case in sample.cases)
    if not repeated:
        return ""
    return f"it pairs single draws, and {repeated} cases were repeated: use paired-t"


def needs_positive(sample: Sample) -> str:
    """Ask for scores of which a logarithm can be taken."""
    bad = sum(min(case.baseline + case.current) <= 0 for case in sample.cases)
    if not bad:
        return ""
    return f"it compares ratios, and {bad} cases hold a score that is not above 0: use paired-t"


def needs_whole_repeats(sample: Sample) -> str:
    """Ask for repeats that every case took part in."""
    for where, side in zip(("baseline", "run"), sample.sides, strict=True):
        numbers = _distinct(len(scores) for scores in side)
        if len(numbers) > 1:
            return (
                f"it compares whole repeats, and the cases of the {where} have between "
                f"{numbers[0]} and {numbers[-1]}: use paired-t"
            )
        if numbers[0] < FEWEST_REPEATS:
            return f"it compares whole repeats, and the {where} has only 1: use paired-t"
    return ""


def _distinct(numbers: Iterable[int]) -> list[int]:
    return sorted(set(numbers))
