"""The cases that missed or moved when they last ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import fsum

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Outcome, Run, Trial, trials_by_case
from pytest_llmeval.runs.git import GitState, first_parents
from pytest_llmeval.runs.lookup.best_run import covers
from pytest_llmeval.runs.store import RunStore

_MOST_RUNS = 20  # the newest ones of all trees
_MOST_COMMITS = 20  # before HEAD
_FINE = (Outcome.PASSED, Outcome.SKIPPED)


def missed_last(
    store: RunStore, *, git: GitState, root: str, selection: Sequence[str]
) -> frozenset[str] | None:
    """Return the ids of the cases that missed or moved when they last ran; None if none ran.

    A case missed if one of its trials did not pass. It moved if a mean differs from the
    mean in the baseline that its run was compared with. The last run of a case is the newest one
    that has it, as ``--lf`` remembers what a session for other tests did not run.

    Args:
        store: where the runs lie; worktrees share it.
        git: of this working tree: runs of its branch, of its commit and of the commits before it
            are its own.
        root: pytest's rootpath relative to git's top level.
        selection: of this session; what came before a complete run of it does not count.
    """
    last: dict[str, bool] = {}
    for run in _own_runs(store, git=git, root=root):
        path = store.by_id(run.compared_with) if run.compared_with else None
        before: dict[str, list[Trial]] = {}  # of its baseline, if that is here
        with suppress(BaselineUnreadable):
            before = {} if path is None else trials_by_case(store.load(path))
        for case, trials in trials_by_case(run).items():
            if trials and case not in last:
                last[case] = _missed_or_moved(before.get(case, ()), trials)
        if run.complete and not run.partial and covers(run.selection, narrow=selection):
            break
    return frozenset(case for case, counts in last.items() if counts) if last else None


def _own_runs(store: RunStore, *, git: GitState, root: str) -> Iterator[Run]:
    """Read the runs of this working tree, newest first."""
    commits = {git.commit}
    if git.commit and git.top:
        commits |= {*first_parents(git.commit, top=git.top, at_most=_MOST_COMMITS)}
    for _, path in sorted(store.files().items(), reverse=True)[:_MOST_RUNS]:
        with suppress(BaselineUnreadable):
            run = store.load(path)
            is_own = run.commit in commits or run.ref == (git.branch or "")
            if is_own and run.root == root and run.made is None:
                yield run


def _missed_or_moved(before: Sequence[Trial], trials: Sequence[Trial]) -> bool:
    """Tell whether a trial did not pass, or a mean of both sides differs."""
    old, new = _means(before), _means(trials)
    moved = any(old[metric] != new[metric] for metric in old.keys() & new.keys())
    return moved or any(trial.outcome not in _FINE for trial in trials)


def _means(trials: Sequence[Trial]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for trial in trials:
        for metric, value in trial.scores.items():
            values.setdefault(metric, []).append(value)
    return {metric: fsum(found) / len(found) for metric, found in values.items()}
