"""Helpers of the commands: the runs that names mean, options with a range, writing of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pytest_llmeval.errors import SettingsError, TableError, printable
from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.records import Better, Run
from pytest_llmeval.reports.formats import short
from pytest_llmeval.runs.git import read_state
from pytest_llmeval.runs.lookup.for_commands import find_candidate, find_reference
from pytest_llmeval.runs.lookup.refs import Baseline, Refs
from pytest_llmeval.runs.reshaping import (
    Selection,
    conditions,
    gated_on,
    parse_selection,
    recording,
)
from pytest_llmeval.runs.score_table import ScoreTable, read_table, runs_of, table_named
from pytest_llmeval.runs.store import RunStore

SAME = "A and B are the very same scores: nothing can differ"

function_option = click.option(
    "--function", "name", metavar="NAME", help="Of this test function alone."
)


def ranged(
    name: str,
    check: Callable[[object], object],
    default: object,
    text: str,
    *,
    default_shown: str | None = None,
) -> Callable[[Any], Any]:
    """Declare an option of a command whose value is checked.

    Args:
        name: without dashes.
        check: one of ``checks``.
        default: what is checked where nothing is typed; None for None.
        text: for ``--help``.
        default_shown: the default as ``--help`` says it, if not as it is.
    """

    def checked(_: click.Context, __: click.Parameter, value: str | None) -> object:
        try:
            return None if value is None else check(value)
        except ValueError as exc:
            raise SettingsError(f"--{name}={value}: {exc}") from None

    if isinstance(default, float):
        default_shown = f"{default:g}"
    shown = f" (default: {default_shown})" if default_shown else ""
    return click.option(
        f"--{name}", type=str, default=default, callback=checked, help=f"{text}{shown}."
    )


def chosen(
    found: Sequence[FunctionScores], name: str | None, *, run: str
) -> tuple[FunctionScores, ...]:
    """Choose the functions that were asked about.

    Args:
        found: every function of a run.
        name: of a test function, with or without its file; all of them if None.
        run: its id, for the message.

    Raises:
        click.UsageError: there is none of that name, or none at all.
    """
    like = [each for each in found if name in (None, each.function, short(each.function))]
    if not like:
        names = ", ".join(dict.fromkeys(short(each.function) for each in found)) or "no eval"
        raise click.UsageError(f"--function={name}: run {run} has {names}")
    return tuple(like)


def refs_in(home: Path) -> Refs:
    """Return what names mean where runs are kept, seen from the working directory."""
    return Refs(RunStore(home), read_state(Path.cwd()))


def find_run(reference: str, *, home: Path) -> Baseline:
    """Find what a name means to ``llmeval compare`` as B: a run, a condition of it, or a table.

    Raises:
        LLMEvalError: there is none of that name, or it cannot be read.
    """
    table = table_named(reference)
    if table is not None:
        path, condition = table
        read = read_table(path, reference=reference, condition=condition)
        return _as_found(read, runs_of(read, read)[1])
    name, selection = _split(reference)
    found = find_candidate(name, refs_in(home))
    if selection is None:
        return found
    run, _ = conditions(found.run, found.run, (selection, selection))
    return replace(found, run=run, reference=reference)


def find_pair(
    baseline: str,
    candidate: str,
    *,
    home: Path,
    metric: str | None = None,
    better: Better | None = None,
) -> tuple[Baseline, Baseline]:
    """Find two runs, conditions of runs or score tables that are held against each other.

    Args:
        baseline: what was typed for A.
        candidate: what was typed for B.
        home: where runs are kept.
        metric: the only one to compare; None for those that are gated.
        better: which direction is good; None for that of each metric.

    Raises:
        LLMEvalError: there is none of that name, it cannot be read, or the two are unlike.
    """
    typed = (baseline, candidate)
    named = [table_named(each) for each in typed]
    if named == [None, None]:
        return _recorded(baseline, candidate, home=home, metric=metric, better=better)
    if None in named:
        table, other = typed if named[0] else typed[::-1]
        raise TableError(
            f"{table} is a score table and {other} is none: compare two tables, or two runs"
        )
    (path, condition), (other_path, other_condition) = filter(None, named)
    tables = [
        read_table(path, reference=baseline, condition=condition, metric=metric),
        read_table(other_path, reference=candidate, condition=other_condition, metric=metric),
    ]
    first, second = map(_as_found, tables, runs_of(*tables, better=better))
    if condition == other_condition and path.samefile(other_path):
        first = replace(first, notes=(SAME,))
    return first, second


def _as_found(table: ScoreTable, run: Run) -> Baseline:
    return Baseline(run=run, path=table.path, reference=table.reference, how="table")


def _recorded(
    baseline: str, candidate: str, *, home: Path, metric: str | None, better: Better | None
) -> tuple[Baseline, Baseline]:
    refs = refs_in(home)
    (name, part), (other_name, other_part) = _split(baseline), _split(candidate)
    found = find_candidate(other_name, refs)
    if part is not None and name == other_name:  # two conditions of one run
        against = found
    else:
        against = find_reference(name, refs, candidate=found.run)
    runs, notes = (against.run, found.run), against.notes
    if against.run.id == found.run.id and part == other_part:
        notes += (SAME,)
    if part is not None and other_part is not None:
        runs = conditions(*runs, (part, other_part))
        notes += _position_notes(*runs)
    elif part is not None or other_part is not None:
        raise SettingsError(
            f"{baseline} {candidate}: name a test of both, as in RUN::test[a] RUN::test[b]"
        )
    old, new = (gated_on(run, metric=metric, better=better) for run in runs)
    if metric is not None:
        old, new = recording(metric, old, new)
    return (
        replace(against, run=old, reference=baseline, notes=notes),
        replace(found, run=new, reference=candidate),
    )


def _split(reference: str) -> tuple[str, Selection | None]:
    """Split what was typed into the name of a run and a condition of it, if one is named."""
    name, separator, test = reference.partition("::")
    if not separator or Path(reference).is_file():
        return reference, None
    return name, parse_selection(test)


def _position_notes(baseline: Run, candidate: Run) -> tuple[str, ...]:
    counted = any(case.positional for case in (*baseline.cases, *candidate.cases))
    if not counted or baseline.id == candidate.id:
        return ()
    return ("ids are made from positions: where the two runs hold other cases, give ids=",)


def echo(lines: Iterable[str]) -> None:
    """Write lines to standard output, made printable: they may quote files of others."""
    for line in lines:
        click.echo(printable(line))
