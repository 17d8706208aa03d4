"""``llmeval compare``: hold one run or score table against another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import click

from pytest_llmeval import ranges
from pytest_llmeval.cli.common import directory_option, echo, home_of_runs, ranged
from pytest_llmeval.errors import SettingsError, TableError
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import AnyTest, Better, FixedTest, GateRules, Run, Settings
from pytest_llmeval.reports.compared import compared_lines
from pytest_llmeval.reports.json import render
from pytest_llmeval.runs.baseline import Baseline
from pytest_llmeval.runs.conditions import Selection, conditions, gated_on, parse_selection
from pytest_llmeval.runs.git import read_state
from pytest_llmeval.runs.references import find_candidate, find_reference
from pytest_llmeval.runs.store import RunStore
from pytest_llmeval.runs.table_runs import runs_of
from pytest_llmeval.runs.tables import ScoreTable, read_table, table_named
from pytest_llmeval.session import compared

DEFAULTS = GateRules()
NO_GATE = "{} is no test for a gate: docs/statistics.md tells when it is valid"
SAME = "A and B are the very same scores: nothing can differ"


def _test(value: object) -> AnyTest:
    return DEFAULTS.test if value == "auto" else ranges.any_test(value)


@click.command()
@click.argument("baseline", metavar="A")
@click.argument("candidate", metavar="B")
@click.option("--json", "as_json", is_flag=True, help="Write what --llm-report writes.")
@ranged("alpha", ranges.alpha, DEFAULTS.alpha, "One-sided level of the test")
@ranged("margin", ranges.not_negative, DEFAULTS.margin, "Fail only on a drop of more than this")
@ranged("target", ranges.positive, DEFAULTS.target, "The drop that must be ruled out or caught")
@click.option("--strict", is_flag=True, help="An inconclusive comparison fails too.")
@click.option("--metric", metavar="NAME", help="Compare this metric alone.")
@click.option("--better", type=click.Choice(["higher", "lower"]), help="Which direction is good.")
@ranged("test", _test, None, "Another test of docs/statistics.md (default: auto, paired-t)")
@directory_option
def compare(
    baseline: str,
    candidate: str,
    directory: Path | None,
    *,
    as_json: bool,
    alpha: float | None,
    margin: float | None,
    target: float | None,
    strict: bool,
    test: AnyTest | None,
    metric: str | None,
    better: Better | None,
) -> None:
    """Hold B against the baseline A, and exit as a session would: 1 if B is worse.

    A and B are recorded runs (last, a run id, a run file, a branch, tag or commit), two
    conditions of runs (RUN::test[a] RUN::test[b]), or score tables (.csv or .jsonl, also
    .gz, with case_id, repeat and score; FILE::CONDITION picks rows by the column condition).
    """
    rules = _rules(alpha=alpha, margin=margin, target=target, strict=strict, test=test)
    home = home_of_runs(directory)
    wanted = _Wanted(metric=metric, better=better, home=home)
    there, here = _sides(baseline, candidate, wanted=wanted)
    if rules.test in get_args(FixedTest):
        there = replace(there, notes=(*there.notes, NO_GATE.format(rules.test)))
    accepted = here.run.rules.get("accept_gone")
    if isinstance(accepted, tuple):  # the session that recorded B was let off these
        rules = replace(rules, accept_gone=accepted)
    settings = Settings(directory=home, session="", baseline=baseline, gate=rules)
    judged = compared(Judgement(settings=settings, run=here.run, baseline=there), here.run)
    if as_json:
        click.echo(render(judged), nl=False)
    else:
        echo(line.text for line in compared_lines(judged, here))
    if judged.fails:
        raise SystemExit(1)


def _rules(
    *,
    alpha: float | None,
    margin: float | None,
    target: float | None,
    strict: bool,
    test: AnyTest | None,
) -> GateRules:
    given = {"alpha": alpha, "margin": margin, "target": target, "test": test}
    set_here: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    rules = replace(DEFAULTS, strict=strict, **set_here)
    ranges.check_margin(rules.margin, target=rules.target, given=target is not None, prefix="--")
    ranges.check_test(rules.test, margin=rules.margin, prefix="--")
    return rules


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What both sides are read for."""

    metric: str | None
    better: Better | None
    home: Path


def _sides(baseline: str, candidate: str, *, wanted: _Wanted) -> tuple[Baseline, Baseline]:
    there, here = table_named(baseline), table_named(candidate)
    if there is None and here is None:
        return _recorded(baseline, candidate, wanted=wanted)
    if there is None or here is None:
        table, other = (baseline, candidate) if there else (candidate, baseline)
        raise TableError(
            f"{table} is a score table and {other} is none: compare two tables, or two runs"
        )
    tables = [
        read_table(path, reference=typed, condition=condition, metric=wanted.metric)
        for typed, (path, condition) in ((baseline, there), (candidate, here))
    ]
    runs = runs_of(*tables, better=wanted.better or "higher")
    first, second = map(_as_found, tables, runs)
    if there[1] == here[1] and there[0].samefile(here[0]):
        return replace(first, notes=(SAME,)), second
    return first, second


def _as_found(table: ScoreTable, run: Run) -> Baseline:
    return Baseline(run=run, path=table.path, reference=table.reference, commit=None, how="table")


def _recorded(baseline: str, candidate: str, *, wanted: _Wanted) -> tuple[Baseline, Baseline]:
    store, git = RunStore(wanted.home), read_state(Path.cwd())
    (first, there), (second, here) = _split(baseline), _split(candidate)
    found = find_candidate(second, store=store, git=git)
    if there is not None and first == second:  # two conditions of one run
        against = found
    else:
        against = find_reference(first, candidate=found.run, store=store, git=git)
    runs, notes = (against.run, found.run), against.notes
    if against.run.id == found.run.id and there == here:
        notes += (SAME,)
    if there is not None and here is not None:
        runs = conditions(*runs, (there, here))
        notes += _position_notes(*runs)
    elif there is not None or here is not None:
        raise SettingsError(
            f"{baseline} {candidate}: name a test of both, as in RUN::test[a] RUN::test[b]"
        )
    old, new = (gated_on(run, metric=wanted.metric, better=wanted.better) for run in runs)
    return (
        replace(against, run=old, reference=baseline, notes=notes),
        replace(found, run=new, reference=candidate),
    )


def _split(reference: str) -> tuple[str, Selection | None]:
    """Tell a run from the condition that is meant of it."""
    name, separator, test = reference.partition("::")
    if not separator or Path(reference).is_file():
        return reference, None
    return name, parse_selection(test)


def _position_notes(baseline: Run, candidate: Run) -> tuple[str, ...]:
    counted = any(case.positional for case in (*baseline.cases, *candidate.cases))
    if not counted or baseline.id == candidate.id:
        return ()
    return ("ids are made from positions: where the two runs hold other cases, give ids=",)
