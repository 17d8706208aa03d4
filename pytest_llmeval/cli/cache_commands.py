"""``llmeval cache``: look into the replies that were paid for, carry and prune them."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
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
from pytest_llmeval.runs.lookup.draws import draws_of_baselines, draws_of_every_run
from pytest_llmeval.runs.store import refuse_tracked
from pytest_llmeval.safe_text import printable
from pytest_llmeval.settings import DIRECTORY
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
    with opened(home) as store:
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
    with opened(home) as store:
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
    before = datetime.now(UTC) - days(age, "--older-than")
    _check(home)
    kept = (
        draws_of_baselines(references, home.refs) if references else draws_of_every_run(home.store)
    )
    plan = replies_to_go(home, before, kept)
    if plan is not None:
        if not yes:
            click.confirm("Delete them for good?", abort=True)
        with opened(home) as store:
            store.rewrite(plan)


def replies_to_go(home: Home, before: datetime, kept: frozenset[str]) -> Plan[Pruning] | None:
    """Say which older replies would go, and how to delete them; None if none does.

    Args:
        home: has the replies.
        before: only older replies go.
        kept: ids of the draws that stay.
    """
    limit = before.strftime(TIME)
    plan = partial(plan_pruning, before=limit, kept=kept)
    with opened(home) as store:
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
    with opened(home) as store:
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
    if is_folder:  # a job may have moved it away from where it was checked out
        refuse_tracked(home.path, path, Path(DIRECTORY), git=home.refs.git)
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
        with opened(home) as store:
            store.clear()
    except CacheError:  # on a full disk, say, where no session can store anything either
        shutil.rmtree(folder)
    echo([f"every reply in {folder} was deleted"])


def has_replies(home: Home) -> bool:
    """Tell whether a folder has a cache of replies."""
    return bool((home.path / "cache" / DBNAME).is_file())


def _check(home: Home, *, must_exist: bool = True) -> None:
    """Refuse a folder without replies."""
    path = home.path
    if home.named is None and not path.is_dir():
        raise click.UsageError(
            f"no {path.name} in {path.parent}. Name it with --dir, or run pytest"
        )
    if must_exist and not has_replies(home):
        shown = home.named or path
        raise click.UsageError(f"no replies are kept in {shown}. Name another one with --dir")


def opened(home: Home) -> closing[Store]:
    """Open the replies of a folder that has some."""
    _check(home)
    return closing(Store(home.path, warn=warn))


def days(age: str, option: str) -> timedelta:
    """Read a number of days.

    Raises:
        click.UsageError: it is none.
    """
    match = AGE.fullmatch(age)
    if match is None:
        raise click.UsageError(f"{option}={age}: write days with a d, such as 90d")
    return timedelta(days=int(match[1]))
