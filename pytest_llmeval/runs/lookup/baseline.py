"""Which recorded run a session is held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pytest_llmeval.errors import (
    BaselineError,
    BaselineNotFound,
    BaselineUnlike,
)
from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.runs.git import GitState, lacks, short
from pytest_llmeval.runs.lookup.eligible import Demand, peculiarities, too_many_errored
from pytest_llmeval.runs.lookup.history import (
    DEEPEN,
    NEAREST,
    Step,
    Trail,
    find_trail,
    leads_nowhere,
    not_found,
    option,
)
from pytest_llmeval.runs.lookup.named import find_by_name
from pytest_llmeval.runs.lookup.search import Search
from pytest_llmeval.runs.store import FoundRun, RunStore, first_of, new_run_id

MARKER = "llm_eval"
MENTIONED = 3

How = Literal[
    "file",
    "last",
    "run id",
    "commit",
    "merge-base",
    "earlier commit",
    "this very commit",
    "table",
    "nothing yet",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The run to compare with, and how it was found.

    Attributes:
        run: read to its end.
        path: its file.
        reference: what the user named.
        commit: the commit it was recorded for, None outside git.
        how: the way from the reference to the run. ``merge-base`` stands for its nearest
            ancestors too, ``earlier commit`` for those of HEAD; ``table`` is a score table,
            ``nothing yet`` a run without cases, for a commit without evals.
        distance: commits behind the wanted one: the commit or merge-base, or HEAD itself
            for ``earlier commit``; 0 for a run that was named.
        notes: sentences to print before anything is paid for.
    """

    run: Run
    path: Path
    reference: str
    commit: str | None
    how: How
    distance: int = 0
    notes: tuple[str, ...] = ()


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
        reference: the path of a run file, ``last``, a run id, a branch, a tag or a commit;
            tried in this order, and at last a file whose name does not look like a path.
            Refs lead to complete, clean runs of their commits alone; a run that is named
            otherwise may be of any kind, and the notes say of which.
        store: where runs are kept.
        git: the state at session start.
        root: rootpath relative to git's top level, ``.`` for the same.
        selection: the session's, see ``records.Run``.
        models: models that the session is known to ask; preferred among several runs of
            one commit.
        excluding: ids of runs that are found only if they are named themselves.

    Raises:
        BaselineNotFound: no run that will do.
        BaselineError: the name leads to no commit, or the history was cut off.
        BaselineUnreadable: the run that was named cannot be read.
        BaselineUnlike: the run is of another folder or of other tests.
        SettingsError: a file that git tracks was named, and not by a path.
    """
    demand = Demand(root=root, selection=tuple(selection), models=models)
    named = find_by_name(reference, store=store, git=git, excluding=excluding)
    if named is not None:
        how, found = named
        return _as_named(reference, found, how=how, demand=demand, git=git)
    if reference == "last":
        what = f"no run is recorded in {_shown(store.folder)}."
        raise not_found(reference, what, todo="Record one:  pytest")
    trail = find_trail(reference, git=git)
    search = Search(store, demand=demand, excluding=excluding)
    recorded = _along(reference, trail, search=search, git=git)
    if recorded is not None:
        return recorded
    missing = _nothing_recorded(reference, trail, search=search, git=git, folder=store.folder)
    nearest = trail.steps[0].commit
    may_be_first = isinstance(missing, BaselineNotFound)  # a shallow clone cannot tell
    if may_be_first and git.top and lacks(MARKER, commit=nearest, top=git.top):
        return _nothing_yet(reference, nearest, demand=demand, folder=store.folder)
    raise missing


def _as_named(
    reference: str, found: FoundRun, *, how: How, demand: Demand, git: GitState
) -> Baseline:
    run = found.run
    unlikeness = demand.unlikeness(run)
    if unlikeness is not None:
        raise _unlike(reference, f"run {run.id}: {unlikeness}")
    notes = [*found.notes, *peculiarities(run, trials=len(run.trials))]
    if run.partial and not run.complete:
        notes.append(f"partial: {len(run.partial)} test function(s) were not collected in full")
    notes += _errored_notes(run)
    if run.commit != git.commit:
        notes.append(f"recorded for {_worded(run.commit)}, HEAD is {_worded(git.commit)}")
    return Baseline(
        run=run,
        path=found.path,
        reference=reference,
        commit=run.commit,
        how=how,
        notes=tuple(notes),
    )


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
    return "no commit" if commit is None else f"commit {short(commit)}"


def _along(reference: str, trail: Trail, *, search: Search, git: GitState) -> Baseline | None:
    for step in trail.steps:
        found = search.best_at(step.commit)
        if found is not None:
            return Baseline(
                run=found.run,
                path=found.path,
                reference=reference,
                commit=step.commit,
                how=_way(step, trail=trail, git=git),
                distance=step.distance,
                notes=(
                    *_mentioned(search),
                    *found.notes,
                    *_errored_notes(found.run),
                    *_way_notes(step, trail=trail, git=git),
                ),
            )
    if search.unlike is not None:
        raise _unlike(reference, search.unlike)
    return None


def _nothing_yet(reference: str, commit: str, *, demand: Demand, folder: Path) -> Baseline:
    now = datetime.now(UTC)
    run = Run(
        id=new_run_id(now),
        created=now.isoformat(timespec="seconds"),
        commit=commit,
        tree=None,
        dirty=False,
        ref=None,
        root=demand.root,
        versions={},
        selection=(),
        complete=True,
        partial=(),
        cases=(),
        trials=(),
    )
    note = f"nothing to compare with yet: {short(commit)} has no eval and no run"
    return Baseline(
        run=run,
        path=folder,
        reference=reference,
        commit=commit,
        how="nothing yet",
        notes=(note,),
    )


def _mentioned(search: Search) -> list[str]:
    passed_over = search.passed_over
    more = len(passed_over) - MENTIONED
    return passed_over[:MENTIONED] + ([f"passed over: {more} more"] if more > 0 else [])


def _way(step: Step, *, trail: Trail, git: GitState) -> How:
    if step.commit == git.commit:
        return "this very commit"
    if trail.exact:
        return "commit"
    return "earlier commit" if trail.wanted == git.commit else "merge-base"


def _way_notes(step: Step, *, trail: Trail, git: GitState) -> tuple[str, ...]:
    notes = []
    nearer = trail.steps.index(step)
    if nearer:
        first = short(trail.steps[0].commit)
        notes.append(f"{nearer} nearer commit(s) have no run that will do, {first} first of all")
    if git.shallow and not trail.exact:
        notes.append("this clone is shallow: the true merge-base may lie where history was cut off")
    return tuple(notes)


def _unlike(reference: str, what: str) -> BaselineUnlike:
    return BaselineUnlike(f"{option(reference)}: {what}.\n       Record one that fits:  pytest")


def _nothing_recorded(
    reference: str, trail: Trail, *, search: Search, git: GitState, folder: Path
) -> BaselineError:
    ancestors = len(trail.steps) - 1
    what = f"no complete run recorded for {reference}"
    if not trail.exact:
        what += f" (merge-base {short(trail.wanted)})"
    if ancestors:
        what += f" nor its {ancestors} nearest ancestor{'s' * (ancestors > 1)}"
    what += f" in {_shown(folder)}."
    for sentence in _mentioned(search):
        what += f"\n       {sentence}"
    if git.shallow and not trail.exact and ancestors < NEAREST:
        return leads_nowhere(reference, f"{what} This clone is shallow.", todo=DEEPEN)
    todo = f"{_to_be_seen(search.unseen, git=git)}Record one:  {_recording(trail, git=git)}"
    return not_found(reference, what, todo=todo)


def _to_be_seen(unseen: Sequence[str], *, git: GitState) -> str:
    """Say what to do before a run is recorded, or that will be passed over for the same files."""
    hidden = [name for name in dict.fromkeys(unseen) if name in git.hidden]
    unknown = [name for name in dict.fromkeys(unseen) if name not in git.hidden]
    steps = []
    if unknown:
        steps.append(f"git add {first_of(unknown)} and commit, or name it in .gitignore")
    if hidden:
        names = first_of(hidden)
        steps.append(f"git update-index --no-assume-unchanged, or --no-skip-worktree, {names}")
    return "".join(f"First:  {step}\n       " for step in steps)


def _recording(trail: Trail, *, git: GitState) -> str:
    stash = "git stash && " if git.dirty else ""
    if trail.wanted == git.commit:
        return f"{stash}pytest"
    target = trail.branch or f"--detach {short(trail.wanted)}"
    return f"{stash}git switch {target} && pytest"


def _shown(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(folder)
