"""Lines on what is stored: ``llmeval list``, ``history`` and ``cache``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_llmeval.cache.contents import Contents, Pruning
from pytest_llmeval.cache.transfer import Exported, Merging
from pytest_llmeval.errors import counted, listed_names
from pytest_llmeval.gate.describe import History, MeanOfRun
from pytest_llmeval.gate.results import MOST_NAMED, Interval
from pytest_llmeval.records import Call, Run, distinct_names
from pytest_llmeval.reports.notation import BOLD, Line, aligned, ends_of, figure, name_of
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.tables import Scale
from pytest_llmeval.runs.lookup.best_run import remarks_on
from pytest_llmeval.runs.lookup.pruning import RunPruning, is_clean
from pytest_llmeval.runs.run_lines import RunHeader

_OF_RUNS = ("run", "commit", "branch", "models", "cases", "trials", "")
_ORDER_OF_RUNS = ((0,), (2,), (1,), (4,), (5,), (6,), (3,))
_CUT_OF_RUNS = (2, 3, 6)
_LONGEST_BRANCH = 5  # so many of them fill the page
_OF_MEANS = ("commit", "branch", "recorded", "cases", "mean", "interval", "")
_ORDER_OF_MEANS = ((0,), (4,), (1,), (6,), (5,), (2,), (3,))
_INTERVAL = 5
_BAR = 25  # columns
_STEP, _UNITS = 1024, ("KiB", "MiB", "GiB", "TiB")


def listed_runs(headers: Sequence[RunHeader], page: Page) -> Iterator[Line]:
    """Word recorded runs, a row each."""
    rows: list[Sequence[str]] = [_OF_RUNS]
    for one in headers:
        run, models = one.run, ", ".join(sorted(one.models_asked)) or "-"
        branch = page.cut(run.ref or "-", max(12, page.width // _LONGEST_BRANCH))
        counts = str(len(run.cases)), str(one.trials)
        rows.append((run.id, _commit(run), branch, models, *counts, ", ".join(remarks_on(one))))
    (heading, *texts), _ = page.table(rows, _ORDER_OF_RUNS, left=4, cut=_CUT_OF_RUNS)
    yield from (Line(heading, BOLD), *map(Line, texts))


def history_lines(history: History, page: Page, *, level: str) -> Iterator[Line]:
    """Word the means of each function, oldest first, with their intervals on one scale.

    Args:
        history: of the functions.
        page: to which the lines are fitted.
        level: of the intervals, as text.
    """
    names, legend = distinct_names(function for function, _ in history), dict[str, None]()
    for (function, metric), points in history.items():
        yield from (Line(), Line(name_of(names[function], metric), BOLD))
        lows, highs = zip(*map(_ends, points), strict=True)
        scale = Scale(min(lows), max(highs), _BAR)
        rows = [_OF_MEANS, *(_row_of_mean(point, metric, scale) for point in points)]
        texts, left_out = page.table(rows, _ORDER_OF_MEANS, left=3, cut=(1,))
        yield from map(Line, texts)
        if any(point.run.dirty for point in points):
            legend["*: recorded with changes that were not committed"] = None
        if _INTERVAL not in left_out and any(point.described.interval for point in points):
            legend[f"interval: {level}, a range for the mean of other cases like these"] = None
    yield from (Line(), *map(Line, filter(None, [*legend, mixed_branches(history)])))


def mixed_branches(history: History) -> str:
    """Name the branches whose commits a history shows as one line; empty if it is one branch."""
    branches = {point.run.ref: None for points in history.values() for point in points}
    if len(branches) <= 1:
        return ""
    named = [branch for branch in branches if branch]
    count = f"{counted(len(named), 'branch', 'branches')}{' and of none' * (None in branches)}"
    mixed = f"commits of {count} are mixed: {listed_names(named, MOST_NAMED)}"
    return f"{mixed}. Show those of one: --branch=NAME"


def _ends(point: MeanOfRun) -> Interval:
    return point.described.interval or (point.mean, point.mean)


def _row_of_mean(point: MeanOfRun, metric: str, scale: Scale) -> Sequence[str]:
    run, described = point.run, point.described
    cells = _commit(run) + "*" * run.dirty, run.ref or "-", run.created[:10]
    mean = figure(point.mean, metric), ends_of(described.interval, metric)
    return *cells, str(described.scored_cases), *mean, scale.drawn(_ends(point), point.mean)


def _commit(run: Run) -> str:
    return (run.commit or "-")[:7]


def contents(found: Contents, folder: Path) -> Iterator[str]:
    """Say what is in a cache."""
    older = found.places.total() - len(found.places)
    yield f"{folder}: {size(found.size)}"
    kept = f"{counted(len(found.requests), 'request')}, {_replies(len(found.places))}"
    yield f"{kept}, {older} older, {found.spares} spare"
    if found.oldest:
        yield f"paid for from {found.oldest} to {found.newest}"
    if found.refused:
        refused = f"{counted(found.refused, 'row')} were not written by this plugin"
        yield f"{refused} and count as missing; see SECURITY.md"
    rows = [
        (model, host, str(replies), size(found.sizes[model, host]))
        for (model, host), replies in sorted(found.replies.items())
    ]
    yield from aligned([("model", "host", "replies", "size"), *rows], left=range(2)) if rows else []


def pruned_runs(planned: RunPruning) -> Iterator[str]:
    """Say which runs would be deleted."""
    headers = [(one.header, one.header.run) for one in planned.going]
    rows = [
        (run.id, _commit(run), run.ref or "-", ", ".join(remarks_on(header)))
        for header, run in headers
    ]
    yield from aligned(rows, left=range(4)) if rows else []
    unfit = sum(not is_clean(one) for one in planned.going)
    freed = size(sum(one.path.stat().st_size for one in planned.going))
    yield f"{counted(len(rows), 'run')} would go, {unfit} of them dirty or incomplete, {freed}"
    yield f"{counted(planned.left, 'run')} stay, {planned.spared} of them as old but needed"


def pruning(planned: Pruning, *, before: str) -> Iterator[str]:
    """Say what would be deleted."""
    going = f"{_replies(planned.replies)}, {size(planned.size)}"
    bare = f"{counted(planned.requests, 'request')} would have none left"
    yield f"paid for before {before} and needed by no run that is kept: {going}; {bare}"
    yield f"{_replies(planned.left)} stay, {planned.spared} of them as old but needed"


def exported(done: Exported, path: Path) -> str:
    """Say what was written."""
    text = f"{path}: {_replies(done.draws)} of {counted(done.requests, 'request')}"
    foreign = f"; {counted(done.left_out, 'row')} that this plugin did not write left out"
    return text + foreign if done.left_out else text


def merged_file(done: Merging, path: Path) -> str:
    """Say what was taken in."""
    spare = f"{done.spare} kept as spare (another reply is in their place, and stays)"
    return f"{path}: {done.new} new, {done.known} here already, {spare}"


def explanation(calls: Iterable[tuple[Call, str]]) -> Iterator[str]:
    """Say how each call was answered, and why; equal causes together."""
    causes: dict[tuple[str, str], list[str]] = {}
    for call, cause in calls:
        causes.setdefault((call.key, cause), []).append(str(call.slot))
    for (key, cause), slots in causes.items():
        yield f"request {key[:12]}  {counted(len(slots), 'draw')} {', '.join(slots)}"
        yield f"  {cause}"


def size(number: int) -> str:
    """Write a number of bytes."""
    if number < _STEP:
        return f"{number} B"
    value, power = number / _STEP, 0
    while value >= _STEP and power < len(_UNITS) - 1:
        value, power = value / _STEP, power + 1
    return f"{value:.1f} {_UNITS[power]}"


def _replies(count: int) -> str:
    return counted(count, "reply", "replies")
