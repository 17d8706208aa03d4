"""``llmeval cache``: look into the replies that were paid for, carry and prune them."""

from __future__ import annotations

import difflib
import re
import shutil
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import click

from pytest_llmeval.cache.contents import count_contents, plan_pruning
from pytest_llmeval.cache.directory import refuse_link
from pytest_llmeval.cache.disk import DBNAME
from pytest_llmeval.cache.explain import explain_calls
from pytest_llmeval.cache.reply import TIME
from pytest_llmeval.cache.store import Store
from pytest_llmeval.cache.transfer import export, merge, read_export
from pytest_llmeval.cli.common import echo, refs_in
from pytest_llmeval.cli.home import directory_option, home_of
from pytest_llmeval.errors import CacheError
from pytest_llmeval.records import Run, Trial
from pytest_llmeval.reports import cached
from pytest_llmeval.runs.lookup.for_commands import (
    draws_of_baselines,
    draws_of_every_run,
    run_named,
)
from pytest_llmeval.runs.store import RunStore

AGE = re.compile(r"([1-9][0-9]{0,4})d", re.ASCII)


@click.group()
def cache() -> None:
    """Look into the replies that were paid for, and carry, prune or clear them."""


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
file_argument = click.argument(
    "path", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False)
)


@cache.command()
@directory_option
def stats(directory: Path | None) -> None:
    """Count requests, draws, generations and bytes, by model and host."""
    home = _home(directory)
    with _opened(home) as store:
        echo(cached.contents(count_contents(store), home / "cache"))


@cache.command()
@click.argument("nodeid")
@click.option("--run", "reference", default="last", metavar="RUN", show_default=True,
              help="A run file, a run id, or last.")  # fmt: skip
@directory_option
def why(nodeid: str, reference: str, directory: Path | None) -> None:
    """Say which calls of a recorded case were replayed, and why others were asked anew."""
    home = _home(directory)
    run = run_named(reference, refs_in(home))
    calls = [call for trial in _trials_of(run, nodeid) for call in trial.calls]
    click.echo(f"run {run.id}  {nodeid}")
    if not calls:
        click.echo("it made no call")
    with _opened(home) as store:
        echo(cached.explanation(explain_calls(store, calls)))


@cache.command()
@click.option("--older-than", "age", required=True, metavar="DAYS", help="Such as 90d.")
@click.option(
    "--keep-baseline", "references", multiple=True, metavar="REF",
    help="Keep the draws of these baselines alone; else those of every recorded run. Repeatable.",
)  # fmt: skip
@yes_option
@directory_option
def prune(age: str, references: tuple[str, ...], directory: Path | None, *, yes: bool) -> None:
    """Delete replies that are old and that no run which is kept needs."""
    before = (datetime.now(UTC) - _days(age)).strftime(TIME)
    home = _home(directory)
    if references:
        kept = draws_of_baselines(references, refs_in(home))
    else:
        kept = draws_of_every_run(RunStore(home))
    plan = partial(plan_pruning, before=before, kept=kept)
    with _opened(home) as store:
        planned = plan(store.rows())
        echo(cached.pruning(planned, before=before))
        if not planned.replies:
            return
        if not yes:
            click.confirm("Delete them for good?", abort=True)
        store.rewrite(plan)


@cache.command("export")
@file_argument
@directory_option
def export_file(path: Path, directory: Path | None) -> None:
    """Write all replies to a new FILE.jsonl or FILE.jsonl.gz; it holds what was asked and said."""
    with _opened(_home(directory)) as store:
        click.echo(cached.exported(export(store, path), path))


@cache.command("import")
@file_argument
@directory_option
def import_file(path: Path, directory: Path | None) -> None:
    """Take in the replies of a FILE that export wrote; none that is here is changed."""
    foreign = read_export(path)
    with _opened(_home(directory, must_exist=False)) as store:
        done = store.rewrite(partial(merge, foreign=foreign))
    click.echo(cached.merged(done, path))


@cache.command()
@yes_option
@directory_option
def clear(directory: Path | None, *, yes: bool) -> None:
    """Delete all replies; runs are kept, but can no longer be replayed."""
    folder = _home(directory) / "cache"
    refuse_link(folder)
    size = cached.size((folder / DBNAME).stat().st_size)
    if not yes:
        click.confirm(f"Delete every reply in {folder} ({size}) for good?", abort=True)
    try:
        with _opened(folder.parent) as store:
            store.clear()
    except CacheError:  # on a full disk, say, where no session can store anything either
        shutil.rmtree(folder)
    click.echo(f"every reply in {folder} was deleted")


def _home(given: Path | None, *, must_exist: bool = True) -> Path:
    """Find the directory that sessions know as --llm-dir."""
    home = home_of(given)
    if given is None and not home.is_dir():
        raise click.UsageError(
            f"no {home.name} in {home.parent}. Name it with --dir, or run pytest"
        )
    if must_exist and not (home / "cache" / DBNAME).is_file():
        raise click.UsageError(
            f"no replies are kept in {given or home}. Name another one with --dir"
        )
    return home


def _opened(home: Path) -> closing[Store]:
    return closing(Store(home, warn=lambda text: click.echo(f"warning: {text}", err=True)))


def _trials_of(run: Run, nodeid: str) -> list[Trial]:
    cases = [case.id for case in run.cases]
    if nodeid not in cases:
        like = difflib.get_close_matches(nodeid, cases, n=3, cutoff=0.4)
        hint = f" Did you mean: {', '.join(like)}" if like else ""
        raise click.UsageError(f"run {run.id} has no case {nodeid!r}.{hint}")
    return [trial for trial in run.trials if trial.case == nodeid]


def _days(age: str) -> timedelta:
    match = AGE.fullmatch(age)
    if match is None:
        raise click.UsageError(f"--older-than={age}: write a number of days, such as 90d")
    return timedelta(days=int(match[1]))
