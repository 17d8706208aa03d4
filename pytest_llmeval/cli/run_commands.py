"""``llmeval list``, ``show``, ``history``, ``compare``: recorded runs."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import click

from pytest_llmeval import settings
from pytest_llmeval.cli import arguments, pages
from pytest_llmeval.cli.case_names import functions_named, is_named
from pytest_llmeval.cli.reading_commands import full_option, show_case
from pytest_llmeval.errors import BaselineError
from pytest_llmeval.gate.describe import History, history_of
from pytest_llmeval.judgement import Judgement, pricing
from pytest_llmeval.judging import judged
from pytest_llmeval.records import Run
from pytest_llmeval.reports.html.plots import history_charts
from pytest_llmeval.reports.html.rendering import render_charts
from pytest_llmeval.reports.json_report import history_entries, run_entry
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.notation import percent
from pytest_llmeval.reports.reasons import in_words_of_compare
from pytest_llmeval.reports.report_files import report_text
from pytest_llmeval.reports.terminal.listing import history_lines, listed_runs, mixed_branches
from pytest_llmeval.reports.terminal.section import compared_lines, shown_lines
from pytest_llmeval.runs.directions import Directions
from pytest_llmeval.runs.lookup.best_run import peculiarities
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.lookup.standing import newest_runs
from pytest_llmeval.runs.lookup.wanted_commit import without_prefix
from pytest_llmeval.runs.reshaping import under_new_names

SHOWN = ("html_mb", "show_texts")  # settings of reports
TEST_OR_AUTO = settings.choice_of(Literal["auto", settings.AnyTest])
NO_GATE = "{} is no test for a gate: docs/statistics.md tells when it is valid"


@click.command("list")
@click.option("--branch", metavar="NAME", help="Only the runs of this branch.")
@click.option("--complete", is_flag=True, help="Only complete runs.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the N newest.")
@click.option("--json", "as_json", is_flag=True, help="Write a JSON list.")
@arguments.home_option
def list_command(
    home: arguments.Home, *, branch: str | None, complete: bool, limit: int | None, as_json: bool
) -> None:
    """List the recorded runs, newest first."""
    listing = home.store.every()
    pages.warn(*listing.notes)
    if not listing.runs and not as_json:
        where = home.store.folder
        raise click.UsageError(f"no run is recorded in {where}. Record one: {home.pytest}")
    headers = [stored.header for stored in listing.runs]
    headers = [one for one in headers if branch is None or one.run.ref == without_prefix(branch)]
    headers = [one for one in headers if one.run.complete or not complete][:limit]
    if as_json:
        click.echo(json.dumps(list(map(run_entry, headers)), indent=2))
    elif headers:
        page = pages.page_of_output()
        pages.echo_lines(page.fitted(listed_runs(headers, page)))
    else:
        click.echo(f"none of {len(listing.runs)} recorded runs is such a one", err=True)


@click.command("show")
@click.argument("reference", metavar="[RUN]", default="last")
@click.argument("case", metavar="[CASE]", required=False)
@arguments.report_option(settings.HTML, settings.MARKDOWN, settings.JSON)
@pages.verbose_option
@full_option
@arguments.metric_options
@arguments.home_option
def show_command(
    reference: str,
    case: str | None,
    home: arguments.Home,
    *,
    reports: tuple[Path, ...],
    verbose: bool,
    full: bool,
    **typed: Any,
) -> None:
    """Show the means and worst cases of a run, or one case's replies.

    RUN is what compare takes; without it, the last run. With CASE, a node id or a part of one that
    no other case has, show the requests and replies of that case. Of a test function, show its
    worst case. A whole name or id without a RUN is of the last run.
    """
    if case is None:
        try:
            found = home.find_run(reference, **typed)
        except BaselineError:
            if not _is_of_last(home, reference):
                raise
            reference, case = "last", reference
    if case is not None:
        if reports:
            raise click.UsageError("a report is about a whole run: leave CASE out")
        show_case(reference, case, home, full=full)
        return
    if reports and found.is_table:
        raise click.UsageError("a score table alone makes no report: compare it with another one")
    odd = peculiarities(found.run, trials=len(found.run.trials))
    below = {f"{reference} is {one}" for one in odd}  # the run's own notes say it
    pages.warn(*(note for note in found.notes if note not in below))
    asked = _asked(home)
    other, shown = found.run.compared_with or "OTHER", shlex.quote(reference)
    shown += settings.dir_option(home.typed)
    why = (
        f"llmeval show compares nothing. To compare the run, type  llmeval compare {other} {shown}"
    )
    planned = Judgement(settings=asked, not_gated=why)
    judgement, page = judged(planned, found.run), pages.page_of_output(verbose=verbose)
    report = make_report(judgement)
    pages.echo_lines(shown_lines(report, judgement, found, page))
    if not pages.write_files(report, reports, judgement):
        raise SystemExit(1)


def _is_of_last(home: arguments.Home, name: str) -> bool:
    """Whether the last run has a case or a function of that name."""
    try:
        run = home.find_run("last").run
    except BaselineError:
        return False
    return is_named(name, (case.id for case in run.cases))


@click.command("history")
@click.argument("function", required=False)
@click.option("--branch", metavar="NAME", help="Only the runs of this branch.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", default=20, show_default=True,
    help="Only the N newest commits.",
)  # fmt: skip
@arguments.rule("alpha", "The share of means that may lie beyond each end of an interval")
@arguments.report_option(settings.HTML, settings.JSON)
@click.option("--json", "form", flag_value=settings.JSON, help="Print PATH.json instead of lines.")
@click.option("--html", "form", flag_value=settings.HTML, hidden=True)  # until 1.0
@arguments.home_option
def history_command(
    function: str | None,
    home: arguments.Home,
    *,
    branch: str | None,
    limit: int,
    alpha: float,
    reports: tuple[Path, ...],
    form: str | None,
) -> None:
    """Show the means of test functions over commits.

    The oldest commit comes first. Of each commit, the newest run that has all cases of a
    function counts, and the newest one with uncommitted changes, which has a star. FUNCTION is
    a name, or a part of one of functions or cases, after llm_renamed of the ini file. Cases are not
    paired here: to learn whether a change made them worse, type llmeval compare.
    """
    history = _history(function, home, branch=branch, limit=limit, alpha=alpha)
    level = percent(1 - 2 * alpha)
    hint = f"Lines are the {level} intervals of the means, for other cases like these."
    hint = f"{hint} {mixed_branches(history)}".strip()
    forms = {
        settings.HTML: lambda: render_charts("Means over commits", hint, history_charts(history)),
        settings.JSON: lambda: json.dumps(history_entries(history), indent=2) + "\n",
    }
    if form is not None:
        click.echo(forms[form](), nl=False)
    else:
        page = pages.page_of_output()
        pages.echo_lines(page.fitted(history_lines(history, page, level=level)))
    for path in reports:
        path.write_text(forms[path.suffix](), encoding="utf-8")


def _asked(home: arguments.Home, **more: Any) -> settings.Settings:
    """Return what the user wants to be judged and shown."""
    shown = arguments.ini_settings(*SHOWN)
    return settings.Settings(
        session="", directory=home.path, typed_directory=home.typed, **shown, **more
    )


def _history(
    function: str | None, home: arguments.Home, *, branch: str | None, limit: int, alpha: float
) -> History:
    own = None if branch is None else without_prefix(branch)
    runs, notes = newest_runs(home.store, branch=own, most=limit)
    pages.warn(*notes)
    if not runs:
        of = "" if branch is None else f" of {branch}"
        raise click.UsageError(
            f"no complete run{of} is recorded in {home.store.folder}. Record one: {home.pytest}"
        )
    found = (Baseline(run=run, path=home.path, reference=run.id, how="run id") for run in runs)
    renames = arguments.ini_value("renamed")
    runs = [under_new_names(each, renames).run for each in found]
    like = functions_named(function or "", (case.id for run in runs for case in run.cases))
    history = {
        name: points
        for name, points in history_of(runs, alpha=alpha, cost_of=pricing({})).items()
        if name[0] in like
    }
    if not history:
        raise click.UsageError(f"{function}: no test function has that in its name")
    return history


@click.command("compare")
@click.argument("baseline", metavar="A")
@click.argument("candidate", metavar="B")
@arguments.report_option(settings.HTML, settings.MARKDOWN, settings.JSON)
@click.option("--json", "form", flag_value=settings.JSON, help="Print PATH.json instead of lines.")
@click.option("--markdown", "form", flag_value=settings.MARKDOWN, hidden=True)  # until 1.0
@click.option("--html", "form", flag_value=settings.HTML, hidden=True)  # likewise
@arguments.rule("alpha", "How often it may fail by bad luck")
@arguments.rule("margin", "Ignore drops up to this")
@arguments.rule("target", "The smallest drop that you care about")
@arguments.rule("max-gone", "Which share of A's cases B may lack")
@arguments.ranged(
    "max-errored=SHARE", settings.share, None, "Tables: which share of trials may have no score"
)
@click.option("--strict", is_flag=True, help="Fail also if it is inconclusive or not judged.")
@arguments.metric_options
@arguments.ranged(
    "test=NAME", TEST_OR_AUTO, "auto", "A test of docs/statistics.md (default: auto, paired-t)"
)
@pages.verbose_option
@arguments.home_option
def compare_command(
    baseline: str,
    candidate: str,
    home: arguments.Home,
    *,
    reports: tuple[Path, ...],
    form: str | None,
    metric: str | None,
    better: Directions,
    max_errored: float | None,
    verbose: bool,
    **typed: Any,
) -> None:
    """Compare two recorded runs.

    A is the baseline. Exit 1 if B is worse, as a session would. A and B are runs (last, a run id,
    a run file, a branch, tag or commit), two conditions of runs (RUN::test[a] RUN::test[b]), or
    score tables (.csv or .jsonl, also .gz, with case_id, repeat and score; FILE::CONDITION picks
    rows by the column condition).
    """
    if typed["test"] == "auto":
        typed["test"] = settings.GateRules().test
    rules = settings.GateRules(**typed)
    is_typed = rules.target != settings.GateRules().target
    settings.check_rules(rules, is_typed=is_typed, prefix="--")
    old, new = home.find_pair(
        baseline, candidate, metric=metric, better=better, max_errored=max_errored
    )
    if rules.test in get_args(settings.FixedTest):
        old = replace(old, notes=(*old.notes, NO_GATE.format(rules.test)))
    rules = settings.GateRules(**typed, **_own_rules(new.run))
    asked = _asked(home, baseline=baseline, gate=rules)
    judgement = in_words_of_compare(judged(Judgement(settings=asked, baseline=old), new.run))
    report = make_report(judgement)
    if form is not None:
        click.echo(report_text(report, form, judgement), nl=False)
    else:
        pages.echo_lines(
            compared_lines(report, judgement, new, pages.page_of_output(verbose=verbose))
        )
    is_written = pages.write_files(report, reports, judgement)
    if judgement.fails or not is_written:
        raise SystemExit(1)


def _own_rules(run: Run) -> dict[str, Any]:
    """Return the lines on its own cases in the ini file of a run's session."""
    recorded = {name: run.rules.get(name) for name in ("accept_gone", "accept")}
    lines = {name: each for name, each in recorded.items() if isinstance(each, tuple)}
    return lines | ({"edited": "compare"} if run.rules.get("edited") == "compare" else {})
