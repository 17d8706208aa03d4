"""The runs that stand for the tests of a commit, and which runs and replies are still needed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pytest_llmeval.errors import BaselineError, BaselineNotFound, BaselineUnreadable
from pytest_llmeval.records import CONFIRM, Run, only_functions
from pytest_llmeval.runs.git import resolve
from pytest_llmeval.runs.lookup.best_run import best_first, unfitness
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.lookup.wanted_commit import AUTO, ORIGIN, WantedCommit, without_prefix
from pytest_llmeval.runs.pooled import own_trials
from pytest_llmeval.runs.store import BORROWED, ENDING, RunStore, StoredRun

_MOST_TRIALS = 100_000  # the most runs that are read: a page shall not take minutes


def standing(runs: Iterable[StoredRun]) -> dict[str, StoredRun]:
    """Find for each test function the run that stands for it: the newest that has all its cases.

    Args:
        runs: of one state of the files, complete ones.
    """
    found: dict[str, StoredRun] = {}
    for stored in best_first(runs):
        for function in _functions(stored.header.run).difference(stored.header.run.partial):
            found.setdefault(function, stored)
    return found


def standing_runs(
    store: RunStore, runs: Iterable[StoredRun], notes: list[str] | None = None
) -> list[Run]:
    """Read the runs that stand for functions, each with these functions alone.

    Args:
        store: where they lie.
        runs: of one state of the files, complete ones.
        notes: gets a sentence for each run that cannot be read; another run takes its place.
    """
    runs, read = list(runs), []
    found = standing(runs)
    for path in dict.fromkeys(stored.path for stored in found.values()):
        try:
            run = store.load(path)
        except BaselineUnreadable as exc:
            if notes is not None:
                notes.append(f"passed over: {exc}")
            return standing_runs(store, [one for one in runs if one.path != path], notes)
        read.append(only_functions(run, {name for name, one in found.items() if one.path == path}))
    return read


def newest_runs(
    store: RunStore, *, branch: str | None, most: int, besides: Sequence[Run] = ()
) -> tuple[list[Run], list[str]]:
    """Read the runs that stand for the functions of each commit, and of changes to it.

    Args:
        store: where they lie.
        branch: only runs of this one; None for all.
        most: of how many commits they are read.
        besides: runs that are at hand; each stands for its commit, and is returned, too.

    Returns:
        The runs, oldest first, each with the functions that it stands for, and a note for each
        file that was passed over.
    """
    found = list(besides)
    states = {(run.commit, run.dirty) for run in besides}
    listing = store.every()
    notes = list(listing.notes)
    by_state: dict[tuple[str | None, bool], list[StoredRun]] = {}
    for stored in listing.runs:
        run = stored.header.run
        bars = unfitness(replace(stored.header, run=replace(run, dirty=False, unseen=())))
        if not bars and branch in (None, run.ref) and (run.commit, run.dirty) not in states:
            by_state.setdefault((run.commit, run.dirty), []).append(stored)
    for count, runs in enumerate(by_state.values(), start=len(states)):
        if count >= most or sum(len(run.trials) for run in found) > _MOST_TRIALS:
            break
        found += standing_runs(store, runs, notes)
    return sorted(found, key=lambda run: run.created), notes


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
        fit = [one for one in refs.fit_runs(step) if one.header.run.root == root]
        for run in standing_runs(refs.store, fit):
            draws |= draws_of_run(only_functions(run, _functions(run) - known))
        known.update(*(_functions(one.header.run) for one in fit))
        if any(not one.header.run.selection for one in fit):
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


def needed_runs(reference: str | None, refs: Refs) -> frozenset[str]:
    """Find the ids of the runs that a comparison with a branch may need.

    Args:
        reference: names it; None for origin's default branch, or ``main``.
        refs: resolves names.

    Raises:
        BaselineError: there is no such branch.
    """
    if reference is None and refs.git.commit is None:
        return frozenset()
    names = [AUTO, "main", "master"] if reference is None else [reference]
    ref = next(filter(None, map(refs.commit_named, names)), None)
    if ref is None:
        raise BaselineError(
            f"{reference or 'main'}: no branch has that name, so the runs that it needs are not "
            "known. Name another one:  --keep=REF"
        )
    branch = without_prefix(ref.full_name or "")
    there = refs.git.top and branch and resolve(f"{ORIGIN}{branch}", top=refs.git.top)
    tips = {ref.commit, there.commit if there else ref.commit}
    steps = (step for tip in tips for step in refs.steps(WantedCommit(commit=tip)))
    return frozenset(one.header.run.id for step in steps for one in refs.fit_runs(step))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPruning:
    """Runs that are to go.

    Attributes:
        going: runs that can be no baseline first, each kind oldest first.
        spared: how many are old enough, and stay because they are needed.
        left: how many stay altogether.
    """

    going: tuple[StoredRun, ...]
    spared: int
    left: int


def runs_to_prune(
    runs: Sequence[StoredRun], *, before: datetime, dirty_before: datetime, needed: Collection[str]
) -> RunPruning:
    """Work out which runs go; the newest one stays, unless it only shows some cases again.

    Args:
        runs: newest first.
        before: runs that were recorded before this time go.
        dirty_before: likewise, for runs that are dirty or incomplete.
        needed: ids of runs that stay.
    """
    old = [
        stored
        for stored in runs
        if datetime.fromisoformat(stored.header.run.created)
        < (before if is_clean(stored) else dirty_before)
    ]
    newest = next((one for one in runs if one.header.run.made != CONFIRM), None)
    going = [one for one in old if one is not newest and one.header.run.id not in needed]
    going.sort(key=lambda stored: (is_clean(stored), stored.header.run.id))
    return RunPruning(going=tuple(going), spared=len(old) - len(going), left=len(runs) - len(going))


def is_clean(stored: StoredRun) -> bool:
    """Tell whether a run is complete and of a clean tree, as a baseline must be."""
    return stored.header.run.complete and not stored.header.run.dirty
