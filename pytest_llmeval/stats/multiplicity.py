"""Several tests in one session: what each p is worth."""

from __future__ import annotations

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
    ascending = sorted(range(len(p_values)), key=lambda at: p_values[at])
    for rank, at in enumerate(ascending):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = floor
    return tuple(adjusted)
