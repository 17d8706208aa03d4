"""Share one level among several tests: comparisons of a session, or looks over time.

P-values of several comparisons are adjusted. For a few planned looks there are the bounds of a
group-sequential test with a spending function; the e-process may be read after every whole round,
without end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from pytest_llmeval.stats.arrays import ArrayLike, FloatArray, np, special
from pytest_llmeval.stats.distributions import normal_quantile, root_between

Spending = Literal["obrien-fleming", "pocock"]

BETS = (0.02, 0.05, 0.1, 0.2, 0.4)
# the density between two looks is kept on a grid of z steps; published bounds agree to 1e-4
GRID = 301
LOWEST = -10.0
_ASIDE = 0.01  # that an end of the bracket is no root


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values so that any false alarm among them stays below the level.

    Args:
        p_values: one a test, each in [0, 1]; may be empty.

    Returns:
        The adjusted p-values, in the order given, each in [0, 1].

    Source:
        Holm (1979), Scandinavian Journal of Statistics 6, 65-70. Same as
        statsmodels multipletests(method="holm").
    """
    adjusted = [0.0] * len(p_values)
    floor = 0.0
    ascending = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(ascending):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = floor
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values so that the expected share of false ones among the found stays low.

    For lists that describe (which cases fell most), not for a gate: single false alarms
    are allowed.

    Args:
        p_values: one a test, each in [0, 1]; may be empty.

    Returns:
        The adjusted p-values, in the order given, each in [0, 1].

    Source:
        Benjamini and Hochberg (1995), JRSS B 57, 289-300. Same as statsmodels
        multipletests(method="fdr_bh").
    """
    adjusted = [0.0] * len(p_values)
    ceiling = 1.0
    descending = sorted(range(len(p_values)), key=lambda index: p_values[index], reverse=True)
    for better_than, index in enumerate(descending):
        rank = len(p_values) - better_than
        ceiling = min(ceiling, p_values[index] * len(p_values) / rank)
        adjusted[index] = ceiling
    return tuple(adjusted)


def spent(share: float, *, alpha: float, spending: Spending) -> float:
    """Return how much of the level may be spent up to a share of the information.

    Args:
        share: of the information, in (0, 1].
        alpha: one-sided level, in (0, 0.5).
        spending: late (O'Brien-Fleming like) or even (Pocock like).

    Source:
        Lan and DeMets (1983), Biometrika 70, 659-663: 2 - 2 Phi(z_{alpha/2} / sqrt(t)) and
        alpha ln(1 + (e - 1) t).
    """
    if spending == "pocock":
        return alpha * math.log1p((math.e - 1) * share)
    return math.erfc(normal_quantile(alpha / 2) / math.sqrt(2 * share))


def spending_bounds(
    information: Sequence[float], *, alpha: float, spending: Spending = "obrien-fleming"
) -> tuple[float, ...]:
    """Return the z above which each planned look may stop.

    Args:
        information: share of the information at each look, ascending, the last at most 1.
        alpha: one-sided level over all looks, in (0, 0.5).
        spending: how the level is spent on the way.

    Source:
        The recursion of Armitage, McPherson and Rowe (1969), JRSS A 132, 235-244. Agrees
        with the standard tables for five looks at .025.
    """
    bounds: list[float] = []
    before, used, step, scale = 0.0, 0.0, 0.0, 0.0
    path, weights = np.zeros(1), np.ones(1)
    for share in information:
        if bounds:
            path, weights = _carried_on(path, weights, step=step, upto=bounds[-1] * scale)
        step, scale = math.sqrt(share - before), math.sqrt(share)
        allowed = spent(share, alpha=alpha, spending=spending)
        crossing = _crossing(path, weights, step=step, scale=scale, allowed=allowed - used)
        # as if all, and as if none, that was spent before were spent on paths that cross here
        ends = normal_quantile(allowed) - _ASIDE, normal_quantile(allowed - used) + _ASIDE
        bounds.append(root_between(crossing, *ends))
        before, used = share, allowed
    return tuple(bounds)


def _crossing(
    path: FloatArray, weights: FloatArray, *, step: float, scale: float, allowed: float
) -> Callable[[float], float]:
    """Return how often what is allowed a path is above a z at this look, as a logarithm."""
    return lambda z: math.log(weights @ special.ndtr((path - z * scale) / step) / allowed)


def _carried_on(
    path: FloatArray, weights: FloatArray, *, step: float, upto: float
) -> tuple[FloatArray, FloatArray]:
    """Return the paths that did not cross: places on a grid, and the weight of each."""
    grid = np.linspace(LOWEST, upto, GRID)
    density = np.exp(-(((grid[:, np.newaxis] - path) / step) ** 2) / 2) @ weights
    density /= step * math.sqrt(2 * math.pi)
    simpson = np.full(GRID, 2.0)
    simpson[1::2] = 4.0
    simpson[[0, -1]] = 1.0
    return grid, density * simpson * (grid[1] - grid[0]) / 3


def e_value(differences: ArrayLike, *, bets: Sequence[float] = BETS) -> float:
    """Return the evidence against "no drop" of all pairs so far; above 1 / alpha there is one.

    The evidence may be read after every whole round: the chance that it ever exceeds 1 / alpha
    without a drop is at most alpha.

    Args:
        differences: of all pairs so far, current minus baseline, each in [-1, 1], any shape;
            none at all gives 1.
        bets: shares that are put on a drop, each in (0, 1), averaged.

    Source:
        A test martingale by betting, each factor 1 - bet x difference. Its mean is at most
        exp(-bet x sum of the true differences), so at most 1 without a drop (Ville's
        inequality).
    """
    data = np.asarray(differences, dtype=np.float64).ravel()
    logs = np.sum(np.log1p(-np.outer(bets, data)), axis=1)
    return float(np.exp(special.logsumexp(logs) - math.log(len(bets))))
