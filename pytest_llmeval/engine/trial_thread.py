"""Run a trial in a thread of its own; only one thread runs Python at a time.

The right to run is the *baton*, which a trial passes on when it waits. So nothing of pytest, and
nothing of a test, is ever entered from two threads. The threads in which trials run, and those in
which their calls wait, come from a pool.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import partial
from math import inf
from os import getpid  # by name: a test may mock that of the module
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pytest_llmeval.errors import ProviderFailed
from pytest_llmeval.models.attribution import charging
from pytest_llmeval.originals import Clock

if TYPE_CHECKING:
    from pytest_llmeval.engine.schedule.baton import Ready
    from pytest_llmeval.engine.trial.trial import RunningTrial

T = TypeVar("T")


class Result(Generic[T]):
    """The value of a function that ran in another thread, or what it raised."""

    def __init__(self) -> None:
        self._value: list[T] = []
        self._since = inf
        self._raised: list[BaseException] = []

    def keep(self, function: Callable[[], T]) -> None:
        """Call a function and keep what becomes of it."""
        __tracebackhide__ = True
        try:
            self._value.append(function())
            self._since = Clock.seconds()
        except BaseException as exc:  # raised again where the result is asked for
            self._raised.append(exc)

    async def keep_awaited(self, awaitable: Awaitable[T]) -> None:
        """Await something and keep what becomes of it."""
        try:
            self._value.append(await awaitable)
        except BaseException as exc:  # likewise
            self._raised.append(exc)

    @property
    def lay(self) -> float:
        """For how many seconds the value has been there; 0 if there is none."""
        return Clock.seconds() - self._since if self._value else 0.0

    def get(self) -> T:
        """Return the value, or raise."""
        __tracebackhide__ = True
        if self._raised:
            raise self._raised.pop()
        return self._value[0]


class PooledThread(threading.Thread):
    """A daemon thread that does one job after the other.

    Attributes:
        trial_thread: whose trial runs here at the moment; code in the trial finds it here,
            without a global.
        clock: id of its CPU clock, None before it runs and where threads have none. The
            thread asks for it itself: asked from outside about a thread that has just
            ended, the interpreter may crash.
    """

    def __init__(self, idle: list[PooledThread]) -> None:
        super().__init__(daemon=True)
        self.trial_thread: TrialThread | None = None
        self.clock: int | None = None
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = idle

    def run(self) -> None:
        """Do the jobs that come, and be idle in between."""
        if hasattr(time, "pthread_getcpuclockid"):
            self.clock = time.pthread_getcpuclockid(threading.get_ident())
        while True:
            self.jobs.get()()
            self.trial_thread = None
            self._idle.append(self)


class Threads:
    """A pool of daemon threads.

    Threads are used again, as to start one costs more than all else that a turn does. Not
    ``concurrent.futures``: its threads are joined when the interpreter exits, so that Ctrl-C
    would wait for every call that is still on its way.
    """

    def __init__(self) -> None:
        # The last used first, as its memory is at hand. append and pop are atomic.
        self._idle: list[PooledThread] = []

    def run(self, job: Callable[[], None]) -> None:
        """Run a job in a thread that is idle, or in a new one."""
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = PooledThread(self._idle)
            with charging(None):  # the thread is not for the trial that happens to need it first
                thread.start()
        thread.jobs.put(job)


class TrialCancelled(BaseException):
    """Raised inside a trial that is not wanted any more, where it waits."""


class InlineThread:
    """The session's own thread: its trial runs from the first line to the last.

    Args:
        trial: runs here, from its first fixture to its last.

    Attributes:
        overlaps: other trials run while this one waits.
        done: the trial has ended.
        was_detached: it ran without the baton at some time.
        cancelled: it is not wanted any more.
        in_teardown: its fixtures end; only an ordinary exception lets pytest end the others.
        waits_since: when it gave its last turn up, by the clock of seconds.
        ready_since: when it could go on after that; 0 while it has a turn.
    """

    overlaps = False

    def __init__(self, trial: RunningTrial) -> None:
        self.trial = trial
        self.done = False
        self.was_detached = False
        self.cancelled = False
        self.in_teardown = False
        self.ready_since = 0.0
        self.waits_since = 0.0

    def waits_for_turn(self) -> bool:
        """Whether the trial could go on, and others run first."""
        return self.ready_since > self.waits_since

    def check_in(self) -> None:
        """Take the baton again if it was taken away."""

    def be_alone(self) -> None:
        """Wait until no trial runs beside this one."""

    def enter_test(self) -> None:
        """Begin the test's own code."""

    def leave_test(self) -> None:
        """End it."""

    def raise_if_cancelled(self) -> None:
        """Let a trial that is not wanted any more go no further."""


class TrialThread(InlineThread):
    """A thread for one trial, which runs only while it holds the baton.

    A trial that blocks without telling (a lock, a client that we do not know) is
    *detached*: the session goes on without it, and it runs beside the others until it
    comes by one of our own places and asks for the baton again. A trial of which it is known
    that it blocks lets go of the baton by itself, where the test's own code runs.

    Args:
        trial: runs here, from its first fixture to its last.
        ready: has the threads and the baton, and takes the trial when it can go on.

    Attributes:
        detached: it runs without the baton at the moment.
        escaped: what left the trial altogether, such as pytest.exit.
        pooled: the thread in which it runs; None before its first turn.
        handing_over: held while it is decided who has the baton.
    """

    overlaps = True

    def __init__(self, trial: RunningTrial, ready: Ready) -> None:
        super().__init__(trial)
        self.detached = False
        self.escaped: BaseException | None = None
        self.pooled: PooledThread | None = None
        self.handing_over = threading.Lock()
        self._ready = ready
        self._pid = getpid()
        self._knows_it = False  # that it is cancelled
        self._runs_test = False  # the test's own code runs
        self._to_trial = threading.Lock()
        self._to_trial.acquire()

    def go_on(self) -> None:
        """Let the trial run, in its own thread: whoever calls has passed the baton to it."""
        if self.pooled is None:
            self._ready.threads.run(self._run_in_a_row)
        else:
            self.detached = False
            self.ready_since = 0.0
            self._ready.baton.beside.discard(self)
            self._to_trial.release()

    def check_in(self) -> None:
        """Take the baton again if it was taken away; called where a trial enters our code."""
        if self.detached and self._is_entered():
            self._ready.baton.beside.discard(self)  # it runs no further
            self._ready.put(self)
            self._to_trial.acquire()
            if not self.in_teardown:
                self.raise_if_cancelled()

    def holds_up_loop(self) -> bool:
        """Whether a coroutine on the loop of all trials asks to wait here."""
        asyncio = sys.modules.get("asyncio")
        return not self._is_entered() and bool(asyncio and asyncio._get_running_loop())

    def block(self, function: Callable[[], T]) -> T:
        """Hand the baton back, wait elsewhere, and go on with the baton."""
        if not self._is_entered():
            return function()  # a thread of the test's own never held the baton
        result: Result[T] = Result()

        def job(around_call: AbstractContextManager[None]) -> None:
            with around_call:
                result.keep(function)
            self._ready.put(self)

        def begin() -> None:
            around_call = self.trial.call_output.around_call()
            self._ready.threads.run(partial(copy_context().run, job, around_call))

        self.suspend(begin)
        return result.get()

    def on_main_thread(self, function: Callable[[], T]) -> T:
        """Have the session run a function in its own thread, while the trial has its turn."""
        __tracebackhide__ = True
        if not self._is_entered():
            return function()  # it is that thread, or one that never held the baton
        result: Result[T] = Result()
        while not self._ready.baton.ask_session(self, partial(result.keep, function)):
            self.check_in()
        self._to_trial.acquire()
        self.raise_if_cancelled()  # else Ctrl-C might have come before there is a result
        return result.get()

    def suspend(self, begin: Callable[[], object]) -> None:
        """Begin something, and pass the baton on until the trial is ready."""
        self.check_in()
        self.raise_if_cancelled()
        self.waits_since = Clock.seconds()
        begin()
        self._ready.baton.pass_on(self)
        self._to_trial.acquire()
        self.raise_if_cancelled()
        if self._runs_test and self._ready.blocking:
            self._run_free()

    def enter_test(self) -> None:
        """Begin the test's own code, without the baton if it is known to block."""
        self._runs_test = not self.in_teardown
        if self._runs_test and self._ready.blocking:
            self._run_free()

    def leave_test(self) -> None:
        """End it, with the baton."""
        self._runs_test = False
        if self.detached:
            self.check_in()

    def _run_free(self) -> None:
        if self._is_entered() and self.trial.may_run_free:
            self._ready.baton.let_run(self)

    def be_alone(self) -> None:
        """Wait until no trial runs beside this one, which is about to patch something."""
        while self._is_entered() and not self.in_teardown and self._ready.baton.beside:
            runs_test, self._runs_test = self._runs_test, False
            self.trial.wants_alone = True
            self.suspend(lambda: self._ready.put(self))
            self.trial.wants_alone, self._runs_test = False, runs_test

    def cancel(self) -> None:
        """Have the trial raise ``TrialCancelled`` where it waits, at its next turn."""
        self.cancelled = not self.done

    def raise_if_cancelled(self) -> None:
        """Raise once what no ``except Exception`` stops, then ordinary exceptions."""
        if not self.cancelled:
            return
        if self._knows_it or self.in_teardown:
            # pytest would leave the fixtures that are still up at what is no Exception.
            raise ProviderFailed("the trial was cancelled before there was a reply")
        self._knows_it = True
        raise TrialCancelled

    def _is_entered(self) -> bool:
        """Whether its own thread asks; in a forked child nobody is there to take the baton."""
        return threading.current_thread() is self.pooled and getpid() == self._pid

    def _run_in_a_row(self) -> None:
        """Run the trial, and in the same thread each that is next after the end of one."""
        thread: TrialThread | None = self
        while thread is not None:
            thread._run()
            following = thread._ready.baton.pass_on(thread)
            if thread.detached:  # at its very end: the session is to hear that it has ended
                thread._ready.baton.beside.discard(thread)
                thread._ready.put(thread)
            thread = following

    def _run(self) -> None:
        self.pooled = cast("PooledThread", threading.current_thread())
        self.pooled.trial_thread = self
        try:
            self._ready.baton.variables.copy().run(self.trial.run)
        except BaseException as exc:  # Ctrl-C or pytest.exit: it is for the session to raise
            self.escaped = exc
            self.in_teardown = True
            self.check_in()
        self.done = True


def waiting(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function that waits for the outside, so that other trials go on meanwhile.

    For blocking calls of the test's own, such as ``waiting(requests.get, url)``. It runs
    in another thread; outside an overlapping trial it is just called.

    Args:
        function: what blocks. It is called once.
        *args: its arguments by position.
        **kwargs: its arguments by name.

    Returns:
        What the function returns; what it raises is raised here.
    """
    thread = getattr(threading.current_thread(), "trial_thread", None)
    if isinstance(thread, TrialThread):
        return thread.trial.wait_for_own(partial(function, *args, **kwargs))
    return function(*args, **kwargs)


def check_in(*, alone: bool = False) -> None:
    """Have the trial that runs in this thread take the baton again if it was taken away.

    Args:
        alone: the trial is about to patch something, which no other must run beside.
    """
    thread = getattr(threading.current_thread(), "trial_thread", None)
    if isinstance(thread, TrialThread):
        if thread.detached:
            thread.check_in()
        if alone:
            thread.be_alone()


def running_beside() -> RunningTrial | None:
    """Return the trial of this thread if it runs without the baton."""
    thread = getattr(threading.current_thread(), "trial_thread", None)
    return thread.trial if isinstance(thread, TrialThread) and thread.detached else None
