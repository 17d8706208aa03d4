"""Paired differences, one a case, tested over independent units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pytest_llmeval.stats.significance.tails import (
    SignificanceResult,
    Tails,
    student_interval,
    tails_without_spread,
)

FloatArray = NDArray[np.float64]
# a t-test over fewer effective units is valid but nearly powerless
FEWEST_UNITS_FOR_T = 6


def negligible(values: ArrayLike) -> float:
    """Return what counts as zero beside these values: 1e-12 of the largest, or of 1."""
    return 1e-12 * float(np.max(np.abs(values), initial=1.0))


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
    """

    mean: float
    standard_error: float | None
    units: int
    effective_units: float
    dof: int


def unit_mean(values: ArrayLike, units: Sequence[int] | None = None) -> UnitMean:
    """Estimate a mean and its standard error from values that come in units.

    With one case a unit this is the usual standard error, sd / sqrt(n). Units of unlike
    size carry less information than their number says: hence the effective number. And a
    large unit draws the mean towards itself, so that its residual looks too small: hence
    the jackknife, which holds each unit against the mean of all others.

    Args:
        values: shape (n_cases,), n_cases >= 1, finite.
        units: the unit of each case; each case is a unit of its own if not given.
    """
    data = np.asarray(values, dtype=np.float64)
    labels = np.arange(len(data)) if units is None else np.asarray(units)
    _, member, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    mean = float(np.mean(data))
    error = None
    if len(sizes) > 1:
        residuals = np.bincount(member, weights=data - mean).astype(np.float64, copy=False)
        error = float(jackknife_errors(residuals, sizes.tolist()))
        error = error if error > negligible(data) else 0.0
    return UnitMean(
        mean=mean,
        standard_error=error,
        units=len(sizes),
        effective_units=len(data) ** 2 / int(np.sum(sizes**2)),
        dof=dof_of_units(sizes.tolist()),
    )


def jackknife_errors(residuals: FloatArray, sizes: Sequence[int]) -> FloatArray:
    """Return the standard error of the mean over cases, from units held against all others.

    Args:
        residuals: summed within each unit, shape (..., n_units), n_units >= 2.
        sizes: cases of each unit.

    Returns:
        Root of (u-1)/u sum (r_g / (k - k_g))^2, with r_g and k_g the residuals and the cases of
        unit g, and k the cases of all; shape (...).
    """
    units, cases = len(sizes), sum(sizes)
    from_others = residuals / (1 - np.array(sizes) / cases)
    errors: FloatArray = np.sqrt((units - 1) / units * np.sum(from_others**2, axis=-1)) / cases
    return errors


def dof_of_units(sizes: Sequence[int]) -> int:
    """Return the whole effective units of units of these sizes, less one."""
    return sum(sizes) ** 2 // sum(size**2 for size in sizes) - 1


def unit_sums(values: ArrayLike, units: Sequence[int] | None = None) -> FloatArray:
    """Add values up within units.

    Args:
        values: shape (n_cases,), finite.
        units: the unit of each case; each case is a unit of its own if not given.

    Returns:
        The sums, shape (n_units,), by ascending unit.
    """
    data = np.asarray(values, dtype=np.float64)
    if units is None:
        return data
    _, member = np.unique(np.asarray(units), return_inverse=True)
    return np.bincount(member, weights=data).astype(np.float64, copy=False)


def paired_test(
    differences: ArrayLike,
    units: Sequence[int] | None = None,
    *,
    margin: float = 0.0,
    alpha: float = 0.05,
) -> SignificanceResult:
    """Test whether paired differences lie below ``-margin`` on average, or above 0.

    With one case a unit this is Student's paired t-test. Without any spread there is no t:
    then the p is that of so many signs falling the same way, .5 ** units.

    Args:
        differences: shape (n_cases,), current minus baseline, negative is worse, each
            averaged over the trials of its case.
        units: the unit of each case, >= 2 effective units; a case each if not given.
        margin: >= 0, in the units of the differences.
        alpha: one-sided level of the interval, in (0, 0.5).

    Returns:
        The result; its statistic is (mean + margin) / standard error.

    Source:
        Student (1908), Biometrika 6, 1-25. Same as scipy.stats.ttest_1samp for one case a unit.
    """
    found = unit_mean(differences, units)
    mean, error = found.mean, found.standard_error
    if not error:
        return _same_shift(found, margin=margin, zero=negligible(differences))
    t = (mean + margin) / error
    return SignificanceResult(
        tails=Tails(
            worse=float(special.stdtr(found.dof, t)),
            better=float(special.stdtr(found.dof, -mean / error)),
        ),
        statistic=t,
        dof=found.dof,
        standard_error=error,
        interval=student_interval(mean, error, dof=found.dof, alpha=alpha),
    )


def _same_shift(found: UnitMean, *, margin: float, zero: float) -> SignificanceResult:
    least = 0.5**found.units
    below = tails_without_spread(found.mean + margin, negligible=zero, least=least)
    above = tails_without_spread(found.mean, negligible=zero, least=least)
    return SignificanceResult(tails=Tails(worse=below.worse, better=above.better))
