"""Waits of a trial for other threads, and timers, that run out."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from pytest_llmeval.models.attribution import replaced, trial_to_charge
from pytest_llmeval.models.course import Course


@contextmanager
def watching_waits() -> Iterator[None]:
    """Tell the course of a trial what runs out: its waits for other threads, its timers.

    An application that has waited too long for an answer goes on without it, and only what ran out
    tells so. A wait for a bare lock is not seen.
    """
    wait, join, result = threading.Condition.wait, threading.Thread.join, Future.result

    def watched_wait(condition: threading.Condition, timeout: float | None = None) -> bool:
        with _waiting(lambda: not condition._waiters):  # type: ignore[attr-defined]
            is_notified = wait(condition, timeout)
        if not is_notified:
            _expire()
        return is_notified

    def watched_join(thread: threading.Thread, timeout: float | None = None) -> None:
        with _waiting(lambda: not thread.is_alive()):
            join(thread, timeout)
        if timeout is not None and thread.is_alive():
            _expire()

    def watched_result(future: Any, timeout: float | None = None) -> Any:
        __tracebackhide__ = True
        if trial := trial_to_charge():
            trial.course.end_waits()
        return result(future, timeout)

    def call_at(loop: Any, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        trial = trial_to_charge()
        if trial is not None:
            callback, args = _ring, (trial.course, callback, *args)
        return plain_call_at(loop, when, callback, *args, context=context)

    with ExitStack() as undoing:
        undoing.enter_context(replaced(threading.Condition, "wait", watched_wait))
        undoing.enter_context(replaced(threading.Thread, "join", watched_join))
        undoing.enter_context(replaced(Future, "result", watched_result))
        if "asyncio" in sys.modules:  # else no test has imported it
            loops = sys.modules["asyncio"].BaseEventLoop
            plain_call_at = loops.call_at
            undoing.enter_context(replaced(loops, "call_at", call_at))
        yield


def _waiting(is_over: Callable[[], bool]) -> AbstractContextManager[None]:
    trial = trial_to_charge()
    if trial is None:
        return nullcontext()
    if not trial.course.others:  # for whom would it wait
        trial.course.end_waits()
        return nullcontext()
    return trial.course.waiting(is_over)


def _expire() -> None:
    trial = trial_to_charge()
    if trial is not None:
        trial.course.expire()


def _ring(course: Course, callback: Callable[..., object], *args: Any) -> None:
    course.expire(by_timer=True)
    callback(*args)
