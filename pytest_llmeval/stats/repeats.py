"""Repeats as whole runs: the mean of each, their test, and whether they drift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pytest_llmeval.stats.exact import Tails
from pytest_llmeval.stats.paired import negligible
from pytest_llmeval.stats.result import NOTHING_SHOWN, student_tails

FloatArray = NDArray[np.float64]


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


def welch(there: ArrayLike, here: ArrayLike, *, alpha: float = 0.05) -> WelchTest:
    """Test whether two samples of unlike spread have one mean.

    Without any spread there is no t. If the means differ the p is then that of the most
    extreme of all ways to deal the values to two sides of these sizes.

    Args:
        there: shape (n0,), n0 >= 2, finite.
        here: shape (n1,), n1 >= 2, finite.
        alpha: what may lie beyond each end of the interval, in (0, 0.5).

    Source:
        Welch (1947), Biometrika 34, 28-35. Same as ``scipy.stats.ttest_ind`` with
        ``equal_var=False``.
    """
    one, other = np.asarray(here, dtype=np.float64), np.asarray(there, dtype=np.float64)
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
