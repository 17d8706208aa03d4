"""Threads that are used again, for trials and for their calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from pytest_llmeval.models.attribution import charging

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

    def is_there(self) -> bool:
        """Whether there is a value."""
        return bool(self._value)

    def get(self) -> T:
        """Return the value, or raise."""
        __tracebackhide__ = True
        if self._raised:
            raise self._raised.pop()
        return self._value[0]


class PooledThread(threading.Thread):
    """A daemon thread that does one job after the other.

    Attributes:
        holder: the trial that runs here at the moment; code in the trial finds it here, without
            a global.
        clock: id of its CPU clock, None before it runs and where threads have none. The
            thread asks for it itself: asked from outside about a thread that has just
            ended, the interpreter may crash.
    """

    def __init__(self, idle: list[PooledThread]) -> None:
        super().__init__(daemon=True)
        self.holder: Any = None
        self.clock: int | None = None
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = idle

    def run(self) -> None:
        """Do the jobs that come, and be idle in between."""
        if hasattr(time, "pthread_getcpuclockid"):
            self.clock = time.pthread_getcpuclockid(threading.get_ident())
        while True:
            self.jobs.get()()
            self.holder = None
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
