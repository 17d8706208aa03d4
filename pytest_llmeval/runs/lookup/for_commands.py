"""Find the runs that a command or a page is about, without a session to compare them with."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_llmeval.errors import BaselineError, BaselineNotFound
from pytest_llmeval.records import Run
from pytest_llmeval.runs.git import ResolvedRef, near_names, resolve, short_hash
from pytest_llmeval.runs.lookup import best_run
from pytest_llmeval.runs.lookup.refs import Baseline, Refs
from pytest_llmeval.runs.lookup.standing import draws_of_run, standing_runs
from pytest_llmeval.runs.lookup.wanted_commit import (
    AUTO,
    ORIGIN,
    WantedCommit,
    find_wanted,
    name_meant,
    without_prefix,
)
from pytest_llmeval.runs.run_lines import FULL_HASH
from pytest_llmeval.runs.store import (
    BORROWED,
    ENDING,
    FoundRun,
    RunStore,
    StoredRun,
    refuse_tracked,
)

_MOST_TRIALS = 100_000  # the most runs that are read: a page shall not take minutes


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
    for step in refs.steps(wanted, head=None, root=refs.root):
        if exact and step.is_older:
            break
        runs = [refs.store.at_commit(commit) for commit in step.commits]
        notes += [note for listing in runs for note in listing.notes]
        judged = [(one, best_run.unfitness(one.header)) for listing in runs for one in listing.runs]
        fit = [one for one, bars in judged if not bars]
        passed_over += [
            f"passed over: run {one.header.run.id}, {bars[0]}" for one, bars in judged if bars
        ]
        for stored in best_run.best_first(fit):
            if not any(_is_part(stored, of=other) for other in fit):
                found = FoundRun(stored.path, refs.store.load(stored.path), tuple(notes))
                found_at = refs.standing_for(wanted, found, step, reference=reference)
                return _said_whose(found_at, is_own=ref.commit in step.commits)
    raise _nothing(reference, ref.commit, folder=refs.store.folder, passed_over=passed_over)


def _said_whose(found: Baseline, *, is_own: bool) -> Baseline:
    """Say of a run that it is of another commit than the one that was named."""
    if is_own:
        return replace(found, how="commit")
    commits = short_hash(found.wanted or ""), short_hash(found.run.commit or "")
    note = "{}: {} has no run, this is that of {}".format(found.reference, *commits)
    how = f"{found.distance} behind" if found.distance else "with the same files"
    return replace(found, notes=(*found.notes, f"{note}, {how}"))


def _is_part(one: StoredRun, *, of: StoredRun) -> bool:
    narrow, wide = one.header.run.selection, of.header.run.selection
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
    for step in refs.steps(wanted, head=None, root=candidate.root):
        best = search.best_at(*step.commits)
        if best is not None:
            noted = replace(best, notes=(*wanted.notes, *best.notes))
            found = refs.standing_for(wanted, noted, step, reference=reference)
            is_tip = wanted.is_tip and step.how == "merge-base"
            return replace(found, how="commit") if is_tip else found
        ancestors += step.is_substitute
    raise _nothing(
        reference,
        wanted.commit or "",
        where=f" or its {ancestors} nearest ancestors" if ancestors else "",
        folder=refs.store.folder,
        passed_over=search.passed_over,
    )


def _by_name(reference: str, refs: Refs, *, besides: str | None = None) -> Baseline | None:
    named = refs.by_name(reference, excluding=() if besides is None else (besides,))
    if named is None or named.how != "file":
        refuse_tracked(refs.store.directory, git=refs.git)
    if named is not None:
        odd = (
            f"{reference} is {one}"
            for one in best_run.peculiarities(named.run, trials=len(named.run.trials))
        )
        return replace(named, notes=(*named.notes, *odd))
    if reference == "last":
        other = "" if besides is None else f" besides {besides}"
        raise BaselineNotFound(f"last: no run{other} in {refs.store.folder}. Record one: pytest")
    return None


def _wanted(reference: str, refs: Refs, *, seen_from: str | None) -> WantedCommit:
    """Find the commit that a name means, seen from another one, else the name's own commit."""
    if seen_from is not None:
        wanted = find_wanted(reference, git=replace(refs.git, commit=seen_from), ci=refs.ci)
        if wanted.commit is not None:
            return wanted
    return WantedCommit(commit=_resolved(reference, refs).commit, exact=True)


def _find_ref(reference: str, refs: Refs) -> ResolvedRef | None:
    """Find the very commit of a name, here or at origin; a full hash needs no repository."""
    git = refs.git
    if re.fullmatch(FULL_HASH, reference.lower()):
        return ResolvedRef(commit=reference.lower(), full_name=None)
    name = name_meant(reference, git=git, ci=refs.ci) or reference
    if git.top is None:
        return None
    return resolve(name, top=git.top) or resolve(f"{ORIGIN}{name}", top=git.top)


def _resolved(reference: str, refs: Refs) -> ResolvedRef:
    ref, git = _find_ref(reference, refs), refs.git
    if ref is not None:
        return ref
    what = f"{reference}: no table, run file or run id in {refs.store.folder} has that name"
    if git.top is None:
        raise BaselineError(f"{what}, and {git.absent}. List them: llmeval list")
    near = near_names(reference, top=git.top)
    hint = f"Did you mean {' or '.join(near)}?" if near else "List them: llmeval list"
    raise BaselineError(f"{what}, nor a commit, branch or tag. {hint}")


def _nothing(
    reference: str,
    commit: str,
    *,
    folder: Path,
    passed_over: Sequence[str],
    where: str = "",
) -> BaselineNotFound:
    commit = short_hash(commit)
    what = f"no complete run of a clean tree is recorded for {commit}{where} in {folder}"
    if passed_over:
        reasons = "; ".join(passed_over[: best_run.MENTIONED])
        what = f"no run of {commit}{where} in {folder} will do ({reasons})"
    return BaselineNotFound(
        f"{reference}: {what}. Record one: git switch --detach {commit} && pytest"
    )


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
    line = list(refs.steps(WantedCommit(commit=ref.commit), head=None, root=refs.root))
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
    ref = next(filter(None, (_find_ref(name, refs) for name in names)), None)
    if ref is None:
        raise BaselineError(
            f"{reference or 'main'}: no branch has that name, so the runs that it needs are not "
            "known. Name another one:  --keep=REF"
        )
    branch = without_prefix(ref.full_name or "")
    there = refs.git.top and branch and resolve(f"{ORIGIN}{branch}", top=refs.git.top)
    needed: set[str] = set()
    for tip in {ref.commit, there.commit if there else ref.commit}:
        for step in refs.steps(WantedCommit(commit=tip), head=None, root=refs.root):
            runs = (one for commit in step.commits for one in refs.store.at_commit(commit).runs)
            needed.update(one.header.run.id for one in runs if not best_run.unfitness(one.header))
    return frozenset(needed)


def commits_meant(reference: str, refs: Refs, *, among: Collection[str]) -> set[str]:
    """Find the commits that a name leads to: of the name itself, and as a session sees it.

    Args:
        reference: a branch, tag or commit; for another name there is none.
        refs: resolves names.
        among: full hashes of the commits that will do.
    """
    own = _find_ref(reference, refs)
    tip = None if own is None else WantedCommit(commit=own.commit, exact=own.full_name is None)
    found: set[str] = set()
    for wanted in (tip, find_wanted(reference, git=refs.git, ci=refs.ci)):
        if wanted is not None and wanted.commit is not None:
            steps = refs.steps(wanted, head=None, root=refs.root)
            fit = (set(step.commits).intersection(among) for step in steps)
            found |= next(filter(None, fit), set())
    return found


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
        bars = best_run.unfitness(replace(stored.header, run=replace(run, dirty=False, unseen=())))
        if not bars and branch in (None, run.ref) and (run.commit, run.dirty) not in states:
            by_state.setdefault((run.commit, run.dirty), []).append(stored)
    for count, runs in enumerate(by_state.values(), start=len(states)):
        if count >= most or sum(len(run.trials) for run in found) > _MOST_TRIALS:
            break
        found += standing_runs(store, runs, notes)
    return sorted(found, key=lambda run: run.created), notes
