"""The threads in which trials run, and those in which their calls wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from pytest_llmeval.models.attribution import asking

if TYPE_CHECKING:
    from pytest_llmeval.engine.baton.trial_thread import ThreadFiber


class PooledThread(threading.Thread):
    """A daemon thread that does one job after the other.

    Attributes:
        fiber: whose trial it carries at the moment; code in the trial finds it here,
            without a global.
        clock: id of its CPU clock, None before it runs and where threads have none. The
            thread asks for it itself: asked from outside about a thread that has just
            ended, the interpreter may crash.
    """

    def __init__(self, idle: list[PooledThread]) -> None:
        super().__init__(daemon=True)
        self.fiber: ThreadFiber | None = None
        self.clock: int | None = None
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = idle

    def do(self, job: Callable[[], None]) -> None:
        """Give an idle thread its next job."""
        self._jobs.put(job)

    def run(self) -> None:
        """Do what comes, and be idle in between."""
        if hasattr(time, "pthread_getcpuclockid"):
            self.clock = time.pthread_getcpuclockid(threading.get_ident())
        while True:
            self._jobs.get()()
            self.fiber = None
            self._idle.append(self)


class Threads:
    """The threads in which trials run, and those in which their calls wait.

    They are used again and again, as to start one costs more than all else that a turn
    does. Not ``concurrent.futures``: its threads are joined when the interpreter exits,
    so that Ctrl-C would wait for every call that is still on its way.
    """

    def __init__(self) -> None:
        # The last used first, as its memory is at hand. append and pop are atomic.
        self._idle: list[PooledThread] = []

    def run(self, job: Callable[[], None], *, fiber: ThreadFiber | None = None) -> PooledThread:
        """Run a job in a thread that is idle, or in a new one."""
        try:
            thread = self._idle.pop()
        except IndexError:
            thread = PooledThread(self._idle)
            with asking(None):  # it is not for whoever happens to need it first
                thread.start()
        thread.fiber = fiber
        thread.do(job)
        return thread
