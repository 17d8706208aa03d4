"""Plots of pages, as places within their SVG.

A forest has the intervals of functions, a case its draws. Lines show means over commits, what is
found by repeats and cases, and width by repeats.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_llmeval.records import distinct_names
from pytest_llmeval.reports.document import Entry, Figures, figures
from pytest_llmeval.reports.formats import decimals, ends, ends_of, figure, name_of

if TYPE_CHECKING:
    from pytest_llmeval.gate.describe import History
    from pytest_llmeval.stats.expected import ExpectedMean
    from pytest_llmeval.stats.suite_size import Plan

WIDTH, CASE_WIDTH = 400, 200  # units of plots; the page scales them
_PADDING = 14
_MOST_TICKS = 5
_LARGEST_DOT, _SMALLEST_DOT = 6.0, 2.5
_HEIGHT = 120  # of a line plot
_ROW = 26  # units between the means of a case on both sides

Interval = Sequence[float] | None


class Axis(NamedTuple):
    """A range of values that fills the width of a plot."""

    low: float
    high: float
    width: int = WIDTH

    def at(self, value: float) -> float:
        """Return the place of a value from the left; one beyond the range stands at its end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(_PADDING + share * (self.width - 2 * _PADDING), 1)

    def ticks(self) -> list[float]:
        """Return round values of the range, ``_MOST_TICKS`` at most."""
        rough = (self.high - self.low) / _MOST_TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough)
        first = math.ceil(self.low / step - 1e-9)
        count = int((self.high - first * step) / step + 1e-9) + 1
        return [float(f"{(first + at) * step:.10g}") for at in range(min(count, _MOST_TICKS + 1))]


def axis_of(values: Iterable[float], *, around: Iterable[float] = (), width: int = WIDTH) -> Axis:
    """Return the axis on which values have room, with those that it has to show in any case."""
    known = [*values, *around]
    low, high = min(known, default=0.0), max(known, default=1.0)
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return Axis(low - margin, high + margin, width)


class Mark(NamedTuple):
    """A value with its interval, as places of an axis."""

    at: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ForestRow:
    """A function in the forest plot.

    Attributes:
        function: its entry in the report.
        figures: the same as text; None without a baseline.
        mark: its difference, or its mean without a baseline; None where there is none.
        anchor: the difference from the anchor.
    """

    function: Entry
    figures: Figures | None
    mark: Mark | None
    anchor: Mark | None

    @property
    def mean(self) -> str:
        """The mean of a function that is compared with nothing."""
        mean = self.function["mean"]
        return "none" if mean is None else figure(mean, self.function["metric"])


@dataclass(frozen=True, slots=True)
class Forest:
    """Functions whose differences share an axis.

    Attributes:
        caption: what the axis shows.
        ticks: places and labels.
        lines: places of what a difference is held against, and their names.
        rows: worst first.
    """

    caption: str
    ticks: list[tuple[float, str]]
    lines: list[tuple[float, str]]
    rows: list[ForestRow]


def forests(report: Entry, functions: Sequence[Entry], anchors: Sequence[Entry]) -> list[Forest]:
    """Put functions on the axes that they share: shares, ratios, and every other metric.

    Args:
        report: with the margin and the target.
        functions: worst first.
        anchors: entries of the comparison with the anchor.
    """
    by_name = {(one["function"], one["metric"]): one for one in anchors}
    groups: dict[str, list[tuple[Entry, Entry | None]]] = {}
    for one in functions:
        against = by_name.get((one["function"], one["metric"]))
        groups.setdefault(_caption(one), []).append((one, against))
    return [_forest(report["settings"], caption, pairs) for caption, pairs in groups.items()]


def _caption(function: Entry) -> str:
    if "baseline_mean" not in function:
        return "mean" if _is_share(function["mean"]) else f"mean {function['metric']}"
    if function["scale"] == "log":
        good = ", more is better" if function["better"] == "higher" else ""
        return f"factor{good}, worse to the left"
    means = (function["baseline_mean"], function["mean"])
    of = "" if all(map(_is_share, means)) else f" of {function['metric']}"
    return f"difference{of}, worse to the left"


def _is_share(mean: float | None) -> bool:
    return mean is None or 0 <= mean <= 1


def _forest(settings: Entry, caption: str, pairs: list[tuple[Entry, Entry | None]]) -> Forest:
    first, _ = pairs[0]
    is_compared = "baseline_mean" in first
    is_log = is_compared and first["scale"] == "log"
    lines = _held_against(settings, is_log=is_log) if is_compared else []
    shown = [one for pair in pairs for one in pair if one is not None]
    axis = axis_of(
        [value for one in shown for value in (_value(one), *(one["interval"] or ())) if value],
        around=[value for value, _ in lines] if is_compared else [0.0, 1.0],
    )
    rows = [
        ForestRow(
            function=one,
            figures=figures(one, target=settings["target"]) if is_compared else None,
            mark=_mark(one, axis),
            anchor=None if anchor is None else _mark(anchor, axis),
        )
        for one, anchor in pairs
    ]
    sign = 0 if not is_log else 1 if first["better"] == "higher" else -1
    ticks = [(axis.at(value), _tick(value, sign=sign)) for value in axis.ticks()]
    return Forest(caption, ticks, [(axis.at(value), name) for value, name in lines], rows)


def _held_against(settings: Entry, *, is_log: bool) -> list[tuple[float, str]]:
    drops = {"target": settings["target"], "margin": settings["margin"] or None}
    found = [(-drop, name) for name, drop in drops.items() if drop is not None]
    if is_log:
        found = [(-math.log1p(-drop), name) for drop, name in found]
    return [*found, (0.0, "zero")]


def _value(function: Entry) -> float | None:
    value: float | None = function.get("difference", function["mean"])
    return value


def _mark(function: Entry, axis: Axis) -> Mark | None:
    value = _value(function)
    if value is None:
        return None
    low, high = map(axis.at, function["interval"]) if function["interval"] else (None, None)
    return Mark(axis.at(value), low, high)


def _tick(value: float, *, sign: int) -> str:
    """Write a label of an axis; ``sign`` turns a logarithm into that of current / baseline."""
    if sign:
        return f"\N{MULTIPLICATION SIGN}{math.exp(sign * value):.3g}" if value else "same"
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


class Dot(NamedTuple):
    """Draws of one score: their place, and the radius by which their number is told."""

    at: float
    radius: float


@dataclass(frozen=True, slots=True)
class CasePlot:
    """The draws of a case, the baseline's above those of this run.

    Attributes:
        before: draws of the baseline; ``after`` of this run.
        means: places of both means, None where a side has none.
        row: units between the two.
    """

    before: list[Dot]
    after: list[Dot]
    means: tuple[float | None, float | None]
    row: int


def case_plot(case: Entry, axis: Axis) -> CasePlot:
    """Place the draws of a case that was compared, or described."""
    before = case.get("baseline_scores", ())
    means = (case["baseline_mean"] if before else None, case["mean"])
    at = tuple(None if mean is None else axis.at(mean) for mean in means)
    places = _dots(before, axis), _dots(case["scores"], axis)
    return CasePlot(*places, (at[0], at[1]), row=_ROW if before else 0)


def _dots(scores: Sequence[float], axis: Axis) -> list[Dot]:
    counts = Counter(map(axis.at, scores))
    spread = _LARGEST_DOT - _SMALLEST_DOT
    return [
        Dot(at, round(_SMALLEST_DOT + spread * math.sqrt(count / len(scores)), 1))
        for at, count in sorted(counts.items())
    ]


@dataclass(frozen=True, slots=True)
class Chart:
    """Values from left to right, some with an interval, and the same as figures.

    Attributes:
        title: what is shown.
        points: a place, a height, and the heights of the ends of the interval.
        ticks: heights and labels.
        rows: a row a point: names of columns, and text.
        height: units of the plot.
    """

    title: str
    points: list[tuple[float, float, float, float]]
    ticks: list[tuple[float, str]]
    rows: Sequence[Sequence[tuple[str, str]]]
    height: int = _HEIGHT


def _chart(
    title: str,
    values: Sequence[tuple[float, Interval]],
    rows: Sequence[Sequence[tuple[str, str]]],
    *,
    metric: str = "",
    around: Iterable[float] = (),
) -> Chart:
    """Place values and their intervals at equal distances.

    Args:
        title: what is shown.
        values: from left to right, at least one.
        rows: the figures.
        metric: by which the labels are written.
        around: values for which there is room in any case.
    """
    known = [each for value, interval in values for each in (value, *(interval or ()))]
    axis, across = axis_of(known, around=around), Axis(-0.5, len(values) - 0.5)

    def up(value: float) -> float:
        return round(_HEIGHT - axis.at(value) * _HEIGHT / WIDTH, 1)

    points = []
    for at, (value, interval) in enumerate(values):
        low, high = interval or (value, value)
        points.append((across.at(at), up(value), up(low), up(high)))
    ticks = [(up(value), figure(value, metric)) for value in axis.ticks()]
    return Chart(title, points, ticks, rows)


def history_charts(history: History, *, among: Iterable[str] = ()) -> list[Chart]:
    """Chart the means of every function that has two or more.

    Args:
        history: of the functions.
        among: all functions from which their names tell them apart.
    """
    charts, names = [], distinct_names([*among, *(function for function, _ in history)])
    for (function, metric), points in history.items():
        means = [(point.mean, point.described.interval) for point in points]
        rows = [
            [
                ("commit", f"{(one.run.commit or 'none')[:7]}{' (dirty)' * one.run.dirty}"),
                ("branch", one.run.ref or ""),
                ("recorded", one.run.created[:10]),
                ("mean", figure(mean, metric)),
                ("interval", ends_of(interval, metric)),
            ]
            for one, (mean, interval) in zip(points, means, strict=True)
        ]
        if len(points) > 1:
            title = name_of(names[function], metric)
            charts.append(_chart(title, means, rows, metric=metric))
    return charts


def plan_charts(name: str, plan: Plan) -> Iterator[Chart]:
    """Chart with which chance a drop is found, by repeats and by cases."""
    for heading, points in (("repeats", plan.by_repeats), ("cases", plan.by_cases)):
        rows = [
            [
                (heading, f"{getattr(point, heading):g}"),
                ("trials", str(point.calls)),
                ("found", f"{point.power:.0%}"),
            ]
            for point in points
        ]
        title = f"{name}: chance to find a drop of {plan.drop:.3g}, by {heading}"
        yield _chart(title, [(point.power, None) for point in points], rows, around=[0.0, 1.0])


def look_chart(name: str, looks: Sequence[tuple[int, ExpectedMean]]) -> Chart:
    """Chart where the mean of a later run is expected, by the repeats that were made.

    Args:
        name: of the function.
        looks: repeats and what they let expect.

    Source:
        Blackwell et al. draw prediction intervals over the number of repeats.
    """
    rows = [
        [
            ("repeats", str(repeats)),
            ("mean", figure(expected.mean, "")),
            ("next run", ends(expected.interval) if expected.interval else "unknown"),
            ("width", "" if expected.width is None else decimals(expected.width)),
        ]
        for repeats, expected in looks
    ]
    return _chart(name, [(expected.mean, expected.interval) for _, expected in looks], rows)
