"""One trial: a clone of the item that goes through pytest's own setup, call and teardown."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import getcontext, setcontext
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pytest

from pytest_llmeval.engine.compat import call_and_report
from pytest_llmeval.engine.isolation.output import CallOutput
from pytest_llmeval.engine.isolation.patches import Patches
from pytest_llmeval.engine.isolation.process_state import Context
from pytest_llmeval.engine.reporting import safe_failure
from pytest_llmeval.engine.trial.clone import clone_item, end_clone
from pytest_llmeval.engine.trial.ledger import Ledger
from pytest_llmeval.engine.trial.outcome import (
    Failure,
    asked_in_vain,
    explain,
    headline,
    is_skip,
    message,
    outcome,
    shown,
)
from pytest_llmeval.engine.trial.setups import failed_fixture
from pytest_llmeval.engine.trial_thread import InlineThread, TrialThread
from pytest_llmeval.models.attribution import charging
from pytest_llmeval.models.http.masking import keys_of_environment, masked_keys
from pytest_llmeval.originals import Clock
from pytest_llmeval.records import PASS_METRIC, Outcome, Trial

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from pytest_llmeval.engine.case import CaseTrials
    from pytest_llmeval.engine.schedule.baton import Ready
    from pytest_llmeval.engine.trial.event_loop import TrialRunner

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The result of a trial that has ended; nothing in it holds on to the test.

    Attributes:
        exception: what left setup or call, None if the body returned.
        in_setup: the exception came from a fixture, before the body.
        fixture: name of that fixture.
        teardown_error: what left teardown.
        headline: first line of the exception, for the terminal of this session.
        longrepr: pytest's own rendering of the failure.
        sections: captured output as (phase, kind, text).
        warned: warnings that the trial gave, if it ran apart from the session's own.
        was_detached: it blocked without telling, and the others went on beside it.
        saw_others: see ``RunningTrial``.
        held_for: for whose sake its calls were not overlapped: what it patched, a model.
        reached_out: it did something that may be a call which nobody saw.
    """

    record: Trial
    exception: BaseException | None = None
    in_setup: bool = False
    fixture: str = ""
    teardown_error: BaseException | None = None
    headline: str = ""
    longrepr: Any = None
    sections: tuple[tuple[str, str, str], ...] = ()
    properties: tuple[tuple[str, object], ...] = ()
    warned: tuple[warnings.WarningMessage, ...] = ()
    was_detached: bool = False
    saw_others: bool = False
    held_for: str = ""
    reached_out: bool = False


SERIAL_MODEL = "llm_serial"
LONGEST_BLOCK = 10.0  # seconds for which trials wait for one another before it is a deadlock
BLOCKING_AND_PATCHING = "a trial blocked with what it patched"
LATE = "its trial waited for its turn meanwhile (fewer at once: --llm-concurrency)"
BLOCKING_IN_ASYNC = (
    "a call in async def that blocks: await async_llm.ask(...), or an awaitable client"
)
# Shared by the trials that record no score of their own.
_PASSES = {passed: {PASS_METRIC: float(passed)} for passed in (False, True)}
TRIAL = pytest.StashKey["RunningTrial"]()


class RunningTrial:
    """A trial on its way, from its first fixture to its last.

    Args:
        case: one of whose trials this is.
        index: of the trial.
        overlaps: other trials run while it waits.
        ready: takes it when it can go on.

    Attributes:
        thread: in which it runs.
        context: the state of the process as the trial left it when it last waited; None
            for one that runs inline.
        patches: what it patches while it has its turn; None if nothing is ever swapped.
        call_output: of its calls, as far as it is not shown.
        left_setup: its fixtures are set up, or failed to be.
        shared_setups: how many fixtures that others share are being set up; the baton stays
            here meanwhile, or a second trial would set them up too.
        set_up_shared: it set some up.
        holding: how many functions run that must see what the trial patched; the same.
        swapped: what it swapped for all of the process, "" if nothing was noticed.
        is_plain: others see no difference when they run beside it: nothing is patched.
        wants_alone: it is about to patch, so that it waits for those that run beside it.
        saw_others: it ran without what it patched, or with what another one did.
    """

    def __init__(self, case: CaseTrials, index: int, *, overlaps: bool, ready: Ready) -> None:
        self.item = case.item
        self.index = index
        self.call_output = CallOutput()
        self.thread = TrialThread(self, ready) if overlaps else InlineThread(self)
        self.ledger = Ledger(
            index,
            function=case.spec.case.function,
            name=f"{case.spec.case.id} {index}",
            intercepts=case.spec.intercept,
            wait=self._wait,
            wait_async=self._wait_async,
        )
        self.ledger.course.waits_for_turn = self.thread.waits_for_turn
        self._inherited = case.inherited
        self.clone = clone_item(
            self.item, inherited=self._inherited, hooks=case.hooks, parameters=case.parameters
        )
        self.clone.stash[TRIAL] = self
        self.clone.repr_failure = self._repr_failure  # type: ignore[method-assign]
        self.context: Context | None = None
        self.patches: Patches | None = None
        self.warned: list[warnings.WarningMessage] = []
        self.left_setup = False
        self.shared_setups = 0
        self.set_up_shared = False
        self.holding = 0
        self.swapped = ""
        self.is_plain = True
        self.wants_alone = False
        self.saw_others = False
        self._ready = ready
        self._case = case
        self._raised: dict[str, Failure] = {}  # by phase
        self._keys: tuple[str, ...] = ()
        self._failed_fixture = ""
        self._longrepr: Any = None
        self._failed_subtest: tuple[Failure, Any] | None = None  # the first, and as rendered
        self._held_for = ""
        self._started = Clock.seconds()

    @property
    def may_be_detached(self) -> bool:
        """Whether the session may go on without the trial, which has its turn.

        Not where it has patched anything, for it would run on without that.
        """
        if self._is_bound or self.saw_others:
            return not self._is_bound
        return self._ready.is_plain() and not (self._ready.held_back or self.swaps())

    def swaps(self) -> str:
        """Say what the trial, at its turn, has swapped for all of the process; "" if nothing."""
        swapped = "" if self.patches is None else self.patches.held_for
        if swapped:
            self.swapped = self._held_for = self.swapped or swapped
        return swapped

    @property
    def may_run_free(self) -> bool:
        """Whether the trial, which has its turn, is to run on without the baton."""
        return self._code in self._ready.blocking and self.may_be_detached

    def note_block(self, seconds: float) -> None:
        """Note that it blocks without telling: trials of its function run free from now on.

        One that has patched something keeps the baton, unless it may wait for a lock that
        another trial has, which waits for the baton.
        """
        if self._is_bound:
            return
        if self._ready.is_plain() and not self.swaps():
            self._ready.blocking.add(self._code)
            return
        self._held_for = self._held_for or BLOCKING_AND_PATCHING
        waits = self._ready.held_back or not self._ready.is_empty
        self.saw_others = bool(seconds > LONGEST_BLOCK and waits)

    @property
    def _is_bound(self) -> bool:
        return bool(self.shared_setups or self.holding or self._ready.is_looping)

    @property
    def _code(self) -> tuple[str, bool]:
        """The code that runs, of the test function or of its fixtures."""
        return self._case.spec.case.function, self.left_setup

    def runner_on(self, loop: AbstractEventLoop) -> TrialRunner:
        """Return a runner for the coroutines of the trial on a loop, pumped from now on."""
        from pytest_llmeval.engine.trial.event_loop import Pump, TrialRunner

        ready = self._ready
        if ready.pump is None or ready.pump.loop is not loop:
            ready.pump = Pump(loop, ready)
        return TrialRunner(self, ready.pump)

    def note(self, phase: str, failure: Failure | None) -> None:
        """Keep the exception of a phase; pytest's report would show an xfail as skipped."""
        if failure is not None:
            explain(failure.value)
            self._raised[phase] = failure
            if phase == "setup":
                self._failed_fixture = failed_fixture(self.clone, failure.value)
            self._keys = keys_of_environment()  # which may be the trial's own

    def note_subtest(self, failure: Failure) -> None:
        """Keep the first failure of a subtest, after which the body goes on."""
        if self._failed_subtest is None:
            explain(failure.value)
            self._failed_subtest = failure, self.clone.repr_failure(failure)

    def _failure(self) -> tuple[Failure | None, Any]:
        """Return what failed, and its rendering; the body's own failure before a subtest's."""
        failure = self._raised.get("setup") or self._raised.get("call")
        if self._failed_subtest is not None and (failure is None or is_skip(failure.value)):
            return self._failed_subtest
        return failure, self._longrepr

    def ended(self) -> Ended:
        """Return the result of the trial, which may be forgotten then."""
        self.ledger.course.close()
        failure, longrepr = self._failure()
        teardown = self._raised.get("teardown")
        ended = outcome(failure, self.ledger, in_setup="setup" in self._raised)
        scores = _PASSES[ended is Outcome.PASSED] if ended.is_scored else {}
        told = headline(failure, self.ledger)
        record = Trial(
            case=self._case.spec.case.id,
            index=self.index,
            outcome=ended,
            scores={**scores, **self.ledger.scores} if scores and self.ledger.scores else scores,
            calls=self.ledger.calls,
            message=message(failure, self.ledger, root=self.item.config.rootpath),
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
            properties=tuple(self.clone.user_properties[len(self._inherited.properties) :]),
            warned=tuple(self.warned),
            was_detached=self.thread.was_detached,
            saw_others=self.saw_others,
            held_for=self._held_for,
            reached_out=self.ledger.reached_out or self.thread.was_detached,
        )

    def release(self) -> None:
        """Cut the cycles between trial and clone, so that their memory is free at once.

        A plugin may keep the clone: it then has an item that has ended, as pytest leaves one.
        """
        self.ledger.end()
        del self.clone.stash[TRIAL]
        end_clone(self.clone, of=self.item)
        vars(self).clear()

    def run(self) -> None:
        """Run the trial, from its first fixture to its last."""
        if self.thread.overlaps:
            setcontext(getcontext().copy())  # precision and traps are its own
        with charging(self.ledger):
            self._started = Clock.seconds()
            if self._passes("setup") and not self.item.config.getoption("setuponly", False):
                self.left_setup = True
                self._passes("call")
            self.left_setup = True
            self.thread.in_teardown = True
            # Not runtestprotocol(): that tears wider fixtures down once the session is to stop.
            call_and_report(self.clone, "teardown", log=False, nextitem=self.item)
            self.thread.check_in()
            _resume_capture(self.item.config)

    def _passes(self, phase: Literal["setup", "call"]) -> bool:
        report = call_and_report(self.clone, phase, log=False)
        _resume_capture(self.item.config)
        if phase in self._raised:
            self._longrepr = report.longrepr
        return phase not in self._raised

    def wait_for_own(self, function: Callable[[], T]) -> T:
        """Run a function that the test itself waits for, with the patches of the trial."""
        is_patching = self.patches is not None and self.patches.are_in_use
        return self._hold(function) if is_patching else self._give_way(function)

    def _wait(self, function: Callable[[], T], *, serial: bool = False) -> T:
        """Run the call of a model; with the patches of the trial where any call may need them."""
        return self._hold(function) if self._must_hold(serial) else self._give_way(function)

    def _must_hold(self, serial: bool) -> bool:
        held_for = self.swaps()
        if serial:
            held_for = held_for or SERIAL_MODEL
        self._held_for = held_for or self._held_for
        return bool(held_for)

    def _give_way(self, function: Callable[[], T]) -> T:
        thread = self.thread
        if self.shared_setups or self.holding or not isinstance(thread, TrialThread):
            return function()
        if thread.holds_up_loop():
            self._held_for = self._held_for or BLOCKING_IN_ASYNC
        return thread.block(function)

    def _hold(self, function: Callable[[], T]) -> T:
        self.thread.check_in()
        self.holding += 1
        try:
            return function()
        finally:
            self.holding -= 1

    async def _wait_async(
        self, function: Callable[[], T], *, awaits: bool = False, serial: bool = False
    ) -> T:
        """Run the call of a model in another thread, unless it may need the patches of the trial.

        What awaits on the loop itself finds there what was patched.
        """
        from pytest_llmeval.engine.trial.event_loop import wait_in_thread

        if self.thread.in_teardown:
            self.thread.raise_if_cancelled()  # what is waited for then holds up the end
        if not awaits and self._must_hold(serial):
            return function()
        around_call = self.call_output.around_call() if self.thread.overlaps else nullcontext()

        course = self.ledger.course
        expired = course.expired

        def came_late() -> None:
            if course.expired > expired:  # else the trial did not want it any more
                self.ledger.note_late(LATE)

        return await wait_in_thread(
            function,
            begin=self._ready.threads.run,
            around_call=around_call,
            came_late=came_late,
        )

    def _repr_failure(self, excinfo: Failure) -> Any:
        """Render what left the body: in full once a case, and a lost reply in one line.

        A full rendering reads and parses the source of every frame, 10 ms and more with
        an SDK in between, and five alike say no more than one.
        """
        if asked_in_vain(excinfo.value, self.ledger) or not self._case.is_shown(self.index):
            return shown(excinfo)
        return safe_failure(type(self.clone).repr_failure(self.clone, excinfo))


def _resume_capture(config: pytest.Config) -> None:
    """Undo the suspension that ends a nested phase: the item's own phase goes on."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.resume_global_capture()
