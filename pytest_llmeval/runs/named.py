"""Recorded runs by name, for commands: no session, so nothing that a run must be alike to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_llmeval.errors import BaselineError, BaselineNotFound
from pytest_llmeval.records import Run
from pytest_llmeval.runs.git import GitState, first_parents, resolve
from pytest_llmeval.runs.store import ENDING, RunStore
from pytest_llmeval.runs.trail import NEAREST


def run_named(reference: str, *, store: RunStore) -> Run:
    """Read a run.

    Args:
        reference: a run file, ``last`` or a run id.
        store: where runs are kept.

    Raises:
        BaselineNotFound: there is none of that name.
        BaselineUnreadable: it is damaged.
    """
    run = _by_name(reference, store=store)
    if run is None:
        raise BaselineNotFound(
            f"no run {reference!r} in {store.folder}. Name a run file, a run id, or last"
        )
    return run


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


def _by_name(reference: str, *, store: RunStore) -> Run | None:
    path = Path(reference)
    if path.is_file():
        return store.load(path)
    if reference == "last":
        newest = store.newest()
        return None if newest is None else newest.run
    stored = store.by_id(reference)
    return None if stored is None else store.load(stored)


def _baselines(reference: str, *, store: RunStore, git: GitState) -> list[Run]:
    named = _by_name(reference, store=store)
    if named is not None:
        return [named]
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
