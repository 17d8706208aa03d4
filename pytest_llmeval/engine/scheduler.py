"""Which trial runs next: those of the case in turn, and of the cases after it ahead of time.

Reports still come in the order of collection, since each item only ever reports itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from queue import Empty
from typing import TYPE_CHECKING, cast

import pytest

from pytest_llmeval.engine.clone import forget_finalizers
from pytest_llmeval.engine.context import Context, Stack, Surroundings, Switch
from pytest_llmeval.engine.fiber import Fiber, InlineFiber, ThreadFiber, Threads
from pytest_llmeval.engine.probe import Abilities
from pytest_llmeval.engine.progress import ProgressDisplay
from pytest_llmeval.engine.ready import Ready
from pytest_llmeval.engine.trial import RunningTrial
from pytest_llmeval.engine.trials import CaseTrials

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from pytest_llmeval.engine.loop import TrialRunner

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
        display: shows how far the session is, None where nothing is to be shown.
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
        self._state = session._setupstate
        self._switch = Switch(
            session, swaps_logs=abilities.swaps_logs, swaps_patches=abilities.swaps_patches
        )
        self.watching_patches = self._switch.watching_patches
        self._limit = limit
        self._following = following
        self._chores = chores
        self._threads = Threads()
        self._flight: dict[ThreadFiber, tuple[CaseTrials, RunningTrial]] = {}
        self._ready = Ready()
        self._parked: Stack = {}
        self._beneath: list[Context] = []  # states that go on after the turn that is taken now
        self._in_turn: RunningTrial | None = None
        self.display: ProgressDisplay | None = None

    @property
    def in_flight(self) -> int:
        """How many trials are under way."""
        return len(self._flight)

    def run(self, head: CaseTrials, *, until: Callable[[], bool]) -> None:
        """Let trials take turns until something holds.

        Args:
            head: the case whose turn it is.
            until: what is waited for; the trials of ``head`` must bring it about.
        """
        while not until():
            if self.display is not None:
                self.display.turn()
            if head.serial and self._flight:  # only a case that is run again meets others
                self._step(self._next_ready())
            elif head.serial:
                self._run_inline(head)
            # A free place first: were all that came back finished first, those places would
            # stay empty meanwhile, and 64 replies that came together stay together for ever.
            elif not self._start_one(head) and not self._step_ready():
                self._wait_for_one()

    def _wait_for_one(self) -> None:
        nothing_to_start = len(self._flight) < self._limit
        chore = next(self._chores, None) if nothing_to_start else None
        if chore is not None:
            chore()
        self._step(self._next_ready())

    def _next_ready(self) -> ThreadFiber:
        """Wait until a trial can go on; what is shown meanwhile keeps up with the time."""
        while self.display is not None:
            try:
                return self._ready.wait(self.display.period)
            except Empty:
                self.display.turn()
        return self._ready.wait()

    def _run_inline(self, trials: CaseTrials) -> None:
        """Run the next trial of a case from its first line to its last, in this thread.

        The stack of active nodes is swapped for one in which the clone stands where the
        item stands. Wider nodes share their entries, so that a module fixture which this
        trial is the first to ask for outlives it.
        """
        trial = self._new_trial(trials, InlineFiber)
        assert trial is not None  # noqa: S101 - not all have ended, and none is in flight
        stack = self._state.stack
        self._state.stack = {node: e for node, e in stack.items() if node is not trials.item}
        try:
            with self._switch.logs_apart():
                trial.fiber.resume()
        finally:
            if trial.clone in self._state.stack:  # pytest.exit, Ctrl-C: its fixtures end here
                self._state.teardown_exact(trials.item)
            self._state.stack = stack
        trials.landed(trial)

    @contextmanager
    def widening(self, trial: RunningTrial) -> Iterator[None]:
        """Set up a fixture that outlives the trial: what it does to the process stays."""
        trial.has_widened = True
        if trial.context is None:  # nothing is swapped
            yield
            return
        before = self._switch.surroundings()
        trial.widening += 1
        try:
            with self._switch.lasting():
                yield
        finally:
            trial.widening -= 1
            self._spread(before, self._switch.surroundings())

    def _spread(self, before: Surroundings, after: Surroundings) -> None:
        """Give a change to the session and to every other trial."""
        contexts = [trial.context for _, trial in self._flight.values()]
        for context in (*self._beneath, *contexts):
            if context is not None:
                context.follow(before, after)

    def restore(self, item: pytest.Item) -> None:
        """Give the session the collectors back that a trial set up ahead of time."""
        for node in item.listchain()[:-1]:
            if node in self._parked:
                self._state.stack[node] = self._parked.pop(node)

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
        return self._ready.pump_on(loop, turn=self._turn).runner(trial)

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
        for trials in chain((head,), self._following(head)):
            trial = self._new_trial(trials, self._thread_fiber)
            if trial is not None:
                fiber = cast("ThreadFiber", trial.fiber)
                stack = self._stack_for(trials.item)
                trial.context = self._switch.fork(stack, warned=trial.warned)
                trial.patches = trial.context.patches
                fiber.may_detach = partial(self._is_free, trial)
                fiber.wait = trial.wait_for_own
                fiber.beside = partial(self._switch.logs.kept_for, trial.context.logs.late)
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
        )
        trial.runner_on = partial(self._runner_on, trial=trial)
        trials.took_off(trial)
        return trial

    def _is_free(self, trial: RunningTrial) -> bool:
        """Whether the session may go on without a trial that blocks."""
        return trial.widening == 0 and trial.holding == 0 and not self._ready.is_looping

    def _thread_fiber(self, body: Callable[[], None]) -> ThreadFiber:
        return ThreadFiber(body, threads=self._threads, ready=self._ready.put)

    def _stack_for(self, item: pytest.Function) -> Stack:
        """Return the active nodes of a new trial: those it shares, the session's or parked."""
        stack: Stack = {}
        for node in item.listchain()[:-1]:
            entry = self._state.stack.get(node) or self._parked.get(node)
            if entry is None:
                break
            stack[node] = entry
        return stack

    def _step(self, fiber: ThreadFiber) -> None:
        """Give one trial its turn."""
        if fiber not in self._flight:
            return  # it was cancelled, and its call came back only now
        trials, trial = self._flight[fiber]
        if not fiber.done:  # Ctrl-C may have come between its end and this bookkeeping
            with self._turn(trial):
                _resume(fiber)
        if fiber.done:
            del self._flight[fiber]
            if fiber.escaped is not None:
                self._tear_down(trial)
                raise fiber.escaped
            if fiber.cancelled:
                trials.lost(trial)
            else:
                trials.landed(trial)

    @contextmanager
    def _turn(self, trial: RunningTrial) -> Iterator[None]:
        """Swap the state of the process for the trial's, until it hands the baton back."""
        if trial.context is None or trial is self._in_turn:
            yield  # it runs inline, or has its turn already
            return
        beneath, interrupted = self._switch.save(), self._in_turn
        self._beneath.append(beneath)
        self._in_turn = trial
        self._switch.load(trial.context)
        try:
            yield
        finally:
            drained = trial.context.out
            trial.context = self._switch.save()
            for kind, text in drained.items():
                trial.context.out[kind] = text + trial.context.out[kind]
            self._park(trial, beneath.stack)
            self._in_turn = interrupted
            self._beneath.pop()
            self._switch.load(beneath)
            self._switch.give_back(beneath)

    def _tear_down(self, trial: RunningTrial) -> None:
        """End the fixtures of a trial that was left in the middle."""
        assert trial.context is not None  # noqa: S101 - it has had its turn
        session = self._switch.save()
        self._switch.load(trial.context)
        try:
            if trial.clone in self._state.stack:
                self._state.teardown_exact(trial.item)
        finally:
            self._switch.save()
            self._switch.load(session)

    def _park(self, trial: RunningTrial, active: Stack) -> None:
        """Keep the collectors that a trial was the first to set up, for the item itself."""
        assert trial.context is not None  # noqa: S101 - saved just now
        for node, entry in trial.context.stack.items():
            if node is not trial.clone and node not in active:
                self._parked[node] = entry


def _resume(fiber: ThreadFiber) -> None:
    try:
        fiber.resume()
    except KeyboardInterrupt:
        # It came while the trial was running: take the baton back before going on.
        fiber.wait_for_baton(timeout=_GRACE)
        raise
