"""The course of a trial's calls: which were open at once, how they ended, and what waits for what.

Replies that were open at once come back in a replay in the order in which they came, and a call
that was given up is open until it is given up again. A replay waits for what happens in its trial,
not for the time that it took; that is only the most that it waits. Between two replies the threads
of the trial, and its loop, have had their turn.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from math import inf
from secrets import token_hex
from threading import get_ident
from time import monotonic  # by name: a test may mock those of the module
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.timed_calls import Steps, TimedCall
from pytest_llmeval.errors import Lost, ReplayMiss
from pytest_llmeval.models.strands import Asker, Branch, asked_last, strands_of
from pytest_llmeval.records import Slot, Strand

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

T = TypeVar("T")
Leave = Callable[[str, Lost], None]
# Where this code stands, and in which worker.
ASKED: ContextVar[Asker] = ContextVar("llmeval_asked_before", default="")
WORKER: ContextVar[str] = ContextVar("llmeval_worker", default="")
GRACE = 1.0  # seconds by which a trial may be slower than when it was recorded
# Between two replies, threads that wait for the first must have had their turn. In a replay they
# get as long as they had, at most so many seconds; replies that come together come so far apart.
CLOSE = 0.05
SETTLING, PIECE = 0.1, 0.01
# Times that a loop goes round until what awaited a reply has seen it, through layers of an SDK. As
# many when replies are recorded as in a replay, or what lies behind more layers comes first in one.
ROUNDS = 20


class _Changed(threading.Condition):
    """A condition that ``watching_waits`` does not watch, as it does the base class."""

    wait = threading.Condition.wait


@contextmanager
def setting(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a variable another value in here, in this thread or task."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def running_loop() -> AbstractEventLoop | None:
    """Return the loop of asyncio that runs in this thread, None for none, or one of trio."""
    asyncio = sys.modules.get("asyncio")  # else no test has imported it
    return asyncio._get_running_loop() if asyncio else None


def go_round(loop: AbstractEventLoop, then: Callable[[], object], rounds: int = ROUNDS) -> None:
    """Let a loop go round before something is done; called where it runs."""
    if rounds:
        loop.call_soon(go_round, loop, then, rounds - 1)
    else:
        then()


@dataclass(slots=True, eq=False)
class OpenCall:
    """A call that a trial waits for.

    Attributes:
        place: key and slot; see ``Steps``.
        slot: its place among the draws of its request.
        draw_place: key and slot alone.
        begun: when, on the clock of the course.
        expired: how many waits of the trial had run out by then.
        recorded: the courses of the trial in which there was this call.
        thread: that waits for it beside others, 0 for a coroutine.
        leave: is given its draw, and how, where the application gives it up.
        worker: which asked, as of a ``TimedCall``.
        given_up: how the call was given up, if it was.
        draw: of the reply that is stored, "" for none.
        is_paid: it is under way, and takes what time it takes.
        is_stored: its reply is on disk, and was not given up.
        is_handed_over: its reply is on the way to the application.
        came: when its reply was there, on the clock of the course.
        miss: why it cannot be made if it is not given up.
    """

    place: str
    slot: Slot
    draw_place: str
    begun: float
    expired: int
    recorded: Sequence[Steps]
    thread: int
    leave: Leave
    worker: str
    given_up: TimedCall | None = None
    draw: str = ""
    is_paid: bool = False
    is_stored: bool = False
    is_handed_over: bool = False
    came: float = inf
    miss: ReplayMiss | None = None

    def is_late_again(self, patience: float | None) -> bool:
        """Whether its client gave the call up by a timeout of its own, and has no more patience.

        Args:
            patience: seconds for which its client waits, None where that is not known.
        """
        step = self.given_up
        if step is None or step.given_up is not Lost.OWN_TIMEOUT or patience is None:
            return False
        return patience <= step.ended - step.begun


@dataclass(slots=True, eq=False)
class Course:
    """The course of one trial, or of a wider fixture, as it goes on. Safe for threads.

    Attributes:
        trial: names it, the same in each session; "" where that cannot be.
        waits_for_turn: whether the trial could go on, and others run first.
        others: threads, and work in pools, that the trial began and that have not ended.
        loop: on which a coroutine began such work; None without one, or if something blocks it.
        has_ended: the trial has, and nobody waits for its calls any more.
        events: how many calls ended, and waits ran out.
        expired: how many waits ran out.
        seen: how many events the loop of the application has seen, as it has gone round since.
        has_replayed: a stored reply was found for some call.
        paid_late: draws that were paid for, and came when the application had given them up.
        shown: done once the application has seen a reply on that event loop; one at a time.
    """

    trial: str = ""
    waits_for_turn: Callable[[], bool] = bool
    others: int = 0
    loop: AbstractEventLoop | None = None
    events: int = 0
    expired: int = 0
    seen: int = 0
    has_replayed: bool = False
    paid_late: set[str] = field(default_factory=set)
    shown: Future[None] | None = None
    has_ended: bool = False
    _is_plain: bool = True  # its calls came one after the other, and nothing ran out
    _is_new: bool = False  # a call was paid for or given up, or others were open beside it
    _recorded: Sequence[Steps] | None = None
    _most: float = 0.0  # seconds that a replay waits
    _started: float = field(default_factory=monotonic)
    _lock: threading.Lock = field(default_factory=fork_safe_lock)
    _changed: _Changed | None = None  # made once somebody waits, as few trials do
    _keep: Callable[[str, Steps], None] | None = None
    _slack: float = 0.0  # seconds, many times those by which a thread had its turn too late
    _calm: int = 0  # events when the trial had last begun other work with nothing under way
    # By thread that has something new to do, since when: until it ends, waits or asks again.
    _busy: dict[int, float] = field(default_factory=dict)
    _waits: dict[int, Callable[[], bool]] = field(default_factory=dict)  # whether it is over
    _at_once: dict[int, float] = field(default_factory=dict)  # by thread, when it began others
    _last: float = -inf  # when a call ended, or a wait ran out
    _rang: list[float] = field(default_factory=list)  # for each that ran out, when its timer did
    _begun: set[str] = field(default_factory=set)
    _open: dict[str, OpenCall] = field(default_factory=dict)
    _ended: dict[str, TimedCall] = field(default_factory=dict)
    _before: dict[str, Asker] = field(default_factory=dict)  # by place, where the code stood
    _counts: Counter[str] = field(default_factory=Counter)  # by worker, how many it has begun

    def begin_other(self) -> Branch:
        """Note that the trial begins a thread, or work in a pool; say where that stands.

        What code begins without a wait in between it begins at once, though the first of it may
        have been answered meanwhile.
        """
        now = monotonic()
        begun = now if running_loop() else self._at_once.setdefault(get_ident(), now)
        with self._lock:
            if not self.others and not self._open:
                self._calm = self.events
                self.seen = max(self.seen, self.events)
            self.others += 1
            self.loop = running_loop() or self.loop
            if not running_loop():
                self._busy[get_ident()] = self._now()
        return self.branch(begun)

    def branch(self, begun: float) -> Branch:
        """Say where code stands that is begun here."""
        worker = WORKER.get()
        self._counts[worker] += 1
        name = f"{worker}/{self._counts[worker]}"
        return Branch(ASKED.get(), begun, f"{crc32(name.encode()):08x}")

    def end_waits(self) -> None:
        """Note that this thread has waited, or learned that it need not."""
        self._at_once.pop(get_ident(), None)

    def end_other(self, _future: object = None) -> None:
        """Note that it has ended; called in its thread."""
        with self._lock:
            self.others -= 1
            self._go_on(self._now())

    @contextmanager
    def waiting(self, is_over: Callable[[], bool]) -> Iterator[None]:
        """Note that this thread waits for others in here; a coroutine that does blocks its loop.

        Args:
            is_over: whether it may go on, and perhaps had no turn yet.
        """
        with self._lock:
            self._go_on(self._now())
            self._waits[get_ident()] = is_over
            if running_loop():
                self.loop = None
                self._tell()
        try:
            yield
        finally:
            with self._lock:
                self.end_waits()
                self._waits.pop(get_ident(), None)  # a finalizer may have waited in here
                self._last = self._busy[get_ident()] = self._now()
                self._tell()

    def occurrences(self, key: str, replies: Replies) -> Sequence[int]:
        """Return which draws of a request this worker was given before: they ask in any order."""
        known = self._known(replies)
        return replies.occurrences(known, key, WORKER.get()) if known else ()

    def begin(self, key: str, slot: Slot, replies: Replies, leave: Leave) -> OpenCall:
        """Begin a call; one that was given up before in its slot is another call."""
        self._known(replies)
        with self._lock:
            self._go_on(self._last)
            place = draw = f"{key}/{slot}"
            while place in self._begun:
                place += "~"
            recorded = self._courses_of(place, draw, replies) if self._recorded else ()
            begun = monotonic() - self._started
            thread = get_ident() if self.others and not running_loop() else 0
            call = OpenCall(
                place, slot, draw, begun, self.expired, recorded, thread, leave, WORKER.get()
            )
            for steps in recorded:
                if call.given_up is None and steps[place].given_up:
                    call.given_up = steps[place]
            if self._open or self._comes_after_others():
                self._is_new, self._is_plain = True, False
            self._keep = replies.keep_course
            self._begun.add(place)
            self._before[place] = ASKED.get()
            self._open[place] = call
            self._tell()
        return call

    def _known(self, replies: Replies) -> Sequence[Steps]:
        if self._recorded is None:
            self._recorded, self._most = replies.courses(self.trial), replies.patience
        return self._recorded

    def _courses_of(self, place: str, draw: str, replies: Replies) -> Sequence[Steps]:
        recorded = [steps for steps in self._recorded or () if place in steps]
        # What another session gave up, or waited for, is nothing to the run that is replayed.
        if named := replies.named(recorded, lambda one: one[place].draw):
            return named
        if recorded and replies.has_named(draw):
            return [steps for steps in recorded if not steps[place].given_up]
        return recorded

    def is_early(self) -> bool:
        """Whether a deadline that runs out now did not when this was recorded.

        A stored reply is on its way, and came before as many of them.
        """
        with self._lock:
            stored = [call for call in self._open.values() if call.is_stored]
            return not self._is_paying and any(
                all(self.expired - one.expired >= old[one.place].expired for old in one.recorded)
                for one in stored
            )

    def may_be_late(self, seconds: float) -> bool:
        """Whether the trial may have had no turn to ask, or see a reply, before its deadline.

        Args:
            seconds: that its loop was late for the deadline.
        """
        with self._lock:
            has_asked = bool(self._begun) and not self.has_replayed
            return not self._is_paying and (not has_asked or seconds > CLOSE)

    @property
    def _is_paying(self) -> bool:
        return any(call.is_paid for call in self._open.values())

    def pay(self, call: OpenCall) -> None:
        """Note that the call is made: what is replayed beside it takes as long as it took."""
        with self._lock:
            call.is_paid = self._is_new = True
            self._tell()

    def come(self, call: OpenCall) -> None:
        """Note that its reply is there."""
        call.came = self._now()

    def came_late(self, call: OpenCall) -> bool:
        """Whether a reply had lain there when a deadline ended its call: the trial had no turn."""
        return self._now() - call.came > CLOSE and self.expired > call.expired

    def end(self, call: OpenCall, draw: str = "", *, given_up: Lost | None = None) -> bool:
        """End a call; without a draw and not given up, it failed and is to be asked again.

        Args:
            call: that has ended.
            draw: of its reply.
            given_up: how the application gave it up.

        Returns:
            Whether the trial still waited for it: what became of one left behind is noted.
        """
        with self._lock:
            is_awaited = self._open.pop(call.place, None) is not None
            if is_awaited and (draw or given_up):
                self._note(call, draw, given_up=given_up)
            elif is_awaited:
                self._begun.remove(call.place)
        if is_awaited:
            ASKED.set(call.place)
            self.end_waits()
        return is_awaited

    def is_open(self, call: OpenCall) -> bool:
        """Whether the trial still waits for a call."""
        return call.place in self._open

    def expire(self, *, by_timer: bool = False) -> None:
        """Note that a wait of the trial with a deadline ran out, or that a timer did."""
        with self._lock:
            self.expired += 1
            self._rang.append(self._now() if by_timer else -inf)
            self._happen()

    def close(self) -> None:
        """End the trial: it has given up what is still open, and its course is kept."""
        with self._lock:
            for call in self._open.values():
                self._note(call, call.draw, given_up=None if call.draw else Lost.CANCELLED)
            self._open.clear()
            self.has_ended = True
            self._tell()
        if self._is_new and not self._is_plain and self._keep is not None:
            self._is_new = False
            self._keep(self.trial, self.new_steps())

    def new_steps(self) -> Steps:
        """Return what a replay needs and cannot find: nothing where one call came after another."""
        ended = {place: (one.draw, one.given_up) for place, one in self._ended.items()}
        for old in self._recorded or ():
            known = {place: (one.draw, one.given_up) for place, one in old.items()}
            if ended.items() <= known.items():
                return {}
        return {} if self._is_plain else self._ended

    def strands(self) -> dict[str, Strand]:
        """Return the strand of each call by key and slot, empty where no two were open at once."""
        if not self.has_ended or len(self._ended) == 1:
            return {}
        found = strands_of(self._ended, self._before, started=self._started)
        return {place.rstrip("~"): strand for place, strand in found.items()}

    def is_held(self, call: OpenCall, draw: str | None) -> bool:
        """Whether a replay is to wait; if not, it is handed over, and others come after it.

        Args:
            call: that is answered.
            draw: of the stored reply, None where there is none.
        """
        with self._lock:
            return self._pause(call, draw) > 0 or not self._hand_over(call)

    def wait(self, call: OpenCall, draw: str | None) -> None:
        """Wait until a reply may be handed over; see ``is_held``.

        A replay waits for little longer than its trial had gone on when the call ended: a deadline
        may have begun to run long before the call. Beside a call that is paid for it waits exactly
        as long as the call took, so that neither is given a start.
        """
        with self._lock:
            self._changed = self._changed or _Changed(self._lock)
            self._wait_for_others(self._changed, call, draw)
            while not self._hand_over(call):
                self._let_see(self._changed)
                self._wait_for_others(self._changed, call, draw)

    def _wait_for_others(self, changed: _Changed, call: OpenCall, draw: str | None) -> None:
        while (pause := self._pause(call, draw)) > 0:
            started = self._now()
            left = call.begun + self._longest(call) - started
            if pause == inf and left <= 0 and not self.waits_for_turn():
                break
            pause = min(pause, max(left, PIECE), SETTLING)
            changed.wait(pause)
            # Where this thread is late, the others are, too.
            self._slack = max(self._slack, 20 * (self._now() - started - pause))

    def _hand_over(self, call: OpenCall) -> bool:
        """Hand a reply over, unless the loop has not seen yet what came before it."""
        if self.loop is not None and self.seen < self.events:
            return False
        if self.others:
            self._last, call.is_handed_over = self._now(), True
            if call.thread:
                self._busy[call.thread] = self._last
        return True

    def _let_see(self, changed: _Changed) -> None:
        """Let the loop see that events have happened, unless it waits for threads by now."""
        loop, events = self.loop, self.events
        if loop is not None and running_loop() is None:  # else this very wait blocks it
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(go_round, loop, partial(self._see, events))
                changed.wait_for(lambda: self.seen >= events or self.loop is not loop, 3 * GRACE)
        if self.seen < events:
            self.loop = None

    def _see(self, events: int) -> None:
        with self._lock:
            self.seen = max(self.seen, events)
            self._tell()

    def _go_on(self, since: float) -> None:
        """Note that this thread has done with the reply that it was given."""
        if self._busy.pop(get_ident(), None):
            self._last = since
            self._tell()

    def _comes_after_others(self) -> bool:
        """Whether a call comes after one that ended, and might have been open beside it."""
        if not (self.others or self.loop) or self.events <= self._calm:
            return False
        return next(reversed(self._ended), "") not in ("", asked_last(ASKED.get()))

    def _now(self) -> float:
        return monotonic() - self._started

    def _note(self, call: OpenCall, draw: str, *, given_up: Lost | None) -> None:
        if given_up:
            draw = call.given_up.draw if call.given_up else token_hex(16)
            call.leave(draw, given_up)
            self._is_new, self._is_plain = True, False
        # A timer that rang when the reply was there did not end the call. In a replay, which would
        # wait for it, it might.
        came = call.came if call.is_paid else self._now() - CLOSE
        expired = sum(when <= came or bool(given_up) for when in self._rang[call.expired :])
        self._is_plain = self._is_plain and not expired
        self._happen()
        self._ended[call.place] = TimedCall(
            draw, call.begun, self._last, expired, given_up, call.worker
        )

    def _happen(self) -> None:
        self._last = monotonic() - self._started
        self.events += 1
        self._tell()

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed.notify_all()

    def _pause(self, call: OpenCall, draw: str | None) -> float:
        """Return after how many seconds a reply is due; inf if something must happen first."""
        if call.place not in self._open:
            return 0.0
        gap = min(max(PIECE, self._slack), SETTLING)
        if call.recorded and not call.is_paid:
            known = [(steps, steps[call.place]) for steps in call.recorded]
            same = [(steps, step) for steps, step in known if step.draw == draw]
            due = [one for one in same if self._has_happened(*one, call)]
            if not due and (same or call.given_up):
                return inf
            for steps, step in due:
                before = (one.ended for one in steps.values() if one.ended < step.ended)
                gap = max(gap, min(step.ended - max(before, default=step.ended), SETTLING))
        return max(0.0, self._free_at(call, draw, gap) - self._now()) if self.others else 0.0

    def _free_at(self, call: OpenCall, draw: str | None, gap: float) -> float:
        """Return when the other threads will have done with what they were given before."""
        if any(one.is_handed_over and one is not call for one in self._open.values()):
            return self._last + GRACE
        if any(is_over() for is_over in self._waits.values()):
            gap = max(gap, min(self._now() + PIECE - self._last, GRACE))
        busy = max(self._busy.values(), default=-inf) if draw else -inf
        return max(self._last + gap, busy + min(max(SETTLING, self._slack), GRACE))

    def _longest(self, call: OpenCall) -> float:
        """Return for how many seconds a replay may be open."""
        steps, is_paying = [steps[call.place] for steps in call.recorded], self._is_paying
        seconds = [step.ended - step.begun if is_paying else step.ended for step in steps]
        grace = 0.0 if is_paying else GRACE + self._slack
        return min(max(seconds, default=0.0) + grace, self._most)

    def _has_happened(self, steps: Steps, step: TimedCall, call: OpenCall) -> bool:
        """Whether all has happened that happened while a recorded call was open."""
        if self.expired - call.expired < step.expired:
            return False
        # A thread, or a task, may begin later than it did, when others had ended. It is waited for
        # a moment only: a request that has changed does not come again.
        is_young = self._now() < call.begun + SETTLING + self._slack
        return all(
            place in (self._ended if other.ended < step.ended else self._begun)
            for place, other in steps.items()
            if other.begun < step.ended and step.begun < other.ended + (GRACE if is_young else 0.0)
        )
