"""Intervals of differences as bars of text, one below the other on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.results import COMPARED, FunctionComparison, Interval
from pytest_llmeval.reports.sentences import scored_otherwise
from pytest_llmeval.settings import GateRules

NARROWEST = 15
WIDEST = 41
_LINE, _TARGET, _ZERO, _POINT = "━┊│●"


@dataclass(frozen=True, slots=True)
class Scale:
    """From a difference to a column.

    Attributes:
        low: the difference at the left end; ``high`` at the right end.
        target: the drop that must be ruled out, > 0.
        width: in columns.
    """

    low: float
    high: float
    target: float
    width: int

    def heading(self) -> str:
        """Write the figures of the target and of 0 above their marks, where both have room."""
        cells, zero = [" "] * self.width, self._at(0.0)
        figure = f"-{self.target:.2f}" if self.target < 1 else f"-{self.target:g}"
        start = max(0, self._at(-self.target) + 1 - len(figure))
        if start + len(figure) < zero:
            cells[start : start + len(figure)] = figure
        cells[zero] = "0"
        return "".join(cells)

    def bar(self, function: FunctionComparison) -> str:
        """Draw the interval of a comparison, its difference, 0 and the target; "" without any."""
        ends = _ends(function)
        if ends is None:
            return ""
        target = math.log1p(self.target) if function.scale == "log" else self.target
        cells = [" "] * self.width
        low, high = map(self._at, ends)
        cells[low : high + 1] = _LINE * (high + 1 - low)
        cells[self._at(-target)] = _TARGET
        cells[self._at(0.0)] = _ZERO
        cells[self._at(function.effect.difference or 0.0)] = _POINT
        return "".join(cells)

    def _at(self, value: float) -> int:
        return round((value - self.low) / (self.high - self.low) * (self.width - 1))


def scale_of(
    functions: Sequence[FunctionComparison], rules: GateRules, *, width: int
) -> Scale | None:
    """Find a scale with room for all intervals, 0 and the target; None if there is no interval."""
    found = [ends for ends in map(_ends, functions) if ends is not None]
    if not found:
        return None
    low = min(-rules.target, *(low for low, _ in found))
    high = max(0.0, *(high for _, high in found))
    return Scale(low=low, high=high, target=rules.target, width=width)


def _ends(function: FunctionComparison) -> Interval | None:
    difference, interval = function.effect.difference, function.evidence.interval
    if difference is None or not function.effect.changed or function.row not in COMPARED:
        return None
    if interval is None or scored_otherwise(function) or not all(map(math.isfinite, interval)):
        return difference, difference
    return interval
