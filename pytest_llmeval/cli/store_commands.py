"""``llmeval push`` and ``llmeval fetch``: the runs of a team, in refs of a git remote."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from pytest_llmeval.cli.arguments import Home, existing_path, home_option, run_files, store_option
from pytest_llmeval.cli.pages import echo, warn
from pytest_llmeval.errors import (
    BaselineUnreadable,
    GitFailed,
    SettingsError,
    counted,
    without_user,
)
from pytest_llmeval.records import CONFIRM
from pytest_llmeval.runs.ci import CiFacts, read_ci
from pytest_llmeval.runs.git import GitState, short_hash
from pytest_llmeval.runs.lookup.for_commands import commits_meant
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.run_file import read_run, read_run_header
from pytest_llmeval.runs.sharing.sending import FROM_LAPTOP, check_job, name_of_run, refusal
from pytest_llmeval.runs.sharing.shared_store import RefStore, SharedStore, refs_at
from pytest_llmeval.runs.store import RunName, refuse_tracked
from pytest_llmeval.settings import SCHEME

ORIGIN = f"{SCHEME}origin"


@click.command("push")
@click.argument("places", metavar="[DIR]...", nargs=-1, type=existing_path)
@click.option(FROM_LAPTOP, is_flag=True, help="Outside of CI: you vouch for these runs.")
@store_option
@home_option
def push_command(
    places: tuple[Path, ...], home: Home, *, from_laptop: bool, store: str | None
) -> None:
    """Send the runs of this commit to the team's store.

    They are those of each DIR, else those recorded here. Nothing but refs/llmeval/* is sent. A
    run is refused, and stays where it is, if it is of another commit or of a pull or merge
    request, if it is dirty or incomplete, or if more than 5 % of it errored. Exit 1 if no run
    could be sent, or one of a DIR.
    """
    git, ci = home.refs.git, read_ci(os.environ)
    check_job(git, ci=ci, from_laptop=from_laptop)
    refuse_tracked(home.path, git=git)
    named = store or ORIGIN
    refs = refs_at(named, directory=home.path, git=git)
    own = (home.store.folder / (git.commit or ""),)
    paths = [path for place in places or own for path in run_files(place)]
    if not paths:
        where = " or ".join(map(str, places or own))
        raise SettingsError(f"no run of {short_hash(git.commit or '')} lies in {where}")
    named = without_user(named)
    told = (_send(path, refs, git=git, ci=ci, named=named) for path in paths)
    sent = [one for one in told if one is not None]
    if not any(sent) or (places and not all(sent)):
        raise SystemExit(1)


def _send(path: Path, refs: RefStore, *, git: GitState, ci: CiFacts, named: str) -> bool | None:
    """Send a run file, or say why not; tell whether it is in the store now.

    None for one that a session made beside its own run, to confirm a fall: it stays without a word.
    """
    try:
        header = read_run_header(path)
        if header.run.made == CONFIRM:
            return None
        why = refusal(header, git=git, ci=ci)
        if why:
            warn(f"run {header.run.id} is not sent: {why}. It stays in {path}")
            return False
        read_run(path)  # to its last byte
        is_new = refs.put(name_of_run(header, git), path.read_bytes())
    except (BaselineUnreadable, GitFailed) as exc:
        warn(f"not sent to {named}: {exc}. It stays in {path}")
        return False
    done = "sent" if is_new else "there already:"
    echo([f"{done} run {header.run.id} of {short_hash(git.commit or '')}, {named}"])
    return True


@click.command("fetch")
@click.argument("references", metavar="[REF]...", nargs=-1)
@store_option
@home_option
def fetch_command(references: tuple[str, ...], home: Home, *, store: str | None) -> None:
    """Copy runs from the team's store, so that commands find them.

    All runs, or those of each REF: a branch, tag or commit, or a run id. A run that is here already
    stays as it is.
    """
    named, git = store or ORIGIN, home.refs.git
    refuse_tracked(home.path, git=git)
    refs, named = refs_at(named, directory=home.path, git=git), without_user(named)
    both = SharedStore(home.path, refs, called=named)
    wanted = _wanted(refs.names(), references, home.refs_of(both))
    if not wanted:
        of = f" of {', '.join(references)}" if references else ""
        raise SettingsError(f"{named} has no run{of}. A job of CI sends them:  llmeval push")
    known = home.store.files()
    missing = [name for name in wanted if name.run_id not in known]
    refs.fetch(missing)
    fetched = sum(map(both.adopt, missing))
    warn(*both.complaints)
    here = len(wanted) - len(missing)
    echo([f"fetched {counted(fetched, 'run')} into {home.store.folder}, {here} there already"])


def _wanted(names: Sequence[RunName], references: Sequence[str], refs: Refs) -> tuple[RunName, ...]:
    """Choose the runs of a name, or of the commits that it leads to here and in a session."""
    if not references:
        return tuple(names)
    commits = {name.commit for name in names}
    meant = set(references)
    for reference in references:
        meant |= commits_meant(reference, refs, among=commits)
    return tuple(name for name in names if name.run_id in meant or name.commit in meant)
