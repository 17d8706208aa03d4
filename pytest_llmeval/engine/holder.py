"""Define a trial as the baton knows it: it has the baton, or asks for it.

The *baton* is the right to run Python. What runs in the thread of a trial finds it here: patches
and fixtures, which wait for the baton where the trial runs without it, and ``waiting``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from pytest_llmeval.engine.threads import PooledThread

T = TypeVar("T")


class Holder(Protocol):
    """A trial, to the baton.

    Attributes:
        pooled: the thread in which it runs; None before its first turn.
        handing_over: held while it is decided who has the baton.
        done: it has ended.
        detached: it runs without the baton at the moment.
        was_detached: the baton was taken from it at some time.
        waits_since: when it gave its last turn up, by the clock of seconds.
        ready_since: when it could go on after that; 0 while it has a turn.
        call_output: of what it does beside the baton.
    """

    pooled: PooledThread | None
    handing_over: threading.Lock
    done: bool
    detached: bool
    was_detached: bool
    waits_since: float
    ready_since: float
    call_output: Any

    @property
    def may_be_detached(self) -> bool:
        """Whether it may go on without the baton, which it has."""

    def go_on(self) -> None:
        """Let it run: whoever calls has passed the baton to it."""

    def note_block(self, seconds: float) -> None:
        """Note that it has had the baton for so long and made no progress."""

    def note_filters(self) -> None:
        """Keep the filters of warnings for what it does beside the baton."""

    def check_in(self) -> None:
        """Take the baton again if it was taken away."""

    def be_alone(self) -> None:
        """Wait until no trial runs beside it."""

    def wait_for_own(self, function: Callable[[], T]) -> T:
        """Run a function that the test itself waits for."""


def _here() -> Holder | None:
    """Return the trial of this thread, if it overlaps others."""
    thread = threading.current_thread()
    holder: Holder | None = thread.holder if isinstance(thread, PooledThread) else None
    return holder


def waiting(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function that waits for the outside, so that other trials go on meanwhile.

    For blocking calls of the test's own, such as ``waiting(requests.get, url)``. It runs
    in another thread; outside an overlapping trial it is just called.

    Args:
        function: what blocks. It is called once.
        *args: its arguments by position.
        **kwargs: its arguments by name.

    Returns:
        What the function returns; what it raises is raised here.
    """
    holder = _here()
    if holder is None:
        return function(*args, **kwargs)
    return holder.wait_for_own(partial(function, *args, **kwargs))


def check_in(*, alone: bool = False) -> None:
    """Have the trial that runs in this thread take the baton again if it was taken away.

    Args:
        alone: the trial is about to patch something, which no other must run beside.
    """
    holder = _here()
    if holder is not None:
        if holder.detached:
            holder.check_in()
        if alone:
            holder.be_alone()


def running_beside() -> Holder | None:
    """Return the trial of this thread if it runs without the baton."""
    holder = _here()
    return None if holder is None or not holder.detached else holder
