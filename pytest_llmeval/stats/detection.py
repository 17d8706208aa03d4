"""Sensitivity of a comparison: the smallest drop that it finds, also with more cases."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from pytest_llmeval.stats.arrays import ArrayLike, FloatArray, np, special
from pytest_llmeval.stats.intervals import negligible

POWER = 0.80
# shifts beyond, in standard errors, are too large for scipy's series of the noncentral t
LARGEST_SERIES_SHIFT = 30.0
NORMAL_NODES = 64
# halvings of the bracket of a root: 1e-12 of it is left
HALVINGS = 40
# each round of the search narrows the bracket 64 times: 1e-9 of the score range in the end
STEPS = 64
ROUNDS = 5


def power_of_t(shift: float, *, dof: float, critical: float) -> float:
    """Return the chance that a noncentral t lies above a critical value.

    Args:
        shift: the true effect in standard errors, >= 0.
        dof: degrees of freedom, > 0, whole or not.
        critical: finite, > 0.
    """
    if shift < LARGEST_SERIES_SHIFT:
        return 1 - float(special.nctdtr(dof, shift, critical))
    # given the normal part, the chance is a chi-square's, a smooth function of that part
    normal, weights = np.polynomial.hermite_e.hermegauss(NORMAL_NODES)
    spreads = ((shift + normal) / critical) ** 2
    return float(weights @ special.gammainc(dof / 2, dof / 2 * spreads) / np.sum(weights))


def detectable_shift(*, dof: float, alpha: float) -> float:
    """Return the drop in standard errors that a one-sided t-test finds with 80 % power.

    The search is a bisection of our own: ``scipy.special.nctdtrinc`` runs for ever below one
    degree of freedom, and is wrong by 5e-5 of the shift at one.

    Args:
        dof: degrees of freedom of the test, > 0, whole or not. (Below .05 the critical
            value is not known either: the shift is then merely large.)
        alpha: one-sided level, in (0, 0.5).
    """
    critical = float(special.stdtrit(dof, 1 - alpha))
    # high enough: .9 of all spreads and .9 of all normal parts together give .81
    spread = math.sqrt(2 / dof * float(special.gammaincinv(dof / 2, 0.9)))
    low, high = 0.0, critical * spread + float(special.ndtri(0.9))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if power_of_t(middle, dof=dof, critical=critical) < POWER:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTest:
    """The layout of a test on changed cases, made or planned.

    Attributes:
        baseline: trials of each case in the baseline, shape (k,), >= 1.
        current: trials of each case in this run, likewise.
        alpha: one-sided level.
        dof: degrees of freedom; None for a test that knows none, where quantiles are normal.
        copies: how many times as many such cases the test would have, >= 1.
    """

    baseline: FloatArray
    current: FloatArray
    alpha: float
    dof: int | None
    copies: float = 1.0

    @property
    def quantiles(self) -> tuple[float, float]:
        """The quantiles that belong to the level and to the power."""
        chances = np.array([1 - self.alpha, POWER])
        found = special.ndtri(chances) if self.dof is None else special.stdtrit(self.dof, chances)
        return float(found[0]), float(found[1])

    @property
    def size(self) -> float:
        """The number of changed cases."""
        return len(self.baseline) * self.copies


def expected_rates(hits: ArrayLike, trials: ArrayLike, *, overall: float) -> FloatArray:
    """Return the pass rate of each case, drawn towards the overall one by one trial's weight.

    Args:
        hits: shape (k,), passed trials of each case.
        trials: shape (k,), scored trials of each case.
        overall: pass rate of the function, in (0, 1).
    """
    rates: FloatArray = (np.asarray(hits) + overall) / (np.asarray(trials) + 1)
    return rates


def smallest_pass_drop(rates: FloatArray, plan: PlannedTest) -> float | None:
    """Return the smallest mean drop of pass rates that would be found with 80 % power.

    Every case drops by the same amount until it reaches 0. The spread is the binomial one of these
    rates. So cases that passed throughout do not look free of chance.

    Args:
        rates: expected pass rate of each changed case, shape (k,), in (0, 1).
        plan: the test.

    Returns:
        The mean drop over the changed cases, in (0, 1); None if the test would not find a fall of
        all of these cases to 0, either.
    """
    # many cases are alike: their spread is worked out once
    cases = Counter(zip(rates.tolist(), plan.baseline.tolist(), plan.current.tolist(), strict=True))
    alike = np.array([(*case, count / len(rates)) for case, count in cases.items()])
    low, high = 0.0, 1.0
    for _ in range(ROUNDS):
        drops = np.linspace(low, high, STEPS + 1)
        found = np.flatnonzero(_excess(drops, alike, plan) >= 0)
        if not len(found):
            return None
        low, high = drops[found[0] - 1], drops[found[0]]
    return float(np.mean(np.minimum(rates, high)))


def _excess(drops: FloatArray, alike: FloatArray, plan: PlannedTest) -> FloatArray:
    """Return by how much each drop exceeds what is needed to find it.

    Args:
        drops: shape (n_drops,).
        alike: a row for cases that are alike: rate, trials on both sides, share of the cases.
        plan: level, degrees of freedom and size.
    """
    before, baseline, current, weights = alike.T
    after = np.maximum(0.0, before - drops[:, np.newaxis])
    pooled = (baseline * before + current * after) / (baseline + current)
    at_null = pooled * (1 - pooled) * (1 / baseline + 1 / current)
    at_drop = before * (1 - before) / baseline + after * (1 - after) / current
    for_level, for_power = plan.quantiles
    excess: FloatArray = (
        (before - after) @ weights
        - 1 / (2 * plan.size * np.mean(plan.current))
        - for_level * np.sqrt(at_null @ weights / plan.size)
        - for_power * np.sqrt(at_drop @ weights / plan.size)
    )
    return excess


def smallest_score_drop(variance: float | None, plan: PlannedTest) -> float | None:
    """Return the smallest mean drop of any scores that would be found with 80 % power.

    Args:
        variance: within a case, as ``within_case_variance`` gives it.
        plan: the test.

    Returns:
        The mean drop over the changed cases, > 0; None if the variance is unknown or 0.
    """
    if not variance:
        return None
    spread = variance * np.mean(1 / plan.baseline + 1 / plan.current) / plan.size
    return float(sum(plan.quantiles) * np.sqrt(spread))


def within_case_variance(samples: Sequence[Sequence[float]]) -> float | None:
    """Pool the sample variance of repeated trials.

    Args:
        samples: the scores of one case on one side each, each with at least one.

    Returns:
        The variance, >= 0 and exactly 0 where it is negligible; None if no sample has
        two scores.
    """
    dof = sum(len(sample) - 1 for sample in samples)
    if not dof:
        return None
    sizes = np.array([len(sample) for sample in samples])
    scores = np.fromiter(chain.from_iterable(samples), dtype=np.float64)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    means = np.add.reduceat(scores, starts) / sizes
    variance = float(np.sum((scores - np.repeat(means, sizes)) ** 2)) / dof
    return variance if np.sqrt(variance) > negligible(scores) else 0.0


def fewest(settles: Callable[[int], bool], *, above: int, limit: int) -> int | None:
    """Return the smallest whole number above ``above`` that is enough.

    Args:
        settles: whether a number is enough; every larger number is enough then.
        above: the number at hand.
        limit: the largest number that is worth naming.

    Returns:
        The number; None if even the limit is not enough, or if the number at hand is enough
        and so something else is lacking.
    """
    if settles(above) or not settles(limit):
        return None
    return bisect.bisect_left(range(limit), True, lo=above + 1, key=settles)
