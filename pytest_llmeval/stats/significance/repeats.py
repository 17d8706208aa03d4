"""Repeats as whole runs: the mean of each, their test, and whether they drift."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pytest_llmeval.stats.significance.paired import negligible
from pytest_llmeval.stats.significance.result import NOTHING_SHOWN, Tails, student_tails
from pytest_llmeval.stats.significance.sample import CaseScores

FloatArray = NDArray[np.float64]

# a repeat counts if so many of the cases have a value in it
FEWEST_OF_A_REPEAT = 0.9
# 90 % of 30 is not 27 in floating point
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class WelchTest:
    """The result of ``welch``, on the scale of the values given.

    Attributes:
        t: None where neither side has any spread; ``dof`` and ``interval`` likewise.
    """

    t: float | None
    dof: float | None
    tails: Tails
    difference: float
    interval: tuple[float, float] | None


def welch(baseline: ArrayLike, current: ArrayLike, *, alpha: float = 0.05) -> WelchTest:
    """Test whether two samples of unlike spread have one mean.

    Without any spread there is no t. If the means differ the p is then that of the most
    extreme of all ways to deal the values to two sides of these sizes.

    Args:
        baseline: shape (n0,), n0 >= 2, finite.
        current: shape (n1,), n1 >= 2, finite.
        alpha: what may lie beyond each end of the interval, in (0, 0.5).

    Source:
        Welch (1947), Biometrika 34, 28-35. Same as ``scipy.stats.ttest_ind`` with
        ``equal_var=False``.
    """
    one, other = np.asarray(current, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    difference = float(np.mean(one) - np.mean(other))
    squares = [float(np.var(side, ddof=1)) / len(side) for side in (one, other)]
    error = math.sqrt(sum(squares))
    zero = negligible(np.concatenate([one, other]))
    if error <= zero:
        ways = math.comb(len(one) + len(other), len(one))
        tails = _without_spread(difference, zero=zero, least=1 / ways)
        return WelchTest(t=None, dof=None, tails=tails, difference=difference, interval=None)
    weights = [
        square**2 / (len(side) - 1) for square, side in zip(squares, (one, other), strict=True)
    ]
    dof = sum(squares) ** 2 / sum(weights)
    half = float(special.stdtrit(dof, 1 - alpha)) * error
    return WelchTest(
        t=difference / error,
        dof=dof,
        tails=student_tails(difference / error, dof),
        difference=difference,
        interval=(difference - half, difference + half),
    )


def _without_spread(difference: float, *, zero: float, least: float) -> Tails:
    if abs(difference) <= zero:
        return NOTHING_SHOWN
    return Tails(worse=least, better=1.0) if difference < 0 else Tails(worse=1.0, better=least)


def in_step(samples: Sequence[Sequence[float]]) -> FloatArray:
    """Return the repeats that every case has, shape (n_cases, n_repeats).

    Args:
        samples: the scores of each case by trial index, at least one case with at least
            one score each.
    """
    fewest = min(len(sample) for sample in samples)
    return np.array([sample[:fewest] for sample in samples], dtype=np.float64)


def totals_of_repeats(baseline: FloatArray, current: FloatArray) -> CaseScores | None:
    """Return the total of all cases in each repeat, to be tested like the scores of one case.

    Whatever cases share within a repeat, the repeats of both sides are exchangeable without
    an effect. A value is taken less the mean of its case over both sides, and one that is not
    there counts as that mean, so that a lost trial moves no total. A repeat counts if at
    least nine in ten cases have a value in it.

    Args:
        baseline: shape (n_cases, n_repeats), NaN where a case has no value.
        current: likewise.

    Returns:
        None where no repeat of a side counts.
    """
    sides = [_nearly_complete(side) for side in (baseline, current)]
    if not all(side.shape[1] for side in sides):
        return None
    pooled = np.concatenate(sides, axis=1)
    known = np.count_nonzero(np.isfinite(pooled), axis=1)
    means = np.nansum(pooled, axis=1) / np.maximum(1, known)
    totals = [tuple(np.nansum(side - means[:, np.newaxis], axis=0).tolist()) for side in sides]
    return CaseScores(baseline=totals[0], current=totals[1])


def _nearly_complete(side: FloatArray) -> FloatArray:
    known = np.count_nonzero(np.isfinite(side), axis=0)
    return side[:, known >= FEWEST_OF_A_REPEAT * len(side) - ROUNDING]


def fewest_repeats(alpha: float) -> int:
    """Return how many whole repeats a side has to have for the least p to be below alpha."""
    return next(n for n in itertools.count(1) if 1 / math.comb(2 * n, n) < alpha)


def error_of_totals(totals: CaseScores) -> float:
    """Return the standard error of the difference of two sides' mean totals; 0 without spread."""
    sides = [np.asarray(side) for side in (totals.baseline, totals.current)]
    squares = sum(float(np.sum((side - np.mean(side)) ** 2)) for side in sides)
    dof = sum(len(side) - 1 for side in sides)
    return math.sqrt(squares / dof * sum(1 / len(side) for side in sides))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Whether the repeats of a run differ by more than sampling explains.

    Attributes:
        statistic: (n - 1) s^2 / s2, the variance of the repeats' means against the one
            that the spread within cases explains.
        dof: n - 1.
        p: chance of as large a statistic without drift, in [0, 1].
    """

    statistic: float
    dof: int
    p: float


def repeat_drift(scores: ArrayLike) -> Drift | None:
    """Tell whether something changed between the repeats: a provider that drifts, say.

    Args:
        scores: shape (n_cases, n_repeats), finite, repeats in the order they were made.

    Returns:
        The check; None with fewer than two repeats, or without any spread within cases.

    Source:
        A chi-square check of the repeats' means, derived and calibrated here
        (docs/statistics.md); no paper is claimed for it.
    """
    data = np.asarray(scores, dtype=np.float64)
    cases, repeats = data.shape
    if repeats < 2:  # noqa: PLR2004 - a spread needs two
        return None
    explained = float(np.sum(np.var(data, axis=1, ddof=1))) / cases**2
    if math.sqrt(explained) <= negligible(data):
        return None
    statistic = float(np.sum((np.mean(data, axis=0) - np.mean(data)) ** 2)) / explained
    p = float(special.chdtrc(repeats - 1, statistic))
    return Drift(statistic=statistic, dof=repeats - 1, p=p)
