"""Recorded runs, a row or an entry each: ``llmeval list``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_llmeval.reports.formats import BOLD, Line
from pytest_llmeval.reports.json import facts_of_run
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.runs.lookup.best_run import peculiarities
from pytest_llmeval.runs.run_lines import RunHeader

_TITLES = ("run", "commit", "branch", "models", "cases", "trials", "")
_ORDER = ((0,), (2,), (1,), (4,), (5,), (6,), (3,))
_CUT = (2, 3, 6)
_LONGEST_BRANCH = 5  # so many of them fill the page


def listed_runs(headers: Sequence[RunHeader], page: Page) -> Iterator[Line]:
    """Word recorded runs, a row each."""
    rows: list[Sequence[str]] = [_TITLES]
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
    (heading, *texts), _ = page.table(rows, _ORDER, left=4, cut=_CUT)
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
