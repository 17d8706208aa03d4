"""``llmeval list`` and ``llmeval show``: what was recorded."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_llmeval.cli.common import echo, find_run
from pytest_llmeval.cli.home import directory_option, home_of
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports.commands.compared import listed, shown_lines
from pytest_llmeval.runs.store import RunStore
from pytest_llmeval.session import compared
from pytest_llmeval.settings import Settings


@click.command("list")
@directory_option
def list_runs(directory: Path | None) -> None:
    """List the recorded runs, newest first."""
    store = RunStore(home_of(directory))
    listing = store.every()
    for note in listing.notes:
        click.echo(f"warning: {note}", err=True)
    if not listing.runs:
        raise click.UsageError(f"no run is recorded in {store.folder}. Record one: pytest")
    echo(listed(stored.header for stored in listing.runs))


@click.command()
@click.argument("reference", metavar="RUN")
@directory_option
def show(reference: str, directory: Path | None) -> None:
    """Show the means, intervals and worst cases of what compare takes for B."""
    home = home_of(directory)
    run = find_run(reference, home=home).run
    settings = Settings(directory=home, session="")
    judged = compared(
        Judgement(settings=settings, run=run, not_gated="compare it: llmeval compare A B"), run
    )
    echo(line.text for line in shown_lines(judged, run))
