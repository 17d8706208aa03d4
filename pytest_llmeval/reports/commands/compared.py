"""Lines of `llmeval compare`, `list` and `show`; the figures are worded as in a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Run
from pytest_llmeval.reports import words
from pytest_llmeval.reports.gated import gated_lines
from pytest_llmeval.reports.lines import RED, YELLOW, Line, aligned
from pytest_llmeval.reports.provenance import differences
from pytest_llmeval.reports.terminal import failure_line, side_line
from pytest_llmeval.reports.ungated import ungated_lines
from pytest_llmeval.runs.lookup.best_run import peculiarities
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.run_lines import RunHeader


def compared_lines(judgement: Judgement, candidate: Baseline) -> Iterator[Line]:
    """Word a comparison of two runs that were named.

    Args:
        judgement: with a baseline.
        candidate: the run that was judged, and how it was found.
    """
    assert judgement.baseline is not None  # noqa: S101 - or there were nothing to compare
    for side, found in (("baseline", judgement.baseline), ("here", candidate)):
        yield Line(side_line(found, side=side))
        yield from (Line(f"note: {note}", YELLOW) for note in found.notes)
    rules = judgement.settings.gate
    for difference in differences(judgement.baseline.run, candidate.run, rules=rules):
        yield Line(f"differs from the baseline: {difference}")
    if judgement.comparison is not None:
        yield from gated_lines(judgement, judgement.comparison)
    if judgement.fails:
        yield Line(failure_line(judgement), RED)


def shown_lines(judgement: Judgement, run: Run) -> Iterator[Line]:
    """Word a single run."""
    ended = words.counted(len(run.trials), "trial")
    yield Line(f"run {run.id}, {words.counted(len(run.cases), 'case')}, {ended}")
    yield Line(f"commit {run.commit or 'none'}, branch {run.ref or 'none'}, created {run.created}")
    yield from (Line(f"note: {one}", YELLOW) for one in peculiarities(run, trials=len(run.trials)))
    yield from ungated_lines(judgement)


def listed(headers: Iterable[RunHeader]) -> list[str]:
    """Word recorded runs, a row each."""
    heading = ["run", "commit", "branch", "cases", "trials", "models", ""]
    rows = [
        [
            header.run.id,
            (header.run.commit or "-")[:7],
            header.run.ref or "-",
            str(len(header.run.cases)),
            str(header.trials),
            ", ".join(sorted(header.models_asked)) or "-",
            ", ".join(peculiarities(header.run, trials=header.trials)),
        ]
        for header in headers
    ]
    return aligned([heading, *rows], left=3)
