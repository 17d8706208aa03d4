"""Run a trial in a thread of its own, one at a time but for those that block without telling.

The right to run is the *baton*, which a trial passes on when it waits. Without it runs only the
test's own code, where that blocks. The threads in which trials run, and those in which their calls
wait, come from a pool.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from os import getpid  # by name: a test may mock the module's
from typing import TypeVar, cast

from pytest_llmeval.engine.baton import Baton
from pytest_llmeval.engine.isolation.call_output import CallOutput
from pytest_llmeval.engine.isolation.patches import Patches
from pytest_llmeval.engine.isolation.process_state import State
from pytest_llmeval.engine.threads import PooledThread, Result
from pytest_llmeval.errors import ProviderFailed
from pytest_llmeval.originals import Clock

T = TypeVar("T")

SERIAL_MODEL = "llm_serial"
LONGEST_BLOCK = 10.0  # seconds for which trials wait for one another before it is a deadlock
BLOCKING_AND_PATCHING = "a trial blocked with what it patched"
BLOCKING_IN_ASYNC = (
    "a call in async def that blocks: await async_llm.ask(...), or an awaitable client"
)


class TrialCancelled(BaseException):
    """Raised inside a trial that is not wanted any more, where it waits."""


class TrialThread:
    """A trial in a thread of its own, which runs only while it has the baton.

    A trial that blocks without telling (a lock, a client that we do not know) is *detached*: the
    session goes on without it, and it runs beside the others until it comes by one of our own
    places and asks for the baton again. A trial whose code is known to block runs *free*: it lets
    go of the baton by itself, where that code begins.

    A trial that overlaps no other runs in the session's thread, and never gives the baton up.

    Args:
        run: runs the trial, from its first fixture to its last.
        function: the test function.
        overlaps: see below.
        baton: is passed to the trial when it can go on.

    Attributes:
        overlaps: other trials run while this one waits.
        baton: see above.
        pooled, handing_over, done, is_beside, ready_since, is_plain: see ``Holder``.
        cancelled, is_to_patch, saw_others, call_output: likewise.
        was_detached: the baton was taken from it at some time.
        sleeps: until it has its turn.
        waits_since: when it gave its last turn up, by the clock of seconds.
        knows_it: this was raised in it.
        is_void: it was broken off before its end, and has no outcome.
        escaped: what left the trial altogether, such as pytest.exit.
        left_setup: its fixtures are set up, or failed to be.
        in_teardown: its fixtures end; only an ordinary exception lets pytest end the others.
        context: the state of the process as the trial left it when it last waited; empty
            for one that overlaps no other.
        patches: what it patches while it has its turn; None if nothing is ever swapped.
        warned: warnings that it gave.
        holding: how many functions run that must see what the trial patched, or set up what others
            share; the baton stays here meanwhile.
        swapped: what it swapped for all of the process, "" if nothing was noticed.
        held_for: for whose sake it kept the baton in calls: what it patched, a model.
        begins_to_wait: for a call, in a step that ends with this; it swapped nothing before.
        failure: of a part of its state that could not be put on or taken off, None if all could.
    """

    def __init__(
        self, run: Callable[[], None], *, function: str, overlaps: bool, baton: Baton[TrialThread]
    ) -> None:
        self.overlaps = overlaps
        self.baton = baton
        self.pooled: PooledThread | None = None
        self.handing_over = threading.Lock()
        self.is_beside = self.was_detached = self.sleeps = False
        self.waits_since = self.ready_since = 0.0
        self.left_setup = self.in_teardown = self.done = False
        self.cancelled = self.knows_it = self.is_void = False
        self.escaped: BaseException | None = None
        self.context: State = {}
        self.patches: Patches | None = None
        self.call_output = CallOutput()
        self.warned: list[warnings.WarningMessage] = []
        self.holding = 0
        self.swapped = self.held_for = ""
        self.is_plain, self.begins_to_wait = True, False
        self.is_to_patch = self.saw_others = False
        self.failure: Exception | None = None
        self._run_trial = run
        self._function = function
        self._pid = getpid()
        self._runs_test = False  # the test's own code runs
        self._to_trial = threading.Lock()
        self._to_trial.acquire()

    def waits_for_turn(self) -> bool:
        """Whether the trial could go on, and others run first."""
        return self.ready_since > self.waits_since

    def go_on(self) -> None:
        """Let the trial run, in its own thread: whoever calls has passed the baton to it."""
        if self.pooled is None:
            self.baton.threads.run(self._run_in_a_row)
        else:
            self.is_beside = self.sleeps = False
            self.ready_since = 0.0
            self.baton.beside.discard(self)
            self._to_trial.release()

    def check_in(self) -> None:
        """Take the baton again if it runs without it; called where a trial enters our code."""
        if self.is_beside and self._is_entered():
            self.baton.beside.discard(self)  # it runs no further
            self.sleeps = True
            self.baton.put(self)
            self._to_trial.acquire()
            if not self.in_teardown:
                self.raise_if_cancelled()

    def go_beside(self) -> None:
        """Get ready to run on without the baton: filters of warnings are its own there."""
        self.call_output.filters = warnings.filters
        self.baton.beside.add(self)

    # --- what may become of the baton ---

    def note_swaps(self) -> str:
        """Note and return what the trial in turn has swapped for all of the process, or ""."""
        swapped = "" if self.patches is None else self.patches.held_for
        if swapped:
            self.swapped = self.held_for = self.swapped or swapped
        return swapped

    @property
    def may_be_detached(self) -> bool:
        """Whether the session may go on without the trial, which has its turn.

        Not where it has patched anything, for it would run on without that, nor while another one
        waits until none runs beside it.
        """
        return not self._is_bound and self._is_clean and not self.baton.holds_back

    def lose_baton(self, stalled: float | None) -> bool:
        """Lose the baton, unless it must not be lost now; return whether it is lost.

        One that must keep it may wait for a lock that another trial has, which waits for the baton.
        So it is lost in the end.

        Args:
            stalled: seconds for which it has blocked without telling; None to lose it in any case.
        """
        if stalled is not None:
            if self._is_bound:
                return False
            may_be_detached = self.may_be_detached
            is_clean = self._is_clean  # looked at last: it may have gone on meanwhile, and patched
            if not is_clean:
                self.held_for = self.held_for or BLOCKING_AND_PATCHING
            elif self._runs_test:  # not at its end, where no trial runs free
                self.baton.blocking.add(self._code)
            is_deadlock = self.baton.ready and stalled > LONGEST_BLOCK
            if not (is_deadlock or (may_be_detached and is_clean)):
                return False
            self.saw_others |= not is_clean
        self.go_beside()
        self.is_beside = self.was_detached = True
        return True

    @property
    def _is_clean(self) -> bool:
        """Whether it has patched and swapped nothing; what it has swapped is noted."""
        return self.baton.is_plain() and not self.note_swaps()

    @property
    def _is_bound(self) -> bool:
        """Whether the baton stays here: what others share is set up, or the trial runs the loop."""
        return bool(self.holding or (self.baton.pump and self.baton.pump.loop.is_running()))

    @property
    def _code(self) -> tuple[str, bool]:
        """The code that runs, of the test function or of its fixtures."""
        return self._function, self.left_setup

    # --- to wait ---

    def wait(self, function: Callable[[], T], *, serial: bool = False, is_own: bool = False) -> T:
        """Run a function that waits for the outside, with what the trial patched if it may need it.

        Args:
            function: waits.
            serial: nothing may run beside it.
            is_own: it is the test's own and may need any patch; else it calls a model.
        """
        self.check_in()
        if not (self.note_hold(serial) or (is_own and not self._is_clean)):
            return self._give_way(function)
        self.holding += 1
        try:
            return function()
        finally:
            self.holding -= 1

    def note_hold(self, serial: bool) -> bool:
        """Note for whose sake the baton stays here in a call; return whether it does.

        Args:
            serial: the model is.
        """
        held_for = self.note_swaps() or (SERIAL_MODEL if serial else "")
        self.held_for = held_for or self.held_for
        return bool(held_for)

    def _give_way(self, function: Callable[[], T]) -> T:
        """Hand the baton back, wait elsewhere, and go on with the baton."""
        if self.holding or not self.overlaps:
            return function()
        if not self._is_entered():  # a thread of the test's own never held the baton
            asyncio = sys.modules.get("asyncio")
            if asyncio and asyncio._get_running_loop():
                self.held_for = self.held_for or BLOCKING_IN_ASYNC
            return function()
        result: Result[T] = Result()

        def job() -> None:
            result.keep(function)
            self.baton.put(self)

        self.suspend(lambda: self.baton.threads.run(partial(self.call_output.context().run, job)))
        return result.get()

    def suspend(self, begin: Callable[[], object], *, has_ended: Callable[[], bool] = bool) -> None:
        """Begin something, and pass the baton on until the trial is ready.

        Args:
            begin: begins it.
            has_ended: whether it came to its own end, which counts also if the trial was cancelled
                before its turn: a fixture that is up must be torn down.
        """
        self.check_in()
        self.raise_if_cancelled()
        self.waits_since, self.sleeps = Clock.seconds(), True
        begin()
        self.baton.pass_on(self)
        self._to_trial.acquire()
        if not has_ended():
            self.raise_if_cancelled()
        self._run_free()

    def wait_for_others(self) -> None:
        """Wait until no trial runs beside this one, which is about to patch something."""
        while self._is_entered() and not self.in_teardown and self.baton.beside:
            self.is_to_patch = True
            self.suspend(lambda: self.baton.put(self))
            self.is_to_patch = False

    @contextmanager
    def in_test(self) -> Iterator[None]:
        """Run the test's own code, without the baton if it is known to block."""
        self._runs_test = not self.in_teardown
        self._run_free()
        try:
            yield
        finally:
            self._runs_test = False
            self.check_in()

    def _run_free(self) -> None:
        blocks = self._runs_test and self._code in self.baton.blocking
        if blocks and not self.is_to_patch and self._is_entered() and self.may_be_detached:
            self.baton.pass_on(self, runs_on=True)

    # --- from its first line to its last ---

    def cancel(self) -> None:
        """Have the trial raise ``TrialCancelled`` where it waits, at its next turn."""
        self.cancelled = not self.done

    def raise_if_cancelled(self) -> None:
        """Raise once what no ``except Exception`` stops, then ordinary exceptions."""
        if not self.cancelled:
            return
        if self.knows_it or self.in_teardown:
            # pytest would leave the fixtures that are still up at what is no Exception.
            raise ProviderFailed("the trial was cancelled before there was a reply")
        self.knows_it = self.is_void = True
        raise TrialCancelled

    def _is_entered(self) -> bool:
        """Whether its own thread asks; in a forked child nobody is there to take the baton."""
        return threading.current_thread() is self.pooled and getpid() == self._pid

    def _run_in_a_row(self) -> None:
        """Run the trial, and in the same thread each that is next after the end of one."""
        thread: TrialThread | None = self
        while thread is not None:
            thread._run()
            following = thread.baton.pass_on(thread)
            if thread.is_beside:  # at its very end: the session is to hear that it has ended
                thread.baton.beside.discard(thread)
                thread.baton.put(thread)
            thread = following

    def _run(self) -> None:
        self.pooled = cast("PooledThread", threading.current_thread())
        self.pooled.holder = self
        try:
            self.baton.variables.copy().run(self._run_trial)
        except BaseException as exc:  # Ctrl-C or pytest.exit: it is for the session to raise
            self.escaped = exc
            self.in_teardown = True
            self.check_in()
        self.done = True
