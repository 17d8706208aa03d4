"""The draws that recorded runs name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_llmeval.errors import BaselineError, BaselineNotFound
from pytest_llmeval.records import Run, only_functions
from pytest_llmeval.runs.git import resolve
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.lookup.standing import standing_runs
from pytest_llmeval.runs.lookup.wanted_commit import WantedCommit
from pytest_llmeval.runs.pooled import own_trials
from pytest_llmeval.runs.store import BORROWED, ENDING, RunStore


def _functions(run: Run) -> set[str]:
    return {case.function for case in run.cases}


def draws_of_run(run: Run) -> frozenset[str]:
    """Collect the draws that a run names, without those of older runs beside it."""
    own = own_trials(run).trials
    return frozenset(call.draw for trial in own for call in trial.calls if call.draw)


def draws_of_line(refs: Refs, *, root: str) -> frozenset[str]:
    """Collect the draws that the runs of HEAD name, and of its ancestors where it has none.

    Args:
        refs: resolves names.
        root: rootpath relative to git's top level.
    """
    draws: set[str] = set()
    known: set[str] = set()
    steps = refs.steps(WantedCommit(commit=refs.git.commit), root=root)
    for step in steps if refs.git.commit else ():
        fit = [one for one in refs.fit_runs(step) if one.run.root == root]
        for run in standing_runs(refs.store, fit):
            draws |= draws_of_run(only_functions(run, _functions(run) - known))
        known.update(*(_functions(one.run) for one in fit))
        if any(not one.run.selection for one in fit):
            break
    return frozenset(draws)


def draws_of_every_run(store: RunStore, *, besides: Collection[Path] = ()) -> frozenset[str]:
    """Collect the ids of all draws that any run names, of those recorded here and of a team's.

    Args:
        store: where they lie.
        besides: files that do not count.

    Raises:
        BaselineUnreadable: a run cannot be read, so what it names is not known.
    """
    folders = (store.folder, store.directory / BORROWED)
    paths = {path for folder in folders for path in folder.glob(f"*/*{ENDING}")}.difference(besides)
    return frozenset[str]().union(*(draws_of_run(store.load(path)) for path in sorted(paths)))


def draws_of_baselines(references: Sequence[str], refs: Refs) -> frozenset[str]:
    """Collect the ids of all draws that the baselines of these names may need.

    Args:
        references: run files, ``last``, run ids, or names of commits. Such a name stands for
            every run of that commit, of others with its files, and of the ancestors that a
            lookup goes back to.
        refs: resolves names.

    Raises:
        BaselineError: a name leads nowhere, or no run is recorded there.
        BaselineUnreadable: a run cannot be read.
    """
    runs = (run for name in references for run in _runs_behind(name, refs))
    return frozenset[str]().union(*map(draws_of_run, runs))


def _runs_behind(reference: str, refs: Refs) -> list[Run]:
    store, git = refs.store, refs.git
    named = refs.by_name(reference)
    if named is not None:
        return [named.run]
    if git.top is None:
        raise BaselineError(f"no run {reference!r} in {store.folder}, and {git.absent}")
    ref = resolve(reference, top=git.top)  # a commit that is not here has no ancestors to keep
    if ref is None:
        raise BaselineError(f"{reference!r} is no run file, run id, commit, branch or tag here")
    line = list(refs.steps(WantedCommit(commit=ref.commit)))
    commits = [commit for step in line for commit in step.commits]
    paths = [path for c in commits for path in sorted((store.folder / c).glob(f"*{ENDING}"))]
    if not paths:
        ancestors = sum(step.is_substitute for step in line)
        raise BaselineNotFound(
            f"no run is recorded for {reference} or its {ancestors} nearest ancestors in "
            f"{store.folder}, so nothing would be kept for it"
        )
    return [store.load(path) for path in paths]
