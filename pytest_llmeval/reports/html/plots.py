"""Plots of pages, as places within their SVG.

A forest has the intervals of functions, a case its draws. Lines show means over commits, the chance
to find a drop by repeats and cases, and the width by repeats.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pytest_llmeval.gate.describe import History
from pytest_llmeval.gate.results import CaseDescription, FunctionComparison
from pytest_llmeval.records import Better, distinct_names
from pytest_llmeval.reports.notation import decimals, ends, ends_of, figure, name_of
from pytest_llmeval.reports.report import CaseEntry, ComparedFunction
from pytest_llmeval.reports.telling import AnyFunction, Figures, figures
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.expected import ExpectedMean
from pytest_llmeval.stats.suite_size import Plan

WIDTH = 400  # units of plots; the page scales them
CASE_SIZE = 120, 48  # of the plot of a case
_PADDING = 14
_MOST_TICKS = 5
_LARGEST_DOT, _SMALLEST_DOT = 6.0, 2.5
_HEIGHT = 120  # of a line plot
_SIDES = 16, 104  # places of the baseline and of this run in the plot of a case
_CASE_PADDING = 8

Interval = Sequence[float] | None
Pair = tuple[AnyFunction, ComparedFunction | None]  # a function, also against the anchor
Rows = Sequence[Sequence[str]]
Values = Sequence[tuple[float, Interval]]
AnyCase = CaseEntry | CaseDescription


class Axis(NamedTuple):
    """A range of values that fills the width of a plot."""

    low: float
    high: float
    width: int = WIDTH
    padding: int = _PADDING

    def at(self, value: float) -> float:
        """Return the place of a value from the left; a value beyond the range is at its end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.padding + share * (self.width - 2 * self.padding), 1)

    def ticks(self) -> list[float]:
        """Return round values of the range, ``_MOST_TICKS`` at most."""
        rough = (self.high - self.low) / _MOST_TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough)
        first = math.ceil(self.low / step - 1e-9)
        count = int((self.high - first * step) / step + 1e-9) + 1
        return [float(f"{(first + at) * step:.10g}") for at in range(min(count, _MOST_TICKS + 1))]


def axis_of(values: Iterable[float], *, around: Iterable[float] = ()) -> Axis:
    """Return the axis on which values have room, and other values that it must show."""
    known = [*values, *around]
    low, high = min(known, default=0.0), max(known, default=1.0)
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return Axis(low - margin, high + margin)


class Mark(NamedTuple):
    """A value with its interval, as places of an axis."""

    at: float
    low: float | None
    high: float | None


class ForestRow(NamedTuple):
    """A function in the forest plot.

    Attributes:
        function: as the report has it.
        figures: the same as text; None without a baseline.
        mark: its difference, or its mean without a baseline; None where there is none.
        anchor: the difference from the anchor.
    """

    function: AnyFunction
    figures: Figures | None
    mark: Mark | None
    anchor: Mark | None


class Forest(NamedTuple):
    """Functions whose differences share an axis.

    Attributes:
        caption: what the axis shows.
        ticks: places and labels.
        lines: places of zero, the margin and the target, and their names.
        rows: worst first.
    """

    caption: str
    ticks: list[tuple[float, str]]
    lines: list[tuple[float, str]]
    rows: list[ForestRow]


def forests(
    rules: GateRules, functions: Sequence[AnyFunction], anchors: Sequence[ComparedFunction]
) -> list[Forest]:
    """Put functions on the axes that they share: shares, ratios, and every other metric.

    Args:
        rules: with the margin and the target.
        functions: worst first.
        anchors: the same in the comparison with the anchor.
    """
    by_name = {(one.of.function, one.of.metric): one for one in anchors}
    groups: dict[str, list[Pair]] = {}
    for one in functions:
        anchor = by_name.get((one.of.function, one.of.metric))
        groups.setdefault(_caption(one), []).append((one, anchor))
    return [_forest(rules, caption, group) for caption, group in groups.items()]


def _caption(function: AnyFunction) -> str:
    of = function.of
    if not isinstance(of, FunctionComparison):
        return "mean" if _is_share(of.mean) else f"mean {of.metric}"
    if of.scale == "log":
        good = ", more is better" if of.better == "higher" else ""
        return f"factor{good}, worse to the left"
    are_shares = all(map(_is_share, (of.effect.baseline_mean, of.effect.mean)))
    return f"difference{'' if are_shares else f' of {of.metric}'}, worse to the left"


def _is_share(mean: float | None) -> bool:
    return mean is None or 0 <= mean <= 1


def _forest(rules: GateRules, caption: str, group: Sequence[Pair]) -> Forest:
    first = group[0][0].of
    is_compared = isinstance(first, FunctionComparison)
    is_log = isinstance(first, FunctionComparison) and first.scale == "log"
    lines = _marked(rules, is_log=is_log) if is_compared else []
    placed = [_placed(one) for pair in group for one in pair if one is not None]
    values = [value for mean, interval in placed for value in (mean, *(interval or ())) if value]
    axis = axis_of(values, around=[value for value, _ in lines] if is_compared else [0.0, 1.0])
    rows = []
    for one, anchor in group:
        told = figures(one.of, target=rules.target) if isinstance(one, ComparedFunction) else None
        anchored = None if anchor is None else _mark(anchor, axis)
        rows.append(ForestRow(one, told, _mark(one, axis), anchored))
    sign = 0 if not is_log else 1 if first.better == "higher" else -1
    ticks = [(axis.at(value), _tick(value, sign=sign)) for value in axis.ticks()]
    return Forest(caption, ticks, [(axis.at(value), name) for value, name in lines], rows)


def _marked(rules: GateRules, *, is_log: bool) -> list[tuple[float, str]]:
    drops = {"target": rules.target} | ({"margin": rules.margin} if rules.margin else {})
    found = [(-math.log1p(drop) if is_log else -drop, name) for name, drop in drops.items()]
    return [*found, (0.0, "zero")]


def _placed(function: AnyFunction) -> tuple[float | None, Interval]:
    """Return the figure that has a place on the axis, and its interval."""
    of = function.of
    if isinstance(of, FunctionComparison):
        return of.effect.difference, of.evidence.interval
    return of.mean, of.interval


def _mark(function: AnyFunction, axis: Axis) -> Mark | None:
    value, interval = _placed(function)
    low, high = map(axis.at, interval) if interval else (None, None)
    return None if value is None else Mark(axis.at(value), low, high)


def _tick(value: float, *, sign: int) -> str:
    """Write a label of an axis; ``sign`` turns a logarithm into the one of current / baseline."""
    if sign:
        return f"\N{MULTIPLICATION SIGN}{math.exp(sign * value):.3g}" if value else "same"
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


class Dot(NamedTuple):
    """Trials of one score: their height, and the radius that shows their number."""

    at: float
    radius: float


class CasePlot(NamedTuple):
    """The trials of a case, the baseline's to the left of this run's; what is worse is lower.

    Attributes:
        before: trials of the baseline; ``after`` of this run.
        means: heights of both means; None for the baseline's where it has none.
        sides: places of both sides from the left.
    """

    before: list[Dot]
    after: list[Dot]
    means: tuple[float | None, float]
    sides: tuple[int, int] = _SIDES


def scores_before(case: AnyCase) -> tuple[float, ...]:
    """Return the scores of a case in the baseline; none without a baseline."""
    return case.baseline_scores if isinstance(case, CaseEntry) else ()


def case_axis(values: Iterable[float], *, around: Iterable[float] = ()) -> Axis:
    """Return the upright axis of the plots of cases; the arguments are those of ``axis_of``."""
    return axis_of(values, around=around)._replace(width=CASE_SIZE[1], padding=_CASE_PADDING)


def case_plot(case: AnyCase, axis: Axis, *, better: Better) -> CasePlot:
    """Place the trials of a case that was compared, or described.

    Args:
        case: with scores.
        axis: that all cases of a function share, of ``case_axis``.
        better: which scores are good.
    """

    def height(value: float) -> float:
        place = axis.at(value)
        return round(CASE_SIZE[1] - place, 1) if better == "higher" else place

    before = scores_before(case)
    was = height(case.baseline_mean) if isinstance(case, CaseEntry) and before else None
    dots = [_dots(list(map(height, scores))) for scores in (before, case.scores)]
    return CasePlot(dots[0], dots[1], (was, height(case.mean)))


def _dots(heights: Sequence[float]) -> list[Dot]:
    sizes = {at: math.sqrt(count / len(heights)) for at, count in Counter(heights).items()}
    spread = _LARGEST_DOT - _SMALLEST_DOT
    return [Dot(at, round(_SMALLEST_DOT + spread * sizes[at], 1)) for at in sorted(sizes)]


class Chart(NamedTuple):
    """Values from left to right, some with an interval, and the same as figures.

    Attributes:
        title: what is shown.
        points: a place, a height, and the heights of the ends of the interval.
        ticks: heights and labels.
        rows: the names of the columns, and a row for each point.
        height: units of the plot.
    """

    title: str
    points: list[tuple[float, float, float, float]]
    ticks: list[tuple[float, str]]
    rows: Rows
    height: int = _HEIGHT


def _chart(
    title: str, values: Values, rows: Rows, metric: str = "", around: Iterable[float] = ()
) -> Chart:
    """Place values and their intervals at equal distances.

    Args:
        title: what is shown.
        values: from left to right, at least one.
        rows: the figures, below the names of their columns.
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
        rows: list[Sequence[str]] = [("commit", "branch", "recorded", "mean", "interval")]
        for run, (mean, interval) in zip((point.run for point in points), means, strict=True):
            commit = f"{(run.commit or 'none')[:7]}{' (dirty)' * run.dirty}"
            told = figure(mean, metric), ends_of(interval, metric)
            rows.append((commit, run.ref or "", run.created[:10], *told))
        if len(points) > 1:
            charts.append(_chart(name_of(names[function], metric), means, rows, metric=metric))
    return charts


def plan_charts(name: str, plan: Plan) -> Iterator[Chart]:
    """Chart the chance to find a drop, by repeats and by cases."""
    for heading, points in (("repeats", plan.by_repeats), ("cases", plan.by_cases)):
        rows = [(heading, "trials", "found")]
        for point in points:
            number = f"{getattr(point, heading):g}"
            rows.append((number, str(point.calls), f"{point.power:.0%}"))
        title = f"{name}: chance to find a drop of {plan.drop:.3g}, by {heading}"
        yield _chart(title, [(point.power, None) for point in points], rows, around=[0.0, 1.0])


def look_chart(name: str, looks: Sequence[tuple[int, ExpectedMean]]) -> Chart:
    """Chart where the mean of a later run is expected, by the repeats that were made.

    Args:
        name: of the function.
        looks: the repeats at each look, and the range that was expected then.

    Source:
        Blackwell et al. draw prediction intervals over the number of repeats.
    """
    rows = [("repeats", "mean", "next run", "width")]
    for repeats, expected in looks:
        next_run = ends(expected.interval) if expected.interval else "unknown"
        width = "" if expected.width is None else decimals(expected.width)
        rows.append((str(repeats), figure(expected.mean, ""), next_run, width))
    return _chart(name, [(expected.mean, expected.interval) for _, expected in looks], rows)
