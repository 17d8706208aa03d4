"""The event loop on which async trials wait, run from outside; the tasks of each trial on it.

The session runs it while no trial has the baton, and stops it as soon as a trial can go on. So a
sync body never sees a running loop. Each step of a task that a trial began runs with that trial's
process state. A trial that overlaps no other runs the loop by itself, and so does one that is
cancelled, to end its fixtures.
Importing this module imports asyncio.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, ContextVar, copy_context
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from threading import get_ident
from typing import Any, TypeVar
from weakref import WeakSet

from pytest_llmeval.engine.baton import GRACE
from pytest_llmeval.engine.threads import Result
from pytest_llmeval.engine.trial_thread import TrialThread
from pytest_llmeval.errors import ProviderFailed
from pytest_llmeval.models.attribution import replaced
from pytest_llmeval.originals import Clock

T = TypeVar("T")

_MOST_PASSES = 20  # of the loop, before trials have turns again
_LONGEST_STOP = 0.02  # seconds for which trials take turns before the loop runs
# Of asyncio.to_thread, each begun when it is needed: by itself a loop has a handful for all trials,
# and what waits in vain for one looks as if the model were late.
_MOST_THREADS = 1000
RUNNER: ContextVar[TrialRunner] = ContextVar("llmeval_runner")
_ALL_TASKS = asyncio.all_tasks


class Pump:
    """Run the loop between the turns of trials.

    Args:
        loop: on which all overlapping trials wait.

    Attributes:
        mains: the task that each trial waits for.
        gates: of steps that may not be taken now; they ask again when the loop begins to run.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._is_pumping = False
        self._thread = get_ident()  # where the loop runs
        self.mains: dict[TrialThread, asyncio.Task[None]] = {}
        self.gates: list[asyncio.Future[None]] = []
        self._stopped = Clock.seconds()
        Clock.keep(loop)
        if loop.get_task_factory() is None:
            loop.set_task_factory(make_task)
        if getattr(loop, "_default_executor", None) is None:  # it is asked nowhere else
            loop.set_default_executor(ThreadPoolExecutor(_MOST_THREADS, "asyncio"))

    def run(self, until: Callable[[], bool], timeout: float | None = None) -> None:
        """Run the loop until something holds, looked at when it is stopped, or for so long."""
        is_over = False

        def end() -> None:
            nonlocal is_over
            is_over = True
            self.loop.stop()

        alarm = None if timeout is None else self.loop.call_later(timeout, end)
        self._is_pumping = True
        self._thread = get_ident()
        try:
            while not (until() or is_over):  # looked at after the flag is up: see stop()
                self._run_loop()
        finally:
            self._is_pumping = False
            if alarm is not None:
                alarm.cancel()

    def _run_loop(self) -> None:
        """Run the loop until it is stopped, with each trial seeing its own tasks alone."""
        gates, self.gates = self.gates, []
        for gate in gates:
            if not gate.done():
                gate.set_result(None)
        shown = replaced(asyncio, "all_tasks", _own_tasks)
        with shown, replaced(asyncio.tasks, "all_tasks", _own_tasks):
            self.loop.run_forever()
        self._stopped = Clock.seconds()

    def run_until_done(self, tasks: Collection[asyncio.Task[Any]], timeout: float | None) -> None:
        """Run the loop until tasks that were started here have ended, or for so many seconds.

        Not ``run_until_complete``, which would need a task of its own, to be seen by all.
        """
        if not all(task.done() for task in tasks):  # else the loop may be closed
            self.run(lambda: all(task.done() for task in tasks), timeout)

    @property
    def is_due(self) -> bool:
        """Whether coroutines have waited long enough for the loop to run between two turns."""
        return bool(self.mains) and Clock.seconds() - self._stopped > _LONGEST_STOP

    def breathe(self) -> None:
        """Let the loop do what is due, without waiting.

        Where that takes long it does what became due meanwhile, too: it comes before new trials.
        """
        for _ in range(_MOST_PASSES):
            began = Clock.seconds()
            # Not by ``run``: a replay counts rounds of the loop, and that would make more of them.
            stop = self.loop.call_soon(self.loop.stop)
            try:
                self._run_loop()
            finally:  # left there after Ctrl-C it would break off what closes the loop
                stop.cancel()
            if self._stopped - began < _LONGEST_STOP:
                break

    def stop(self) -> None:
        """End ``run``, from any thread, after a trial was put where it looks."""
        if get_ident() == self._thread:
            self._stop()
        elif self._is_pumping:
            with contextlib.suppress(RuntimeError):  # a call came back after the session
                self.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._is_pumping:  # a fixture may run the loop by now: it is not ours to stop
            self.loop.stop()

    def gate(self) -> asyncio.Future[None]:
        """Return what a step awaits until it may be taken."""
        self.gates.append(self.loop.create_future())
        return self.gates[-1]

    def start(
        self, trial: TrialThread, coroutine: Coroutine[Any, Any, None], context: Context
    ) -> asyncio.Task[None]:
        """Begin a coroutine that a trial waits for."""

        def end(_: object) -> None:
            self.mains.pop(trial, None)
            self._stop()

        task = self.mains[trial] = self.loop.create_task(coroutine, context=context)
        task.add_done_callback(end)
        return task

    def withdraw(self, trials: Collection[TrialThread]) -> None:
        """Cancel the coroutines that trials wait for, and give them a moment to end."""
        mains = {trial: self.mains[trial] for trial in trials if trial in self.mains}
        for trial, task in mains.items():
            trial.is_void |= not (task.done() or trial.in_teardown)
            task.cancel()
        self.run_until_done(mains.values(), GRACE)


class TrialRunner:
    """Run the coroutines of one trial; to pytest-asyncio it is an ``asyncio.Runner``.

    Args:
        trial: see above.
        loop: on which they run, pumped from now on.

    Attributes:
        tasks: those that coroutines of the trial began.
    """

    def __init__(self, trial: TrialThread, loop: asyncio.AbstractEventLoop) -> None:
        self._trial = trial
        self._baton = baton = trial.baton
        if baton.pump is None or baton.pump.loop is not loop:
            baton.pump = Pump(loop)
        self._pump: Pump = baton.pump
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._exit: SystemExit | None = None  # that a task of the trial raised
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
        context.run(RUNNER.set, self)
        result: Result[T] = Result()
        kept = result.keep_awaited(coroutine)
        try:
            self._run(partial(self._pump.start, self._trial, kept, context), result.is_there)
            self._raise_exit()
            return result.get()
        finally:
            for unwanted in (kept, coroutine):
                if getcoroutinestate(unwanted) == CORO_CREATED:  # cancelled before its first step
                    unwanted.close()

    def close(self) -> None:
        """Cancel the tasks that the trial left running, as ``asyncio.run`` does."""
        left = [task for task in self.tasks if not task.done()]
        for task in left:
            task.cancel()
        try:
            if left:
                self.run(asyncio.wait(left, timeout=GRACE))
            self._raise_exit()
        finally:
            self._has_ended = True

    def leave(self, raised: SystemExit) -> None:
        """End what the trial waits for with an exit that one of its tasks raised.

        The loop would hand it to whoever runs it, which may be the turn of any other case.
        """
        self._exit = raised
        if self._trial in self._pump.mains:
            self._pump.mains[self._trial].cancel()

    def gate(self) -> asyncio.Future[None] | None:
        """Return what the next step of the trial must wait for, None if for nothing."""
        may_go_on = self._has_ended or self._baton.may_go_on(self._trial)
        return None if may_go_on else self._pump.gate()

    def watch(self) -> None:
        """Keep all others from their turns while the trial in turn swaps what they would see."""
        trial = self._trial
        if trial.overlaps and not self._has_ended:
            swaps = not trial.begins_to_wait and bool(trial.note_swaps())
            trial.begins_to_wait = False
            if swaps is not (self._baton.only is trial):
                self._baton.keep_to(trial if swaps else None)

    def take(self, step: Callable[[], T]) -> T:
        """Take a step of a task, as a turn of the trial while there is a trial.

        Whoever ran beside a step that patched something may have seen that.
        """
        try:
            with contextlib.nullcontext() if self._has_ended else self._baton.turn(self._trial):
                try:
                    return step()
                except SystemExit as exc:
                    self.leave(exc)
                    raise asyncio.CancelledError from exc
                finally:
                    self.watch()
        finally:
            if not (self._has_ended or self._trial.is_plain):
                for thread in tuple(self._baton.beside):
                    thread.saw_others = True

    def _run(self, start: Callable[[], asyncio.Task[None]], has_ended: Callable[[], bool]) -> None:
        thread = self._trial
        if not thread.overlaps:
            self._wait_here(start(), timeout=None)
        elif thread.cancelled and (thread.knows_it or thread.in_teardown):
            self._wait_here(start(), timeout=GRACE)  # it tears its fixtures down
        else:
            self.watch()
            thread.suspend(
                lambda: start().add_done_callback(lambda _: self._baton.put(thread)),
                has_ended=has_ended,
            )

    def _raise_exit(self) -> None:
        raised, self._exit = self._exit, None
        if raised is not None:
            raise raised

    def _wait_here(self, task: asyncio.Task[None], *, timeout: float | None) -> None:
        """Run the loop in this thread, without giving up the baton."""
        try:
            self._pump.run_until_done([task], timeout)
        finally:  # Ctrl-C too: what is cancelled must end before its fixtures do
            is_late = not task.done()
            if is_late:
                task.cancel()
                self._pump.run_until_done([task], GRACE)
        if is_late:  # in teardown pytest leaves the other fixtures up at what is no Exception
            raise ProviderFailed("the trial was cancelled before this had ended")


async def wait_in_thread(
    function: Callable[[], T],
    *,
    begin: Callable[[Callable[[], None]], None],
    context: Context | None = None,
) -> T:
    """Await a function that blocks.

    It is not stopped when the awaiting task is cancelled: what it pays for is still kept.

    Args:
        function: blocks.
        begin: begins a thread for it.
        context: in which it runs; None is a copy of this one.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    result: Result[T] = Result()

    def settle() -> None:
        if not ended.done():
            ended.set_result(None)

    def job() -> None:
        result.keep(function)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle)

    begin(partial((context or copy_context()).run, job))
    await ended
    return result.get()


class _InTurns(Coroutine[Any, Any, T]):
    """A coroutine of a trial, each step of which runs with the trial's process state."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], runner: TrialRunner) -> None:
        self._coroutine = coroutine
        self._runner = runner
        self._put_off: Callable[[], Any] | None = None  # a step that waits at a gate

    def send(self, value: Any) -> Any:
        """Take a step."""
        return self._step(self._put_off or partial(self._coroutine.send, value))

    def throw(self, *raised: Any) -> Any:
        """Take a step that begins with an exception."""
        return self._step(partial(self._coroutine.throw, *raised))

    def close(self) -> None:
        """End it where it stands."""
        self._coroutine.close()

    def _step(self, step: Callable[[], Any]) -> Any:
        gate = self._runner.gate()
        if gate is not None:
            self._put_off = step
            return next(iter(gate.__await__()))
        self._put_off = None
        return self._runner.take(step)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """Return attributes of the coroutine, for code that inspects tasks."""
        return getattr(self._coroutine, name)


def make_task(
    loop: asyncio.AbstractEventLoop, coroutine: Any, *, context: Context | None = None, **more: Any
) -> asyncio.Task[Any]:
    """Make a task; one begun by a trial belongs to it, with all that it prints."""
    runner = RUNNER.get(None) if context is None else context.get(RUNNER)
    if runner is None:
        return asyncio.Task(coroutine, loop=loop, context=context, **more)
    in_turns = _InTurns(coroutine, runner)
    task: asyncio.Task[Any] = asyncio.Task(in_turns, loop=loop, context=context, **more)
    runner.tasks.add(task)
    return task


def _own_tasks(loop: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[Any]]:
    """Replace ``asyncio.all_tasks``: a trial sees its own tasks alone."""
    loop = loop or asyncio.get_running_loop()
    runner = RUNNER.get(None)
    if runner is None or loop.get_task_factory() is not make_task:
        # on a loop of the test's own, or under its factory, we know of none
        return _ALL_TASKS(loop)
    return {one for one in runner.tasks if one.get_loop() is loop and not one.done()}
