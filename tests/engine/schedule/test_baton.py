"""Who has the baton after Ctrl-C, without any trial."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmeval.engine.baton import Baton


class Thread(SimpleNamespace):
    __hash__ = object.__hash__

    def lose_baton(self, stalled: float | None) -> bool:
        self.is_beside = stalled is None
        return self.is_beside


def thread() -> Any:
    """What a baton needs of a trial that never comes by."""
    return Thread(
        go_on=lambda: None,
        pooled=None,
        handing_over=threading.Lock(),
        is_beside=False,
        done=False,
    )


def made() -> Baton[Any]:
    return Baton(lambda _: None, turn=nullcontext, is_plain=lambda: True)


@contextmanager
def ctrl_c_twice(at_the_second: Callable[[], object]) -> Iterator[None]:
    """Interrupt what waits, and then what waits on the way out."""
    steps = [lambda: signal.setitimer(signal.ITIMER_REAL, 0.02), at_the_second]

    def interrupt(*_: object) -> None:
        steps.pop(0)()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not steps


def test_at_a_second_ctrl_c_the_baton_is_taken_from_a_trial_that_does_not_come_by() -> None:
    holder, baton = thread(), made()

    with ctrl_c_twice(lambda: None):
        baton.lend(holder)

    assert holder.is_beside


def test_a_baton_that_came_back_at_a_second_ctrl_c_is_not_taken_for_that_of_the_next() -> None:
    first, second, baton = thread(), thread(), made()
    with ctrl_c_twice(lambda: baton.pass_on(first)):
        baton.lend(first)
    assert not first.is_beside
    passed_on = []

    def pass_on() -> None:
        passed_on.append("second")
        baton.pass_on(second)

    second.go_on = lambda: threading.Timer(0.05, pass_on).start()
    baton.lend(second)

    assert passed_on == ["second"]


def test_at_ctrl_c_the_baton_comes_back_by_the_trial_that_has_it() -> None:
    """Whoever passes it on while it is taken back passes it to nobody."""
    first, second = thread(), thread()
    baton: Baton[Any] = Baton(lambda _: second, turn=nullcontext, is_plain=lambda: True)

    def interrupt(*_: object) -> None:
        assert baton.pass_on(first) is None  # to the second, which does not come by
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            baton.lend(first)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert (first.is_beside, second.is_beside) == (False, True)


def test_one_that_has_just_passed_the_baton_on_does_not_lose_it() -> None:
    first, second, baton = thread(), thread(), made()

    @contextmanager
    def passing_on() -> Iterator[None]:
        baton._holder = second
        yield

    first.handing_over = passing_on()
    with ctrl_c_twice(lambda: None):
        baton.lend(first)

    assert (first.is_beside, second.is_beside) == (False, True)
