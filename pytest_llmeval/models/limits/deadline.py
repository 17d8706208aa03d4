"""End a call at its deadline, whatever it is made with.

The timeouts of a socket begin anew with every byte, and a function cannot be stopped at all.
So calls are made in threads of their own, which are left behind when the time is over. A thread
is spared by questions of our own, which look at the time before every read, and by what runs on
an event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from pytest_llmeval.errors import CallAbandoned
from pytest_llmeval.models.attribution import charging
from pytest_llmeval.originals import Clock

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T = TypeVar("T")

DEFAULT_SECONDS = 600.0  # the vendors' own


class TimeIsUp(Exception):
    """A call took longer than it may."""


class TimeLimit:
    """The limit for each call of a session, and the threads in which calls are made.

    The threads are used again: to start one takes longer than all else that a call costs
    us. They are daemons, so that the interpreter does not wait for those left behind.

    Args:
        seconds: for one call, from its first attempt to its last.
    """

    def __init__(self, seconds: float = DEFAULT_SECONDS) -> None:
        self.seconds = seconds
        self._idle: SimpleQueue[_Worker] = SimpleQueue()

    def worker(self) -> _Worker:
        """Take a thread that is idle, or a new one."""
        while True:
            try:
                worker = self._idle.get_nowait()
            except Empty:
                worker = _Worker(self._idle)
                worker.start()
                return worker
            if worker.is_alive():  # no thread of the parent is, in a forked child
                return worker


@dataclass(slots=True)
class Deadline:
    """The time that is left for one call. Time between its parts is not counted.

    Attributes:
        left: seconds for all parts together.
        worker: gives a thread that is idle; None inside a part that has one, under the deadline of
            that.
    """

    left: float
    worker: Callable[[], _Worker] | None

    def run(self, part: Callable[[], T]) -> T:
        """Run a part of the call, in another thread but with the context of this one.

        Raises:
            TimeIsUp: it did not end in what was left of the time; its thread is left behind.
        """
        return part() if self.worker is None else self.wait(self.worker().begin(part))

    def wait(self, future: Future[T]) -> T:
        """Wait for what goes on elsewhere, as on an event loop.

        Raises:
            TimeIsUp: it did not end in what was left of the time; it is left behind.
        """
        started = Clock.seconds()
        try:
            return future.result(min(max(self.left, 0.0), threading.TIMEOUT_MAX))
        except TimeoutError as exc:
            if future.done() and future.exception() is exc:  # it is its own
                raise
            raise TimeIsUp from exc
        finally:
            self.left -= Clock.seconds() - started
            del future  # the traceback of its error holds this very frame

    def allows(self, pause: float) -> bool:
        """Take a pause off what is left; tell whether anything is left after it."""
        self.left -= pause
        return self.left > 0


def run_on_loop(
    begin: Callable[[], Awaitable[T]], loop: AbstractEventLoop, context: Context, deadline: Deadline
) -> T:
    """Run a coroutine function on the event loop of another thread, and wait for it.

    No trial is charged for what it asks: the cache sees that call, or it is a model's own affair.

    Args:
        begin: sends a request once, say.
        loop: to run it on.
        context: in which it runs there.
        deadline: of the call.

    Raises:
        CallAbandoned: the loop is closed, or cancelled it.
        TimeIsUp: it did not end in what was left of the time.
    """
    import asyncio  # where nothing awaits nobody needs it

    async def charged() -> T:
        with charging(None):
            return await begin()

    coroutine = charged()
    try:
        future = context.run(asyncio.run_coroutine_threadsafe, coroutine, loop)
    except RuntimeError as exc:  # the loop is closed
        coroutine.close()
        raise CallAbandoned from exc
    try:
        return deadline.wait(future)
    except TimeIsUp:
        future.cancel()
        raise
    except CancelledError as exc:  # with the trial, which waited for it no longer
        raise CallAbandoned from exc


class _Worker(threading.Thread):
    """A thread that does one job after the other."""

    def __init__(self, idle: SimpleQueue[_Worker]) -> None:
        super().__init__(daemon=True)
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = idle

    def begin(self, part: Callable[[], T]) -> Future[T]:
        """Begin a job, with the context of who asks for it."""
        future: Future[T] = Future()
        self._jobs.put(partial(self._do, future, copy_context().run, part))
        return future

    def run(self) -> None:
        while True:
            self._jobs.get()()

    def _do(self, future: Future[T], run: Callable[..., T], part: Callable[[], T]) -> None:
        try:
            end = partial(future.set_result, run(part))
        except BaseException as exc:  # it belongs to the one who waits
            end = partial(future.set_exception, exc)
        self._idle.put(self)  # first: the next call is to find it
        end()
