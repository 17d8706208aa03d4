"""Waits of a trial for other threads, and timers, that run out."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

from pytest_llmeval.models.attribution import replaced, trial_to_charge
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
        with _waiting(lambda: not condition._waiters):  # type: ignore[attr-defined]
            is_notified = wait(condition, timeout)
            for _ in range(_MOST_PIECES):
                if is_notified or not _is_early():
                    break
                is_notified = wait(condition, PIECE)
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


def _is_early() -> bool:
    trial = trial_to_charge()
    return trial is not None and trial.course.is_early()
