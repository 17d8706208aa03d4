"""Line charts: means over commits, what is found by repeats and cases, width by repeats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmeval.gate.describe import History
from pytest_llmeval.reports.formats import ends, ends_of, figure, name_of
from pytest_llmeval.reports.html.plots import WIDTH, Axis, Interval, axis_of

if TYPE_CHECKING:
    from pytest_llmeval.stats.expected import ExpectedMean
    from pytest_llmeval.stats.suite_size import Plan

_HEIGHT = 120


@dataclass(frozen=True, slots=True)
class LinePlot:
    """Values from left to right, some with an interval.

    Attributes:
        points: a place, a height, and the heights of the ends of the interval.
        ticks: heights and labels.
        height: units of the plot.
    """

    points: list[tuple[float, float, float, float]]
    ticks: list[tuple[float, str]]
    height: int = _HEIGHT


def line_plot(
    values: Sequence[tuple[float, Interval]], metric: str, *, around: Iterable[float] = ()
) -> LinePlot:
    """Place values and their intervals at equal distances.

    Args:
        values: from left to right, at least one.
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
    return LinePlot(points, [(up(value), figure(value, metric)) for value in axis.ticks()])


@dataclass(frozen=True, slots=True)
class Chart:
    """A line plot with its figures.

    Attributes:
        title: what is shown.
        plot: the line.
        rows: a row a point: names of columns, and text.
    """

    title: str
    plot: LinePlot
    rows: Sequence[Sequence[tuple[str, str]]]


def history_charts(history: History) -> list[Chart]:
    """Chart the means of every function that has two or more."""
    charts = []
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
            charts.append(Chart(name_of(function, metric), line_plot(means, metric), rows))
    return charts


def plan_charts(name: str, plan: Plan) -> Iterator[Chart]:
    """Chart with which chance a drop is found, by repeats and by cases."""
    for heading, points in (("repeats", plan.by_repeats), ("cases", plan.by_cases)):
        plot = line_plot([(point.power, None) for point in points], "", around=[0.0, 1.0])
        rows = [
            [
                (heading, f"{getattr(point, heading):g}"),
                ("trials", str(point.calls)),
                ("found", f"{point.power:.0%}"),
            ]
            for point in points
        ]
        yield Chart(f"{name}: chance to find a drop of {plan.drop:.3g}, by {heading}", plot, rows)


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
            ("width", "" if expected.width is None else f"{expected.width:.3f}"),
        ]
        for repeats, expected in looks
    ]
    plot = line_plot([(expected.mean, expected.interval) for _, expected in looks], "")
    return Chart(name, plot, rows)
