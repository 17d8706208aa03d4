"""The trials of a case: the waiting, the running and the ended ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import pytest

from pytest_llmeval.engine.baton import Baton
from pytest_llmeval.engine.case_reports import Section, sections_by_trial, shows_each
from pytest_llmeval.engine.ended import Ended
from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.engine.trial import wider
from pytest_llmeval.engine.trial.clone import clone_item, parameters_of
from pytest_llmeval.engine.trial.put_on_item import PutOnItem, TrialHooks
from pytest_llmeval.engine.trial.trial import RunningTrial
from pytest_llmeval.engine.trial_thread import TrialThread
from pytest_llmeval.records import Call, Outcome

# The case for which the session sets up wider fixtures, by the clone for which it does so.
SET_UP_FOR = pytest.StashKey[Eval]()


class CaseTrials:
    """The trials of a case: the waiting, the running and the ended ones.

    Args:
        spec: the case.
        serial, signature: see below.
        hooks: see below.

    Attributes:
        serial: why the trials must run alone, "" if they may overlap.
        signature: cases of one signature may overlap one another.
        hooks: those of its trials.
        parameters: of which each trial has its own.
        running: by index.
        due: trials of lower indices may begin so far, all unless the function runs in rounds.
        awaits_look: more may begin after the function was looked at.
        looks: after how many repeats the function stopped, or will end; None if it was not looked
            at.
        calls: how many were paid for and how many replayed, by the index of each trial that has
            ended. Kept when trials are forgotten: whoever runs again replays what this session
            bought.
        has_run_again: another plugin had the case run again after its report.
    """

    def __init__(self, spec: Eval, *, serial: str, signature: Hashable, hooks: TrialHooks) -> None:
        self.spec, self.item = spec, spec.item
        self.repeats = self.due = spec.case.repeats
        self.looks: int | None = None
        self.serial, self.signature, self.hooks = serial, signature, hooks
        self.parameters = parameters_of(self.item)
        self.calls: dict[int, tuple[int, int]] = {}
        self._bought: dict[str, int] = {}  # draw, and index of the trial
        self._recorded: dict[int, Ended] = {}  # of attempts before this one
        self._unrecorded = 0  # paid calls of attempts that are not recorded
        self.awaits_look = self.has_run_again = self._is_set_up = False
        self._shows_each = shows_each(self.item.config)
        self.forget()

    def forget(self) -> None:
        """Start afresh, for a rerun."""
        self.running: dict[int, RunningTrial] = {}
        self._ended: dict[int, Ended] = {}
        self._begun = 0

    @property
    def may_begin(self) -> bool:
        """Whether a trial may begin now."""
        return self._begun < self.due

    @cached_property
    def inherited(self) -> PutOnItem:
        """What was put on the item, for each trial to find: when its protocol began, or so far."""
        return PutOnItem(self.item)

    @property
    def ended(self) -> list[Ended]:
        """The trials that have ended, by index."""
        return [self._ended[index] for index in sorted(self._ended)]

    @property
    def recorded(self) -> list[Ended]:
        """The trials as they are recorded, by index: each as it ended first.

        A plugin that has failed cases run again must not give misses another draw. A trial that
        was errored has no outcome yet, so it counts as it ended when it got its replies.
        """
        recorded = {**self._ended, **self._recorded}
        return [recorded[index] for index in sorted(recorded)]

    def let_go(self) -> None:
        """Forget the trials but for their records: another plugin may have them run again."""
        self._recorded = {
            # what is recorded, and nothing that holds on to the test
            one.record.index: Ended(record=one.record, headline=one.headline, held_for=one.held_for)
            for one in self.recorded
        }
        self.forget()

    def take_unrecorded(self) -> int:
        """Count the calls that were paid by attempts that are not recorded, since the last time."""
        count, self._unrecorded = self._unrecorded, 0
        return count

    def end_protocol(self) -> None:
        """Let go of what only another attempt would need."""
        self._recorded.clear()

    @property
    def first_failure(self) -> Any:
        """Pytest's rendering of the first failure by index, shown for all; None if all passed.

        Not of the first that happened: a report must not depend on which reply was faster.
        """
        rendered = (ended.longrepr for ended in self.ended)
        return next((shown for shown in rendered if hasattr(shown, "addsection")), None)

    def sections(self, report: pytest.TestReport) -> list[Section]:
        """Return the sections of the report, with the failures that are asked for."""
        if not self._shows_each:
            return report.sections
        shown = self.first_failure if report.failed else None
        return sections_by_trial(report.sections, self.ended, without=shown)

    def is_shown(self, index: int) -> bool:
        """Whether a failure of a trial is to be rendered in full: none is shown that is lower."""
        shown = (at for at, ended in self._ended.items() if hasattr(ended.longrepr, "addsection"))
        return self._shows_each or not any(at < index for at in shown)

    @property
    def all_ended(self) -> bool:
        """Whether nothing is left to run."""
        return self.due_have_ended and not self.awaits_look

    @property
    def due_have_ended(self) -> bool:
        """Whether all trials ended that may begin so far."""
        return len(self._ended) >= self.due

    @property
    def first_is_set_up(self) -> bool:
        """Whether the first trial has its fixtures, or failed to get them."""
        return 0 in self._ended or (0 in self.running and self.running[0].thread.left_setup)

    def begin(self, *, overlaps: bool, baton: Baton[TrialThread]) -> RunningTrial:
        """Make the next trial."""
        index, self._begun = self._begun, self._begun + 1
        own = self._clone()
        trial = self.running[index] = RunningTrial(
            self.spec, index, clone=own, is_shown=self.is_shown, overlaps=overlaps, baton=baton
        )
        return trial

    def set_up_wider(self) -> None:
        """Set up the fixtures that outlive the trials."""
        if wider.must_be_set_up(self.item):
            own = self._clone()
            own.stash[SET_UP_FOR] = self.spec
            wider.set_up(self.item, own)

    @property
    def is_set_up(self) -> bool:
        """Whether these fixtures are there, or have failed."""
        self._is_set_up = self._is_set_up or wider.are_set_up(self.item)
        return self._is_set_up

    def _clone(self) -> pytest.Function:
        return clone_item(
            self.item, inherited=self.inherited, hooks=self.hooks, parameters=self.parameters
        )

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
        asked = ended.record.calls
        self._bought |= dict.fromkeys(trial.ledger.course.paid_late, trial.index)
        calls = tuple([self._as_bought(call, trial.index) for call in asked])
        if calls != asked:
            ended = replace(ended, record=replace(ended.record, calls=calls))
        made, replayed = [call.was_paid for call in calls], [call.replayed for call in calls]
        self.calls[trial.index] = sum(made), sum(replayed)
        self._ended[trial.index] = ended
        first = self._recorded.get(trial.index)
        if first is not None and first.record.outcome is Outcome.ERRORED:
            del self._recorded[trial.index]
        elif first is not None:
            self._unrecorded += sum(call.was_paid for call in asked)

    def take(self, ended: Iterable[Ended]) -> None:
        """Take in results in the place of those that are there, or of trials that never began."""
        self._ended |= {one.record.index: one for one in ended}
        self.calls = dict.fromkeys(self._ended, (0, 0)) | self.calls

    def _as_bought(self, call: Call, index: int) -> Call:
        """Return a call as paid if this session paid for it, for this very trial."""
        if call.was_paid and call.draw:
            self._bought.setdefault(call.draw, index)
        is_rerun = call.replayed and self._bought.get(call.draw or "") == index
        return replace(call, replayed=False) if is_rerun else call
