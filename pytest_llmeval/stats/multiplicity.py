"""Adjusted p-values for several tests in one session."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


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


def fixed_sequence(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values of tests in declared order: each at the full level, as far as they go.

    The first test that is not below the level ends the sequence: no later one can be.
    Any false alarm among them stays below the level, provided that the order was declared
    before anything was seen.

    Args:
        p_values: one a test, in declared order, each in [0, 1]; may be empty.

    Returns:
        The adjusted p-values: the largest so far, since a test counts only if all before
        it did.

    Source:
        Closed testing in a fixed order (Marcus, Peritz and Gabriel 1976, Biometrika 63,
        655-660).
    """
    return tuple(itertools.accumulate(p_values, max))
