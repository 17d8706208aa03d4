"""Find the recorded run that a session is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pytest_llmeval.errors import BaselineNotFound
from pytest_llmeval.records import Outcome, Run, bare_run, too_many_errored
from pytest_llmeval.runs.git import GitState, lacks_text, short_hash
from pytest_llmeval.runs.lookup import missing
from pytest_llmeval.runs.lookup.best_run import Search, peculiarities
from pytest_llmeval.runs.lookup.refs import (
    Baseline,
    How,
    Trail,
    find_by_name,
    found_as,
    resolve_ref,
    trail_of,
)
from pytest_llmeval.runs.store import RunStore, new_run_id

MARKER = "llm_eval"

Steps = list[tuple[int, str]]  # commits, each with how far it lies behind the wanted one


def find_baseline(
    reference: str,
    *,
    store: RunStore,
    git: GitState,
    root: str,
    selection: Sequence[str],
    models: frozenset[str] | None = None,
    excluding: Collection[str] = (),
) -> Baseline:
    """Find and read the run that a session is to be compared with.

    Args:
        reference: names of commits lead to complete, clean runs alone; a run that is named
            otherwise may be of any kind, and the notes say of which.
        store: where runs are kept.
        git: the state at session start.
        root: rootpath relative to git's top level, ``.`` for the same.
        selection: the session's, see ``records.Run``.
        models: models that the session is known to ask; preferred among runs of one commit.
        excluding: ids of runs that are found only if they are named themselves.

    Raises:
        BaselineNotFound: no run that will do.
        BaselineError: the name leads to no commit, or the history was cut off.
        BaselineUnreadable: the run that was named cannot be read.
        BaselineUnlike: the run is of another folder or of other tests.
        SettingsError: a file that git tracks was named, and not by a path.
    """
    search = Search(store, root=root, selection=selection, models=models, excluding=excluding)
    named = find_by_name(reference, store=store, git=git, excluding=excluding)
    if named is not None:
        return _as_named(named, search=search, git=git)
    if reference == "last":
        raise missing.no_run(store.folder)
    found = _recorded(reference, search=search, git=git, store=store)
    if isinstance(found, str):
        return _nothing_yet(reference, found, root=root, folder=store.folder)
    return found


def _recorded(reference: str, *, search: Search, git: GitState, store: RunStore) -> Baseline | str:
    """Find the nearest run that will do; if no eval was there yet, return the nearest commit."""
    trail, steps = _steps(reference, git=git)
    found = _along(steps, reference, trail=trail, search=search, git=git)
    if found is not None:
        return found
    if search.unlike is not None:
        raise missing.unlike(reference, search.unlike)
    error = missing.nothing_recorded(reference, trail, search=search, git=git, folder=store.folder)
    nearest = steps[0][1]
    may_be_first = isinstance(error, BaselineNotFound)  # a shallow clone cannot tell
    if may_be_first and _has_no_eval(nearest, git=git):
        return nearest
    raise error


def _has_no_eval(commit: str, *, git: GitState) -> bool:
    return git.top is not None and lacks_text(MARKER, commit=commit, top=git.top)


def _as_named(named: Baseline, *, search: Search, git: GitState) -> Baseline:
    run = named.run
    unlikeness = search.unlikeness(run)
    if unlikeness is not None:
        raise missing.unlike(named.reference, f"run {run.id}: {unlikeness}")
    notes = [*named.notes, *peculiarities(run, trials=len(run.trials))]
    if run.partial and not run.complete:
        notes.append(f"partial: {len(run.partial)} test function(s) were not collected in full")
    notes += _errored_notes(run)
    if run.commit != git.commit:
        notes.append(f"recorded for {_worded(run.commit)}, HEAD is {_worded(git.commit)}")
    return replace(named, notes=tuple(notes))


def _errored_notes(run: Run) -> list[str]:
    ended = Counter(trial.outcome for trial in run.trials)
    errored = ended[Outcome.ERRORED]
    ran = len(run.trials) - ended[Outcome.SKIPPED]
    if not too_many_errored(errored, ran=ran):
        return []
    return [
        f"{errored} of {ran} trials of the baseline are errored: the gate may not be able to judge"
    ]


def _worded(commit: str | None) -> str:
    return "no commit" if commit is None else f"commit {short_hash(commit)}"


def _steps(reference: str, *, git: GitState) -> tuple[Trail, Steps]:
    """Find the commits that a name leads to, and in which order they are looked at."""
    ref = resolve_ref(reference, git=git)
    if ref is None or ref.commit != reference.lower():  # no full hash, which needs no repository
        if git.top is None or git.commit is None:
            raise missing.no_repository(reference, git=git)
        if ref is None:
            raise missing.unknown(reference, top=git.top, shallow=git.shallow)
    trail = trail_of(ref, seen_from=git.commit, git=git)
    if trail is None:
        raise missing.unrelated(reference, shallow=git.shallow)
    steps = list(enumerate(trail.commits))
    if not trail.exact and ref.commit == git.commit and not git.dirty:
        # A clean tree at the ref's own commit asks what the last commit did to it.
        steps = [*steps[1:], steps[0]]
    return trail, steps


def _along(
    steps: Steps, reference: str, *, trail: Trail, search: Search, git: GitState
) -> Baseline | None:
    for nearer, (distance, commit) in enumerate(steps):
        best = search.best_at(commit)
        if best is None:
            continue
        notes = [*search.mentioned(), *best.notes, *_errored_notes(best.run)]
        if nearer:
            first = short_hash(steps[0][1])
            notes += [f"{nearer} nearer commit(s) have no run that will do, {first} first of all"]
        if git.shallow and not trail.exact:
            notes += [
                "this clone is shallow: the true merge-base may lie where history was cut off"
            ]
        how = _way(commit, trail=trail, git=git)
        return replace(found_as(best, reference, how=how, distance=distance), notes=tuple(notes))
    return None


def _way(commit: str, *, trail: Trail, git: GitState) -> How:
    if commit == git.commit:
        return "this very commit"
    if trail.exact:
        return "commit"
    return "earlier commit" if trail.commits[0] == git.commit else "merge-base"


def _nothing_yet(reference: str, commit: str, *, root: str, folder: Path) -> Baseline:
    now = datetime.now(UTC)
    created = now.isoformat(timespec="seconds")
    run = bare_run(new_run_id(now), created=created, commit=commit, root=root)
    note = f"nothing to compare with yet: {short_hash(commit)} has no eval and no run"
    return Baseline(run=run, path=folder, reference=reference, how="nothing yet", notes=(note,))
