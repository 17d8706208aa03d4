"""The runs of one commit after another, until one will do as a baseline."""

from __future__ import annotations

from collections import Counter

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.runs.eligible import Demand, shortcomings
from pytest_llmeval.runs.git import short
from pytest_llmeval.runs.store import FoundRun, RunStore, StoredRun


class Search:
    """One look through the store, and what it had to leave aside.

    Attributes:
        passed_over: sentences about runs that would not do, of commits that have no run that will.
        unlike: what makes the first complete and clean one among them another project's, if any.
    """

    def __init__(self, store: RunStore, *, demand: Demand) -> None:
        self._store = store
        self._demand = demand
        self.passed_over: list[str] = []
        self.unlike: str | None = None

    def best_at(self, commit: str) -> FoundRun | None:
        """Read the best run of a commit that is complete, clean and alike, if it has one."""
        listing = self._store.at_commit(commit)
        self.passed_over += listing.notes
        for stored in self._eligible(listing.runs, commit=commit):
            try:
                run = self._store.load(stored.path)
            except BaselineUnreadable as exc:
                self.passed_over.append(f"passed over: {exc}")
                continue
            return FoundRun(stored.path, run, self._model_notes(stored))
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
            # There may be a hundred dirty runs of one commit: they are counted, not listed.
            self.passed_over += [
                f"passed over: {number} run(s) of {short(commit)}, {reason}"
                for reason, number in reasons.items()
            ]
        return sorted(eligible, key=self._model_rank)  # newest first within a rank

    def _model_rank(self, stored: StoredRun) -> int:
        return self._demand.model_rank(stored.header.models_asked)

    def _model_notes(self, stored: StoredRun) -> tuple[str, ...]:
        note = self._demand.model_note(stored.header.models_asked)
        return () if note is None else (note,)
