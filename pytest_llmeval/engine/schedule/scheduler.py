"""Which trial runs next: those of the case in turn, and of the cases after it ahead of time.

Reports still come in the order of collection, since each item only ever reports itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from queue import Empty
from typing import TYPE_CHECKING, cast

import pytest

from pytest_llmeval.engine.baton.thread_pool import Threads
from pytest_llmeval.engine.baton.trial_thread import Fiber, InlineFiber, ThreadFiber
from pytest_llmeval.engine.compat import Abilities
from pytest_llmeval.engine.schedule.case_trials import CaseTrials
from pytest_llmeval.engine.schedule.progress import ProgressDisplay
from pytest_llmeval.engine.schedule.ready_trials import Ready
from pytest_llmeval.engine.schedule.turns import Turns
from pytest_llmeval.engine.trial.clone import forget_finalizers
from pytest_llmeval.engine.trial.trial import RunningTrial

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from pytest_llmeval.engine.trial.event_loop import TrialRunner

_GRACE = 1.0  # seconds for a trial to hand the baton back after Ctrl-C


class Scheduler:
    """Runs the trials of a session or worker.

    Args:
        session: pytest's session.
        abilities: what can be swapped here.
        limit: how many trials may be in flight, 1 for one after the other.
        following: gives the cases after one, as far as they may be started early.
        chores: what may be done while the last trials wait, one a time.

    Attributes:
        turns: swaps the state of the process for that of the trial whose turn it is.
        display: shows how far the session is, None where nothing is to be shown.
        alone: the trial that runs in the session's own thread, beside no other.
    """

    def __init__(
        self,
        session: pytest.Session,
        *,
        abilities: Abilities,
        limit: int,
        following: Callable[[CaseTrials], Iterator[CaseTrials]],
        chores: Iterator[Callable[[], object]],
    ) -> None:
        self.turns = Turns(session, abilities=abilities, under_way=self._under_way)
        self._limit = limit
        self._following = following
        self._chores = chores
        self._threads = Threads()
        self._flight: dict[ThreadFiber, tuple[CaseTrials, RunningTrial]] = {}
        self._escaped: dict[pytest.Item, BaseException] = {}  # what is to end the session
        self._ready = Ready()
        self.display: ProgressDisplay | None = None
        self.alone: RunningTrial | None = None

    def _under_way(self) -> list[RunningTrial]:
        return [trial for _, trial in self._flight.values()]

    @property
    def loop(self) -> AbstractEventLoop | None:
        """The loop on which async trials wait; None before the first of them."""
        return None if self._ready.pump is None else self._ready.pump.loop

    @property
    def in_flight(self) -> int:
        """How many trials are under way."""
        return len(self._flight)

    def run(self, head: CaseTrials, *, until: Callable[[], bool]) -> None:
        """Let trials take turns until something holds.

        Args:
            head: the case whose turn it is.
            until: what is waited for; the trials of ``head`` must bring it about.

        Raises:
            BaseException: ``pytest.exit`` of one of these trials, also of one that ran ahead:
                the cases before it report what they came to, as they would have without it.
        """
        with self.turns.in_a_row():
            while not until():
                self._go_on(head)

    def _go_on(self, head: CaseTrials) -> None:
        """Start a trial, or let one or two go on."""
        if head.item in self._escaped:
            raise self._escaped[head.item]
        if self.display is not None:
            self.display.turn()
        if head.serial and self._flight:  # only a case that is run again meets others
            self._step(self._next_ready())
        elif head.serial:
            self._run_inline(head)
        else:
            # Both in turns. Were all that came back finished first, their places would
            # stay empty meanwhile, and 64 replies that came together stay together for
            # ever; were all places filled first, one that blocks would hold up the rest.
            has_started = self._start_one(head)
            if not self._step_ready() and not has_started:
                self._wait_for_one()

    def _wait_for_one(self) -> None:
        nothing_to_start = len(self._flight) < self._limit
        chore = next(self._chores, None) if nothing_to_start else None
        if chore is not None:
            self.turns.put_back()
            chore()
        self._step(self._next_ready())

    def _next_ready(self) -> ThreadFiber:
        """Wait until a trial can go on; what is shown meanwhile keeps up with the time."""
        if self._ready.pump is not None:
            self.turns.put_back()  # a loop runs others' callbacks as well
        while self.display is not None:
            try:
                return self._ready.wait(self.display.period)
            except Empty:
                self.display.turn()
        return self._ready.wait()

    def _run_inline(self, trials: CaseTrials) -> None:
        """Run the next trial of a case from its first line to its last, in this thread."""
        trial = self._new_trial(trials, InlineFiber)
        assert trial is not None  # noqa: S101 - not all have ended, and none is in flight
        self.alone = trial
        try:
            with self.turns.inline(trial):
                trial.fiber.resume()
        finally:
            self.alone = None
            if trial.fiber.done:
                trials.landed(trial)

    def cancel(self, item: pytest.Item | None = None) -> None:
        """End the trials of a case that are in flight, or all, and tear their fixtures down."""
        unwanted = [
            fiber
            for fiber, (trials, _) in self._flight.items()
            if item is None or trials.item is item
        ]
        for fiber in unwanted:
            fiber.cancel()
        if self._ready.pump is not None:
            self._ready.pump.withdraw([self._flight[fiber][1] for fiber in unwanted])
        for fiber in unwanted:
            if not fiber.detached:
                self._step(fiber)
        self._await_detached(unwanted)

    def abandon(self) -> None:
        """Forget the trials in flight; nothing, wider fixtures included, tears theirs down."""
        for _, trial in self._flight.values():
            forget_finalizers(trial.clone)
        self._flight.clear()

    def _await_detached(self, unwanted: list[ThreadFiber]) -> None:
        """Give detached trials a moment to come by; abandon those that do not."""
        deadline = time.monotonic() + _GRACE
        while any(fiber in self._flight for fiber in unwanted):
            try:
                self._step(self._ready.get(timeout=max(0.0, deadline - time.monotonic())))
            except Empty:
                break
        for fiber in unwanted:
            self._flight.pop(fiber, None)

    def _runner_on(self, loop: AbstractEventLoop, trial: RunningTrial) -> TrialRunner:
        return self._ready.pump_on(loop, turn=self.turns.turn).runner(trial)

    def _step_ready(self) -> bool:
        try:
            self._step(self._ready.get(timeout=0))
        except Empty:
            return False
        return True

    def _start_one(self, head: CaseTrials) -> bool:
        """Start the next trial of the case in turn, or of one of the cases after it."""
        if len(self._flight) >= self._limit:
            return False
        following = () if self._escaped else self._following(head)
        for trials in chain((head,), following):
            trial = self._new_trial(trials, self._thread_fiber)
            if trial is not None:
                fiber = cast("ThreadFiber", trial.fiber)
                self.turns.prepare(trial)
                fiber.may_detach = partial(self._is_free, trial)
                fiber.wait = trial.wait_for_own
                fiber.beside = self.turns.beside(trial)
                self._flight[fiber] = (trials, trial)
                self._step(fiber)
                return True
        return False

    def _new_trial(
        self, trials: CaseTrials, make_fiber: Callable[[Callable[[], None]], Fiber]
    ) -> RunningTrial | None:
        index = trials.plan()
        if index is None:
            return None
        trial = RunningTrial(
            trials.item,
            index,
            make_fiber=make_fiber,
            threads=self._threads,
            shows_failure=trials.first_failure is None,
            intercepts=trials.intercepts,
        )
        trial.runner_on = partial(self._runner_on, trial=trial)
        trials.took_off(trial)
        return trial

    def _is_free(self, trial: RunningTrial) -> bool:
        """Whether the session may go on without a trial that blocks."""
        return trial.widening == 0 and trial.holding == 0 and not self._ready.is_looping

    def _thread_fiber(self, body: Callable[[], None]) -> ThreadFiber:
        return ThreadFiber(body, threads=self._threads, ready=self._ready.put)

    def _step(self, fiber: ThreadFiber) -> None:
        """Give one trial its turn."""
        if fiber not in self._flight:
            return  # it was cancelled, and its call came back only now
        trials, trial = self._flight[fiber]
        if not fiber.done:  # Ctrl-C may have come between its end and this bookkeeping
            with self.turns.turn(trial):
                _resume(fiber)
        if not fiber.done:
            return
        if fiber.escaped is None and not fiber.cancelled:
            trials.landed(trial)
        del self._flight[fiber]
        if fiber.escaped is not None:
            self._escaped.setdefault(trial.item, fiber.escaped)
            with suppress(Exception):  # as of a trial that is cancelled: it says nothing
                self.turns.tear_down(trial)
            if isinstance(fiber.escaped, KeyboardInterrupt):
                raise fiber.escaped  # somebody wants an end at once
        elif fiber.cancelled:
            trials.lost(trial)


def _resume(fiber: ThreadFiber) -> None:
    try:
        fiber.resume()
    except KeyboardInterrupt:
        # It came while the trial was running: take the baton back before going on.
        fiber.wait_for_baton(timeout=_GRACE)
        raise
