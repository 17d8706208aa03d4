"""The baton: the right to run Python, which the session and the trials pass to one another.

A trial that waits or ends passes it on by itself, to the trial that is next. So the session's own
thread, which would have to be woken for each turn, is asked only for what it alone can do. What
runs in the thread of a trial finds that here: patches and fixtures, which wait for the baton where
the trial runs without it, and ``waiting``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from contextvars import Context, copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from pytest_llmeval.engine.stall import StallWatch
from pytest_llmeval.engine.threads import PooledThread, Threads
from pytest_llmeval.originals import Clock

T = TypeVar("T")

GRACE = 1.0  # seconds for a trial to hand the baton back after Ctrl-C


class Holder(Protocol):
    """A trial, as far as the baton needs to know it.

    Attributes:
        pooled: the thread in which it runs; None before its first turn.
        handing_over: held while it is decided who has the baton.
        done: it has ended.
        is_beside: it lost the baton or let go of it, and has not got it again. One that came by to
            get it is among ``Baton.beside`` no more.
        ready_since: when it could go on, by the clock of seconds; 0 while it has a turn.
        is_plain: when its last turn ended it had left the state of the process as others have it.
        cancelled: it is not wanted any more.
        is_to_patch: it is about to patch, so that it waits for those that run beside it.
        saw_others: it ran without what it patched, or with what another one did.
        call_output: of what it does beside the baton.
    """

    pooled: PooledThread | None
    handing_over: threading.Lock
    done: bool
    is_beside: bool
    ready_since: float
    is_plain: bool
    cancelled: bool
    is_to_patch: bool
    saw_others: bool
    call_output: Any

    def go_on(self) -> None:
        """Let it run: whoever calls has passed the baton to it."""

    def go_beside(self) -> None:
        """Get ready to run on without the baton."""

    def lose_baton(self, stalled: float | None) -> bool:
        """Lose the baton, unless it must not be lost now; return whether it is lost.

        Args:
            stalled: seconds for which it has made no progress; None to lose it in any case.
        """

    def check_in(self) -> None:
        """Take the baton again if it runs without it."""

    def wait_for_others(self) -> None:
        """Wait until no trial runs beside it."""

    def wait(self, function: Callable[[], T], *, is_own: bool) -> T:
        """Run a function that waits for the outside; it may be the test's own."""


H = TypeVar("H", bound=Holder)


class Baton(Generic[H]):
    """Who may run, and the trials that are ready to.

    Args:
        hand_over: ends the turn of a trial, begins the turn of the next trial and returns it;
            None if the session is next. Called in the thread of the trial that ends its
            turn.
        turn: swaps the state of the process for a trial's, for a while.
        is_plain: whether the trial in turn has left the state of the process as others have it.

    Attributes:
        threads: where trials run, and where their calls wait.
        pump: runs the loop (``trial/event_loop.py``); None before the first async eval.
        variables: the context variables with which a new trial begins, those of the session.
        lent: when the session has lent it, by the clock of seconds.
        is_wanted: the session wants the baton back, whichever trial is next.
        beside: the trials that run without it, beside whoever has it.
        only: the async trial under whose swapped places no other may run, None if there is none.
        blocking: test functions of which a trial blocked without telling; whether it was its body
            that did, or a fixture.
        ready: the trials that could go on, the first to come first; those of them that must not
            yet (``may_go_on``) are *held back*, and keep their places.
    """

    def __init__(
        self,
        hand_over: Callable[[H], H | None],
        *,
        turn: Callable[[H], AbstractContextManager[None]],
        is_plain: Callable[[], bool],
    ) -> None:
        self.turn = turn
        self.is_plain = is_plain
        self.threads = Threads()
        self.pump: Any = None
        self.variables: Context = copy_context()
        self.lent = 0.0
        self.is_wanted = True
        self.beside: set[H] = set()
        self.only: H | None = None
        self.blocking: set[tuple[str, bool]] = set()
        self.ready: list[H] = []  # any thread appends; whoever has the baton takes out
        self._hand_over = hand_over
        self._has_come: SimpleQueue[None] = SimpleQueue()  # not empty: look who is ready
        self._holder: H | None = None  # None while the session has it
        self._to_session = threading.Lock()
        self._to_session.acquire()

    def lend(self, thread: H) -> None:
        """Let a trial run, and all to which it is passed on; return when the session has it back.

        It is back as well if it was taken from a trial that is stalled.
        """
        self.variables = copy_context()
        self._to_session.acquire(blocking=False)  # it may have come back after Ctrl-C
        self.lent = Clock.seconds()
        try:
            self._holder = thread
            thread.go_on()
            self._await()
        except BaseException:  # Ctrl-C, or what a handler of a signal raised
            self._take_back()
            raise

    def pass_on(self, thread: H, *, runs_on: bool = False) -> H | None:
        """Give it up: the next trial goes on, or the session.

        Args:
            thread: has had its turn, and waits now or has ended.
            runs_on: it does neither, and runs on without the baton.

        Returns:
            The next trial if it is to begin in the thread of this one, which has ended.
        """
        with thread.handing_over:
            if thread.is_beside:
                return None
            if runs_on:
                thread.go_beside()  # first: one that has patched something must not be next
            following = self._holder = self._hand_over(thread)
            thread.is_beside = runs_on
            if following is None:
                self._to_session.release()
            elif thread.done and following.pooled is None:
                return following
            else:
                following.go_on()
        return None

    def _await(self) -> None:
        """Wait for it, and take it from a trial that is stalled."""
        watch: StallWatch | None = None
        while not self._to_session.acquire(timeout=StallWatch.PERIOD):
            holder = self._holder
            if holder is None or holder.pooled is None:
                continue
            if watch is None or watch.thread is not holder.pooled:
                watch = StallWatch(holder.pooled)
            if watch.look() and self._take_from(holder, watch.seconds):
                return

    def _take_from(self, holder: H, stalled: float | None) -> bool:
        """Take it from a trial, which is detached then, unless it has just passed it on.

        Args:
            holder: had it when it was last looked at.
            stalled: seconds for which it has made no progress; None to take it in any case.
        """
        with holder.handing_over:
            # If another one has it, this one may have ended, and nothing is left of its trial.
            is_taken = self._holder is holder and holder.lose_baton(stalled)
            if is_taken:
                self._holder = None
            return is_taken

    def _take_back(self) -> None:
        """Take it back after Ctrl-C, from whoever has it."""
        self.is_wanted = True
        try:
            self._to_session.acquire(timeout=GRACE)
        finally:  # after a second Ctrl-C, too, no trial may run beside the session
            holder = self._holder
            while holder is not None and not self._take_from(holder, None):
                holder = self._holder  # it has just passed it on

    # --- who is ready ---

    def put(self, thread: H) -> None:
        """Note, from any thread, that a trial can be resumed."""
        thread.ready_since = Clock.seconds()
        self.ready.append(thread)
        if self._has_come.empty():
            self._has_come.put(None)
        if self.pump is not None:
            self.pump.stop()

    def may_go_on(self, thread: H) -> bool:
        """Whether a trial, or a step of one, may have its turn now.

        What it patches must not be seen by trials that run beside the baton, unless it is to end.
        """
        if thread.cancelled:
            return True
        if self.only not in (None, thread):
            return False
        is_seen = self.beside and (thread.is_to_patch or not thread.is_plain)
        return thread.done or not is_seen

    def take_ready(self) -> H | None:
        """Take the first trial that may go on, None if there is none."""
        for thread in self.ready:
            if self.may_go_on(thread):
                self.ready.remove(thread)
                return thread
        return None

    def wait(self, timeout: float) -> None:
        """Run the loop until a trial may go on, for so many seconds at most."""
        if self.pump is None:
            self.sleep(timeout)
        else:
            self.pump.run(lambda: any(map(self.may_go_on, self.ready)), timeout)

    def sleep(self, timeout: float) -> None:
        """Wait until a trial is ready, for so many seconds at most."""
        with suppress(Empty):
            while not any(map(self.may_go_on, self.ready)):
                self._has_come.get(timeout=timeout)

    def keep_to(self, thread: H | None) -> None:
        """Keep all but one trial from their turns; None to keep none from them.

        Called by whoever has the baton, or takes a step on the loop.
        """
        self.only = thread
        if self.pump is not None:
            self.pump.stop()  # who may go on is looked at anew

    @property
    def holds_back(self) -> bool:
        """Whether a trial, or a step of one, is kept from its turn by others."""
        may_hold = self.only is not None or self.beside
        is_held = may_hold and not all(map(self.may_go_on, self.ready))
        return bool(is_held or (self.pump is not None and self.pump.gates))

    def end_deadlock(self) -> None:
        """Let all go on that wait until others are gone, which may wait for them."""
        for thread in tuple(self.beside):  # others come and go meanwhile
            thread.saw_others = True
        self.beside.clear()
        self.keep_to(None)


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
    return holder.wait(partial(function, *args, **kwargs), is_own=True)


def check_in(*, to_patch: bool = False) -> None:
    """Have the trial that runs in this thread take the baton again if it runs without it.

    Args:
        to_patch: the trial is about to patch something, which no other must run beside.
    """
    holder = _here()
    if holder is not None:
        holder.check_in()
        if to_patch:
            holder.wait_for_others()


def running_beside() -> Holder | None:
    """Return the trial of this thread if it runs without the baton."""
    holder = _here()
    return None if holder is None or not holder.is_beside else holder
