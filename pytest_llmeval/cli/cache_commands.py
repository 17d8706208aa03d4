"""``llmeval cache`` and ``llmeval prune``: count, explain, carry and delete what is kept."""

from __future__ import annotations

import re
import shutil
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import click

from pytest_llmeval.cache.contents import Pruning, count_contents, plan_pruning
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.directory import refuse_link
from pytest_llmeval.cache.disk import DBNAME
from pytest_llmeval.cache.queries import Plan
from pytest_llmeval.cache.reply import TIME
from pytest_llmeval.cache.transfer import export, merge, read_export, read_folder
from pytest_llmeval.cache.why import explain_calls
from pytest_llmeval.cli.arguments import Home, home_option
from pytest_llmeval.cli.case_names import case_named, lowest
from pytest_llmeval.cli.pages import echo, warn
from pytest_llmeval.errors import CacheError
from pytest_llmeval.reports.terminal import listing
from pytest_llmeval.runs.lookup.standing import (
    draws_of_baselines,
    draws_of_every_run,
    needed_runs,
    runs_to_prune,
)
from pytest_llmeval.runs.store import refuse_tracked
from pytest_llmeval.safe_text import printable
from pytest_llmeval.transcripts.scan import scan_run

AGE = re.compile(r"(0|[1-9][0-9]{0,4})d", re.ASCII)


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group("cache")
def cache_command() -> None:
    """Count, explain, copy or delete the replies in the cache."""


@cache_command.command()
@home_option
def stats(home: Home) -> None:
    """Count requests, replies and bytes, by model and host."""
    with _opened(home) as store:
        echo(listing.contents(count_contents(store), home.path / "cache"))


@cache_command.command()
@click.argument("nodeid")
@click.option("--run", "reference", default="last", metavar="RUN", show_default=True,
              help="The run of that case, as for show.")  # fmt: skip
@home_option
def why(nodeid: str, reference: str, home: Home) -> None:
    """Say why calls of a case were paid for, or were not.

    NODEID is what show takes for CASE.
    """
    _check(home)
    found = home.find_run(reference)
    run, scanned = found.run, scan_run(found.path)
    nodeid = case_named(nodeid, [case.id for case in run.cases], partial(lowest, scanned))
    warn(*found.notes)
    calls = [call for trial in scanned.trials_of(nodeid)[nodeid] for call in trial.calls]
    echo([f"run {run.id}  {nodeid}", *([] if calls else ["it made no call"])])
    with _opened(home) as store:
        echo(listing.explanation(explain_calls(store, calls)))


@cache_command.command()
@click.option("--older-than", "age", required=True, metavar="DAYS", help="An age, such as 90d.")
@click.option(
    "--keep-baseline", "references", multiple=True, metavar="REF",
    help="Keep the replies of REF's run (default: of every recorded run); may be repeated.",
)  # fmt: skip
@yes_option
@home_option
def prune(age: str, references: tuple[str, ...], home: Home, *, yes: bool) -> None:
    """Delete old replies that no run needs.

    With --keep-baseline, those go that no named run needs.
    """
    before = datetime.now(UTC) - _days(age, "--older-than")
    _check(home)
    kept = (
        draws_of_baselines(references, home.refs) if references else draws_of_every_run(home.store)
    )
    plan = _replies_to_go(home, before, kept)
    if plan is not None:
        if not yes:
            click.confirm("Delete them for good?", abort=True)
        with _opened(home) as store:
            store.rewrite(plan)


def _replies_to_go(home: Home, before: datetime, kept: frozenset[str]) -> Plan[Pruning] | None:
    """Say which older replies would go, and how to delete them; None if none does.

    Args:
        home: has the replies.
        before: only older replies go.
        kept: ids of the draws that stay.
    """
    limit = before.strftime(TIME)
    plan = partial(plan_pruning, before=limit, kept=kept)
    with _opened(home) as store:
        planned = plan(store.rows())
    echo(listing.pruning(planned, before=limit))
    return plan if planned.replies else None


@cache_command.command("export")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False))
@home_option
def export_file(path: Path, home: Home) -> None:
    """Write all replies to a file.

    FILE is new and ends in .jsonl or .jsonl.gz. It has all requests and replies in plain text.
    """
    with _opened(home) as store:
        echo([listing.exported(export(store, path), path)])


@cache_command.command("import")
@click.argument("path", metavar="PATH", type=click.Path(path_type=Path))
@home_option
def import_file(path: Path, home: Home) -> None:
    """Add the replies of a file or folder.

    PATH is a file that export wrote, or a folder such as .llmeval; an empty one has none. No reply
    that is here already is changed.
    """
    is_folder = path.is_dir()
    foreign = read_folder(path, warn=warn) if is_folder else read_export(path)
    if is_folder and not foreign:
        echo([f"no replies are kept in {path}: nothing was imported"])
        return
    if not is_folder:  # a job joins folders where it may have none of its own yet
        _check(home, must_exist=False)
    with closing(Store(home.path, warn=warn)) as store:
        done = store.rewrite(partial(merge, foreign=foreign))
    echo([listing.merged_file(done, path)])


@cache_command.command()
@yes_option
@home_option
def clear(home: Home, *, yes: bool) -> None:
    """Delete all replies, also those that recorded runs need.

    The runs stay. To run them once more costs the full price.
    """
    _check(home)
    folder = home.path / "cache"
    refuse_link(folder)
    size = listing.size((folder / DBNAME).stat().st_size)
    if not yes:
        click.confirm(printable(f"Delete every reply in {folder} ({size}) for good?"), abort=True)
    try:
        with _opened(home) as store:
            store.clear()
    except CacheError:  # on a full disk, say, where no session can store anything either
        shutil.rmtree(folder)
    echo([f"every reply in {folder} was deleted"])


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
    now, whole = datetime.now(UTC), _days(age, "--older-than")
    every = home.store.every()
    warn(*every.notes)
    planned = runs_to_prune(
        every.runs,
        before=now - whole,
        dirty_before=now - min(whole, _days(dirty, "--dirty-older-than")),
        needed=needed_runs(reference, home.refs),
    )
    echo(listing.pruned_runs(planned))
    plan = None
    if replies and _has_replies(home):
        kept = draws_of_every_run(home.store, besides={run.path for run in planned.going})
        plan = _replies_to_go(home, now - whole, kept)
    if dry_run or not (planned.going or plan):
        return
    if not yes:
        click.confirm("Delete them for good?", abort=True)
    for run in planned.going:
        run.path.unlink(missing_ok=True)
        with suppress(OSError):  # others lie in it
            run.path.parent.rmdir()
    if plan is not None:
        with _opened(home) as cache:
            cache.rewrite(plan)


def _has_replies(home: Home) -> bool:
    return bool((home.path / "cache" / DBNAME).is_file())


def _check(home: Home, *, must_exist: bool = True) -> None:
    """Refuse a folder without replies."""
    path = home.path
    if home.named is None and not path.is_dir():
        raise click.UsageError(
            f"no {path.name} in {path.parent}. Name it with --dir, or run pytest"
        )
    if must_exist and not _has_replies(home):
        shown = home.named or path
        raise click.UsageError(f"no replies are kept in {shown}. Name another one with --dir")


def _opened(home: Home) -> closing[Store]:
    """Open the replies of a folder that has some."""
    _check(home)
    return closing(Store(home.path, warn=warn))


def _days(age: str, option: str) -> timedelta:
    """Read a number of days.

    Raises:
        click.UsageError: it is none.
    """
    match = AGE.fullmatch(age)
    if match is None:
        raise click.UsageError(f"{option}={age}: write a number of days, such as 90d")
    return timedelta(days=int(match[1]))
