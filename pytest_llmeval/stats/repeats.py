"""Repeats as whole runs: their totals, and their drift."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pytest_llmeval.stats.sample import CaseScores, FloatArray
from pytest_llmeval.stats.t_tests import negligible

# a repeat counts if so many of the cases have a value in it
FEWEST_OF_A_REPEAT = 0.9
# 90 % of 30 is not 27 in floating point
ROUNDING = 1e-9
# below it repeats count as drifting
DRIFT_LEVEL = 0.01


def in_step(samples: Sequence[Sequence[float]]) -> FloatArray:
    """Return the repeats that every case has, shape (n_cases, n_repeats).

    Args:
        samples: the scores of each case by trial index, at least one case with at least
            one score each.
    """
    fewest = min(len(sample) for sample in samples)
    return np.array([sample[:fewest] for sample in samples], dtype=np.float64)


def totals_of_repeats(baseline: FloatArray, current: FloatArray) -> CaseScores | None:
    """Add the scores of all cases up in each repeat, to be tested like the scores of one case.

    Whatever cases share within a repeat, the repeats of both sides are exchangeable without
    an effect. From each value the mean of its case over both sides is subtracted. A missing
    value counts as that mean, so that a lost trial moves no total. A repeat counts if at least
    nine in ten cases have a value in it.

    Args:
        baseline: shape (n_cases, n_repeats), NaN where a case has no value.
        current: likewise.

    Returns:
        The totals of each side; None where no repeat of a side counts.
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


def drift_p(scores: ArrayLike) -> float | None:
    """Return the chance that the repeats of a steady provider differ as much as these do.

    The statistic is (n - 1) s^2 / s2: the variance of the repeats' means against the one that
    the spread within cases explains, a chi-square with n - 1 degrees of freedom.

    Args:
        scores: shape (n_cases, n_repeats), finite, repeats in the order they were made.

    Returns:
        The p-value, in [0, 1]; None with fewer than two repeats, or without any spread within
        cases.

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
    return float(special.chdtrc(repeats - 1, statistic))
