"""The trials of one case: planned, under way, ended."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.engine.trial.trial import Ended, RunningTrial
from pytest_llmeval.records import Call, Outcome, Trial


class CaseTrials:
    """The trials of a case: those to come, those that run, and what became of the others.

    Args:
        spec: the case.
        serial, signature: see below.
        standing: trials that an earlier session ran, and that are not run here.

    Attributes:
        serial: why the trials must run alone, "" if they may overlap.
        signature: cases of one signature may overlap one another.
        running: by index.
    """

    def __init__(
        self, spec: Eval, *, serial: str, signature: Hashable, standing: Sequence[Trial] = ()
    ) -> None:
        self.spec = spec
        self.item = spec.item
        self.repeats = spec.case.repeats
        self.serial = serial
        self.signature = signature
        self._standing = {trial.index: _stood(trial) for trial in standing}
        # Kept when trials are forgotten: whoever runs again replays what this session bought.
        self._calls: dict[int, tuple[int, int]] = dict.fromkeys(self._standing, (0, 0))
        self._bought: set[tuple[int, str]] = set()  # index of the trial and draw
        self.forget()

    def forget(self) -> None:
        """Start afresh, for a rerun."""
        self.running: dict[int, RunningTrial] = {}
        self._ended: dict[int, Ended] = dict(self._standing)
        self._unplanned: Iterator[int] = iter(self.to_run)

    @property
    def to_run(self) -> list[int]:
        """The indices of the trials that are run here."""
        return [index for index in range(self.repeats) if index not in self._standing]

    @property
    def ended(self) -> list[Ended]:
        """The trials that have ended, by index."""
        return [self._ended[index] for index in sorted(self._ended)]

    @property
    def first_failure(self) -> Any:
        """Pytest's rendering of the first failure by index, shown for all; None if all passed.

        Not of the first that happened: a report must not depend on which reply was faster.
        """
        rendered = (ended.longrepr for ended in self.ended)
        return next((shown for shown in rendered if hasattr(shown, "addsection")), None)

    def is_shown(self, index: int) -> bool:
        """Whether a failure of a trial is to be rendered in full: none is shown that is lower."""
        return not any(
            ended.record.index < index and hasattr(ended.longrepr, "addsection")
            for ended in self._ended.values()
        )

    @property
    def done(self) -> int:
        """How many have ended, forgotten ones included."""
        return len(self._calls)

    @property
    def made(self) -> int:
        """How many calls of theirs were paid for."""
        return sum(made for made, _ in self._calls.values())

    @property
    def replayed(self) -> int:
        """How many calls of theirs were not."""
        return sum(replayed for _, replayed in self._calls.values())

    @property
    def has_news(self) -> bool:
        """Whether some trial has ended here."""
        return len(self._ended) > len(self._standing)

    @property
    def all_ended(self) -> bool:
        """Whether nothing is left to run."""
        return len(self._ended) == self.repeats

    @property
    def first_is_set_up(self) -> bool:
        """Whether the first trial has its fixtures, or failed to get them."""
        return 0 in self._ended or (0 in self.running and self.running[0].left_setup)

    def plan(self) -> int | None:
        """Take the index of the next trial; None if all were taken."""
        return next(self._unplanned, None)

    def started(self, trial: RunningTrial) -> None:
        """Note that a trial is under way."""
        self.running[trial.index] = trial

    def finished(self, trial: RunningTrial) -> None:
        """Take in a trial that has ended, and let go of it.

        Ctrl-C may come at any line, so this may be done again where it was broken off.
        """
        if trial.index not in self._ended:
            self._take_in(trial)
        if self.running.pop(trial.index, None) is not None:
            trial.release()

    def _take_in(self, trial: RunningTrial) -> None:
        ended = trial.ended()
        calls = tuple(self._as_bought(call, trial.index) for call in ended.record.calls)
        if calls != ended.record.calls:
            ended = replace(ended, record=replace(ended.record, calls=calls))
        made, replayed = sum(c.was_paid for c in calls), sum(c.replayed for c in calls)
        self._calls[trial.index] = made, replayed
        self._ended[trial.index] = ended

    def cancelled(self, trial: RunningTrial) -> None:
        """Let go of a trial that was cancelled: it says nothing."""
        del self.running[trial.index]
        trial.release()

    def stand_in(self, ended: list[Ended]) -> None:
        """Take in records that stand for trials that were never begun."""
        self._ended |= {one.record.index: one for one in ended}
        self._calls = dict.fromkeys(self._ended, (0, 0))

    def _as_bought(self, call: Call, index: int) -> Call:
        """Return a call as paid if an earlier run of this trial in this session paid for it."""
        if call.was_paid and call.draw:
            self._bought.add((index, call.draw))
        is_rerun = call.replayed and (index, call.draw) in self._bought
        return replace(call, replayed=False) if is_rerun else call


def _stood(trial: Trial) -> Ended:
    """Put a trial of which only the record is left; that names no more than type and line."""
    passed = trial.outcome is Outcome.PASSED
    return Ended(record=trial, headline="" if passed else trial.message)
