"""The t-tests: of paired differences over independent units, of a crossed table, of two samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_llmeval.stats.arrays import ArrayLike, FloatArray, np, special
from pytest_llmeval.stats.intervals import negligible, student_interval, unit_mean
from pytest_llmeval.stats.sample import CaseScores, SignificanceResult, Tails

# a t-test over fewer effective units is valid but nearly powerless
FEWEST_UNITS_FOR_T = 6
# two wordings leave about one degree of freedom: an interval, but hardly ever a finding
FEWEST_WORDINGS = 3


def jackknife_errors(residuals: FloatArray, sizes: Sequence[int]) -> FloatArray:
    """Return the standard error of the mean over cases, by the jackknife over units.

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


def student_tails(t: float, dof: float) -> Tails:
    """Return the one-sided p-values of a t, negative is worse.

    Args:
        t: finite.
        dof: degrees of freedom, > 0, whole or not.
    """
    return Tails(worse=float(special.stdtr(dof, t)), better=float(special.stdtr(dof, -t)))


def tails_without_spread(difference: float, *, negligible: float, least: float) -> Tails:
    """Return the one-sided p-values where every value moved alike, so that no t exists.

    Args:
        difference: of the means, negative is worse.
        negligible: up to which size a difference counts as none, >= 0.
        least: the p-value of the observed direction, in (0, 1).
    """
    return Tails(
        worse=least if difference < -negligible else 1.0,
        better=least if difference > negligible else 1.0,
    )


def paired_test(
    differences: Sequence[float],
    units: Sequence[int] | None = None,
    *,
    margin: float = 0.0,
    alpha: float = 0.05,
) -> SignificanceResult:
    """Test whether paired differences lie below ``-margin`` on average, or above 0.

    With one case a unit this is Student's paired t-test. Without any spread there is no t: then the
    p is the chance of so many like signs, .5 ** units.

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
        zero, least = negligible(differences), 0.5**found.units
        below = tails_without_spread(mean + margin, negligible=zero, least=least)
        above = tails_without_spread(mean, negligible=zero, least=least)
        return SignificanceResult(tails=Tails(worse=below.worse, better=above.better))
    t = (mean + margin) / error
    return SignificanceResult(
        tails=Tails(
            worse=student_tails(t, found.dof).worse,
            better=student_tails(mean / error, found.dof).better,
        ),
        statistic=t,
        dof=found.dof,
        standard_error=error,
        interval=student_interval(mean, error, dof=found.dof, alpha=alpha),
    )


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

    Cases and wordings are taken as samples of all questions. The variance is the one of two crossed
    random effects, never below the variance by cases or by wordings alone. Its degrees of freedom
    are Satterthwaite's, but at least the fewer of cases and wordings less one: his formula gives a
    fraction of one where the two mean squares in the sum are small beside the residual.

    Without any spread there is no t: then the p is the chance of so many like signs, .5 to the
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
    zero = negligible(data.ravel())
    if error <= zero:
        least = 0.5 ** min(data.shape)
        return SignificanceResult(tails=tails_without_spread(mean, negligible=zero, least=least))
    cases, wordings = data.shape
    dofs = cases - 1, wordings - 1, (cases - 1) * (wordings - 1)
    parts = (square**2 / of_square for square, of_square in zip(squares, dofs, strict=True))
    dof = max(spread**2 / sum(parts), min(data.shape) - 1.0)
    return SignificanceResult(
        tails=student_tails(mean / error, dof),
        statistic=mean / error,
        dof=dof,
        standard_error=error,
        interval=student_interval(mean, error, dof=dof, alpha=alpha),
    )


def welch(baseline: ArrayLike, current: ArrayLike) -> SignificanceResult:
    """Test whether two samples of unlike spread have one mean.

    Without any spread there is no t. If the means differ, the p is then the chance of the most
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


def error_of_totals(totals: CaseScores) -> float:
    """Return the standard error of the difference of two sides' mean totals; 0 without spread."""
    sides = [np.asarray(side) for side in (totals.baseline, totals.current)]
    squares = sum(float(np.sum((side - np.mean(side)) ** 2)) for side in sides)
    dof = sum(len(side) - 1 for side in sides)
    return math.sqrt(squares / dof * sum(1 / len(side) for side in sides))
