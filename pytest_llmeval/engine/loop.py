"""The event loop on which async trials wait, run from outside.

It runs only while nothing else has the baton, and stops as soon as a trial can go on. So
a sync body never sees a running loop, and no pytest code is entered from a coroutine.
Importing this module imports asyncio.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Generator
from contextlib import AbstractContextManager
from contextvars import Context, ContextVar, copy_context
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from queue import SimpleQueue
from typing import Any, TypeVar
from weakref import WeakSet

from pytest_llmeval.engine.fiber import ThreadFiber, Threads, TrialCancelled
from pytest_llmeval.engine.result import Result
from pytest_llmeval.engine.trial import RunningTrial

T = TypeVar("T")

GRACE = 1.0  # seconds for a coroutine that is cancelled to end


class Pump:
    """Runs the loop between the turns of trials.

    Args:
        loop: on which all overlapping trials wait.
        turn: swaps the state of the process for a trial's.
        wake: says that a fiber is ready.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        turn: Callable[[RunningTrial], AbstractContextManager[None]],
        wake: Callable[[ThreadFiber], None],
    ) -> None:
        self.loop = loop
        self.turn = turn
        self.wake_fiber = wake
        self._is_pumping = False
        self._mains: dict[RunningTrial, asyncio.Task[None]] = {}
        if loop.get_task_factory() is None:
            loop.set_task_factory(_make_task)

    def runner(self, trial: RunningTrial) -> TrialRunner:
        """Make what runs the coroutines of a trial."""
        return TrialRunner(trial, self)

    def run(self, ready: SimpleQueue[ThreadFiber], *, timeout: float | None) -> None:
        """Run the loop until a fiber is ready, or for so many seconds."""
        alarm = None if timeout is None else self.loop.call_later(timeout, self._stop)
        self._is_pumping = True
        try:
            while ready.empty():  # looked at after the flag is up: see stop()
                self.loop.run_forever()
                if timeout is not None:
                    break
        finally:
            self._is_pumping = False
            if alarm is not None:
                alarm.cancel()

    def stop(self) -> None:
        """End ``run``, from any thread, after a fiber was put where it looks."""
        if self._is_pumping:
            with contextlib.suppress(RuntimeError):  # a call came back after the session
                self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._is_pumping:  # a fixture may run the loop by now: it is not ours to stop
            self.loop.stop()

    def start(
        self, trial: RunningTrial, coroutine: Coroutine[Any, Any, None], context: Context
    ) -> asyncio.Task[None]:
        """Make a task of what a trial waits for."""
        task = self.loop.create_task(coroutine, context=context)
        self._mains[trial] = task
        task.add_done_callback(lambda _: self._mains.pop(trial, None))
        return task

    def withdraw(self, trials: Collection[RunningTrial]) -> None:
        """Cancel what trials wait for, and give it a moment to end."""
        tasks = [self._mains[trial] for trial in trials if trial in self._mains]
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=GRACE))


class TrialRunner:
    """Runs the coroutines of one trial; to pytest-asyncio it is an ``asyncio.Runner``."""

    def __init__(self, trial: RunningTrial, pump: Pump) -> None:
        self._trial = trial
        self._pump = pump
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._has_ended = False

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop."""
        return self._pump.loop

    def run(self, coroutine: Coroutine[Any, Any, T], *, context: Context | None = None) -> T:
        """Run a coroutine of the trial to its end; others go on meanwhile."""
        if self._pump.loop.is_running():
            coroutine.close()
            raise RuntimeError(
                "an async fixture was asked for by getfixturevalue in an async def test. "
                "Name it as an argument of the test."
            )
        context = context or copy_context()
        context.run(_RUNNER.set, self)
        try:
            return self._run(coroutine, context)
        finally:
            if getcoroutinestate(coroutine) == CORO_CREATED:  # cancelled before its first step
                coroutine.close()

    def close(self) -> None:
        """Cancel the tasks that the trial left running, as ``asyncio.run`` does."""
        left = [task for task in self._tasks if not task.done()]
        for task in left:
            task.cancel()
        if left:
            self.run(_end(left))
        self._has_ended = True

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Note a task that a coroutine of the trial began."""
        self._tasks.add(task)

    def turn(self) -> AbstractContextManager[None]:
        """Swap the state of the process for the trial's, while there is a trial."""
        return contextlib.nullcontext() if self._has_ended else self._pump.turn(self._trial)

    def _run(self, coroutine: Coroutine[Any, Any, T], context: Context) -> T:
        fiber = self._trial.fiber
        result: Result[T] = Result()

        def begin() -> asyncio.Task[None]:
            return self._pump.start(self._trial, result.keep_awaited(coroutine), context)

        if not isinstance(fiber, ThreadFiber):
            self._wait_here(begin(), timeout=None)
        elif fiber.cancelled:  # it tears its fixtures down, and is waited for
            self._wait_here(begin(), timeout=GRACE)
        else:
            fiber.suspend(lambda: begin().add_done_callback(lambda _: self._pump.wake_fiber(fiber)))
        return result.get()

    def _wait_here(self, task: asyncio.Task[None], *, timeout: float | None) -> None:
        """Run the loop in this thread, without giving up the baton."""
        loop = self._pump.loop
        try:
            loop.run_until_complete(asyncio.wait({task}, timeout=timeout))
        finally:  # Ctrl-C too: what is cancelled must end before its fixtures do
            if not task.done():
                task.cancel()
                loop.run_until_complete(asyncio.wait({task}, timeout=GRACE))
        if not task.done():
            raise TrialCancelled


_RUNNER: ContextVar[TrialRunner] = ContextVar("llmeval_runner")


class _InTurns(Coroutine[Any, Any, T]):
    """A coroutine of a trial: at each of its steps the state of the process is the trial's."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], runner: TrialRunner) -> None:
        self._coroutine = coroutine
        self._turn = runner.turn

    def send(self, value: Any) -> Any:
        """Take a step."""
        with self._turn():
            return self._coroutine.send(value)

    def throw(self, *raised: Any) -> Any:
        """Take a step that begins with an exception."""
        with self._turn():
            return self._coroutine.throw(*raised)

    def close(self) -> None:
        """End it where it stands."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """Look like the coroutine to those that inspect tasks."""
        return getattr(self._coroutine, name)


def _make_task(
    loop: asyncio.AbstractEventLoop, coroutine: Any, *, context: Context | None = None, **more: Any
) -> asyncio.Task[Any]:
    """Make a task; one begun by a trial belongs to it, with all that it prints."""
    runner = _RUNNER.get(None) if context is None else context.get(_RUNNER)
    if runner is None:
        return asyncio.Task(coroutine, loop=loop, context=context, **more)
    in_turns = _InTurns(coroutine, runner)
    task: asyncio.Task[Any] = asyncio.Task(in_turns, loop=loop, context=context, **more)
    runner.adopt(task)
    return task


async def _end(tasks: Collection[asyncio.Task[Any]]) -> None:
    await asyncio.wait(tasks, timeout=GRACE)


async def wait_in_thread(
    function: Callable[[], T],
    *,
    threads: Threads,
    beside: Callable[[], AbstractContextManager[None]],
) -> T:
    """Await a function that blocks.

    It is not stopped when the awaiting task is cancelled: what it pays for is still kept.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    result: Result[T] = Result()

    def settle() -> None:
        if not ended.done():
            ended.set_result(None)

    def job() -> None:
        with beside():
            result.keep(function)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle)

    threads.run(partial(copy_context().run, job))
    await ended
    return result.get()
