"""Intervals of a single run: of the score of a case, and of the mean of all cases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike
from scipy import special

from pytest_llmeval.stats.t_tests import student_interval, unit_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanInterval:
    """A mean over cases with its t interval.

    Attributes:
        interval: None where nothing can be said about chance: fewer than two effective
            units, or no spread at all. A point is never shown as certainty.
        units: how many independent units the cases form.
    """

    mean: float
    interval: tuple[float, float] | None
    units: int


def within_share(
    ends: tuple[float, float], scores: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """Cut an interval of a mean where a share ends.

    Nobody declares the range of a score. So a score that reaches 1 and never leaves [0, 1] is
    taken for a share at that end; so is one that reaches 0.

    Args:
        ends: of the interval.
        scores: of each case, at least one.
    """
    least, most = min(map(min, scores)), max(map(max, scores))
    low = max(ends[0], 0.0) if least == 0 and most <= 1 else ends[0]
    high = min(ends[1], 1.0) if most == 1 and least >= 0 else ends[1]
    return low, high


def mean_interval(
    values: ArrayLike, units: Sequence[int] | None = None, *, alpha: float
) -> MeanInterval:
    """Estimate a mean over cases and its two-sided interval of level 1 - 2 alpha.

    Args:
        values: shape (n_cases,), n_cases >= 1, one entry a case, already averaged over
            its trials.
        units: the unit of each case; a case each if not given.
        alpha: what may lie beyond each end, in (0, 0.5).
    """
    found, interval = unit_mean(values, units), None
    if found.standard_error and found.dof >= 1:
        interval = student_interval(found.mean, found.standard_error, dof=found.dof, alpha=alpha)
    return MeanInterval(mean=found.mean, interval=interval, units=found.units)


def wilson_interval(
    hits: float, trials: float, *, alpha: float, quantile: float | None = None
) -> tuple[float, float]:
    """Estimate a rate from hits of independent trials: of a single case, say.

    Wilson's interval has a width where all trials hit, never leaves [0, 1], and covers as
    much as it says on average over rates. (Wald's has no width there, and the exact
    interval of Clopper and Pearson is wider than need be: docs/statistics.md.)

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
    z = float(special.ndtri(1 - alpha)) if quantile is None else quantile
    rate = hits / trials
    centre = (rate + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials)
    half *= math.sqrt(rate * (1 - rate) / trials + z**2 / (4 * trials**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def pass_rate_interval(
    rates: ArrayLike, units: Sequence[int] | None = None, *, trials: int, alpha: float
) -> MeanInterval:
    """Estimate the mean of pass rates: Wilson's interval with an effective number of trials.

    Repeats of a case are worth at least the case and at most as many independent trials;
    in between, the spread over cases decides. So an evaluation that passed throughout has
    an interval, which the t interval lacks, and no interval leaves [0, 1].

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
        return MeanInterval(mean=found.mean, interval=None, units=found.units)
    worth = found.effective_units
    if found.standard_error:
        worth = max(worth, found.mean * (1 - found.mean) / found.standard_error**2)
    worth = min(worth, float(trials))
    quantile = float(special.stdtrit(found.dof, 1 - alpha))
    # rounding may put a mean of ones above 1
    hits = min(max(found.mean, 0.0), 1.0) * worth
    interval = wilson_interval(hits, worth, alpha=alpha, quantile=quantile)
    return MeanInterval(mean=found.mean, interval=interval, units=found.units)
