"""The t-tests: of paired differences over independent units, of a crossed table, of Welch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pytest_llmeval.stats.sample import FloatArray, SignificanceResult, Tails

# a t-test over fewer effective units is valid but nearly powerless
FEWEST_UNITS_FOR_T = 6
# two wordings leave about one degree of freedom: an interval, but hardly ever a finding
FEWEST_WORDINGS = 3


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


def student_tails(t: float, dof: float) -> Tails:
    """Return the one-sided p-values of a t, negative is worse.

    Args:
        t: finite.
        dof: degrees of freedom, > 0, whole or not.
    """
    return Tails(worse=float(special.stdtr(dof, t)), better=float(special.stdtr(dof, -t)))


def student_interval(mean: float, error: float, *, dof: float, alpha: float) -> tuple[float, float]:
    """Return the t interval of a mean, two-sided, level 1 - 2 alpha.

    Args:
        mean: finite.
        error: its standard error, > 0.
        dof: degrees of freedom, > 0, whole or not.
        alpha: what may lie beyond each end, in (0, 0.5).
    """
    half = float(special.stdtrit(dof, 1 - alpha)) * error
    return mean - half, mean + half


def tails_without_spread(difference: float, *, negligible: float, least: float) -> Tails:
    """Return the one-sided p-values where every value moved alike, so that no t exists.

    Args:
        difference: of the means, negative is worse.
        negligible: up to which size a difference counts as none, >= 0.
        least: the p-value of the direction that was seen, in (0, 1).
    """
    return Tails(
        worse=least if difference < -negligible else 1.0,
        better=least if difference > negligible else 1.0,
    )


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


def mean_squares(differences: ArrayLike) -> tuple[float, float, float]:
    """Split the spread of a crossed table into cases, wordings and the rest.

    Args:
        differences: shape (n_cases, n_wordings), both >= 2, finite.

    Returns:
        The mean squares of cases, of wordings and of the rest, each >= 0.
    """
    data = np.asarray(differences, dtype=np.float64)
    cases, wordings = data.shape
    rows, columns = np.mean(data, axis=1), np.mean(data, axis=0)
    rest = data - rows[:, np.newaxis] - columns + np.mean(data)
    return (
        wordings * float(np.var(rows, ddof=1)),
        cases * float(np.var(columns, ddof=1)),
        float(np.sum(rest**2)) / ((cases - 1) * (wordings - 1)),
    )


def crossed_test(differences: ArrayLike, *, alpha: float = 0.05) -> SignificanceResult:
    """Test whether paired differences are below zero, for cases and wordings in general.

    Both are taken as samples of what else might have been asked. The variance is that of
    two crossed random effects, never below what cases or wordings alone would give. Its
    degrees of freedom are Satterthwaite's, never below those of the fewer of cases and
    wordings alone: his formula gives a fraction of one where the two mean squares that are
    added are small beside the residual that is taken off.

    Without any spread there is no t: then the p is that of so many like signs, .5 to the
    number of wordings (of cases if fewer).

    Args:
        differences: shape (n_cases, n_wordings), both >= 2, finite: current minus baseline,
            negative is worse, each averaged over its trials, the same wording on both sides.
        alpha: what may lie beyond each end of the interval, in (0, 0.5).

    Returns:
        The result; its degrees of freedom are not whole.

    Source:
        Satterthwaite (1946), Biometrics Bulletin 2, 110-114, for the degrees of freedom.
        False alarms: .038 to .054 where a test over cases alone has .07 to .24.
    """
    data = np.asarray(differences, dtype=np.float64)
    of_cases, of_wordings, rest = squares = mean_squares(data)
    spread = max(of_cases + of_wordings - rest, of_cases, of_wordings)
    mean, error = float(np.mean(data)), math.sqrt(spread / data.size)
    zero = negligible(data)
    if error <= zero:
        least = 0.5 ** min(data.shape)
        return SignificanceResult(tails=tails_without_spread(mean, negligible=zero, least=least))
    dof = max(_satterthwaite(spread, squares, data.shape), min(data.shape) - 1.0)
    return SignificanceResult(
        tails=student_tails(mean / error, dof),
        statistic=mean / error,
        dof=dof,
        standard_error=error,
        interval=student_interval(mean, error, dof=dof, alpha=alpha),
    )


def _satterthwaite(
    spread: float, squares: tuple[float, float, float], shape: tuple[int, ...]
) -> float:
    cases, wordings = shape
    dofs = cases - 1, wordings - 1, (cases - 1) * (wordings - 1)
    return spread**2 / sum(square**2 / dof for square, dof in zip(squares, dofs, strict=True))


def welch(baseline: ArrayLike, current: ArrayLike) -> SignificanceResult:
    """Test whether two samples of unlike spread have one mean.

    Without any spread there is no t. If the means differ the p is then that of the most
    extreme of all ways to deal the values to two sides of these sizes.

    Args:
        baseline: shape (n0,), n0 >= 2, finite.
        current: shape (n1,), n1 >= 2, finite.

    Source:
        Welch (1947), Biometrika 34, 28-35. Same as ``scipy.stats.ttest_ind`` with
        ``equal_var=False``.
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (current, baseline)]
    difference = float(np.mean(sides[0]) - np.mean(sides[1]))
    squares = [float(np.var(side, ddof=1)) / len(side) for side in sides]
    error = math.sqrt(sum(squares))
    zero = negligible(np.concatenate(sides))
    if error <= zero:
        least = 1 / math.comb(sum(map(len, sides)), len(sides[0]))
        tails = tails_without_spread(difference, negligible=zero, least=least)
        return SignificanceResult(tails=tails)
    weights = [square**2 / (len(side) - 1) for square, side in zip(squares, sides, strict=True)]
    t, dof = difference / error, sum(squares) ** 2 / sum(weights)
    return SignificanceResult(tails=student_tails(t, dof), statistic=t, dof=dof)
