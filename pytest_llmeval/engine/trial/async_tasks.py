"""Wrap tasks started by a trial so that each step runs with that trial's process state.

Importing this module imports asyncio.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pytest_llmeval.engine.trial.event_loop import TrialRunner

T = TypeVar("T")

RUNNER: ContextVar[TrialRunner] = ContextVar("llmeval_runner")


class _InTurns(Coroutine[Any, Any, T]):
    """A coroutine of a trial, each step of which runs with the trial's process state."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], runner: TrialRunner) -> None:
        self._coroutine = coroutine
        self._runner = runner

    def send(self, value: Any) -> Any:
        """Take a step."""
        return self._step(self._coroutine.send, value)

    def throw(self, *raised: Any) -> Any:
        """Take a step that begins with an exception."""
        return self._step(self._coroutine.throw, *raised)

    def close(self) -> None:
        """End it where it stands."""
        self._coroutine.close()

    def _step(self, step: Callable[..., Any], *arguments: Any) -> Any:
        with self._runner.turn():
            try:
                return step(*arguments)
            except SystemExit as exc:
                self._runner.leave(exc)
                raise asyncio.CancelledError from exc

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
    runner.adopt(task)
    return task


_ALL_TASKS = asyncio.all_tasks


def _own_tasks(loop: asyncio.AbstractEventLoop | None = None) -> set[asyncio.Task[Any]]:
    """Replace ``asyncio.all_tasks``: a trial sees its own tasks alone."""
    loop = loop or asyncio.get_running_loop()
    runner = RUNNER.get(None)
    tasks = _ALL_TASKS(loop)
    if runner is None or loop.get_task_factory() is not make_task:
        return tasks  # on a loop of the test's own, as under its own factory, we know of none
    return {task for task in tasks if runner.owns(task)}


@contextlib.contextmanager
def own_tasks_alone() -> Iterator[None]:
    """Replace ``asyncio.all_tasks`` while the loop runs."""
    places: tuple[Any, ...] = (asyncio, asyncio.tasks)
    for place in places:
        place.all_tasks = _own_tasks
    try:
        yield
    finally:
        for place in places:
            place.all_tasks = _ALL_TASKS
