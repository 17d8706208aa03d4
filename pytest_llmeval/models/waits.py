"""Waits of a trial for other threads, and timers, that run out."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

from pytest_llmeval.models.attribution import CurrentTrial, replaced, trial_to_charge
from pytest_llmeval.models.course import PIECE, go_round

_MOST_PIECES = 300  # for which a replay may be on its way


@contextmanager
def watching_waits() -> Iterator[None]:
    """Tell the course of a trial what runs out: its waits for other threads, its timers.

    An application that has waited too long for an answer goes on without it, and only what ran out
    tells so. A wait for a bare lock is not seen. Nothing runs out before the trial has seen what
    lies there for it: on a busy machine its loop may be late, or a reply that is replayed.
    """
    wait, join, result = threading.Condition.wait, threading.Thread.join, Future.result

    def watched_wait(condition: threading.Condition, timeout: float | None = None) -> bool:
        trial = trial_to_charge()
        with _noted(trial, lambda: not condition._waiters):  # type: ignore[attr-defined]
            is_notified, pieces = wait(condition, timeout), _MOST_PIECES
            while not is_notified and pieces and trial and trial.course.is_early():
                is_notified, pieces = wait(condition, PIECE), pieces - 1
        if trial and not is_notified:
            trial.course.expire()
        return is_notified

    def watched_join(thread: threading.Thread, timeout: float | None = None) -> None:
        trial = trial_to_charge()
        with _noted(trial, lambda: not thread.is_alive()):
            join(thread, timeout)
        if trial and timeout is not None and thread.is_alive():
            trial.course.expire()

    def watched_result(future: Any, timeout: float | None = None) -> Any:
        __tracebackhide__ = True
        if trial := trial_to_charge():
            trial.course.end_waits()
        return result(future, timeout)

    with ExitStack() as undoing:
        undoing.enter_context(replaced(threading.Condition, "wait", watched_wait))
        undoing.enter_context(replaced(threading.Thread, "join", watched_join))
        undoing.enter_context(replaced(Future, "result", watched_result))
        if "asyncio" in sys.modules:  # else no test has imported it
            loops = sys.modules["asyncio"].BaseEventLoop
            undoing.enter_context(replaced(loops, "call_at", _watching_timers(loops.call_at)))
        yield


def _watching_timers(plain: Callable[..., Any]) -> Callable[..., Any]:
    def call_at(loop: Any, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        trial = trial_to_charge()
        if trial is None:
            return plain(loop, when, callback, *args, context=context)
        course = trial.course

        def be_due() -> None:
            if course.may_be_late(loop.time() - when):
                go_round(loop, partial(ring, _MOST_PIECES))
            else:
                ring(0)

        def ring(pieces: int) -> None:
            if pieces and course.is_early():
                plain(loop, loop.time() + PIECE, ring, pieces - 1)
            elif not timer.cancelled():
                course.expire(by_timer=True)
                callback(*args)

        timer = plain(loop, when, be_due, context=context)
        return timer

    return call_at


def _noted(trial: CurrentTrial | None, is_over: Callable[[], bool]) -> AbstractContextManager[None]:
    if trial is None:
        return nullcontext()
    if not trial.course.others:  # for whom would it wait
        trial.course.end_waits()
        return nullcontext()
    return trial.course.waiting(is_over)
