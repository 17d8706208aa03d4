"""Differences of logarithms as what people read: here / baseline."""

from __future__ import annotations

import math

from pytest_llmeval.gate.sides import Subject


def ratio(difference: float, subject: Subject) -> float | None:
    """Return here / baseline for a difference, negative is worse; None on the linear scale."""
    return math.exp(subject.sign * difference) if subject.scale == "log" else None


def ratios(interval: tuple[float, float], subject: Subject) -> tuple[float, float] | None:
    """Return the ends of an interval as ratios, the lower one first."""
    if subject.scale == "linear":
        return None
    low, high = sorted(math.exp(subject.sign * end) for end in interval)
    return low, high
