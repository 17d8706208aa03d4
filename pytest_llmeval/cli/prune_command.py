"""``llmeval prune``: delete old runs, and replies that none needs any more."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import click

from pytest_llmeval.cli.arguments import Home, home_option
from pytest_llmeval.cli.cache_commands import days, has_replies, opened, replies_to_go, yes_option
from pytest_llmeval.cli.pages import echo, warn
from pytest_llmeval.reports.terminal import listing
from pytest_llmeval.runs.lookup.draws import draws_of_every_run
from pytest_llmeval.runs.lookup.pruning import needed_runs, runs_to_prune
from pytest_llmeval.runs.store import refuse_tracked


@click.command("prune")
@click.option("--older-than", "age", default="90d", metavar="DAYS", show_default=True,
              help="Delete runs that are older.")  # fmt: skip
@click.option("--dirty-older-than", "dirty", default="7d", metavar="DAYS", show_default=True,
              help="Runs that can be no baseline: dirty or incomplete.")  # fmt: skip
@click.option("--keep", "reference", metavar="REF",
              help="Keep what REF needs (default: origin's default branch, or main).")  # fmt: skip
@click.option("--replies", is_flag=True,
              help="Delete replies, too, if as old and no kept run needs them.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and stop.")
@yes_option
@home_option
def prune_command(
    home: Home,
    *,
    age: str,
    dirty: str,
    reference: str | None,
    replies: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete old runs; runs that can be no baseline go first.

    The newest run stays, and so does each run that a comparison with main may need, however old.
    Replies stay, too, unless you type --replies. Then those go that are as old as the deleted runs
    and that no kept run needs, whoever recorded it.
    """
    refuse_tracked(home.path, git=home.refs.git)
    now, whole = datetime.now(UTC), days(age, "--older-than")
    every = home.store.every()
    warn(*every.notes)
    planned = runs_to_prune(
        every.runs,
        before=now - whole,
        dirty_before=now - min(whole, days(dirty, "--dirty-older-than")),
        needed=needed_runs(reference, home.refs),
    )
    echo(listing.pruned_runs(planned))
    plan = None
    if replies and has_replies(home):
        kept = draws_of_every_run(home.store, besides={run.path for run in planned.going})
        plan = replies_to_go(home, now - whole, kept)
    if dry_run or not (planned.going or plan):
        return
    if not yes:
        click.confirm("Delete them for good?", abort=True)
    for run in planned.going:
        run.path.unlink(missing_ok=True)
        with suppress(OSError):  # others lie in it
            run.path.parent.rmdir()
    if plan is not None:
        with opened(home) as cache:
            cache.rewrite(plan)
