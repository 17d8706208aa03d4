"""The standing run of a test function at a commit: the newest one that has all its cases."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Run, only_functions
from pytest_llmeval.runs.lookup.best_run import best_first, unfitness
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.lookup.wanted_commit import WantedCommit
from pytest_llmeval.runs.pooled import own_trials
from pytest_llmeval.runs.store import RunStore, StoredRun


def standing(runs: Iterable[StoredRun]) -> dict[str, StoredRun]:
    """Find for each test function the run that stands for it.

    Args:
        runs: of one state of the files, complete ones.
    """
    found: dict[str, StoredRun] = {}
    for stored in best_first(runs):
        run = stored.header.run
        for function in dict.fromkeys(case.function for case in run.cases):
            if function not in run.partial:
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


def _functions(run: Run) -> set[str]:
    return {case.function for case in run.cases}


def draws_of_line(refs: Refs, *, root: str) -> frozenset[str]:
    """Collect the draws that the runs of HEAD name, and of its ancestors where it has none.

    Args:
        refs: resolves names.
        root: rootpath relative to git's top level.
    """
    draws: list[frozenset[str]] = []
    known: set[str] = set()
    steps = refs.steps(WantedCommit(commit=refs.git.commit), head=None, root=root)
    for step in steps if refs.git.commit else ():
        listed = [one for commit in step.commits for one in refs.store.at_commit(commit).runs]
        fit = [one for one in listed if one.header.run.root == root and not unfitness(one.header)]
        for run in standing_runs(refs.store, fit):
            draws.append(draws_of_run(only_functions(run, _functions(run) - known)))
        known.update(*(_functions(one.header.run) for one in fit))
        if any(not one.header.run.selection for one in fit):
            break
    return frozenset[str]().union(*draws)


def draws_of_run(run: Run) -> frozenset[str]:
    """Collect the draws that a run names, without those of older runs beside it."""
    own = own_trials(run).trials
    return frozenset(call.draw for trial in own for call in trial.calls if call.draw)
