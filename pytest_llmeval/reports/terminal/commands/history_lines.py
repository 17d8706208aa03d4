"""``llmeval history``: the means of a function over commits, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pytest_llmeval.gate.describe import History, MeanOfRun
from pytest_llmeval.reports.formats import BOLD, Line, ends_of, figure, name_of
from pytest_llmeval.reports.json import facts_of_run
from pytest_llmeval.reports.terminal.bars import Scale
from pytest_llmeval.reports.terminal.fitting import Page

_TITLES = ("commit", "branch", "recorded", "cases", "mean", "interval", "")
_ORDER = ((0,), (4,), (6,), (5,), (1,), (2,), (3,))
_BAR = 25  # columns
_OF_MEAN = ("cases", "scored_cases", "mean", "interval", "interval_level", "trials")


def history_lines(history: History, page: Page) -> Iterator[Line]:
    """Word the means of each function, oldest first, with a plot of text."""
    for (function, metric), points in history.items():
        yield Line()
        yield Line(name_of(function, metric), BOLD)
        rows = [_TITLES, *(_row(point, metric, bar) for point, bar in _bars(points))]
        texts, _ = page.table(rows, _ORDER, left=3, cut=(1,))
        yield from map(Line, texts)


def _row(point: MeanOfRun, metric: str, bar: str) -> Sequence[str]:
    run, described = point.run, point.described
    return (
        (run.commit or "-")[:7] + "*" * run.dirty,
        run.ref or "-",
        run.created[:10],
        str(described.scored_cases),
        figure(point.mean, metric),
        ends_of(described.interval, metric),
        bar,
    )


def _bars(points: Sequence[MeanOfRun]) -> Iterator[tuple[MeanOfRun, str]]:
    """Draw the interval of each mean, all on one scale."""
    sides = [point.described.interval or (point.mean, point.mean) for point in points]
    scale = Scale(min(low for low, _ in sides), max(high for _, high in sides), _BAR)
    for point, ends in zip(points, sides, strict=True):
        yield point, scale.drawn(ends, point.mean)


def history_entries(history: History) -> list[dict[str, Any]]:
    """Write the same as ``--json``; docs/report-format.md tells its keys."""
    return [
        {
            "function": function,
            "metric": metric,
            "points": [
                {
                    **facts_of_run(point.run),
                    **{
                        name: value
                        for name, value in asdict(point.described).items()
                        if name in _OF_MEAN
                    },
                }
                for point in points
            ],
        }
        for (function, metric), points in history.items()
    ]
