"""Intervals of differences as bars of text, one below the other on one scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.results import COMPARED, FunctionComparison, Interval
from pytest_llmeval.reports.sentences import scored_otherwise
from pytest_llmeval.settings import GateRules

NARROWEST = 15
WIDEST = 41
_LINE, _TARGET, _ZERO, _POINT = "━┊│●"


@dataclass(frozen=True, slots=True)
class Scale:
    """From a value to a column.

    Attributes:
        low: the value at the left end; ``high`` at the right end.
        width: in columns.
    """

    low: float
    high: float
    width: int

    def drawn(
        self, ends: Interval, value: float, *, marks: Iterable[tuple[str, float]] = ()
    ) -> str:
        """Draw an interval and a value in it; marks of other values stand on the interval."""
        cells = [" "] * self.width
        low, high = map(self._at, ends)
        cells[low : high + 1] = _LINE * (high + 1 - low)
        for mark, place in marks:
            cells[self._at(place)] = mark
        cells[self._at(value)] = _POINT
        return "".join(cells)

    def _at(self, value: float) -> int:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return round(share * (self.width - 1))


@dataclass(frozen=True, slots=True)
class DifferenceScale(Scale):
    """The scale of differences; ``target`` is the drop that must be ruled out, > 0."""

    target: float

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
        marks = (_TARGET, -target), (_ZERO, 0.0)
        return self.drawn(ends, function.effect.difference or 0.0, marks=marks)


def scale_of(
    functions: Sequence[FunctionComparison], rules: GateRules, *, width: int
) -> DifferenceScale | None:
    """Find a scale with room for all intervals, 0 and the target; None if there is no interval."""
    found = [ends for ends in map(_ends, functions) if ends is not None]
    if not found:
        return None
    low = min(-rules.target, *(low for low, _ in found))
    high = max(0.0, *(high for _, high in found))
    return DifferenceScale(low=low, high=high, target=rules.target, width=width)


def _ends(function: FunctionComparison) -> Interval | None:
    difference, interval = function.effect.difference, function.evidence.interval
    if difference is None or not function.effect.changed or function.row not in COMPARED:
        return None
    if interval is None or scored_otherwise(function) or not all(map(math.isfinite, interval)):
        return difference, difference
    return interval
