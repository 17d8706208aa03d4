"""Find the recorded run that a session is compared with, or say why there is none."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pytest_llmeval.errors import (
    BaselineError,
    BaselineNotFound,
    BaselineUnlike,
    BaselineUnreadable,
)
from pytest_llmeval.records import Outcome, Run, bare_run, too_many_errored
from pytest_llmeval.runs.git import (
    GitState,
    ResolvedRef,
    lacks_text,
    near_names,
    resolve,
    short_hash,
)
from pytest_llmeval.runs.lookup.best_run import Search, peculiarities
from pytest_llmeval.runs.lookup.refs import (
    NEAREST,
    Baseline,
    How,
    Refs,
    found_as,
)
from pytest_llmeval.runs.lookup.wanted import AUTO, WantedCommit
from pytest_llmeval.runs.store import FoundRun, first_of, new_run_id

BASELINE_OPTION = "--llm-baseline"
MARKER = "llm_eval"
DEEPEN = "Fetch the history:  git fetch --unshallow  (in GitHub's actions/checkout: fetch-depth: 0)"


def find_baseline(
    reference: str,
    refs: Refs,
    *,
    option: str = BASELINE_OPTION,
    root: str,
    selection: Sequence[str],
    models: frozenset[str] | None = None,
    excluding: Collection[str] = (),
) -> Baseline:
    """Find and read the run that a session is to be compared with.

    Args:
        reference: names of commits lead to complete, clean runs alone; a run that is named
            otherwise may be of any kind, and the notes say of which.
        refs: resolves names, with git as it was at session start.
        option: for which the run is sought; errors name it.
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
    search = Search(
        store=refs.store, root=root, selection=selection, models=models, excluding=excluding
    )
    lookup = _Lookup(reference, option, refs, search)
    try:
        named = refs.by_name(reference, excluding=excluding)
    except BaselineUnreadable as exc:
        raise BaselineUnreadable(str(exc).replace(BASELINE_OPTION, option)) from exc
    return lookup.recorded() if named is None else lookup.as_named(named)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A lookup, and its errors, each of which begins with the option as typed.

    Attributes:
        reference: what the user named.
        option: for which the run is sought.
        refs: resolves names.
        search: looks for runs of commits.
    """

    reference: str
    option: str
    refs: Refs
    search: Search

    def as_named(self, named: Baseline) -> Baseline:
        """Check a run that was named itself, and note what kind of run it is."""
        run, head = named.run, self.refs.git.commit
        unlikeness = self.search.unlikeness(run)
        if unlikeness is not None:
            raise self._unlike(f"run {run.id}: {unlikeness}")
        notes = [*named.notes, *peculiarities(run, trials=len(run.trials))]
        if run.partial and not run.complete:
            notes.append(f"partial: {len(run.partial)} test function(s) were not collected in full")
        notes += _errored_notes(run)
        if run.commit != head:
            notes.append(f"recorded for {_worded(run.commit)}, HEAD is {_worded(head)}")
        return replace(named, notes=tuple(notes))

    def recorded(self) -> Baseline:
        """Find the nearest run of a commit that will do, an empty one if no eval was there yet."""
        if self.reference == "last":
            what = f"no run is recorded in {self._folder()}."
            raise self._not_found(what, todo="Record one:  pytest")
        wanted, steps = self._steps()
        for nearer, (distance, commit) in enumerate(steps):
            best = self.search.best_at(commit)
            if best is not None:
                notes = self._notes(best, nearer=nearer, first=steps[0][1], wanted=wanted)
                how = self._way(commit, wanted=wanted)
                found = found_as(best, self._name(wanted), how=how, distance=distance)
                return replace(found, notes=notes)
        if self.search.unlike is not None:
            raise self._unlike(self.search.unlike)
        error = self._nothing_recorded(wanted, ancestors=len(steps) - 1)
        nearest = steps[0][1]
        may_be_first = isinstance(error, BaselineNotFound)  # a shallow clone cannot tell
        top = self.refs.git.top
        if may_be_first and top is not None and lacks_text(MARKER, commit=nearest, top=top):
            return self._nothing_yet(nearest)
        raise error

    def _steps(self) -> tuple[WantedCommit, Sequence[tuple[int, str]]]:
        """Find the commits that the name leads to, in the order in which they are looked at.

        Each comes with how far it lies behind the wanted one.
        """
        git = self.refs.git
        wanted = self.refs.wanted(self.reference)
        if wanted.commit is None:
            raise self._unrelated(wanted) if wanted.is_known else self._unknown(wanted)
        if wanted.exact:
            return wanted, [(0, wanted.commit)]
        steps = list(enumerate(self.refs.with_ancestors(wanted.commit)))
        if wanted.is_tip and wanted.commit == git.commit and not git.dirty:
            # A clean tree at the ref's own commit asks what the last commit did to it.
            steps = [*steps[1:], steps[0]]
        return wanted, steps

    def _name(self, wanted: WantedCommit) -> str:
        return wanted.branch or AUTO if self.reference == AUTO else self.reference

    def _notes(
        self, best: FoundRun, *, nearer: int, first: str, wanted: WantedCommit
    ) -> tuple[str, ...]:
        notes = [*wanted.notes, *self.search.mentioned(), *best.notes, *_errored_notes(best.run)]
        if nearer:
            behind = short_hash(first)
            notes.append(
                f"{nearer} nearer commit(s) have no run that will do, {behind} first of all"
            )
        if self.refs.git.shallow and not (wanted.exact or wanted.told_by_ci):
            notes.append(
                "this clone is shallow: the true merge-base may lie where history was cut off"
            )
        return tuple(notes)

    def _way(self, commit: str, *, wanted: WantedCommit) -> How:
        if commit == self.refs.git.commit:
            return "this very commit"
        if wanted.exact:
            return "commit"
        if wanted.told_by_ci:
            return "named by CI"
        return "earlier commit" if wanted.commit == self.refs.git.commit else "merge-base"

    def _nothing_yet(self, commit: str) -> Baseline:
        now = datetime.now(UTC)
        created = now.isoformat(timespec="seconds")
        run = bare_run(new_run_id(now), created=created, commit=commit, root=self.search.root)
        note = f"nothing to compare with yet: {short_hash(commit)} has no eval and no run"
        return found_as(
            FoundRun(self.refs.store.folder, run, (note,)), self.reference, how="nothing yet"
        )

    def _unknown(self, wanted: WantedCommit) -> BaselineError:
        """Make the error for an unknown name, with the names that are like it."""
        git = self.refs.git
        if git.top is None or git.commit is None:
            absent = git.absent or "this repository has no commit yet"
            return self._leads_nowhere(
                "no file and no recorded run has that name, and no git ref can be looked up: "
                f"{absent}.",
                todo="Name a run file, a run id, a full commit hash, or:  "
                f"pytest {self.option}=last",
            )
        what = "no file, run id, commit, branch or tag has that name, here or at origin."
        if git.shallow:
            what = f"{what} This clone is shallow."
            return self._leads_nowhere(what, todo=DEEPEN, notes=wanted.notes)
        near = near_names(self.reference, top=git.top)
        todo = "List them:  git branch --all && git tag"
        if near:
            todo = f"Did you mean {' or '.join(near)}?  pytest {self._typed(near[0])}"
        return self._leads_nowhere(what, todo=todo, notes=wanted.notes)

    def _unrelated(self, wanted: WantedCommit) -> BaselineError:
        what, todo = "it has no common ancestor with HEAD", "Name a commit, a run id or a run file."
        if self.refs.git.shallow:
            what, todo = f"{what} in this shallow clone.", DEEPEN
        else:
            what = f"{what}: their histories are unrelated."
        return self._leads_nowhere(what, todo=todo, notes=wanted.notes)

    def _unlike(self, what: str) -> BaselineUnlike:
        """Make the error for a run of another folder or of other tests."""
        named = self._typed(self.reference)
        return BaselineUnlike(f"{named}: {what}.\n       Record one that fits:  pytest")

    def _nothing_recorded(self, wanted: WantedCommit, *, ancestors: int) -> BaselineError:
        """Make the error for commits without a suitable run; it says how to record one."""
        git, commit = self.refs.git, wanted.commit or ""
        what = f"no complete run recorded for {self._name(wanted)}"
        if not wanted.exact:
            way = "CI names" if wanted.told_by_ci else "merge-base"
            what += f" ({way} {short_hash(commit)})"
        if ancestors:
            what += f" nor its {ancestors} nearest ancestor{'s' * (ancestors > 1)}"
        said = (*wanted.notes, *self.search.mentioned())
        what = "\n       ".join([f"{what} in {self._folder()}.", *said])
        if git.shallow and not wanted.exact and ancestors < NEAREST:
            return self._leads_nowhere(f"{what} This clone is shallow.", todo=DEEPEN)
        steps = [
            *(["git stash"] if git.dirty else []),
            *([] if commit == git.commit else [f"git switch {self._where(wanted)}"]),
            "pytest",
        ]
        first = _to_be_seen(self.search.unseen, git=git)
        return self._not_found(what, todo=f"{first}Record one:  {' && '.join(steps)}")

    def _where(self, wanted: WantedCommit) -> str:
        """Write what to switch to: a local branch if that is the commit, else the commit."""
        top, branch, commit = self.refs.git.top, wanted.branch, wanted.commit or ""
        ref = None if top is None or branch is None else resolve(branch, top=top)
        is_tip = ref == ResolvedRef(commit=commit, full_name=f"refs/heads/{branch}")
        return branch if is_tip and branch else f"--detach {short_hash(commit)}"

    def _not_found(self, what: str, *, todo: str) -> BaselineNotFound:
        """Make the error for a run that somebody has to record first."""
        named = self._typed(self.reference)
        ungated = "or, where that records no eval, run ungated:  add --llm-on-missing=warn"
        return BaselineNotFound(
            f"{named}: {what}\n       {todo}      {ungated}",
            line=f"{named}: {' '.join(f'{what} {todo}'.split())}",
        )

    def _leads_nowhere(self, what: str, *, todo: str, notes: tuple[str, ...] = ()) -> BaselineError:
        """Make the error for a name that leads to no commit.

        Not ``BaselineNotFound``: ``--llm-on-missing=warn`` is for a first run without a
        baseline. It must not let a mistyped name or a cut-off history pass ungated.
        """
        lines = (f"{self._typed(self.reference)}: {what}", *notes, todo)
        return BaselineError("\n       ".join(lines))

    def _folder(self) -> str:
        """Write where runs are kept, as seen from the working directory."""
        folder = self.refs.store.folder
        try:
            return str(folder.relative_to(Path.cwd()))
        except (ValueError, OSError):
            return str(folder)

    def _typed(self, reference: str) -> str:
        typed = reference if reference.isprintable() else ascii(reference)
        return f"{self.option}={shlex.quote(typed)}"


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


def _to_be_seen(unseen: Sequence[str], *, git: GitState) -> str:
    """List what to do before recording, so that the new run is not passed over likewise."""
    hidden = [name for name in dict.fromkeys(unseen) if name in git.hidden]
    untracked = [name for name in dict.fromkeys(unseen) if name not in git.hidden]
    steps = []
    if untracked:
        steps.append(f"git add {first_of(untracked)} and commit, or name it in .gitignore")
    if hidden:
        names = first_of(hidden)
        steps.append(f"git update-index --no-assume-unchanged, or --no-skip-worktree, {names}")
    return "".join(f"First:  {step}\n       " for step in steps)
