"""The baton: the right to run Python, which the session and the trials pass to one another.

Beside it the trials that are ready to take it, and the watch over the one that has it.

A trial that waits or ends passes it on by itself, to the trial that is next. So the session's own
thread, which would have to be woken for each turn, is asked only for what it alone can do.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from queue import SimpleQueue
from time import monotonic  # by name: a test may mock the module's
from typing import Any, Generic, TypeVar

from pytest_llmeval.engine.holder import Holder
from pytest_llmeval.engine.stall import StallWatch
from pytest_llmeval.engine.threads import PooledThread, Threads
from pytest_llmeval.originals import Clock

H = TypeVar("H", bound=Holder)

_FEW = 0.03  # of the time of a call
GRACE = 1.0  # seconds for a trial to hand the baton back after Ctrl-C


class Baton(Generic[H]):
    """Who may run.

    Args:
        next_one: ends the turn of a trial, begins the turn of the next trial and returns it;
            None if the session is next. Called in the thread of the trial that ends its
            turn.

    Attributes:
        variables: the context variables with which a new trial begins, those of the session.
        is_wanted: the session wants the baton, whichever trial is next.
        beside: the trials that run without it, beside whoever has it.
    """

    def __init__(self, next_one: Callable[[H], H | None]) -> None:
        self.variables: Context = copy_context()
        self.is_wanted = False
        self.beside: set[H] = set()
        self._next_one = next_one
        self._lent = 0.0
        self._holder: H | None = None  # None while the session has it
        self._to_session = threading.Lock()
        self._to_session.acquire()

    @property
    def seconds_away(self) -> float:
        """Seconds since the session has lent it."""
        return monotonic() - self._lent

    def lend(self, thread: H) -> None:
        """Let a trial run, and all to which it is passed on; return when the session has it back.

        It is back as well if it was taken from a trial that is stalled.
        """
        self.variables = copy_context()
        self.is_wanted = False
        self._to_session.acquire(blocking=False)  # it may have come back after Ctrl-C
        self._lent = monotonic()
        try:
            self._holder = thread
            thread.go_on()
            self._await()
        except BaseException:  # Ctrl-C, or what a handler of a signal raised
            self._take_back()
            raise

    def pass_on(self, thread: H) -> H | None:
        """Give it up: the next trial goes on, or the session.

        Args:
            thread: has had its turn, and waits now or has ended.

        Returns:
            The next trial if it is to begin in the thread of this one, which has ended.
        """
        with thread.handing_over:
            if thread.detached:
                return None
            following = self._holder = self._next_one(thread)
            if following is None:
                self._to_session.release()
            elif thread.done and following.pooled is None:
                return following
            else:
                following.go_on()
        return None

    def let_run(self, thread: H) -> None:
        """Pass it on while a trial that has it runs on without it."""
        with thread.handing_over:
            if thread.detached:
                return
            thread.note_filters()
            self.beside.add(thread)  # first: one that has patched something must not be next
            following = self._holder = self._next_one(thread)
            thread.detached = True
            if following is None:
                self._to_session.release()
            else:
                following.go_on()

    def _await(self) -> None:
        """Wait for it, and take it from a trial that is stalled."""
        watch: StallWatch | None = None
        watched: PooledThread | None = None
        while not self._to_session.acquire(timeout=StallWatch.PERIOD):
            holder = self._holder
            if holder is None or holder.pooled is None:
                continue
            if watch is None or watched is not holder.pooled:
                watch, watched = StallWatch(holder.pooled), holder.pooled
            if watch.is_stalled() and self._is_taken_from(holder, stalled=watch.seconds):
                return

    def _is_taken_from(self, holder: H, *, stalled: float = 0.0, by_force: bool = False) -> bool:
        """Take it from a trial, unless it has just passed it on: that one is detached.

        Args:
            holder: had it when it was last looked at.
            stalled: seconds for which it has made no progress.
            by_force: whatever it does.
        """
        with holder.handing_over:
            if self._holder is not holder:
                return False  # it may have ended, and nothing is left of its trial
            if not by_force:
                holder.note_block(stalled)
            is_to_go_on = by_force or holder.may_be_detached
            if is_to_go_on:
                self._holder = None
                holder.note_filters()
                holder.detached = holder.was_detached = True
                self.beside.add(holder)
            return is_to_go_on

    def _take_back(self) -> None:
        """Take it back after Ctrl-C, from whoever has it."""
        self.is_wanted = True
        try:
            self._to_session.acquire(timeout=GRACE)
        finally:  # after a second Ctrl-C, too, no trial may run beside the session
            holder = self._holder
            while holder is not None and not self._is_taken_from(holder, by_force=True):
                holder = self._holder  # it has just passed it on


class Ready(Generic[H]):
    """A queue of trial threads; to wait for the next one is to run the event loop.

    Args:
        turn: swaps the state of the process for a trial's.
        is_plain: whether the trial in turn has left the state of the process as others have it.
        baton: goes from trial to trial.

    Attributes:
        threads: where trials run, and where their calls wait.
        pump: runs the loop (``trial/event_loop.py``); None before the first async eval.
        alone: the async trial under whose swapped places no other may run, None if there is none.
        blocking: test functions of which a trial blocked without telling; whether it was its body
            that did, or a fixture.
        held_back: trials that can go on once none runs beside the baton any more.
        put_off: trials that can go on once none is alone any more.
        is_behind: trials wait for their turn for more than a few percent of their calls.
    """

    def __init__(
        self,
        turn: Callable[[H], AbstractContextManager[None]],
        baton: Baton[H],
        *,
        is_plain: Callable[[], bool],
    ) -> None:
        self.threads = Threads()
        self.pump: Any = None
        self.blocking: set[tuple[str, bool]] = set()
        self.held_back: deque[H] = deque()
        self.put_off: list[H] = []
        self.is_behind = False
        self.turn = turn
        self.is_plain = is_plain
        self.baton = baton
        self.alone: H | None = None
        self._queue: SimpleQueue[H] = SimpleQueue()

    @property
    def is_empty(self) -> bool:
        """Whether no trial can go on at the moment; only the session takes any away."""
        return self._queue.empty()

    @property
    def is_looping(self) -> bool:
        """Whether the event loop runs at the moment."""
        return self.pump is not None and self.pump.loop.is_running()

    def put(self, thread: H) -> None:
        """Note, from any thread, that a trial can be resumed."""
        thread.ready_since = Clock.seconds()
        self._queue.put(thread)
        if self.pump is not None:
            self.pump.stop()

    def note_turn(self, thread: H) -> None:
        """Note how long a trial that is about to go on has waited for that."""
        waited = Clock.seconds() - thread.ready_since
        self.is_behind = waited > _FEW * (thread.ready_since - thread.waits_since)

    def let_alone(self, thread: H | None) -> None:
        """Keep all but one trial from their turns, or none; called by whoever has the baton."""
        self.alone = thread
        if thread is None:
            late, self.put_off = self.put_off, []
            for one in late:
                self.put(one)
            if self.pump is not None:
                self.pump.open_gates()

    def get(self, *, timeout: float) -> H:
        """Take the next trial, without running the loop.

        Args:
            timeout: seconds to wait for one.

        Raises:
            queue.Empty: none came in that time.
        """
        return self._queue.get(block=timeout > 0, timeout=timeout or None)

    def wait(self, timeout: float | None = None) -> H:
        """Take the next trial, and run the loop until there is one.

        Args:
            timeout: seconds after which to give up, None for never.

        Raises:
            queue.Empty: none came in that time.
        """
        if self.pump is None:
            return self._queue.get(timeout=timeout)
        self.pump.run(lambda: not self.is_empty, timeout)
        return self._queue.get_nowait()
