"""Looks at a test before all repeats are made, by which its level is kept.

A group-sequential test with a spending function: each planned look has a limit for z, and looks
may end the test at any of them. The p-value of such a test is the least level at which it would
have stopped so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import ceil

from pytest_llmeval.stats.arrays import np
from pytest_llmeval.stats.distributions import root_between
from pytest_llmeval.stats.multiplicity import spending_bounds

FEWEST_REPEATS = 3  # of fewer there is one look, at the end
_SHARES = (0.4, 0.6)  # of the repeats: the looks before the last one
_LEAST = 2  # repeats at a look
_SMALLEST, _LARGEST = 1e-12, 0.5  # levels between which a sequential p is looked for
_HALF = 0.6  # of the information: before it a comparison must not have fallen at all to be calm
_CALM = 0.5  # z below which it is calm later on
_PATHS = 20_000  # that are simulated
_TOLERANCE = 1e-7  # of such a level, as a share of it


def planned_looks(repeats: int) -> tuple[int, ...]:
    """Return after how many repeats of each case a function is looked at; the last are all.

    Args:
        repeats: of each case, at least 1.
    """
    if repeats < FEWEST_REPEATS:
        return (repeats,)
    # a product such as .6 x 5 may lie just above its value
    early = {max(_LEAST, ceil(share * repeats - 1e-9)) for share in _SHARES}
    return tuple(sorted({*early, repeats}))


def information(baseline: float, looks: Sequence[int]) -> tuple[float, ...]:
    """Return which share of the information there is at each look, ascending to 1.

    Args:
        baseline: the harmonic mean of the baseline's trials over the changed cases, > 0.
        looks: repeats of each case at each look, ascending.

    Source:
        The variance of a case's difference is s^2 (1/n0 + 1/r) with equal spread on both sides.
    """
    last = 1 / baseline + 1 / looks[-1]
    return tuple(last / (1 / baseline + 1 / repeats) for repeats in looks)


def calm_below(share: float) -> float:
    """Return the z of a drop below which nothing points to one, at a share of the information."""
    return 0.0 if share < _HALF else _CALM


def expected_repeats(
    error: Callable[[int], float],
    *,
    repeats: int,
    baseline: float,
    drop: float,
    target: float,
    alpha: float,
) -> float:
    """Return how many repeats of each case a comparison with early looks makes on average.

    Args:
        error: the standard error of the difference after so many repeats, > 0.
        repeats: of each case that are planned.
        baseline: trials of each case there.
        drop: the true one, >= 0.
        target: the drop that must be ruled out.
        alpha: one-sided level over all looks, in (0, 0.5).

    Source:
        A simulation by the normal distribution, with a fixed seed: the difference gains
        independent information from look to look. The gate makes up to .2 repeats more, as it asks
        the exact test, too.
    """
    looks = planned_looks(repeats)
    shares = information(baseline, looks)
    limits = spending_bounds(shares, alpha=alpha)
    random = np.random.default_rng(0)
    total, known, gone_on = np.zeros(_PATHS), 0.0, np.ones(_PATHS, dtype=bool)
    made, before = 0.0, 0
    for look, share, limit in zip(looks, shares, limits, strict=True):
        step = error(look) ** -2 - known
        total += random.normal(-drop * step, math.sqrt(max(step, 0.0)), _PATHS)
        known += step
        made += float(np.mean(gone_on)) * (look - before)
        before, difference, z = look, total / known, -total / math.sqrt(known)
        ruled_out = difference - limit / math.sqrt(known) > -target
        gone_on &= ~((z > limit) | (ruled_out & (z < calm_below(share))))
    return made


def sequential_p(shares: Sequence[float], z_values: Sequence[float]) -> tuple[float, ...]:
    """Return after each look the least level at which the test would have stopped by then.

    Args:
        shares: of the information at each planned look, ascending, the last at most 1.
        z_values: of the looks so far, at most as many as are planned.

    Source:
        Liu and Anderson (2008), JASA 103, 1621-1630: the stagewise p-value of a group-sequential
        test is valid whenever it is stopped.
    """
    found = [1.0]
    for look, z in enumerate(z_values, start=1):
        found.append(_level(shares[:look], z, most=found[-1]))
    return tuple(found[1:])


def _level(shares: Sequence[float], z: float, *, most: float) -> float:
    """Return the level at which the limit of the last look is ``z``, or ``most`` if less."""

    def excess(level: float) -> float:
        return spending_bounds(shares, alpha=math.exp(level))[-1] - z

    low, high = math.log(_SMALLEST), math.log(min(most, _LARGEST))
    if excess(high) > 0:
        return most
    if excess(low) < 0:
        return _SMALLEST
    return math.exp(root_between(excess, low, high, tolerance=_TOLERANCE))
