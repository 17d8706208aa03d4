"""Find the recorded run that a session is compared with, or say why there is none."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pytest_llmeval.errors import BaselineError, BaselineNotFound, BaselineUnreadable, counted
from pytest_llmeval.records import CONFIRM, Run, bare_run, too_many_errored
from pytest_llmeval.runs.git import first_parents, short_hash
from pytest_llmeval.runs.lookup.best_run import Search, lost_trials, peculiarities, unfitness
from pytest_llmeval.runs.lookup.history import is_certain
from pytest_llmeval.runs.lookup.refs import Baseline, Refs, Step
from pytest_llmeval.runs.lookup.refusals import Refusals
from pytest_llmeval.runs.lookup.wanted_commit import name_to_show
from pytest_llmeval.runs.run_lines import RunHeader
from pytest_llmeval.runs.store import FoundRun, new_run_id, newest_first
from pytest_llmeval.settings import MARKER, Settings

BASELINE_OPTION = "--llm-baseline"
_MOST_READ = 10  # older runs; a refresh has all draws of a case

# Makes the run of a commit; None if the commit has no eval of the selection.
MakeRun = Callable[[str], FoundRun | None]


def find_baseline(
    reference: str,
    refs: Refs,
    settings: Settings,
    *,
    option: str = BASELINE_OPTION,
    root: str,
    selection: Sequence[str],
    models: frozenset[str] | None = None,
    excluding: Collection[str] = (),
    make: MakeRun | None = None,
) -> Baseline:
    """Find and read the run that a session is to be compared with.

    Args:
        reference: the name of a commit, of which only complete, clean runs count; or of a run of
            any kind.
        refs: resolves names, with git as it was at session start.
        settings: of the session: whether a run of a commit with other files will do, how old a
            run may be without a note, when one is made, and whether draws of older runs count.
        option: for which the run is sought; errors name it.
        root: see ``Search``, as for the further facts on the session.
        selection: see ``records.Run``.
        models: preferred among runs of one commit; runs of another typed model come last.
        excluding: ids of runs that are found only if they are named themselves.
        make: makes the run of a commit that has none; without it an older run may do.

    Raises:
        BaselineError: no run will do, the one that was named is damaged or of other tests, the
            name leads to no commit, or history was cut off.
        SettingsError: a file that git tracks was named, and not by a path.
    """
    search = Search(
        store=refs.store,
        root=root,
        selection=selection,
        models=models,
        typed_model=settings.typed_model,
        excluding=excluding,
    )
    found = _Lookup(reference, option, refs, search, settings, make).find()
    known = {*found.notes, *search.passed_over}
    pools = settings.baseline_repeats > 0 and not option.endswith("-anchor")
    if pools and found.wanted and found.how != "rerun":
        found = replace(found, older=older_runs(found.run, refs))
    unsaid = (complaint for complaint in refs.store.complaints if complaint not in known)
    return replace(found, notes=(*found.notes, *unsaid))


@dataclass(frozen=True, slots=True)
class _Lookup(Refusals):
    """A lookup; see ``find_baseline``."""

    settings: Settings
    make: MakeRun | None

    def find(self) -> Baseline:
        """Find the run by its own name, else by the name of a commit."""
        try:
            named = self.refs.by_name(self.reference, excluding=self.search.excluding)
        except BaselineUnreadable as exc:
            exc.option = self.option
            raise
        return self.recorded() if named is None else self.as_named(named)

    def as_named(self, named: Baseline) -> Baseline:
        """Check a run that was named itself, and note what kind of run it is."""
        run, head = named.run, self.refs.git.commit
        unlikeness = self.search.unlikeness(run)
        if unlikeness is not None:
            raise self.unlike(f"run {run.id}: {unlikeness}")
        notes = [*named.notes, *peculiarities(run, trials=len(run.trials))]
        if run.partial and not run.complete:
            notes.append(
                f"partial: not collected in full: {counted(len(run.partial), 'test function')}"
            )
        if lost := lost_trials(run):
            notes.append(f"{lost} of the baseline are errored: the gate may not be able to judge")
        if run.commit != head:
            notes.append(f"recorded for {_worded(run.commit)}, HEAD is {_worded(head)}")
        return replace(named, notes=tuple(notes))

    def recorded(self) -> Baseline:
        """Find the nearest run of a commit that will do, an empty one if no eval was there yet."""
        if self.reference == "last":
            what = f"no run is recorded in {self.folder()}."
            raise self.not_found(what, todo=f"Record one:  {self.refs.pytest}")
        wanted = self.wanted
        if wanted.commit is None:
            raise self.unrelated() if wanted.is_known else self.unknown()
        if self.is_another_commit_in_ci:
            raise self.not_checked_out()
        looked_at: list[Step] = []
        refs = self.refs
        is_own = self.is_own_branch_in_ci
        missing = None  # the step of which a run can be made
        for step in refs.steps(wanted, head=refs.git.commit, root=self.search.root):
            if missing and step.is_older and not missing.is_older:
                break  # no older run is taken where a new one can be made
            # A branch in CI is compared with its past, never with its own commit made again.
            if self.make and not missing and (step.is_older or not is_own):
                missing = step
                if self.settings.on_missing == "rerun-always":
                    break
            best = self.search.best_at(*step.commits)
            if best is not None:
                return self._found(best, step, looked_at)
            looked_at.append(step)
        if self.make and missing:
            return self._made(self.make, missing)
        error = self.nothing_recorded(looked_at)
        # A shallow clone cannot tell; on the branch itself this run is the first of the branch.
        may_be_first = isinstance(error, BaselineNotFound) and error.stops
        nearest = looked_at[0].commits[0]
        if may_be_first and refs.history.lacks_text(MARKER, commit=nearest):
            return self._nothing_yet(nearest)
        raise error

    def _made(self, make: MakeRun, step: Step) -> Baseline:
        """Make the run of a commit now."""
        commit = step.commits[0]
        try:
            run = make(commit)
        except BaselineError as exc:
            raise self.not_made(commit, exc) from exc
        if run is None:
            return self._nothing_yet(commit)
        made = self.refs.standing_for(self.wanted, run, step, reference=self.reference)
        said = (*self.said, *self.search.mentioned(), *run.notes)
        return replace(made, how="rerun", notes=said)

    def _found(self, best: FoundRun, step: Step, looked_at: Sequence[Step]) -> Baseline:
        best = replace(best, notes=self._notes(best, step, looked_at))
        found = self.refs.standing_for(self.wanted, best, step, reference=self.reference)
        if step.is_substitute and self.settings.gate.strict:
            raise self.refused(found)
        return found

    def _notes(self, best: FoundRun, step: Step, looked_at: Sequence[Step]) -> tuple[str, ...]:
        notes = [*self.said, *self.search.mentioned(), *best.notes]
        nearer = [commit for each in looked_at for commit in each.commits]
        if nearer and not (step.is_substitute or step.how == "equal tree"):
            which = counted(len(nearer), f"{'nearer' if step.is_older else 'earlier'} commit")
            first = short_hash(nearer[0])
            notes.append(f"passed over: {which} without a run that will do, {first} first of all")
        if not is_certain(self.wanted, at=self.refs.history.git):
            lies = "the true merge-base may lie where history was cut off"
            notes.append(f"this clone is shallow: {lies}")
        age = (datetime.now(UTC) - datetime.fromisoformat(best.run.created)).days
        oldest = self.settings.baseline_age
        if self.option == BASELINE_OPTION and age > oldest:
            notes.append(
                f"the baseline is {age} days old, and models change under their names: record it "
                f"anew, or raise llm_baseline_age ({oldest})"
            )
        return tuple(notes)

    def _nothing_yet(self, commit: str) -> Baseline:
        now = datetime.now(UTC)
        created = now.isoformat(timespec="seconds")
        run = bare_run(new_run_id(now), created=created, commit=commit, root=self.search.root)
        note = f"nothing to compare with yet: {short_hash(commit)} has no eval and no run"
        return Baseline.of(
            FoundRun(self.refs.store.folder, run, (note,)),
            name_to_show(self.reference, self.wanted),
            how="nothing yet",
        )


def _worded(commit: str | None) -> str:
    return "no commit" if commit is None else f"commit {short_hash(commit)}"


def older_runs(run: Run, refs: Refs) -> tuple[Run, ...]:
    """Read the other runs of a commit and of its ancestors that paid for draws, newest first.

    Only runs that lie here are read: no history is fetched, and no remote is asked. Fresh trials by
    which a fall of HEAD itself was looked at again are not among them.

    Args:
        run: the baseline.
        refs: with its store, and how many commits to go back.
    """
    top, commit = refs.git.top, run.commit
    if top is None or commit is None:
        return ()
    line = (commit, *first_parents(commit, top=top, at_most=refs.reach))
    stored = [one for name in line for one in refs.store.here_at(name).runs]
    # whoever judges this commit again, and asks the same, is to find the same suspects
    head = refs.store.here_at(refs.git.commit).runs if refs.git.commit else ()
    own = {run.id, *(one.run.id for one in head)}
    found: list[Run] = []
    for one in newest_first(stored):
        is_own = one.run.id == run.id or one.run.asked_by in own
        if len(found) < _MOST_READ and not is_own and _fits(one.header, run):
            with suppress(BaselineUnreadable):
                found.append(refs.store.load(one.path))
    return tuple(found)


def _fits(header: RunHeader, run: Run) -> bool:
    """Tell whether all trials of a run were made, with nothing that chose among them."""
    one = header.run
    same = (one.root, one.typed_model) == (run.root, run.typed_model)
    if not same or header.only_replayed:
        return False
    if one.made == CONFIRM:  # complete by itself, if not of its suite
        lost = too_many_errored(header.errored, ran=header.ran)
        return not (lost or one.dirty or one.unseen)
    return not unfitness(header)
