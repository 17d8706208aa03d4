"""Recorded runs for a comparison by hand: no session, so a run stands for itself."""

from __future__ import annotations

import re

from pytest_llmeval.errors import BaselineError, BaselineNotFound
from pytest_llmeval.records import Run
from pytest_llmeval.runs.format.run_lines import FULL_HASH
from pytest_llmeval.runs.git import (
    GitState,
    ResolvedRef,
    first_parents,
    merge_base,
    near_names,
    resolve,
    short,
)
from pytest_llmeval.runs.lookup.baseline import Baseline, How
from pytest_llmeval.runs.lookup.eligible import Demand, covers, peculiarities, shortcomings
from pytest_llmeval.runs.lookup.history import NEAREST
from pytest_llmeval.runs.lookup.named import ByName, find_by_name
from pytest_llmeval.runs.lookup.search import Search
from pytest_llmeval.runs.store import FoundRun, RunStore, StoredRun, refuse_tracked


def find_candidate(reference: str, *, store: RunStore, git: GitState) -> Baseline:
    """Find the run that is judged.

    Args:
        reference: a run file, ``last``, a run id, or a name of a commit: then the newest
            complete and clean run of that very commit, but none of a part of another's tests.
        store: where runs are kept.
        git: the state of the working tree.

    Raises:
        BaselineError: there is no such run.
        BaselineUnreadable: it is damaged.
        SettingsError: git tracks runs or replies of the store.
    """
    named = _by_name(reference, store=store, git=git)
    if named is not None:
        return _as_named(reference, named)
    commit = _resolved(reference, store=store, git=git).commit
    listing = store.at_commit(commit)
    eligible = [
        stored
        for stored in listing.runs
        if not shortcomings(stored.header.run, trials=stored.header.trials)
    ]
    for stored in eligible:
        if not any(_is_part(stored, of=other) for other in eligible):
            found = FoundRun(stored.path, store.load(stored.path), listing.notes)
            return _of_commit(reference, found, how="commit", distance=0)
    raise _nothing(reference, commit, where="", store=store)


def _is_part(one: StoredRun, *, of: StoredRun) -> bool:
    narrow, wide = one.header.run.selection, of.header.run.selection
    return covers(wide, narrow=narrow) and not covers(narrow, narrow=wide)


def find_reference(reference: str, *, candidate: Run, store: RunStore, git: GitState) -> Baseline:
    """Find the run that another one is held against.

    Args:
        reference: as for ``find_candidate``, but ``last`` is the newest run besides the
            candidate, and a branch or tag leads to its merge-base with the candidate's
            commit and the nearest ancestors of that.
        candidate: the run that is judged.
        store: where runs are kept.
        git: the state of the working tree.

    Raises:
        BaselineError: there is no such run.
        BaselineUnreadable: it is damaged.
        SettingsError: git tracks runs or replies of the store.
    """
    named = _by_name(reference, store=store, git=git, excluding=candidate)
    if named is not None:
        return _as_named(reference, named)
    ref = _resolved(reference, store=store, git=git)
    base, ancestors = _steps(ref, candidate=candidate, git=git)
    models = {call.model for trial in candidate.trials for call in trial.calls if call.model}
    demand = Demand(
        root=candidate.root, selection=candidate.selection, models=frozenset(models) or None
    )
    search = Search(store, demand=demand)
    for distance, commit in enumerate((base, *ancestors)):
        found = search.best_at(commit)
        if found is not None:
            how: How = "commit" if base == ref.commit else "merge-base"
            return _of_commit(reference, found, how=how, distance=distance)
    where = f" nor its {len(ancestors)} nearest ancestors" if ancestors else ""
    raise _nothing(reference, base, where=where, store=store)


def _by_name(
    reference: str, *, store: RunStore, git: GitState, excluding: Run | None = None
) -> tuple[ByName, FoundRun] | None:
    excluded = (excluding.id,) if excluding else ()
    named = find_by_name(reference, store=store, git=git, excluding=excluded)
    if named is None or named[0] != "file":
        refuse_tracked(store.directory, git=git)
    if named is None and reference == "last":
        other = f" besides {excluding.id}" if excluding else ""
        raise BaselineNotFound(f"last: no run{other} in {store.folder}. Record one: pytest")
    return named


def _as_named(reference: str, named: tuple[ByName, FoundRun]) -> Baseline:
    how, found = named
    run = found.run
    odd = peculiarities(run, trials=len(run.trials))
    return Baseline(
        run=run,
        path=found.path,
        reference=reference,
        commit=run.commit,
        how=how,
        notes=(*found.notes, *(f"{reference} is {one}" for one in odd)),
    )


def _of_commit(reference: str, found: FoundRun, *, how: How, distance: int) -> Baseline:
    notes = found.notes
    if distance:
        notes = (*notes, f"{distance} nearer commit(s) of {reference} have no run that will do")
    return Baseline(
        run=found.run,
        path=found.path,
        reference=reference,
        commit=found.run.commit,
        how=how,
        distance=distance,
        notes=notes,
    )


def _resolved(reference: str, *, store: RunStore, git: GitState) -> ResolvedRef:
    if re.fullmatch(FULL_HASH, reference.lower()):
        return ResolvedRef(commit=reference.lower(), full_name=None)
    what = f"{reference}: no table, run file or run id in {store.folder} has that name"
    if git.top is None:
        raise BaselineError(f"{what}, and {git.absent}. List them: llmeval list")
    ref = resolve(reference, top=git.top)
    if ref is None:
        near = near_names(reference, top=git.top)
        hint = f"Did you mean {' or '.join(near)}?" if near else "List them: llmeval list"
        raise BaselineError(f"{what}, nor a commit, branch or tag. {hint}")
    return ref


def _steps(ref: ResolvedRef, *, candidate: Run, git: GitState) -> tuple[str, tuple[str, ...]]:
    """Tell which commits will do: the named one, or a branch's base and what lies behind it."""
    if ref.full_name is None or candidate.commit is None or git.top is None:
        return ref.commit, ()
    base = merge_base(candidate.commit, ref.commit, top=git.top) or ref.commit
    ancestors = first_parents(base, top=git.top, at_most=NEAREST)
    return base, ancestors


def _nothing(reference: str, commit: str, *, where: str, store: RunStore) -> BaselineNotFound:
    return BaselineNotFound(
        f"{reference}: no complete run of a clean tree is recorded for {short(commit)}{where} "
        f"in {store.folder}. Record one: git switch --detach {short(commit)} && pytest"
    )
