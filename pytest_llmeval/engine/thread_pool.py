"""The threads in which trials run, and those in which their calls wait; a watch over them."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from os import O_RDONLY, close, read
from os import open as open_file
from queue import SimpleQueue
from time import clock_gettime, monotonic  # by name: a test may mock those of the module
from typing import TYPE_CHECKING, Generic, TypeVar

from pytest_llmeval.models.attribution import charging

if TYPE_CHECKING:
    from pytest_llmeval.engine.trial_thread import TrialThread

T = TypeVar("T")


class Result(Generic[T]):
    """The value of a function that ran in another thread, or what it raised."""

    def __init__(self) -> None:
        self._value: list[T] = []
        self._raised: list[BaseException] = []

    def keep(self, function: Callable[[], T]) -> None:
        """Call a function and keep what becomes of it."""
        __tracebackhide__ = True
        try:
            self._value.append(function())
        except BaseException as exc:  # raised again where the result is asked for
            self._raised.append(exc)

    async def keep_awaited(self, awaitable: Awaitable[T]) -> None:
        """Await something and keep what becomes of it."""
        try:
            self._value.append(await awaitable)
        except BaseException as exc:  # likewise
            self._raised.append(exc)

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


class StallWatch:
    """Tell whether a thread makes no progress: its CPU clock stands still.

    The clock of a thread that only waits for a core stands still, too. Linux tells that it
    does; elsewhere a look that itself comes late, as on a machine that is so busy, does not count.

    Where threads have no clock of their own (macOS, Windows) nothing is ever stalled.
    """

    PERIOD = 0.05  # seconds
    CHECKS = 5  # with 2, trials that only waited for a core were taken for stalled (measured)

    def __init__(self, thread: PooledThread) -> None:
        self._thread = thread
        self._still = 0
        self._last: float | None = None
        self._looked = monotonic()

    def is_stalled(self) -> bool:
        """Look at the clock; call once a period."""
        now, looked = self._clock(), monotonic()
        is_late = looked - self._looked > 2 * self.PERIOD
        is_still = now is not None and now == self._last and not is_late
        self._still = self._still + 1 if is_still and not self._wants_core() else 0
        self._last, self._looked = now, looked
        return self._still >= self.CHECKS

    def _clock(self) -> float | None:
        with suppress(OSError):  # the thread has just ended
            return None if self._thread.clock is None else clock_gettime(self._thread.clock)
        return None

    def _wants_core(self) -> bool:
        """Whether the system would run the thread if it had a core; False where it does not say."""
        with suppress(OSError):
            descriptor = open_file(f"/proc/self/task/{self._thread.native_id}/stat", O_RDONLY)
            try:
                return read(descriptor, 256).rpartition(b")")[2].split()[:1] == [b"R"]
            finally:
                close(descriptor)
        return False
