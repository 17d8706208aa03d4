"""Find the runs that a command or a page is about, without a session to compare them with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pytest_llmeval.errors import BaselineError, BaselineNotFound
from pytest_llmeval.records import Run
from pytest_llmeval.runs.git import ResolvedRef, near_names, short_hash
from pytest_llmeval.runs.lookup import best_run
from pytest_llmeval.runs.lookup.refs import Baseline, Refs
from pytest_llmeval.runs.lookup.wanted_commit import WantedCommit, find_wanted
from pytest_llmeval.runs.run_file import read_run_header
from pytest_llmeval.runs.store import FoundRun, StoredRun, refuse_tracked


def find_candidate(reference: str, refs: Refs, *, exact: bool = False) -> Baseline:
    """Find the run that is read, or judged.

    Args:
        reference: a run file, ``last``, a run id, or a name of a commit: then the best complete
            and clean run of that commit, but none of a part of another's tests. For a branch or
            tag whose commit has none, that of other commits stands, as in a session.
        refs: resolves names.
        exact: no run of a commit with other files will do.

    Raises:
        BaselineError: there is no such run.
        BaselineUnreadable: it is damaged.
        SettingsError: git tracks runs or replies of the store.
    """
    named = _by_name(reference, refs)
    if named is not None:
        return named
    ref = _resolved(reference, refs)
    wanted = WantedCommit(commit=ref.commit, exact=ref.full_name is None)
    notes: list[str] = []
    passed_over: list[str] = []
    for step in refs.steps(wanted):
        if exact and step.is_older:
            break
        runs = [refs.store.at_commit(commit) for commit in step.commits]
        notes += [note for listing in runs for note in listing.notes]
        judged = [(one, best_run.unfitness(one.header)) for listing in runs for one in listing.runs]
        fit = [one for one, bars in judged if not bars]
        passed_over += [f"passed over: run {one.run.id}, {bars[0]}" for one, bars in judged if bars]
        for stored in best_run.best_first(fit):
            if not any(_is_part(stored, of=other) for other in fit):
                found = FoundRun(stored.path, refs.store.load(stored.path), tuple(notes))
                found_at = refs.standing_for(wanted, found, step, reference=reference)
                return _said_whose(found_at, is_own=ref.commit in step.commits)
    raise _nothing(reference, ref.commit, refs, passed_over=passed_over)


def _said_whose(found: Baseline, *, is_own: bool) -> Baseline:
    """Say of a run that it is of another commit than the one that was named."""
    if is_own:
        return replace(found, how="commit")
    commits = short_hash(found.wanted or ""), short_hash(found.run.commit or "")
    note = "{}: {} has no run, this is that of {}".format(found.reference, *commits)
    how = f"{found.distance} behind" if found.distance else "with the same files"
    return replace(found, notes=(*found.notes, f"{note}, {how}"))


def _is_part(one: StoredRun, *, of: StoredRun) -> bool:
    narrow, wide = one.run.selection, of.run.selection
    return best_run.covers(wide, narrow=narrow) and not best_run.covers(narrow, narrow=wide)


def find_reference(reference: str, refs: Refs, *, candidate: Run) -> Baseline:
    """Find the run that another one is compared with.

    Args:
        reference: as for ``find_candidate``, but ``last`` is the newest run besides the
            candidate, and a branch or tag leads to its merge-base with the candidate's
            commit and the nearest ancestors of this merge-base.
        refs: resolves names.
        candidate: the run that is judged.

    Raises: as ``find_candidate``.
    """
    named = _by_name(reference, refs, besides=candidate.id)
    if named is not None:
        return named
    wanted = _wanted(reference, refs, seen_from=candidate.commit)
    models = {call.model for trial in candidate.trials for call in trial.calls if call.model}
    search = best_run.Search(
        store=refs.store,
        root=candidate.root,
        selection=candidate.selection,
        models=frozenset(models) or None,
        typed_model=candidate.typed_model,
    )
    ancestors = 0
    for step in refs.steps(wanted, root=candidate.root):
        best = search.best_at(*step.commits)
        if best is not None:
            noted = replace(best, notes=(*wanted.notes, *best.notes))
            found = refs.standing_for(wanted, noted, step, reference=reference)
            is_tip = wanted.is_tip and step.how == "merge-base"
            return replace(found, how="commit") if is_tip else found
        ancestors += step.is_substitute
    raise _nothing(
        reference, wanted.commit or "", refs, passed_over=search.passed_over, ancestors=ancestors
    )


def _by_name(reference: str, refs: Refs, *, besides: str | None = None) -> Baseline | None:
    named = refs.by_name(reference, excluding=() if besides is None else (besides,))
    if named is None or named.how != "file":
        refuse_tracked(refs.store.directory, git=refs.git)
    if named is not None:
        # where a store reads headers alone, the run that it gives has no trials
        trials = len(named.run.trials) or read_run_header(named.path).trials
        known = best_run.peculiarities(named.run, trials=trials)
        return replace(named, notes=(*named.notes, *(f"{reference} is {one}" for one in known)))
    if reference == "last":
        other = "" if besides is None else f" besides {besides}"
        where = refs.store.folder
        raise BaselineNotFound(f"last: no run{other} in {where}. Record one: {refs.pytest}")
    return None


def _wanted(reference: str, refs: Refs, *, seen_from: str | None) -> WantedCommit:
    """Find the commit that a name means, seen from another one, else the name's own commit."""
    if seen_from is not None:
        wanted = find_wanted(reference, git=replace(refs.git, commit=seen_from), ci=refs.ci)
        if wanted.commit is not None:
            return wanted
    return WantedCommit(commit=_resolved(reference, refs).commit, exact=True)


def _resolved(reference: str, refs: Refs) -> ResolvedRef:
    ref, git = refs.commit_named(reference), refs.git
    if ref is not None:
        return ref
    begun = refs.beginning(reference)
    if begun:
        raise BaselineError(f"{reference}: {begun}")
    what = f"{reference}: no table, run file or run id in {refs.store.folder} has that name"
    if git.top is None:
        raise BaselineError(f"{what}, and {git.absent}. List them: llmeval list")
    near = near_names(reference, top=git.top)
    hint = f"Did you mean {' or '.join(near)}?" if near else "List them: llmeval list"
    raise BaselineError(f"{what}, nor a commit, branch or tag. {hint}")


def _nothing(
    reference: str, commit: str, refs: Refs, *, passed_over: Sequence[str], ancestors: int = 0
) -> BaselineNotFound:
    commit = short_hash(commit)
    nearest = f" or its {ancestors} nearest ancestors" if ancestors else ""
    where = f"{commit}{nearest} in {refs.store.folder}"
    what = f"no complete run of a clean tree is recorded for {where}"
    if passed_over:
        what = f"no run of {where} will do ({'; '.join(passed_over[: best_run.MENTIONED])})"
    return BaselineNotFound(
        f"{reference}: {what}. Record one: git switch --detach {commit} && {refs.pytest}"
    )


def commits_meant(reference: str, refs: Refs, *, among: Collection[str]) -> set[str]:
    """Find the commits that a name leads to: of the name itself, and as a session sees it.

    Args:
        reference: a branch, tag or commit; for another name there is none.
        refs: resolves names.
        among: full hashes of the commits that will do.
    """
    own = refs.commit_named(reference)
    tip = None if own is None else WantedCommit(commit=own.commit, exact=own.full_name is None)
    found: set[str] = set()
    for wanted in (tip, find_wanted(reference, git=refs.git, ci=refs.ci)):
        if wanted is not None and wanted.commit is not None:
            fit = (set(step.commits).intersection(among) for step in refs.steps(wanted))
            found |= next(filter(None, fit), set())
    return found
