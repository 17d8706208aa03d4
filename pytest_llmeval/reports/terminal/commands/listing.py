"""Recorded runs and their means, a row or an entry each: ``llmeval list`` and ``history``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_llmeval.gate.describe import History, MeanOfRun
from pytest_llmeval.gate.results import Interval
from pytest_llmeval.reports.formats import BOLD, Line, ends_of, figure, name_of
from pytest_llmeval.reports.json import facts_of_run
from pytest_llmeval.reports.terminal.bars import Scale
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.runs.lookup.best_run import peculiarities
from pytest_llmeval.runs.run_lines import RunHeader

_OF_RUNS = ("run", "commit", "branch", "models", "cases", "trials", "")
_ORDER_OF_RUNS = ((0,), (2,), (1,), (4,), (5,), (6,), (3,))
_CUT_OF_RUNS = (2, 3, 6)
_LONGEST_BRANCH = 5  # so many of them fill the page
_OF_MEANS = ("commit", "branch", "recorded", "cases", "mean", "interval", "")
_ORDER_OF_MEANS = ((0,), (4,), (6,), (5,), (1,), (2,), (3,))
_BAR = 25  # columns
_DESCRIBED = ("cases", "scored_cases", "trials", "mean", "interval", "interval_level")


def listed_runs(headers: Sequence[RunHeader], page: Page) -> Iterator[Line]:
    """Word recorded runs, a row each."""
    rows: list[Sequence[str]] = [_OF_RUNS]
    rows += [
        (
            one.run.id,
            (one.run.commit or "-")[:7],
            page.cut(one.run.ref or "-", max(12, page.width // _LONGEST_BRANCH)),
            ", ".join(sorted(one.models_asked)) or "-",
            str(len(one.run.cases)),
            str(one.trials),
            ", ".join(peculiarities(one.run, trials=one.trials)),
        )
        for one in headers
    ]
    (heading, *texts), _ = page.table(rows, _ORDER_OF_RUNS, left=4, cut=_CUT_OF_RUNS)
    yield Line(heading, BOLD)
    yield from map(Line, texts)


def run_entry(header: RunHeader) -> dict[str, Any]:
    """Write a recorded run as an entry of ``--json``; docs/report-format.md tells its keys."""
    run = header.run
    return {
        **facts_of_run(run),
        "trials": header.trials,
        "errored": header.errored,
        "skipped": header.skipped,
        "models": sorted(header.models_asked),
        "selection": list(run.selection),
        "remarks": list(peculiarities(run, trials=header.trials)),
    }


def history_lines(history: History, page: Page) -> Iterator[Line]:
    """Word the means of each function, oldest first, with their intervals on one scale."""
    for (function, metric), points in history.items():
        yield Line()
        yield Line(name_of(function, metric), BOLD)
        lows, highs = zip(*map(_ends, points), strict=True)
        scale = Scale(min(lows), max(highs), _BAR)
        rows = [_OF_MEANS, *(_row_of_mean(point, metric, scale) for point in points)]
        texts, _ = page.table(rows, _ORDER_OF_MEANS, left=3, cut=(1,))
        yield from map(Line, texts)


def _ends(point: MeanOfRun) -> Interval:
    return point.described.interval or (point.mean, point.mean)


def _row_of_mean(point: MeanOfRun, metric: str, scale: Scale) -> Sequence[str]:
    run, described = point.run, point.described
    return (
        (run.commit or "-")[:7] + "*" * run.dirty,
        run.ref or "-",
        run.created[:10],
        str(described.scored_cases),
        figure(point.mean, metric),
        ends_of(described.interval, metric),
        scale.drawn(_ends(point), point.mean),
    )


def history_entries(history: History) -> list[dict[str, Any]]:
    """Write the same as ``--json``; docs/report-format.md tells its keys."""
    return [
        {
            "function": function,
            "metric": metric,
            "points": [
                facts_of_run(point.run)
                | {name: getattr(point.described, name) for name in _DESCRIBED}
                for point in points
            ],
        }
        for (function, metric), points in history.items()
    ]
