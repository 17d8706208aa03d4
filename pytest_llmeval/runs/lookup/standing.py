"""The run that stands for a test function at a commit: the newest one that has all its cases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Run, only_functions
from pytest_llmeval.runs.lookup.best_run import best_first, unfitness
from pytest_llmeval.runs.store import RunStore, StoredRun

_MOST_TRIALS = 100_000  # the most runs that are read: a page shall not take minutes


def standing(runs: Iterable[StoredRun]) -> dict[str, StoredRun]:
    """Find for each test function the run that stands for it.

    Args:
        runs: of one state of the files, complete ones.
    """
    found: dict[str, StoredRun] = {}
    for stored in best_first(runs):
        run = stored.run
        for case in run.cases:
            if case.function not in run.partial:
                found.setdefault(case.function, stored)
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
        run = stored.run
        bars = unfitness(replace(stored.header, run=replace(run, dirty=False, unseen=())))
        if not bars and branch in (None, run.ref) and (run.commit, run.dirty) not in states:
            by_state.setdefault((run.commit, run.dirty), []).append(stored)
    for count, runs in enumerate(by_state.values(), start=len(states)):
        if count >= most or sum(len(run.trials) for run in found) > _MOST_TRIALS:
            break
        found += standing_runs(store, runs, notes)
    return sorted(found, key=lambda run: run.created), notes
