"""``llmeval history``: how the means of test functions went over commits."""

from __future__ import annotations

import json

import click

from pytest_llmeval import checks
from pytest_llmeval.cli.arguments import Home, home_option, ranged
from pytest_llmeval.cli.pages import echo_lines, page_of_output
from pytest_llmeval.gate.describe import history_of
from pytest_llmeval.judgement import pricing
from pytest_llmeval.reports.html.charts import history_charts
from pytest_llmeval.reports.html.rendering import render_charts
from pytest_llmeval.reports.terminal.commands.listing import history_entries, history_lines
from pytest_llmeval.runs.lookup.for_commands import newest_runs
from pytest_llmeval.safe_text import printable
from pytest_llmeval.settings import GateRules

_LIMIT = 20


@click.command("history")
@click.argument("function", required=False)
@click.option("--branch", metavar="NAME", help="Only the runs of this branch.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", default=_LIMIT, show_default=True,
    help="The N newest commits.",
)  # fmt: skip
@ranged("alpha", checks.alpha, GateRules().alpha, "What may lie beyond each end of an interval")
@click.option("--json", "form", flag_value="json", help="Write a JSON list.")
@click.option("--html", "form", flag_value="html", help="Write a page with plots.")
@home_option
def history_command(
    function: str | None,
    home: Home,
    *,
    branch: str | None,
    limit: int,
    alpha: float,
    form: str | None,
) -> None:
    """Show the means of test functions over commits, with their intervals, oldest first.

    The newest complete run of each commit counts, and that of changes to it (*). FUNCTION is a
    part of a name. Cases are not paired here: whether a change made it worse compare says.
    """
    runs, notes = newest_runs(home.store, branch=branch, most=limit)
    for note in notes:
        click.echo(f"warning: {printable(note)}", err=True)
    if not runs:
        of = "" if branch is None else f" of {branch}"
        raise click.UsageError(
            f"no complete run{of} is recorded in {home.store.folder}. Record one: pytest"
        )
    history = {
        name: points
        for name, points in history_of(runs, alpha=alpha, cost_of=pricing({})).items()
        if function is None or function in name[0]
    }
    if not history:
        raise click.UsageError(f"{function}: no test function has that in its name")
    level = f"{1 - 2 * alpha:.0%}"
    if form == "json":
        click.echo(json.dumps(history_entries(history), indent=2))
    elif form == "html":
        hint = f"Lines are the {level} intervals of the means, for cases like these."
        click.echo(render_charts("Means over commits", hint, history_charts(history)), nl=False)
    else:
        page = page_of_output()
        echo_lines(page.fitted(history_lines(history, page)))
        click.echo(f"\ninterval: {level}, the mean of cases like these")
