"""Search commits, one after the other, for a run that suits as a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pytest_llmeval import records
from pytest_llmeval.errors import BaselineUnreadable, counted
from pytest_llmeval.runs.git import short_hash
from pytest_llmeval.runs.run_lines import RunHeader
from pytest_llmeval.runs.store import (
    FoundRun,
    Listing,
    RunStore,
    StoredRun,
    ahead,
    first_of,
    is_run_id,
    newest_first,
)

MENTIONED = 3
OTHER_MODELS = "other models: "  # how a note on models begins


@dataclass(slots=True, kw_only=True)
class Search:
    """A search for a suitable run, with notes of the runs that it passed over.

    Attributes:
        store: where runs are kept.
        root: the session's rootpath relative to git's top level.
        selection: see ``records.Run``; empty for everything.
        models: models that the session is known to ask; None if not known yet.
        typed_model: see ``records.Run``.
        excluding: ids of runs that will not do.
        passed_over: sentences about runs that would not do, of commits that have no run that will.
        unseen: the files for which runs were passed over, as git did not look at them.
        unlike: why the first complete and clean run among these is another project's, if it is.
    """

    store: RunStore
    root: str
    selection: Sequence[str]
    models: frozenset[str] | None = None
    typed_model: str | None = None
    excluding: Collection[str] = ()
    passed_over: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    unlike: str | None = None

    def mentioned(self) -> list[str]:
        """Return the first notes of runs that were passed over, and the number of the others."""
        more = len(self.passed_over) - MENTIONED
        shown = self.passed_over[:MENTIONED]
        return [*shown, f"passed over: {more} more"] if more > 0 else shown

    def unlikeness(self, run: records.Run) -> str | None:
        """Name the property by which a run does not fit this session; None if it fits."""
        if run.root != self.root:
            return f"it was recorded with rootdir {run.root!r}, this session has {self.root!r}"
        if not covers(run.selection, narrow=self.selection):
            return f"it covers {_selected(run.selection)}, this session {_selected(self.selection)}"
        return None

    def best_at(self, *commits: str) -> FoundRun | None:
        """Read the best run of these commits that is complete, clean and fits, if they have one.

        Runs that were recorded here come first. Another place, which may not answer, is asked only
        where no run here will do without a note.
        """
        said = len(self.passed_over)
        best = self._best_of({commit: self.store.here_at(commit) for commit in commits})
        if (best is not None and not best.notes) or not self.store.elsewhere:
            return best
        del self.passed_over[said:]
        return self._best_of({commit: self.store.at_commit(commit) for commit in commits})

    def _best_of(self, listings: Mapping[str, Listing]) -> FoundRun | None:
        eligible: list[StoredRun] = []
        for commit, listing in listings.items():
            self.passed_over += listing.notes
            runs = [one for one in listing.runs if one.run.id not in self.excluding]
            eligible += self._eligible(runs, commit=commit)
        for stored in best_first(eligible, models=self.models, typed=self.typed_model):
            try:
                run = self.store.load(stored.path)
            except BaselineUnreadable as exc:
                self.passed_over.append(f"passed over: {exc}")
                continue
            if crashed := crashed_functions(run):
                name = f"run {run.id} of {short_hash(run.commit or '')}"
                self.passed_over.append(f"passed over: {name}, {crashed[0]}")
                continue
            return FoundRun(stored.path, run, self._notes(stored))
        return None

    def _eligible(self, runs: Iterable[StoredRun], *, commit: str) -> list[StoredRun]:
        reasons: Counter[str] = Counter()
        runs = [one for one in runs if one.run.made != records.CONFIRM]
        eligible = []
        for stored in runs:
            run, bars = stored.run, unfitness(stored.header)
            unlikeness = self.unlikeness(run)
            if bars:
                reasons[" and ".join(bars)] += 1
            elif unlikeness is not None:
                reasons[unlikeness] += 1
                self.unlike = self.unlike or f"run {run.id} of {short_hash(commit)}: {unlikeness}"
            else:
                eligible.append(stored)
        if not eligible:
            self.unseen += [name for stored in runs for name in stored.run.unseen]
            # There may be a hundred dirty runs of one commit: they are counted, not listed.
            self.passed_over += [
                f"passed over: {counted(number, 'run')} of {short_hash(commit)}, {reason}"
                for reason, number in reasons.items()
            ]
        return eligible

    def _notes(self, chosen: StoredRun) -> tuple[str, ...]:
        asked, typed = chosen.header.models_asked, chosen.run.typed_model
        if typed is not None and self.typed_model is None:
            return (f"--llm-model={typed} was typed for the baseline's run, and is not here",)
        if self.models is None or self.models <= asked:
            return ()
        own = _listed(self.models)
        return (f"{OTHER_MODELS}it asked {_listed(asked)}, this session asks {own}",)


def best_first(
    runs: Iterable[StoredRun], *, models: frozenset[str] | None = None, typed: str | None = None
) -> list[StoredRun]:
    """Sort runs of one commit, the best one first, and the newest first within a rank.

    Runs for which another model was typed come last: such a run tells of its model, not of the
    commit. Runs that asked the same models come first, then runs that asked others too, then the
    rest. A run that paid for nothing has only draws that earlier runs had, and may have fewer.

    Args:
        runs: of one commit.
        models: that are to be asked; None if that is not known.
        typed: the model that was typed here.
    """

    def rank(stored: StoredRun) -> tuple[bool, int, bool]:
        asked, unlike = stored.header.models_asked, 0
        if models is not None and asked != models:
            unlike = 1 if models < asked else 2
        is_tried = stored.run.typed_model not in (None, typed)
        return is_tried, unlike, stored.header.only_replayed

    return sorted(newest_first(runs), key=rank)


def unfitness(header: RunHeader) -> tuple[str, ...]:
    """List the reasons why a recorded run cannot stand for its commit."""
    found = shortcomings(header.run, trials=header.trials)
    if records.too_many_errored(header.errored, ran=header.ran):
        return (*found, f"{header.errored} of {header.ran} trials errored")
    return found


def unusable_trials(run: records.Run) -> tuple[str, ...]:
    """List the reasons for which the trials of a run make it no baseline."""
    lost = lost_trials(run)
    return (*([f"{lost} errored"] if lost else []), *crashed_functions(run))


def lost_trials(run: records.Run) -> str:
    """Say how many trials of a run are errored, if they are too many; else nothing."""
    ended = Counter(trial.outcome for trial in run.trials)
    errored, ran = ended[records.Outcome.ERRORED], len(run.trials) - ended[records.Outcome.SKIPPED]
    return f"{errored} of {ran} trials" if records.too_many_errored(errored, ran=ran) else ""


def crashed_functions(run: records.Run) -> tuple[str, ...]:
    """Say of each function of a run that crashed too soon to be a baseline how often, and where."""
    functions: dict[str, list[records.Trial]] = {}
    for case, trials in zip(run.cases, records.trials_by_case(run).values(), strict=True):
        functions.setdefault(case.function, []).extend(trials)
    found = []
    for function, trials in functions.items():
        if crashed := records.crashed_too_soon(trials):
            asked = "" if any(one.asked for one in crashed) else " before they asked anything"
            many = f"{len(crashed)} of {len(trials)} trials of {records.bare(function)}"
            found.append(f"{many} crashed{asked} ({crashed[0].message})")
    return tuple(found)


def shortcomings(run: records.Run, *, trials: int) -> tuple[str, ...]:
    """List what the header of a run tells against its standing for its commit."""
    found = []
    if run.unseen:
        found.append(f"dirty: git did not look at {first_of(run.unseen)}")
    elif run.dirty:
        files = first_of(run.changed) if run.changed else "tracked files"
        found.append(f"dirty: {files} differed from the commit")
    if not run.complete:
        wanted = sum(case.repeats for case in run.cases)
        cause = "not everything was collected"
        if run.made == records.CONFIRM:
            cause = "some cases, asked again to confirm a fall"
        elif trials < wanted:
            cause = f"{trials} of {wanted} trials{', as it stopped early' * run.stopped}"
        found.append(f"incomplete: {cause}")
    is_dated = is_run_id(run.id)  # the name of a score table has no time
    return (*found, *filter(None, [ahead(run.id)] if is_dated else []))


def peculiarities(run: records.Run, *, trials: int) -> tuple[str, ...]:
    """List the shortcomings of a run that was named, and the part of the tests that it covers."""
    found = shortcomings(run, trials=trials)
    typed = (f"--llm-model={run.typed_model} was typed",) if run.typed_model else ()
    part = (f"of {_selected(run.selection)} alone",) if run.selection else ()
    return (*found, *typed, *part)


def remarks_on(header: RunHeader) -> tuple[str, ...]:
    """List the same of a run of which the first line alone was read, and its errored trials."""
    known = (*unfitness(header), *peculiarities(header.run, trials=header.trials))
    return tuple(dict.fromkeys(known))


def covers(wide: Sequence[str], *, narrow: Sequence[str]) -> bool:
    """Tell whether a selection contains another one; the empty one contains everything.

    Each path of the narrow selection must lie below a path of the wide one. Options only leave
    tests out, so the narrow selection must have each option of the wide one.
    """
    if not records.filters_of(wide) <= records.filters_of(narrow):
        return False
    outer, inner = records.paths_of(wide), records.paths_of(narrow)
    if not outer:
        return True
    return bool(inner) and all(any(_reaches(path, item) for path in outer) for item in inner)


def _reaches(path: str, item: str) -> bool:
    if "::" in path:
        return records.is_below(item, path)
    return PurePosixPath(item.partition("::")[0]).is_relative_to(path)


def _selected(selection: Sequence[str]) -> str:
    return _listed(selection) if selection else "everything"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(repr(word) for word in sorted(words)) or "none"
