"""Recorded runs by a name of their own: a file, an id, or the newest."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Literal

from pytest_llmeval.errors import BaselineError, BaselineNotFound, SettingsError
from pytest_llmeval.records import Run
from pytest_llmeval.runs.format.run_lines import FULL_HASH
from pytest_llmeval.runs.git import GitState, first_parents, resolve, tracked_below
from pytest_llmeval.runs.lookup.history import NEAREST
from pytest_llmeval.runs.store import ENDING, FoundRun, RunStore

ByName = Literal["file", "last", "run id"]

_PATH = re.compile(rf"\.{{0,2}}[/\\]|~|[A-Za-z]:[/\\]|.*{re.escape(ENDING)}\Z", re.DOTALL)


def find_by_name(
    reference: str, *, store: RunStore, git: GitState, excluding: Collection[str] = ()
) -> tuple[ByName, FoundRun] | None:
    """Find the run that a name means by itself, and say how; None if it may be a commit's name.

    A file is meant by a name that looks like a path. By any other it is meant only where
    nothing else has that name, since a file of a commit must not take a branch's place.

    Args:
        reference: what was typed.
        store: where runs are kept.
        git: the state of the working tree.
        excluding: ids of runs that are not the last one.

    Raises:
        BaselineUnreadable: the run is damaged.
        SettingsError: the name is that of a file which git tracks, and does not look like a path.
    """
    path = Path(os.path.expanduser(reference))  # noqa: PTH111 - raises nothing
    is_path, is_file = _PATH.match(reference) is not None, _is_file(path)
    if is_file and is_path:
        return "file", FoundRun(path, store.load(path))
    if reference == "last":
        newest = store.newest(excluding=excluding)
        return None if newest is None else ("last", newest)
    stored = store.by_id(reference)
    if stored is not None:
        return "run id", FoundRun(stored, store.load(stored))
    if not is_file or _is_commit(reference, git=git):
        return None
    if tracked_below((path.absolute(),), top=git.top):
        quoted = shlex.quote(reference)
        raise SettingsError(
            f"no branch, tag or commit {reference!r} is here, and the file of that name is tracked "
            "by git: what a commit brings along is no record of what was measured. Fetch the "
            f"branch, or take the file out of the commit:  git rm --cached {quoted}  "
            f"To compare with the file all the same name its path:  .{os.sep}{quoted}"
        )
    return "file", FoundRun(path, store.load(path))


def _is_commit(reference: str, *, git: GitState) -> bool:
    if re.fullmatch(FULL_HASH, reference.lower()):
        return True
    return git.top is not None and resolve(reference, top=git.top) is not None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name too long to be one
        return False


def run_named(reference: str, *, store: RunStore, git: GitState) -> Run:
    """Read a run.

    Args:
        reference: a run file, ``last`` or a run id.
        store: where runs are kept.
        git: the state of the working tree.

    Raises:
        BaselineNotFound: there is none of that name.
        BaselineUnreadable: it is damaged.
    """
    named = find_by_name(reference, store=store, git=git)
    if named is None:
        raise BaselineNotFound(
            f"no run {reference!r} in {store.folder}. Name a run file, a run id, or last"
        )
    return named[1].run


def draws_of_every_run(store: RunStore) -> frozenset[str]:
    """Collect the ids of all draws that any recorded run names.

    Raises:
        BaselineUnreadable: a run cannot be read, so what it names is not known.
    """
    paths = sorted(store.folder.glob(f"*/*{ENDING}"))
    return _draws(store.load(path) for path in paths)


def draws_of_baselines(
    references: Sequence[str], *, store: RunStore, git: GitState
) -> frozenset[str]:
    """Collect the ids of all draws that the baselines of these names may need.

    Args:
        references: run files, ``last``, run ids, or names of commits. Such a name stands for
            every run of that commit and of the ancestors that a lookup goes back to.
        store: where runs are kept.
        git: the state of the working tree.

    Raises:
        BaselineError: a name leads nowhere, or no run is recorded there.
        BaselineUnreadable: a run cannot be read.
    """
    return _draws(run for name in references for run in _baselines(name, store=store, git=git))


def _baselines(reference: str, *, store: RunStore, git: GitState) -> list[Run]:
    named = find_by_name(reference, store=store, git=git)
    if named is not None:
        return [named[1].run]
    if git.top is None:
        raise BaselineError(f"no run {reference!r} in {store.folder}, and {git.absent}")
    ref = resolve(reference, top=git.top)
    if ref is None:
        raise BaselineError(f"{reference!r} is no run file, run id, commit, branch or tag here")
    commits = (ref.commit, *first_parents(ref.commit, top=git.top, at_most=NEAREST))
    paths = [path for c in commits for path in sorted((store.folder / c).glob(f"*{ENDING}"))]
    if not paths:
        raise BaselineNotFound(
            f"no run is recorded for {reference} nor its {len(commits) - 1} nearest ancestors in "
            f"{store.folder}, so nothing would be kept for it"
        )
    return [store.load(path) for path in paths]


def _draws(runs: Iterable[Run]) -> frozenset[str]:
    return frozenset(
        call.draw
        for run in runs
        for trial in run.trials
        for call in trial.calls
        if call.draw is not None
    )
