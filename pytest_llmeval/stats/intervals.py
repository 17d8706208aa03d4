"""The mean of one run that is held against nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike
from scipy import special

from pytest_llmeval.stats.paired import unit_mean


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
    found = unit_mean(values, units)
    if not found.standard_error or found.dof < 1:
        return MeanInterval(mean=found.mean, interval=None, units=found.units)
    half = float(special.stdtrit(found.dof, 1 - alpha)) * found.standard_error
    interval = (found.mean - half, found.mean + half)
    return MeanInterval(mean=found.mean, interval=interval, units=found.units)
