"""``llmeval plan``: the drops that so many cases and repeats find."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from pytest_llmeval.cli import arguments
from pytest_llmeval.cli.pages import echo, warn
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.gate.advice import components_at
from pytest_llmeval.gate.compare import changed_cases
from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.judgement import pricing
from pytest_llmeval.records import Run
from pytest_llmeval.reports.html.plots import plan_charts
from pytest_llmeval.reports.html.rendering import render_charts
from pytest_llmeval.reports.notation import decimals, label
from pytest_llmeval.reports.remarks import note_on_scale
from pytest_llmeval.reports.terminal.planning import PlannedFunction
from pytest_llmeval.reports.terminal.tables import odd_trials
from pytest_llmeval.runs.directions import Directions
from pytest_llmeval.runs.lookup.for_commands import find_candidate
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import HTML, chance, positive, share
from pytest_llmeval.stats import suite_size
from pytest_llmeval.stats.early_looks import expected_repeats
from pytest_llmeval.stats.sample import CaseScores
from pytest_llmeval.transcripts.scan import HeaderStore

# by function and metric
ChangedCases = Mapping[tuple[str, str], tuple[CaseScores, ...]]

CASES, REPEATS = 100, 5
RECORD_MORE, ADD_ROWS = "Record with more: {} --llm-repeats=5", "Add rows of more repeats"

whole = click.IntRange(min=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The suite to plan, as it was typed, None where nothing was; ``is_typed`` of the drop."""

    drop: float
    power: float
    alpha: float
    cases: int | None
    repeats: int | None
    baseline_repeats: int | None
    is_typed: bool

    def plan(
        self, components: suite_size.Components, *, drop: float, cases: int, repeats: int
    ) -> suite_size.Plan:
        """Plan the suite that was typed, with so many cases and repeats where none were."""
        design = suite_size.Design(
            cases=self.cases or cases,
            baseline=self.baseline_repeats or repeats,
            current=self.repeats or repeats,
            components=components,
            alpha=self.alpha,
        )
        return suite_size.plan(design, drop=drop, power=self.power)


@click.command("plan")
@click.argument("reference", metavar="[RUN]", required=False)
@arguments.ranged(
    "drop=D", positive, None, "The drop of the mean to find (default: as --llm-target)"
)
@arguments.ranged("power=SHARE", chance, 0.80, "How often it should be found")
@arguments.rule("alpha", "How often a build may fail by bad luck")
@click.option("--cases", type=whole, metavar="N", help="How many cases (default: as the run).")
@click.option("--repeats", type=whole, metavar="N", help="Of each case (default: as the run).")
@click.option("--baseline-repeats", type=whole, metavar="N", help="On the baseline's side.")
@click.option(
    "--rates", metavar="P,P,...",
    help="Without a run: pass rates that you expect, each in an equal share of the cases.",
)  # fmt: skip
@click.option(
    "--like", metavar="BRANCH",
    help="A changed run: plan for changes that help some cases and hurt others, as it did.",
)  # fmt: skip
@arguments.report_option(HTML)
@click.option("--html", "as_html", is_flag=True, hidden=True)  # to standard output, until 1.0
@arguments.function_option
@arguments.metric_options
@arguments.home_option
def plan_command(
    reference: str | None,
    home: arguments.Home,
    *,
    metric: str | None,
    better: Directions,
    rates: str | None,
    like: str | None,
    name: str | None,
    reports: tuple[Path, ...],
    as_html: bool,
    **typed: Any,
) -> None:
    """Say how many cases and repeats it takes to find a drop.

    The figures are those of RUN (what compare takes for B), or of --rates before there is a run.
    Without both they are those of the baseline of the last run, or of that run itself. One run
    cannot show whether a change helps some cases and hurts others: the plan takes all to change
    alike. With --like BRANCH, RUN and BRANCH are the A and B of compare.
    """
    is_typed = typed["drop"] is not None
    if not is_typed:
        typed["drop"] = arguments.ini_value("target")
    wanted = _Wanted(is_typed=is_typed, **typed)
    if rates is not None:
        if any((reference, name, like, metric, better)):
            raise click.UsageError(
                "--rates stands for a run: leave RUN, --like, --function, --metric, --better out"
            )
        _show([_assumed(_rates(rates), wanted)], reports, as_html=as_html)
        return
    found, changed = _runs(reference, like=like, home=home, metric=metric, better=better)
    run, record = found.run, ADD_ROWS if found.is_table else RECORD_MORE.format(home.pytest)
    functions = arguments.chosen(run, name)
    if len(functions) == 1 and functions[0].are_hits and functions[0].samples:
        _check_drop(wanted.drop, _mean(functions[0].gains))
    acted = None if changed is None else changed_cases(run, changed, cost_of=pricing({}))
    planned = [_recorded(function, wanted, acted, record=record) for function in functions]
    _show(planned, reports, as_html=as_html, heading=found.named)


def _show(
    planned: Sequence[PlannedFunction | str],
    reports: Sequence[Path],
    *,
    as_html: bool,
    heading: str = "",
) -> None:
    """Write plans, or why a function has none, as lines or as a page, and files of the page."""
    more = f"each of {len(planned)} is planned by itself; judged together they need more"
    if not as_html:
        echo([heading] if heading else [])
        for one in planned:
            echo([one] if isinstance(one, str) else one.lines())
        echo([more] if len(planned) > 1 else [])
    if not (as_html or reports):
        return
    plans = [one for one in planned if isinstance(one, PlannedFunction)]
    hints = [one for one in planned if isinstance(one, str)] + ([more] if plans[1:] else [])
    hints += [note for one in plans for note in one.notes]
    charts = [chart for one in plans for chart in plan_charts(one.name, one.plan)]
    page = render_charts("What this suite finds", ". ".join(hints), charts)
    for path in reports:
        path.write_text(page, encoding="utf-8")
    if as_html:
        click.echo(page, nl=False)


def _runs(
    reference: str | None, *, like: str | None, home: arguments.Home, **typed: Any
) -> tuple[Baseline, Run | None]:
    """Find the run to plan with, and the one that shows the effect of a change."""
    if reference is None and not home.store.files():
        raise click.UsageError(
            f"last: no run in {home.store.folder}. Record one: {home.pytest}. Or plan before "
            "there is one, from assumed pass rates: llmeval plan --rates 0.5,0.9"
        )
    if like is None:
        if reference is None:  # a plan is made for a change to what the last run was compared with
            last = find_candidate("last", home.refs_of(HeaderStore(home.path))).run.compared_with
            reference = last if last and home.store.by_id(last) else "last"
        found = home.find_run(reference, **typed)
        warn(*found.notes)
        return found, None
    old, new = home.find_pair(reference or "last", like, **typed)
    echo(f"note: {note}" for note in (*old.notes, *new.notes))
    return old, new.run


def _assumed(rates: list[float], wanted: _Wanted) -> PlannedFunction:
    mean = sum(rates) / len(rates)
    _check_drop(wanted.drop, mean)
    components = suite_size.assumed_components(rates, suite_size.fallen(rates, wanted.drop))
    repeats = wanted.repeats or REPEATS
    made = wanted.plan(components, drop=wanted.drop, cases=CASES, repeats=repeats)
    return PlannedFunction(
        plan=made, name="assumed rates", mean=mean, calls=0.0, sign=-1, early=_early(made)
    )


def _early(made: suite_size.Plan, *, log: bool = False) -> tuple[float, float] | None:
    """Return how many repeats early looks leave on average: after the drop, and without one."""
    design, target = made.design, arguments.ini_value("target")
    if not (arguments.ini_value("sequential") and design.standard_error):
        return None
    after, without = (
        expected_repeats(
            lambda repeats: replace(design, current=repeats).standard_error,
            repeats=int(design.current),
            baseline=design.baseline,
            drop=drop,
            target=math.log1p(target) if log else target,
            alpha=design.alpha,
        )
        for drop in (made.drop, 0.0)
    )
    return after, without


def _recorded(
    function: FunctionScores, wanted: _Wanted, acted: ChangedCases | None, *, record: str
) -> PlannedFunction | str:
    """Plan for a recorded function; return a text that says why not, if it is impossible."""
    name, log, cases = label(function), function.compares_ratios, len(function.samples)
    drop = math.log1p(wanted.drop) if log else wanted.drop
    found = _components(function, drop, acted)
    if isinstance(found, str):
        return f"{name}: {found}"
    if found is None:
        return f"{name}: planning needs two cases and repeats of them. {record}"
    odd, note = odd_trials(function.counts()), ""
    if not (wanted.is_typed or log):
        samples, typed = function.samples, "--drop (that of compare by --target)"
        note = note_on_scale(function.metric, samples, name="drop", drop=drop, typed=typed)
    made = wanted.plan(found, drop=drop, cases=cases, repeats=function.planned)
    return PlannedFunction(
        plan=made,
        early=_early(made, log=log),
        name=name,
        mean=math.exp(-_mean(function.gains)) if log else _mean(function.samples),
        calls=function.calls,
        sign=-1 if function.better == "higher" else 1,
        log=log,
        alike=acted is None,
        tied=(cases, function.independent),
        notes=tuple(filter(None, (note, odd and f"of its trials {odd}"))),
    )


def _components(
    function: FunctionScores, drop: float, acted: ChangedCases | None
) -> suite_size.Components | str | None:
    """Estimate the variance of the scores; say why not, if impossible; None for few repeats."""
    if not function.samples:
        return "no trial has a score"
    mean = _mean(function.gains)
    if function.are_hits and drop >= mean:
        return f"its mean pass rate, {decimals(mean)}, cannot fall by {drop:g}"
    if acted is None:
        return components_at(function, drop)
    cases = acted.get((function.function, function.metric), ())
    if not cases:
        return "--like: no case of it is on both sides with other replies"
    return suite_size.estimated_components(cases)


def _mean(samples: Sequence[Sequence[float]]) -> float:
    return sum(sum(sample) / len(sample) for sample in samples) / len(samples)


def _rates(text: str) -> list[float]:
    try:
        return [share(part.strip()) for part in text.split(",")]
    except ValueError as exc:
        raise SettingsError(f"--rates={text}: each {exc}; as in --rates=0.15,0.5,0.9") from None


def _check_drop(drop: float, mean: float) -> None:
    if drop >= mean:
        raise SettingsError(
            f"--drop={drop:g}: must be below the mean pass rate, {decimals(mean)}, "
            f"which cannot fall by as much. Ask for a smaller one, as in --drop={mean / 2:.2g}"
            if mean
            else f"--drop={drop:g}: the mean pass rate is 0, and cannot fall"
        )
