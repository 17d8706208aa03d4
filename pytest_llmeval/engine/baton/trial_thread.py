"""What carries a trial: control goes to it by ``resume`` and comes back when it waits.

Of all fibers and the session itself only one runs Python at a time; that turn is the
baton. So nothing of pytest, and nothing of a test, is ever entered from two threads.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from os import O_RDONLY, close, getpid, read
from os import open as open_file
from time import clock_gettime, monotonic  # by name: a test may mock those of the module
from typing import Any, Protocol, TypeVar, cast

from pytest_llmeval.engine.baton.result import Result
from pytest_llmeval.engine.baton.thread_pool import PooledThread, Threads
from pytest_llmeval.errors import ProviderFailed

T = TypeVar("T")


class TrialCancelled(BaseException):
    """Raised inside a trial that is not wanted any more, where it waits."""


class Fiber(Protocol):
    """Runs one trial, and hands control back while the trial waits."""

    done: bool
    was_detached: bool
    in_teardown: bool

    def check_in(self) -> None:
        """Take the baton again if it was taken away."""

    def resume(self) -> None:
        """Run the trial until it waits or ends."""

    def holds_up_loop(self) -> bool:
        """Whether who asks to wait here is a coroutine on the loop of all trials."""

    def block(self, function: Callable[[], T]) -> T:
        """Run a function that waits for the outside; return what it returns."""

    def cancel(self) -> None:
        """Have the trial raise ``TrialCancelled`` where it waits, at its next turn."""

    def raise_if_cancelled(self) -> None:
        """Let a trial that is not wanted any more go no further."""


class InlineFiber:
    """A trial in the thread of the session: it never hands control back early."""

    def __init__(self, body: Callable[[], None]) -> None:
        self.done = False
        self.was_detached = False
        self.in_teardown = False
        self._body = body

    def check_in(self) -> None:
        """Do nothing: the baton never leaves."""

    def resume(self) -> None:
        """Run the trial to its end."""
        self._body()
        self.done = True

    def holds_up_loop(self) -> bool:
        """Say no: no other trial waits there."""
        return False

    def block(self, function: Callable[[], T]) -> T:
        """Call the function."""
        return function()

    def cancel(self) -> None:
        """Do nothing: a trial that never waits cannot be met waiting."""

    def raise_if_cancelled(self) -> None:
        """Do nothing: it is always wanted."""


class ThreadFiber:
    """A trial in a thread of its own, which runs only while it holds the baton.

    A trial that blocks without telling (a lock, a client that we do not know) is
    *detached*: the session goes on without it, and it runs beside the others until it
    comes by one of our own places and asks for the baton again.

    Args:
        body: the trial, from its first fixture to its last.
        threads: where it runs, and where its calls wait.
        ready: is told, from any thread, that the fiber can be resumed.

    Attributes:
        done: the trial has ended.
        detached: it runs without the baton at the moment.
        was_detached: it did so at some time.
        cancelled: it is not wanted any more.
        in_teardown: its fixtures end; only an ordinary exception lets pytest end the others.
        escaped: what left the trial altogether, such as pytest.exit.
        may_detach: whether the session may go on without it.
        wait: runs what the test itself waits for.
        beside: gives, in a turn of the trial, what goes around work for it in another thread.
    """

    def __init__(
        self,
        body: Callable[[], None],
        *,
        threads: Threads,
        ready: Callable[[ThreadFiber], None],
    ) -> None:
        self.done = False
        self.detached = False
        self.was_detached = False
        self.in_teardown = False
        self.escaped: BaseException | None = None
        self.may_detach: Callable[[], bool] = lambda: True
        self.wait: Callable[[Callable[[], Any]], Any] = self.block
        self.beside: Callable[[], AbstractContextManager[None]] = nullcontext
        self._body = body
        self._threads = threads
        self._ready = ready
        self._thread: PooledThread | None = None
        self._pid = getpid()
        self.cancelled = False
        self._was_told = False  # that it is cancelled
        self._errand: Callable[[], None] | None = None  # what the session is to run for it
        self._hand_over = threading.Lock()  # held while it is decided who has the baton
        self._to_fiber = threading.Lock()
        self._to_session = threading.Lock()
        self._to_fiber.acquire()
        self._to_session.acquire()

    def resume(self) -> None:
        """Hand the baton over; return when it came back, or was taken from a stalled trial.

        The trial begins with the context variables that are set here at that moment.
        """
        if self._thread is None:
            self._thread = self._threads.run(partial(copy_context().run, self._run), fiber=self)
        else:
            self.detached = False
            self._to_fiber.release()
        self._await_baton(StallWatch(self._thread))
        while self._errand is not None:
            self._errand()
            self._errand = None
            self._to_fiber.release()
            self._await_baton(StallWatch(self._thread))

    def wait_for_baton(self, *, timeout: float) -> bool:
        """Wait for the baton again, after Ctrl-C broke into ``resume``."""
        return self._to_session.acquire(timeout=timeout)

    def check_in(self) -> None:
        """Take the baton again if it was taken away; called where a trial enters our code."""
        if self.detached and self._is_entered():
            self._ready(self)
            self._to_fiber.acquire()
            if not self.in_teardown:
                self.raise_if_cancelled()

    def holds_up_loop(self) -> bool:
        """Whether who asks to wait here is a coroutine on the loop of all trials."""
        asyncio = sys.modules.get("asyncio")
        return not self._is_entered() and bool(asyncio and asyncio._get_running_loop())

    def block(self, function: Callable[[], T]) -> T:
        """Hand the baton back, wait elsewhere, and go on with the baton."""
        if not self._is_entered():
            return function()  # a thread of the test's own never held the baton
        result: Result[T] = Result()

        def job(beside: AbstractContextManager[None]) -> None:
            with beside:
                result.keep(function)
            self._ready(self)

        self.suspend(lambda: self._threads.run(partial(copy_context().run, job, self.beside())))
        return result.get()

    def in_session(self, function: Callable[[], T]) -> T:
        """Have the session run a function in its own thread, while the trial has its turn."""
        __tracebackhide__ = True
        if not self._is_entered():
            return function()  # it is that thread, or one that never held the baton
        result: Result[T] = Result()
        while not self._ask(partial(result.keep, function)):
            self.check_in()
        self._to_fiber.acquire()
        self.raise_if_cancelled()  # else Ctrl-C might have come before there is a result
        return result.get()

    def suspend(self, begin: Callable[[], object]) -> None:
        """Begin something, and hand the baton back until the fiber is said to be ready."""
        self.check_in()
        self.raise_if_cancelled()
        begin()
        with self._hand_over:
            if not self.detached:
                self._to_session.release()
        self._to_fiber.acquire()
        self.raise_if_cancelled()

    def cancel(self) -> None:
        """Have the trial raise ``TrialCancelled`` where it waits, at its next turn."""
        self.cancelled = not self.done

    def raise_if_cancelled(self) -> None:
        """Raise once what no ``except Exception`` stops, then ordinary exceptions."""
        if not self.cancelled:
            return
        if self._was_told or self.in_teardown:
            # pytest would leave the fixtures that are still up at what is no Exception.
            raise ProviderFailed("the trial was cancelled before there was a reply")
        self._was_told = True
        raise TrialCancelled

    def _is_entered(self) -> bool:
        """Whether its own thread asks; in a forked child nobody is there to take the baton."""
        return threading.current_thread() is self._thread and getpid() == self._pid

    def _ask(self, errand: Callable[[], None]) -> bool:
        """Hand the baton back for something to be run, unless it was taken away."""
        with self._hand_over:
            if not self.detached:
                self._errand = errand
                self._to_session.release()
            return not self.detached

    def _await_baton(self, watch: StallWatch) -> None:
        while not self._to_session.acquire(timeout=StallWatch.PERIOD):
            if watch.is_stalled() and self.may_detach():
                self._detach()
                return

    def _detach(self) -> None:
        """Take the baton from the trial, unless it has just handed it back."""
        with self._hand_over:
            if not self._to_session.acquire(blocking=False):
                self.detached = self.was_detached = True

    def _run(self) -> None:
        # Not left to ``resume``: on a busy machine the trial asks before that thread goes on.
        self._thread = cast("PooledThread", threading.current_thread())
        try:
            self._body()
        except BaseException as exc:  # Ctrl-C or pytest.exit: it is for the session to raise
            self.escaped = exc
        self.done = True
        self._to_session.release()


class StallWatch:
    """Tells whether a thread makes no progress: its CPU clock stands still.

    So does that of a thread which only waits for a core. Linux tells that it does; elsewhere
    the look itself comes late on a machine that is so busy, and does not count.

    Where threads have no clock of their own (macOS, Windows) nothing is ever stalled.
    """

    PERIOD = 0.05  # seconds
    CHECKS = 5  # with 2, trials that only waited for a core were taken for stalled (measured)

    def __init__(self, thread: PooledThread) -> None:
        self._thread = thread
        self._still = 0
        self._last = -1.0
        self._looked = monotonic()

    def is_stalled(self) -> bool:
        """Look at the clock; call once a period."""
        now, looked = self._clock(), monotonic()
        is_late = looked - self._looked > 2 * self.PERIOD
        is_still = now is not None and now == self._last and not is_late
        stands_still = is_still and not self._wants_core()
        self._still = self._still + 1 if stands_still else 0
        self._last = -1.0 if now is None else now
        self._looked = looked
        return self._still >= self.CHECKS

    def _clock(self) -> float | None:
        if self._thread.clock is None:
            return None
        try:
            return clock_gettime(self._thread.clock)
        except OSError:  # it has just ended
            return None

    def _wants_core(self) -> bool:
        """Whether the system would run it if it had a core; False where it does not say."""
        try:
            descriptor = open_file(f"/proc/self/task/{self._thread.native_id}/stat", O_RDONLY)
        except OSError:
            return False
        try:
            state = read(descriptor, 256).rpartition(b")")[2].split()[:1]
        finally:
            close(descriptor)
        return state == [b"R"]


def waiting(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function that waits for the outside, so that other trials go on meanwhile.

    For blocking calls of the test's own, such as ``waiting(requests.get, url)``. It runs
    in another thread; outside an overlapping trial it is just called.
    """
    fiber = _current_fiber()
    if fiber is not None:
        value: T = fiber.wait(partial(function, *args, **kwargs))
        return value
    return function(*args, **kwargs)


def check_in() -> None:
    """Have the trial that runs in this thread take the baton again if it was taken away."""
    fiber = _current_fiber()
    if fiber is not None:
        fiber.check_in()


def _current_fiber() -> ThreadFiber | None:
    fiber = getattr(threading.current_thread(), "fiber", None)
    return fiber if isinstance(fiber, ThreadFiber) else None
