"""Hits dealt to two sides at random: how many fall on one of them.

Of one case that is hypergeometric; of several, whose totals count, a convolution.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
# the lowest count, and the chances of it and of all that follow
Counts = tuple[int, FloatArray]

# of one case: binomials of more are too long to be divided one by one
MOST_TRIALS_BY_WHOLE_NUMBERS = 200
# chances that are left out: no p-value depends on them, but long convolutions do
NEVER = 1e-100


def distribution_of_hits(hits_of_cases: Sequence[int], *, baseline: int, current: int) -> Counts:
    """Tell how many hits of several cases fall here, were they dealt at random.

    Args:
        hits_of_cases: of each case on both sides together.
        baseline: trials of each case in the baseline, >= 1.
        current: trials of each case in this run, >= 1.

    Returns:
        The lowest number that ever occurs, and the chances of it and of all that follow;
        without what is as good as never reached.
    """
    counts = [
        _times(_distribution_of_one(hits, baseline=baseline, current=current), times=times)
        for hits, times in sorted(Counter(hits_of_cases).items())
    ]
    while len(counts) > 1:  # short ones first: one after the other they grow long at once
        left_over = counts[len(counts) // 2 * 2 :]
        counts = [_added(*pair) for pair in zip(counts[::2], counts[1::2], strict=False)]
        counts += left_over
    return counts[0]


def _distribution_of_one(hits: int, *, baseline: int, current: int) -> Counts:
    """Tell how many of the hits of one case fall here, by chance."""
    first, last = max(0, hits - baseline), min(current, hits)
    if baseline + current <= MOST_TRIALS_BY_WHOLE_NUMBERS:
        ways = math.comb(baseline + current, hits)
        chances = [
            math.comb(current, x) * math.comb(baseline, hits - x) / ways
            for x in range(first, last + 1)
        ]
        return first, np.array(chances)
    x = np.arange(first, last, dtype=np.float64)
    steps = np.log((current - x) * (hits - x)) - np.log((x + 1) * (baseline - hits + x + 1))
    logs = np.concatenate([np.zeros(1), np.cumsum(steps)])
    relative = np.exp(logs - np.max(logs))
    trimmed, chances_of_all = _without_ends(relative / np.sum(relative))
    return first + trimmed, chances_of_all


def _times(one: Counts, *, times: int) -> Counts:
    """Add up a count so many times, by doubling: one by one, 10,000 of them take seconds."""
    if times == 1:
        return one
    half = _times(one, times=times // 2)
    whole = _added(half, half)
    return _added(whole, one) if times % 2 else whole


def _added(one: Counts, other: Counts) -> Counts:
    """Add up two independent counts."""
    trimmed, chances = _without_ends(np.convolve(one[1], other[1]))
    return one[0] + other[0] + trimmed, chances


def _without_ends(chances: FloatArray) -> Counts:
    """Leave out what is never reached at either end: how many at the start, and the rest."""
    reached = np.flatnonzero(chances > NEVER)
    return int(reached[0]), chances[reached[0] : reached[-1] + 1]
