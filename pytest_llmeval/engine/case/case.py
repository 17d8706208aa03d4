"""A collected item that runs its trials and reports once for all of them."""

from __future__ import annotations

import unittest
import warnings
from typing import Any

import pytest
from _pytest.skipping import xfailed_key

from pytest_llmeval.engine.case.fold import (
    CaseOutcome,
    Fold,
    TrialFailures,
    failures,
    fold,
    shown_score,
    tally,
)
from pytest_llmeval.engine.schedule.case_trials import CaseTrials
from pytest_llmeval.engine.schedule.scheduler import Scheduler
from pytest_llmeval.engine.trial.trial import Ended
from pytest_llmeval.records import PASS_METRIC, Outcome, Trial

_HEADLINE = 300  # characters


class CaseRunner:
    """Take over ``setup``, ``runtest``, ``teardown`` and ``repr_failure`` of one item.

    pytest's loop, xdist's worker, reruns, ``-x``, ``--lf`` and the JUnit file go on
    seeing one ordinary item with one setup, one call and one teardown.
    """

    def __init__(self, trials: CaseTrials, *, scheduler: Scheduler) -> None:
        self.spec = trials.spec
        self.item = trials.item
        self.trials = trials
        self.outcome: CaseOutcome | None = None
        self._scheduler = scheduler

    def install(self) -> None:
        """Put this runner in the item's place."""
        self.item.setup = self.setup  # type: ignore[method-assign]
        self.item.runtest = self.runtest  # type: ignore[method-assign]
        self.item.teardown = self.teardown  # type: ignore[method-assign]
        self.item.repr_failure = self.repr_failure  # type: ignore[method-assign]

    def setup(self) -> None:
        """Set up the first trial; if its fixtures fail, run all trials to see if they always do."""
        if self.outcome is not None:
            self.trials.forget()  # a rerun starts afresh
            self.outcome = None
        self._scheduler.run(self.trials, until=lambda: self.trials.first_is_set_up)
        if not (self.trials.ended and self.trials.ended[0].in_setup):
            return
        self._scheduler.run(self.trials, until=lambda: self.trials.all_ended)
        ended = self.trials.ended
        failures = [trial.exception for trial in ended if trial.in_setup and trial.exception]
        if len(failures) == len(ended):
            self.outcome = self._folded().outcome
            raise next((exc for exc in failures if not _is_skip(exc)), failures[0])

    def runtest(self) -> None:
        """Run the other trials and fold them all."""
        self._scheduler.run(self.trials, until=lambda: self.trials.all_ended)
        doubts = [doubt for doubt in map(_doubt, self.trials.ended) if doubt]
        if doubts:
            # Without the baton nothing was kept apart: alone, on the same draws, it is clear.
            self.trials.forget()
            self.trials.serial = doubts[0]
            self._scheduler.run(self.trials, until=lambda: self.trials.all_ended)
        result = self._folded()
        self.outcome = result.outcome
        self._hand_over()
        if result.outcome is CaseOutcome.SKIPPED:
            raise next(
                trial.exception for trial in self.trials.ended if trial.exception is not None
            )
        if result.outcome is not CaseOutcome.PASSED:
            raise self._expected_by_xfail() or TrialFailures(result.reason)

    def teardown(self) -> None:
        """Raise what left the teardown of trials, and let go of what they left."""
        ended = self.trials.ended
        errors = [trial.teardown_error for trial in ended if trial.teardown_error is not None]
        if self.outcome is not None:  # else it is yet to be recorded what had ended
            self.trials.forget()  # exceptions hold on to every frame they passed
        if len(errors) == 1:
            raise errors[0]
        if errors:
            message = f"{len(errors)} of {len(ended)} trials failed in teardown"
            raise BaseExceptionGroup(message, errors)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
        """Show the first trial that did not pass, and a table of all."""
        if not isinstance(excinfo.value, TrialFailures):
            return type(self.item).repr_failure(self.item, excinfo)
        shown = self.trials.first_failure
        if shown is None:
            return f"{excinfo.value}\n{failures(self.trials.ended)}"
        shown.addsection(f"trials: {excinfo.value}", failures(self.trials.ended))
        return shown

    def payload(self) -> dict[str, Any]:
        """Sum up the case with the trials that have ended, for its report."""
        case, ended = self.spec.case, self.trials.ended
        records = [trial.record for trial in ended]
        headline = next((trial.headline for trial in ended if trial.headline), "")
        held_for = next((trial.held_for for trial in ended if trial.held_for), "")
        return {
            "case": case.id,
            "function": case.function,
            "outcome": str(self.outcome),
            "fell_short": any(r.outcome in (Outcome.MISSED, Outcome.CRASHED) for r in records),
            "score": shown_score(records, case),
            "serial": self.trials.serial or held_for,
            "trials": records,
            "headline": headline[:_HEADLINE],
        }

    @property
    def detached_note(self) -> str:
        """Warn of trials that blocked without telling; "" if none did."""
        indices = [str(e.record.index) for e in self.trials.ended if e.was_detached]
        if not indices:
            return ""
        return (
            f"{self.item.nodeid}: trial {', '.join(indices)} blocked outside a model call and ran "
            "beside the others, where output and environment are not kept apart. Wrap the call in "
            'pytest_llmeval.waiting(function, ...), or mark the test concurrency="serial".'
        )

    def unrun(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Account for an item that ended before its first trial could begin.

        A skip mark, ``xfail(run=False)`` or a failing ``setup`` of a collector.
        """
        skipped = _is_skip(excinfo.value) or isinstance(excinfo.value, pytest.xfail.Exception)
        outcome = Outcome.SKIPPED if skipped else Outcome.CRASHED
        self.outcome = CaseOutcome.SKIPPED if skipped else CaseOutcome.FAILED
        records = [
            Trial(
                case=self.spec.case.id,
                index=index,
                outcome=outcome,
                scores={} if skipped else {PASS_METRIC: 0.0},
                message=excinfo.typename,
            )
            for index in self.trials.to_run
        ]
        self.trials.stand_in([Ended(record=record, in_setup=True) for record in records])

    def _folded(self) -> Fold:
        xfailed = self.item.stash.get(xfailed_key, None)
        expected = xfailed is not None and not self.item.config.option.runxfail
        return fold([trial.record for trial in self.trials.ended], self.spec, xfail=expected)

    def _expected_by_xfail(self) -> BaseException | None:
        """Return the exception of the trials where ``xfail(raises=...)`` must see it."""
        xfailed = self.item.stash.get(xfailed_key, None)
        failures = [
            t.exception for t in self.trials.ended if t.exception and not _is_skip(t.exception)
        ]
        if xfailed is None or xfailed.raises is None or len(set(map(type, failures))) != 1:
            return None
        return failures[0]

    def _hand_over(self) -> None:
        """Give the item what its trials left: properties, warnings and output.

        The output is that of trials that did not pass, or of all if all passed.
        """
        not_passed = [t for t in self.trials.ended if t.record.outcome is not Outcome.PASSED]
        for trial in not_passed or self.trials.ended:
            for phase, kind, text in trial.sections:
                self.item.add_report_section(phase, f"{kind} [trial {trial.record.index}]", text)
        properties = [entry for trial in self.trials.ended for entry in trial.properties]
        for message in (message for trial in self.trials.ended for message in trial.warned):
            warnings._showwarnmsg(message)  # type: ignore[attr-defined]  # as if given here
        counted = ("llm_eval", tally([trial.record for trial in self.trials.ended]))
        self.item.user_properties[:] = [*dict.fromkeys(properties), counted]


def _doubt(ended: Ended) -> str:
    """Say why running beside others may have changed the outcome of a trial; "" if it did not."""
    if not ended.was_detached:
        return ""
    if ended.record.outcome is not Outcome.PASSED:
        return "a trial blocked and did not pass"
    return "a trial blocked without what it patched" if ended.has_patched else ""


def _is_skip(exception: BaseException) -> bool:
    return isinstance(exception, pytest.skip.Exception | unittest.SkipTest)
