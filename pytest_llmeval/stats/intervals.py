"""Means over cases that come in units, and intervals of a single run: of a case, of all cases."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_llmeval.stats.distributions import normal_quantile, student_quantile


def negligible(values: Iterable[float]) -> float:
    """Return the size that counts as zero beside these values: 1e-12 of the largest, or of 1."""
    return 1e-12 * max(1.0, float(max(map(abs, values), default=1.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitMean:
    """A mean over cases, and how far it may be off.

    Attributes:
        mean: over the cases, each counted once.
        standard_error: of that mean, over units; exactly 0 where it is negligible, None
            with fewer than two units.
        units: how many units the cases form.
        effective_units: squared number of cases over the summed squared sizes of the units.
        dof: whole effective units less one, >= 0.
        interval: the t interval or Wilson's, where one was asked for. None where nothing can be
            said about chance: fewer than two effective units, or no spread at all. A point is never
            shown as certainty.
    """

    mean: float
    standard_error: float | None
    units: int
    effective_units: float
    dof: int
    interval: tuple[float, float] | None = None


def unit_mean(values: Sequence[float], units: Sequence[int] | None = None) -> UnitMean:
    """Estimate a mean and its standard error from values that come in units.

    With one case a unit this is the usual standard error, sd / sqrt(n). Units of unlike size carry
    less information than their number says, so there is an effective number of units. A large unit
    draws the mean towards itself, so that its residual looks too small. The jackknife corrects
    this: it compares each unit with the mean of all others.

    Args:
        values: one a case, at least one, finite.
        units: the unit of each case; each case is a unit of its own if not given.
    """
    cases, mean = len(values), math.fsum(values) / len(values)
    residuals = unit_sums([value - mean for value in values], units)
    counts = Counter(range(cases) if units is None else units)
    sizes = [counts[unit] for unit in sorted(counts)]
    error = None
    if len(sizes) > 1:
        # as ``t_tests.jackknife_errors``
        from_others = [r / (1 - size / cases) for r, size in zip(residuals, sizes, strict=True)]
        squares = math.fsum(residual**2 for residual in from_others)
        error = math.sqrt((len(sizes) - 1) / len(sizes) * squares) / cases
        error = error if error > negligible(values) else 0.0
    return UnitMean(
        mean=mean,
        standard_error=error,
        units=len(sizes),
        effective_units=cases**2 / sum(size**2 for size in sizes),
        dof=dof_of_units(sizes),
    )


def dof_of_units(sizes: Sequence[int]) -> int:
    """Return the whole effective units of units of these sizes, less one."""
    return sum(sizes) ** 2 // sum(size**2 for size in sizes) - 1


def unit_sums(values: Sequence[float], units: Sequence[int] | None = None) -> list[float]:
    """Add values up within units.

    Args:
        values: one a case, finite.
        units: the unit of each case; each case is a unit of its own if not given.

    Returns:
        The sum of each unit, by ascending unit.
    """
    if units is None:
        return list(values)
    sums = dict.fromkeys(sorted(units), 0.0)
    for unit, value in zip(units, values, strict=True):
        sums[unit] += value
    return list(sums.values())


def student_interval(mean: float, error: float, *, dof: float, alpha: float) -> tuple[float, float]:
    """Return the t interval of a mean, two-sided, level 1 - 2 alpha.

    Args:
        mean: finite.
        error: its standard error, > 0.
        dof: degrees of freedom, >= 1, whole or not.
        alpha: what may lie beyond each end, in (0, 0.5).
    """
    half = student_quantile(dof, alpha) * error
    return mean - half, mean + half


def within_share(
    ends: tuple[float, float], scores: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """Cut an interval of a mean where a share ends.

    Nobody declares the range of a score. So a score that never leaves [0, 1] and reaches 1 is taken
    for a share at the end 1, and likewise at 0.

    Args:
        ends: of the interval.
        scores: of each case, at least one.
    """
    least, most = min(map(min, scores)), max(map(max, scores))
    low = max(ends[0], 0.0) if least == 0 and most <= 1 else ends[0]
    high = min(ends[1], 1.0) if most == 1 and least >= 0 else ends[1]
    return low, high


def mean_interval(
    values: Sequence[float], units: Sequence[int] | None = None, *, alpha: float
) -> UnitMean:
    """Estimate a mean over cases and its two-sided interval of level 1 - 2 alpha.

    Args:
        values: shape (n_cases,), n_cases >= 1, one entry a case, already averaged over
            its trials.
        units: the unit of each case; a case each if not given.
        alpha: what may lie beyond each end, in (0, 0.5).
    """
    found = unit_mean(values, units)
    if not (found.standard_error and found.dof >= 1):
        return found
    ends = student_interval(found.mean, found.standard_error, dof=found.dof, alpha=alpha)
    return replace(found, interval=ends)


def wilson_interval(
    hits: float, trials: float, *, alpha: float, quantile: float | None = None
) -> tuple[float, float]:
    """Estimate a rate from hits of independent trials: of a single case, say.

    Wilson's interval has a width where all trials hit, never leaves [0, 1], and has its level on
    average over rates. (Wald's interval has no width there, and the exact one of Clopper and
    Pearson is too wide: docs/statistics.md.)

    Args:
        hits: in [0, trials].
        trials: > 0; need not be whole.
        alpha: what may lie beyond each end, in (0, 0.5).
        quantile: of another distribution than the normal one.

    Returns:
        The ends, in [0, 1], two-sided level 1 - 2 alpha.

    Source:
        Wilson (1927), JASA 22, 209-212. Same as scipy.stats.binomtest(...).proportion_ci(
        method="wilson").
    """
    z = normal_quantile(alpha) if quantile is None else quantile
    rate = hits / trials
    centre = (rate + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials)
    half *= math.sqrt(rate * (1 - rate) / trials + z**2 / (4 * trials**2))
    # at an end of the scale rounding would leave the limit 1e-17 off
    low = max(0.0, centre - half) if hits > 0 else 0.0
    return low, min(1.0, centre + half) if hits < trials else 1.0


def pass_rate_interval(
    rates: Sequence[float], units: Sequence[int] | None = None, *, trials: int, alpha: float
) -> UnitMean:
    """Estimate the mean of pass rates: Wilson's interval with an effective number of trials.

    The repeats of a case count as one trial at least, and as so many independent trials at most.
    The spread over cases decides where between. So an evaluation that passed throughout has an
    interval, which the t interval lacks, and no interval leaves [0, 1].

    Args:
        rates: shape (n_cases,), n_cases >= 1, in [0, 1], one entry a case.
        units: the unit of each case; a case each if not given.
        trials: scored trials of all cases, >= n_cases.
        alpha: what may lie beyond each end, in (0, 0.5).

    Returns:
        The estimate; without interval for fewer than two effective units.

    Source:
        Wilson's interval on the effective sample size, as Korn and Graubard (1998), Survey
        Methodology 24, 193-201, do it with the exact one. Coverage measured in
        docs/statistics.md.
    """
    found = unit_mean(rates, units)
    if found.dof < 1:
        return found
    worth = found.effective_units
    if found.standard_error:
        worth = max(worth, found.mean * (1 - found.mean) / found.standard_error**2)
    worth = min(worth, float(trials))
    quantile = student_quantile(found.dof, alpha)
    # rounding may put a mean of ones above 1
    hits = min(max(found.mean, 0.0), 1.0) * worth
    return replace(found, interval=wilson_interval(hits, worth, alpha=alpha, quantile=quantile))
