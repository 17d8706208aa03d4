"""``llmeval doctor``: what would make a suite better; ``selfcheck``, the figures behind it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import click

from pytest_llmeval.cli import arguments
from pytest_llmeval.cli.pages import echo, verbose_option, warn
from pytest_llmeval.errors import BaselineUnreadable, counted
from pytest_llmeval.gate.advice import Trouble, advise
from pytest_llmeval.gate.compare import compare_halves
from pytest_llmeval.gate.scoring import FunctionScores, scores_of
from pytest_llmeval.judgement import pricing
from pytest_llmeval.records import Run, only_cases
from pytest_llmeval.reports.doctor import Patient, advice_entries, advice_lines
from pytest_llmeval.reports.notation import case_count
from pytest_llmeval.reports.terminal.planning import Checked, selfcheck_lines
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.pooled import draws_again, unchanged_cases
from pytest_llmeval.runs.store import RunStore
from pytest_llmeval.settings import JSON, GateRules, dir_option, positive
from pytest_llmeval.stats.selfcheck import self_check

_MOST_ADVICE = 5
_MOST_EARLIER = 5  # runs
# such a run is no baseline
_AGAIN = (Trouble.DRIFTS, Trouble.FALSE_ALARMS)
RECORD_SOME = "Record some: {} --llm-repeats=5"


@click.command("doctor")
@click.argument("reference", metavar="[RUN]", default="last")
@arguments.rule("alpha", "How often it may fail by bad luck")
@arguments.ranged("target=D", positive, None, "The drop to find (default: as --llm-target)")
@arguments.report_option(JSON)
@click.option("--json", "as_json", is_flag=True, help="Print PATH.json instead of lines.")
@verbose_option
@arguments.function_option
@arguments.metric_options
@arguments.home_option
def doctor_command(
    reference: str,
    home: arguments.Home,
    *,
    alpha: float,
    target: float | None,
    reports: tuple[Path, ...],
    as_json: bool,
    verbose: bool,
    name: str | None,
    **typed: Any,
) -> None:
    """Say what would make a suite better, by one of its runs.

    At most five pieces of advice, the one that brings most first, each with a figure and the line
    to type. RUN is what compare takes for B; without it, the last run. With -v, the run compared
    with itself, too. Exit 1 if it should be recorded again: its scores drift, or there are more
    false alarms than --alpha allows.
    """
    found, checks = _checks(reference, home, name, alpha=alpha, typed=typed)
    functions = [checked.function for checked in checks]
    target = arguments.ini_value("target") if target is None else target
    rules = GateRules(alpha=alpha, target=target)
    before = [] if found.is_table else _before(home.store, found.run)
    pieces = advise(functions, [one.check for one in checks], rules, before=before)
    told = pieces[:_MOST_ADVICE]
    counts = (counted(case_count(found.run), "case"), counted(len(found.run.trials), "trial"))
    named = f"{found.named} ({', '.join(counts)})"
    words = (one.split(" ", 1) if one.startswith("-") else [one] for one in found.run.selection)
    patient = Patient(
        reference,
        named,
        found.is_table,
        pytest=home.pytest,
        selection=shlex.join(chain.from_iterable(words)),
        home=dir_option(home.typed),
    )
    text = json.dumps(advice_entries(told, patient), indent=2)
    if as_json:
        click.echo(text)
    else:
        echo(advice_lines(told, patient))
        echo(["", *selfcheck_lines(checks, alpha=alpha)] if verbose else [])
    for path in reports:
        path.write_text(f"{text}\n", encoding="utf-8")
    if any(piece.trouble in _AGAIN for piece in pieces):
        raise SystemExit(1)


@click.command("selfcheck", hidden=True)
@click.argument("reference", metavar="RUN")
@arguments.rule("alpha", "How often it may fail by bad luck")
@arguments.function_option
@arguments.metric_options
@arguments.home_option
def selfcheck_command(
    reference: str, home: arguments.Home, *, alpha: float, name: str | None, **typed: Any
) -> None:
    """Compare a run with itself to count false alarms, as doctor -v does.

    The trials of each case are dealt at random to two runs, again and again, and the two are
    compared. The first half of the trials is compared with the second, too. Exit 1 if there are
    more false alarms than --alpha allows, or if the scores drift. RUN is what compare takes for B.
    """
    found, checks = _checks(reference, home, name, alpha=alpha, typed=typed)
    click.echo(found.named)
    echo(selfcheck_lines(checks, alpha=alpha))
    if not any(checked.check for checked in checks):
        raise click.UsageError(
            "no case has two scored trials to deal. "
            + ("Add repeats to it" if found.is_table else RECORD_SOME.format(home.pytest))
        )
    if any(checked.cries_wolf(alpha) or checked.drifts for checked in checks):
        raise SystemExit(1)


def _checks(
    reference: str, home: arguments.Home, name: str | None, *, alpha: float, typed: dict[str, Any]
) -> tuple[Baseline, list[Checked]]:
    """Find a run, and compare each function of it with itself."""
    found = home.find_run(reference, **typed)
    warn(*found.notes)
    compared = compare_halves(found.run, alpha=alpha, cost_of=pricing({}))
    halves = {(half.function, half.metric): half for half in compared}
    return found, [
        Checked(
            function=function,
            check=self_check(function.gains, function.units, alpha=alpha),
            halves=halves.get((function.function, function.metric)),
        )
        for function in arguments.chosen(found.run, name)
    ]


def _before(store: RunStore, run: Run) -> Sequence[FunctionScores]:
    """Read the nearest earlier run that asked the same and got other draws; empty for none."""
    files = store.files()
    older = [run_id for run_id in sorted(files, reverse=True) if run_id < run.id]
    first = [run.compared_with] if run.compared_with in files else []
    for run_id in dict.fromkeys([*first, *older[:_MOST_EARLIER]]):
        with suppress(BaselineUnreadable):
            earlier = store.load(files[run_id])
            same = only_cases(earlier, unchanged_cases(run, earlier))
            if earlier.complete and draws_again(run, same):
                return scores_of(same, cost_of=pricing({}))
    return []
