"""The runs of one commit after another, until one will do as a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.runs.git import short
from pytest_llmeval.runs.lookup.eligible import Demand, shortcomings, too_many_errored
from pytest_llmeval.runs.store import FoundRun, RunStore, StoredRun


class _Rank(NamedTuple):
    """How well a run stands for its commit, the most important first; the lowest is best.

    Attributes:
        models: see ``Demand.model_rank``.
        errored: too many of its trials are errored.
        replayed: it paid for nothing, so it has no draw that an earlier run had not, and
            may well have fewer of them.
    """

    models: int
    errored: bool
    replayed: bool


class Search:
    """One look through the store, and what it had to leave aside.

    Attributes:
        passed_over: sentences about runs that would not do, of commits that have no run that will.
        unseen: the files for which runs were passed over, as git did not look at them.
        unlike: what makes the first complete and clean one among them another project's, if any.
    """

    def __init__(self, store: RunStore, *, demand: Demand, excluding: Collection[str] = ()) -> None:
        self._store = store
        self._excluding = excluding
        self._demand = demand
        self.passed_over: list[str] = []
        self.unseen: list[str] = []
        self.unlike: str | None = None

    def best_at(self, commit: str) -> FoundRun | None:
        """Read the best run of a commit that is complete, clean and alike, if it has one."""
        listing = self._store.at_commit(commit)
        self.passed_over += listing.notes
        runs = tuple(r for r in listing.runs if r.header.run.id not in self._excluding)
        eligible = self._eligible(runs, commit=commit)
        for stored in sorted(eligible, key=self._rank):  # newest first within a rank
            try:
                run = self._store.load(stored.path)
            except BaselineUnreadable as exc:
                self.passed_over.append(f"passed over: {exc}")
                continue
            return FoundRun(stored.path, run, self._notes(stored, among=eligible))
        return None

    def _eligible(self, runs: tuple[StoredRun, ...], *, commit: str) -> list[StoredRun]:
        reasons: Counter[str] = Counter()
        eligible = []
        for stored in runs:
            run = stored.header.run
            bars = shortcomings(run, trials=stored.header.trials)
            unlikeness = self._demand.unlikeness(run)
            if bars:
                reasons[" and ".join(bars)] += 1
            elif unlikeness is not None:
                reasons[unlikeness] += 1
                self.unlike = self.unlike or f"run {run.id} of {short(commit)}: {unlikeness}"
            else:
                eligible.append(stored)
        if not eligible:
            self.unseen += [name for stored in runs for name in stored.header.run.unseen]
            # There may be a hundred dirty runs of one commit: they are counted, not listed.
            self.passed_over += [
                f"passed over: {number} run(s) of {short(commit)}, {reason}"
                for reason, number in reasons.items()
            ]
        return eligible

    def _rank(self, stored: StoredRun) -> _Rank:
        header = stored.header
        return _Rank(
            models=self._demand.model_rank(header.models_asked),
            errored=too_many_errored(header.errored, ran=header.ran),
            replayed=header.only_replayed,
        )

    def _notes(self, chosen: StoredRun, *, among: Sequence[StoredRun]) -> tuple[str, ...]:
        model_note = self._demand.model_note(chosen.header.models_asked)
        notes = [] if model_note is None else [model_note]
        rank = self._rank(chosen)
        for newer in among[: among.index(chosen)]:
            if self._rank(newer)[:2] == (rank.models, True) and not rank.errored:
                errored, ran = newer.header.errored, newer.header.ran
                notes.append(f"a newer run of this commit has {errored} of {ran} trials errored")
                break  # the newest of them stands for all: nothing else is known of the rest
        return tuple(notes)
