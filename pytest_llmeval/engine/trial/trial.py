"""One trial: a clone of the item that goes through pytest's own setup, call and teardown."""

from __future__ import annotations

from collections.abc import Callable
from decimal import getcontext, setcontext
from typing import Any, Literal, TypeVar

import pytest

from pytest_llmeval.engine.baton import Baton
from pytest_llmeval.engine.compat import call_and_report
from pytest_llmeval.engine.ended import Ended
from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.engine.safe_report import safe_failure
from pytest_llmeval.engine.trial import outcome
from pytest_llmeval.engine.trial.clone import end_clone
from pytest_llmeval.engine.trial.ledger import Ledger
from pytest_llmeval.engine.trial.outcome import Failure
from pytest_llmeval.engine.trial.setups import failed_fixture
from pytest_llmeval.engine.trial_thread import TrialThread
from pytest_llmeval.models.attribution import charging
from pytest_llmeval.models.http.masking import keys_of_environment, masked_keys
from pytest_llmeval.originals import Clock
from pytest_llmeval.records import PASS_METRIC, Outcome, Trial

T = TypeVar("T")

# Shared by the trials that record no score of their own.
_PASSES = {passed: {PASS_METRIC: float(passed)} for passed in (False, True)}
TRIAL = pytest.StashKey["RunningTrial"]()


class RunningTrial:
    """A trial on its way, from its first fixture to its last.

    Args:
        spec: the case.
        index: of the trial.
        clone: of the item, in which it runs.
        is_shown: whether a failure of a trial, by its index, is to be rendered in full.
        overlaps: other trials run while it waits.
        baton: is passed to it when it can go on.

    Attributes:
        spec: see above.
        thread: in which it runs.
    """

    def __init__(
        self,
        spec: Eval,
        index: int,
        *,
        clone: pytest.Function,
        is_shown: Callable[[int], bool],
        overlaps: bool,
        baton: Baton[TrialThread],
    ) -> None:
        self.spec, self.item, self.index = spec, spec.item, index
        function = spec.case.function
        self.thread = TrialThread(self.run, function=function, overlaps=overlaps, baton=baton)
        drawn = spec.settings.asked.first + index  # a session that asks again goes on after others
        self.ledger = Ledger(
            drawn,
            function=function,
            name=f"{spec.case.id} {drawn}",
            intercepts=spec.intercept,
            wait=self.thread.wait,
            wait_async=self._wait_async,
        )
        self.ledger.course.waits_for_turn = self.thread.waits_for_turn
        self.clone = clone
        self._inherited = len(clone.user_properties)
        self.clone.stash[TRIAL] = self
        self.clone.repr_failure = self._repr_failure  # type: ignore[method-assign]
        self._is_shown = is_shown
        self._raised: dict[str, Failure] = {}  # by phase
        self._keys: tuple[str, ...] = ()
        self._failed_fixture = ""
        self._longrepr: Any = None
        self._failed_subtest: tuple[Failure, Any] | None = None  # the first, and as rendered
        self._started = Clock.seconds()

    def note(self, phase: str, failure: Failure | None) -> None:
        """Keep the exception of a phase; pytest's report would show an xfail as skipped."""
        if failure is not None:
            outcome.explain(failure.value)
            self._raised[phase] = failure
            if phase == "setup":
                self._failed_fixture = failed_fixture(self.clone, failure.value)
            self._keys = keys_of_environment()  # which may be the trial's own

    def note_report(self, report: pytest.TestReport, failure: Failure | None) -> None:
        """Keep what a plugin found as it reported: a check of pytest-check that did not hold."""
        is_skip = report.skipped and not hasattr(report, "wasxfail")
        if report.passed or is_skip or report.when in self._raised:
            return
        if report.longreprtext.startswith("[XPASS(strict)]"):  # it passed; the case will fail
            return
        try:
            pytest.fail(report.longreprtext, pytrace=False)
        except pytest.fail.Exception:
            failure = failure or pytest.ExceptionInfo.from_current()
        self.note(report.when, failure)
        report.longrepr = self.clone.repr_failure(failure)

    def note_subtest(self, failure: Failure) -> None:
        """Keep the first failure of a subtest, after which the body goes on."""
        if self._failed_subtest is None:
            outcome.explain(failure.value)
            self._failed_subtest = failure, self.clone.repr_failure(failure)

    def _failure(self) -> tuple[Failure | None, Any]:
        """Return what failed, and its rendering; the body's own failure before a subtest's.

        A trial that did not have all that was its own has failed by that, whatever it ended with.
        """
        if self.thread.failure is not None:
            failed = pytest.ExceptionInfo.from_exception(self.thread.failure)
            return failed, self.clone.repr_failure(failed)
        failure = self._raised.get("setup") or self._raised.get("call")
        if self._failed_subtest is not None and (failure is None or outcome.is_skip(failure.value)):
            return self._failed_subtest
        return failure, self._longrepr

    def ended(self) -> Ended:
        """Return the result of the trial, which may be forgotten then."""
        self.ledger.course.close()
        failure, longrepr = self._failure()
        # Ctrl-C breaks off a teardown that waits.
        teardown = None if self.thread.cancelled else self._raised.get("teardown")
        ended = outcome.outcome(failure, self.ledger, in_setup="setup" in self._raised)
        scores = _PASSES[ended is Outcome.PASSED] if ended.is_scored else {}
        told = outcome.headline(failure, self.ledger)
        record = Trial(
            case=self.spec.case.id,
            index=self.index,
            outcome=ended,
            scores={**scores, **self.ledger.scores} if scores and self.ledger.scores else scores,
            calls=self.ledger.calls,
            message=outcome.message(failure, self.ledger, root=self.item.config.rootpath),
            seconds=round(Clock.seconds() - self._started, 6),
            in_setup="setup" in self._raised and ended is Outcome.CRASHED,
        )
        return Ended(
            record=record,
            exception=failure.value if failure else None,
            in_setup="setup" in self._raised,
            fixture=self._failed_fixture,
            teardown_error=teardown.value if teardown else None,
            headline=masked_keys(told, self._keys) if told else "",
            longrepr=longrepr,
            sections=tuple(self.clone._report_sections),
            properties=tuple(self.clone.user_properties[self._inherited :]),
            warned=tuple(self.thread.warned),
            was_detached=self.thread.was_detached,
            saw_others=self.thread.saw_others,
            held_for=self.thread.held_for,
            reached_out=self.ledger.reached_out,
        )

    def release(self) -> None:
        """Cut the cycles between trial and clone, so that their memory is free at once.

        A plugin may keep the clone: it then has an item that has ended, as pytest leaves one.
        """
        self.ledger.end()
        del self.clone.stash[TRIAL]
        end_clone(self.clone, of=self.item)
        self.thread.context, self.thread.patches = {}, None
        self._raised.clear()  # it holds each frame that an exception passed
        del self.clone

    def run(self) -> None:
        """Run the trial, from its first fixture to its last."""
        if self.thread.overlaps:
            setcontext(getcontext().copy())  # precision and traps are its own
        with charging(self.ledger):
            self._started = Clock.seconds()
            if self._passes("setup") and not self.item.config.getoption("setuponly", False):
                self.thread.left_setup = True
                self._passes("call")
            self.thread.left_setup = True
            self.thread.in_teardown = True
            # Not runtestprotocol(): that tears wider fixtures down once the session is to stop.
            call_and_report(self.clone, "teardown", log=False, nextitem=self.item)
            self.thread.check_in()

    def _passes(self, phase: Literal["setup", "call"]) -> bool:
        report = call_and_report(self.clone, phase, log=False)
        if phase in self._raised:
            self._longrepr = report.longrepr
        return phase not in self._raised

    async def _wait_async(
        self, function: Callable[[], T], *, awaits: bool = False, serial: bool = False
    ) -> T:
        """Run the call of a model in another thread, unless it may need the patches of the trial.

        What awaits on the loop itself finds there what was patched.
        """
        from pytest_llmeval.engine.trial.event_loop import wait_in_thread

        if self.thread.in_teardown:
            self.thread.raise_if_cancelled()  # what is waited for then holds up the end
        if not awaits and self.thread.note_hold(serial):
            return function()
        thread = self.thread
        thread.begins_to_wait = not awaits
        context = thread.call_output.context() if thread.overlaps else None
        return await wait_in_thread(function, begin=thread.baton.threads.run, context=context)

    def _repr_failure(self, excinfo: Failure) -> Any:
        """Render what left the body: in full once a case, and a lost reply in one line.

        A full rendering reads and parses the source of every frame, 10 ms and more with
        an SDK in between, and five alike say no more than one.
        """
        if outcome.asked_in_vain(excinfo.value, self.ledger) or not self._is_shown(self.index):
            return outcome.shown(excinfo)
        try:
            return safe_failure(type(self.clone).repr_failure(self.clone, excinfo))
        except SystemError:  # Python's parser may fail where threads come in between
            return outcome.shown(excinfo)
