"""Run trials: those of the case in turn, and of the cases after it ahead of time.

Reports still come in the order of collection, since each item only ever reports itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from itertools import chain
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, cast

import pytest

from pytest_llmeval.engine.case import CaseTrials
from pytest_llmeval.engine.compat import Abilities
from pytest_llmeval.engine.schedule.overlap import Lookahead
from pytest_llmeval.engine.schedule.progress import ProgressDisplay
from pytest_llmeval.engine.schedule.turns import Turns
from pytest_llmeval.engine.thread_pool import Threads
from pytest_llmeval.engine.trial.clone import forget_finalizers
from pytest_llmeval.engine.trial.trial import RunningTrial
from pytest_llmeval.engine.trial_thread import TrialThread
from pytest_llmeval.records import Progress

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from pytest_llmeval.engine.trial.event_loop import Pump, TrialRunner

# The libraries of the gate take 0.3 s, which a session that waits for a model need not add.
_NEEDED_AT_THE_END = ("pytest_llmeval.stats", "pytest_llmeval.gate")
_GRACE = 1.0  # seconds for a trial to hand the baton back after Ctrl-C


class Ready:
    """A queue of trial threads; to wait for the next one is to run the event loop.

    Args:
        turn: swaps the state of the process for a trial's.

    Attributes:
        threads: where trials run, and where their calls wait.
        pump: runs the loop; None before the first async eval.
    """

    def __init__(self, turn: Callable[[RunningTrial], AbstractContextManager[None]]) -> None:
        self.threads = Threads()
        self.pump: Pump | None = None
        self.turn = turn
        self._queue: SimpleQueue[TrialThread] = SimpleQueue()

    @property
    def is_empty(self) -> bool:
        """Whether no trial can go on at the moment; only the session takes any away."""
        return self._queue.empty()

    @property
    def is_looping(self) -> bool:
        """Whether the event loop runs at the moment."""
        return self.pump is not None and self.pump.loop.is_running()

    def put(self, thread: TrialThread) -> None:
        """Note, from any thread, that a trial can be resumed."""
        self._queue.put(thread)
        if self.pump is not None:
            self.pump.stop()

    def get(self, *, timeout: float) -> TrialThread:
        """Take the next trial, without running the loop.

        Args:
            timeout: seconds to wait for one.

        Raises:
            queue.Empty: none came in that time.
        """
        return self._queue.get(block=timeout > 0, timeout=timeout or None)

    def wait(self, timeout: float | None = None) -> TrialThread:
        """Take the next trial, and run the loop until there is one.

        Args:
            timeout: seconds after which to give up, None for never.

        Raises:
            queue.Empty: none came in that time.
        """
        if self.pump is None:
            return self._queue.get(timeout=timeout)
        self.pump.run(timeout)
        return self._queue.get_nowait()

    def runner(self, trial: RunningTrial, loop: AbstractEventLoop) -> TrialRunner:
        """Return a runner for the coroutines of a trial on a loop, which is pumped from now on."""
        from pytest_llmeval.engine.trial.event_loop import Pump, TrialRunner

        if self.pump is None or self.pump.loop is not loop:
            self.pump = Pump(loop, self)
        return TrialRunner(trial, self.pump)


class Scheduler:
    """Run the trials of a session or worker.

    Args:
        session: pytest's session.
        cases: the trials of every case, by item.
        abilities: what can be swapped here.
        limit: how many trials may be in flight, 1 for one after the other.

    Attributes:
        lookahead: tells which cases may be started early.
        turns: swaps the state of the process for that of the trial whose turn it is.
        display: shows how far the session is, None where nothing is to be shown.
        alone: the trial that runs in the session's own thread, beside no other.
    """

    def __init__(
        self,
        session: pytest.Session,
        cases: Mapping[pytest.Item, CaseTrials],
        *,
        abilities: Abilities,
        limit: int,
    ) -> None:
        self.lookahead = Lookahead(session, cases)
        self._flight: dict[TrialThread, CaseTrials] = {}
        self.turns = Turns(session, abilities=abilities, in_flight=self._flight)
        self._cases = cases.values()
        self._limit = limit
        self._ahead = [] if hasattr(session.config, "workerinput") else list(_NEEDED_AT_THE_END)
        self._escaped: dict[pytest.Item, BaseException] = {}  # what is to end the session
        self._ready = Ready(self.turns.turn)
        self.display: ProgressDisplay | None = None
        self.alone: RunningTrial | None = None

    @property
    def loop(self) -> AbstractEventLoop | None:
        """The loop on which async trials wait; None before the first of them."""
        return None if self._ready.pump is None else self._ready.pump.loop

    def progress(self) -> Progress:
        """Return how far the session, or the worker, is."""
        calls = [of_trial for trials in self._cases for of_trial in trials.calls.values()]
        return Progress(
            done=len(calls),
            total=sum(trials.repeats for trials in self._cases),
            made=sum(made for made, _ in calls),
            replayed=sum(replayed for _, replayed in calls),
            in_flight=len(self._flight),
        )

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
            if not self._ready.is_empty:
                self._step(self._ready.get(timeout=0))
            elif not has_started:
                self._wait_for_one()

    def _wait_for_one(self) -> None:
        if self._ahead and len(self._flight) < self._limit:  # nothing is left to start
            self.turns.put_back()
            import_module(self._ahead.pop(0))
        self._step(self._next_ready())

    def _next_ready(self) -> TrialThread:
        """Wait until a trial can go on; what is shown meanwhile keeps up with the time."""
        if self._ready.pump is not None:
            self.turns.put_back()  # a loop runs others' callbacks as well
        while self.display is not None:
            try:
                return self._ready.wait(self.display.surface.period)
            except Empty:
                self.display.turn()
        return self._ready.wait()

    def _run_inline(self, trials: CaseTrials) -> None:
        """Run the next trial of a case from its first line to its last, in this thread."""
        trial = self.alone = self._new_trial(trials, next(trials.unplanned), overlaps=False)
        try:
            with self.turns.inline(trial):
                trial.thread.resume()
        finally:
            self.alone = None
            if trial.thread.done:
                trials.finished(trial)

    def cancel(self, item: pytest.Item | None = None) -> None:
        """End the trials of a case that are in flight, or all, and tear their fixtures down."""
        unwanted = [
            thread for thread, case in self._flight.items() if item is None or case.item is item
        ]
        for thread in unwanted:
            thread.cancel()
        if self._ready.pump is not None:
            self._ready.pump.withdraw([thread.trial for thread in unwanted])
        for thread in unwanted:
            if not thread.detached:
                self._step(thread)
        self._await_detached(unwanted)

    def abandon(self) -> None:
        """Forget the trials in flight; nothing, wider fixtures included, tears theirs down."""
        for thread in self._flight:
            forget_finalizers(thread.trial.clone)
        self._flight.clear()

    def _await_detached(self, unwanted: list[TrialThread]) -> None:
        """Give detached trials a moment to come by; abandon those that do not."""
        deadline = time.monotonic() + _GRACE
        while any(thread in self._flight for thread in unwanted):
            try:
                self._step(self._ready.get(timeout=max(0.0, deadline - time.monotonic())))
            except Empty:
                break
        for thread in unwanted:
            self._flight.pop(thread, None)

    def _start_one(self, head: CaseTrials) -> bool:
        """Start the next trial of the case in turn, or of one of the cases after it."""
        if len(self._flight) >= self._limit:
            return False
        following = () if self._escaped else self.lookahead.following(head)
        for trials in chain((head,), following):
            index = next(trials.unplanned, None)
            if index is not None:
                trial = self._new_trial(trials, index, overlaps=True)
                thread = cast("TrialThread", trial.thread)
                self.turns.prepare(trial)
                self._flight[thread] = trials
                self._step(thread)
                return True
        return False

    def _new_trial(self, trials: CaseTrials, index: int, *, overlaps: bool) -> RunningTrial:
        trial = RunningTrial(trials, index, overlaps=overlaps, ready=self._ready)
        trials.running[index] = trial
        return trial

    def _step(self, thread: TrialThread) -> None:
        """Give one trial its turn."""
        if thread not in self._flight:
            return  # it was cancelled, and its call came back only now
        trials, trial = self._flight[thread], thread.trial
        if not thread.done:  # Ctrl-C may have come between its end and this bookkeeping
            with self.turns.turn(trial):
                try:
                    thread.resume()
                except KeyboardInterrupt:
                    # It came while the trial was running: take the baton back before going on.
                    thread.wait_for_baton(timeout=_GRACE)
                    raise
        if not thread.done:
            return
        if thread.escaped is None and not thread.cancelled:
            trials.finished(trial)
        del self._flight[thread]
        if thread.escaped is not None:
            self._escaped.setdefault(trial.item, thread.escaped)
            with suppress(Exception):  # as of a trial that is cancelled: it says nothing
                self.turns.tear_down(trial)
            if isinstance(thread.escaped, KeyboardInterrupt):
                raise thread.escaped  # somebody wants an end at once
        elif thread.cancelled:  # it says nothing
            del trials.running[trial.index]
            trial.release()
