"""Run trials of the current case, and ahead of time trials of the cases after it.

Reports still come in the order of collection, since each item only ever reports itself. Which trial
is next is decided by whoever gives the baton up, the session or a trial, in its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from pytest_llmeval.engine.baton import GRACE, Baton
from pytest_llmeval.engine.case_trials import CaseTrials
from pytest_llmeval.engine.compat import Abilities
from pytest_llmeval.engine.schedule.lookahead import Lookahead
from pytest_llmeval.engine.schedule.progress import nothing_to_show
from pytest_llmeval.engine.schedule.rounds import Rounds
from pytest_llmeval.engine.schedule.turns import Turns
from pytest_llmeval.engine.trial.clone import forget_finalizers
from pytest_llmeval.engine.trial.trial import RunningTrial
from pytest_llmeval.engine.trial_thread import LONGEST_BLOCK, TrialThread
from pytest_llmeval.originals import Clock
from pytest_llmeval.records import Progress

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# Seconds for which trials go on though the current case can be reported. To wake the session for
# each of many replayed cases takes 3 to 7 % more time.
LONGEST_AWAY = 0.02
LONGEST_HELD_BACK = 60.0  # seconds for which trials are held back where one alone may go on
_FEW = 0.03  # of the time of a call


class Scheduler:
    """Run the trials of a session or worker.

    Args:
        session: pytest's session.
        cases: the trials of every case, by item.
        abilities: what can be swapped here.
        limit: how many trials may be in flight, 1 for one after the other.

    Attributes:
        lookahead: tells which cases may be started early.
        turns: puts the state of the trial whose turn it is on the process.
        show: shows how far the session is; returns the seconds until it is to be called again.
        meanwhile: what is to be done once, a piece at a time, while the session waits for a model.
        inline: the trial that runs in the session's own thread, beside no other.
    """

    def __init__(
        self,
        session: pytest.Session,
        cases: Mapping[pytest.Item, CaseTrials],
        *,
        abilities: Abilities,
        limit: int,
    ) -> None:
        self.lookahead = Lookahead(session)
        self._flight: dict[TrialThread, RunningTrial] = {}
        self.turns = Turns(session, abilities=abilities, in_flight=self._flight)
        self._case_of = cases
        self._cases = cases.values()
        self._limit = limit
        self._rounds: Mapping[str, Rounds] = {}  # by function
        self._due: list[Rounds] = []  # of which a round has ended, and the session is to look
        self._escaped: dict[pytest.Item, BaseException] = {}  # what is to end the session
        self._head: CaseTrials  # the current case, at whose item pytest is
        self._until: Callable[[], bool]  # what is waited for
        self._starts_next = True
        self._is_behind = False  # trials wait for their turn for more than a few percent of a call
        self._left: list[TrialThread] = []  # have ended, and the session is to see to them
        self._failures: list[BaseException] = []  # of what a trial did for the session
        self._baton: Baton[TrialThread] = Baton(
            self._hand_over, turn=self.turns.turn, is_plain=self.turns.is_plain
        )
        self.show: Callable[[], float] = nothing_to_show
        self.meanwhile: list[Callable[[], object]] = []
        self.inline: RunningTrial | None = None

    @property
    def loop(self) -> AbstractEventLoop | None:
        """The loop on which async trials wait; None before the first of them."""
        return None if self._baton.pump is None else self._baton.pump.loop

    def progress(self) -> Progress:
        """Return how far the session, or the worker, is."""
        calls = [of_trial for trials in self._cases for of_trial in trials.calls.values()]
        return Progress(
            done=len(calls),
            total=sum(one.repeats if one.awaits_look else one.due for one in self._cases),
            may_stop=any(trials.awaits_look for trials in self._cases),
            made=sum(made for made, _ in calls),
            replayed=sum(replayed for _, replayed in calls),
            in_flight=len(self._flight),
        )

    def run(self, head: CaseTrials, *, until: Callable[[], bool]) -> None:
        """Let trials take turns until something holds.

        Args:
            head: the current case, at whose item pytest is.
            until: what is waited for; the trials of ``head`` must bring it about.

        Raises:
            BaseException: ``pytest.exit`` of one of these trials, also of one that ran ahead:
                the cases before it report what they came to, as they would have without it.
        """
        self._head, self._until, self._baton.is_wanted = head, until, False
        try:
            while not until() or self._baton.only is not None:
                self._go_on(head)
        finally:
            self._baton.is_wanted = True
            self.turns.put_back()

    def _go_on(self, head: CaseTrials) -> None:
        """Let a trial run, and then each trial to which the baton is passed on."""
        for item, left in self._escaped.items():
            if item is head.item or isinstance(left, KeyboardInterrupt):  # wants an end at once
                raise left
        self.show()
        if self._due:
            self.turns.put_back()
            self._due.pop().look()
        elif head.serial and not self._flight:
            self._run_inline(head)
        else:
            pump = self._baton.pump
            if pump is not None and pump.is_due:
                self.turns.put_back()  # a loop runs others' callbacks as well
                pump.breathe()
            thread = self._take_next(head)
            if thread is None and head.awaits_look and not self._flight:
                self._rounds[head.spec.case.function].give_up()  # nobody would end the round
                return
            self._step(thread or self._wait_for_one())

    def _hand_over(self, thread: TrialThread) -> TrialThread | None:
        """End the turn of a trial, in its own thread; begin the turn of the next trial.

        Returns:
            The next trial; None if the session itself is to go on.
        """
        try:
            self.turns.end()
            if thread.done and not self._take_in(thread):
                self._left.append(thread)
                return None
            if self._baton.is_wanted or self._escaped or self._due:
                return None
            is_away_for_long = Clock.seconds() - self._baton.lent > LONGEST_AWAY
            is_loop_due = self._baton.pump is not None and self._baton.pump.is_due
            if is_loop_due or (is_away_for_long and self._until()):
                return None
            self.show()
            following = self._take_next(self._head)
            if following is not None and following.done:
                self._baton.put(following)  # it was detached to its very end: no turn is left
                return None
            if following is not None:
                self.turns.begin(following)
        except BaseException as exc:  # it is for the session to raise
            self._failures.append(exc)
            return None
        return following

    def _take_next(self, head: CaseTrials) -> TrialThread | None:
        """Take the trial that is next: a new one, or one that can go on; None if all wait.

        Both in turns. Were all that came back finished first, their places would stay empty
        meanwhile, and 64 replies that came together stay together for ever; were all places filled
        first, one that blocks would hold up the rest. But where replies lie for a while, more
        trials would only make them lie longer, beyond the deadlines of the application.
        """
        self._starts_next = not (self._starts_next or self._is_behind)
        if self._starts_next:
            return self._start_one(head) or self._take_ready()
        return self._take_ready() or self._start_one(head)

    def _take_ready(self) -> TrialThread | None:
        """Take the first trial that can go on; note whether it lay for long."""
        while (thread := self._baton.take_ready()) is not None:
            # else it was cancelled, and its call came back only now
            if thread in self._flight and (thread.sleeps or thread.done):
                waited = Clock.seconds() - thread.ready_since
                self._is_behind = waited > _FEW * (thread.ready_since - thread.waits_since)
                return thread
        return None

    def _wait_for_one(self) -> TrialThread:
        """Wait until a trial is ready; what is shown meanwhile keeps up with the time."""
        # nothing is left to start; or a look comes soon, which may need it
        if self.meanwhile and (self._rounds or len(self._flight) < self._limit):
            self.turns.put_back()
            self.meanwhile.pop(0)()
        if self._baton.pump is not None:
            self.turns.put_back()  # a loop runs others' callbacks as well
        since = Clock.seconds()
        while (thread := self._take_ready()) is None:
            self._baton.wait(min(self.show(), LONGEST_BLOCK))
            longest = LONGEST_BLOCK if self._baton.only is None else LONGEST_HELD_BACK
            if self._baton.holds_back and Clock.seconds() - since > longest:
                self._baton.end_deadlock()
                since = Clock.seconds()
        return thread

    def _run_inline(self, trials: CaseTrials) -> None:
        """Run the next trial of a case from its first line to its last, in this thread."""
        trial = trials.begin(overlaps=False, baton=self._baton)
        self.inline = trial
        try:
            with self.turns.inline(trial.item, trial.clone):
                trial.run()
                trial.thread.done = True
        finally:
            self.inline = None
            if trial.thread.done:
                trials.finished(trial)

    def cancel(self, item: pytest.Item | None = None) -> None:
        """End the trials of a case that are in flight, or all, and tear their fixtures down."""
        unwanted = [
            thread for thread, trial in self._flight.items() if item is None or trial.item is item
        ]
        for thread in unwanted:
            thread.cancel()
        self._baton.keep_to(None)
        if self._baton.pump is not None:
            self._baton.pump.withdraw(unwanted)
        try:
            for thread in unwanted:
                if not thread.is_beside:
                    self._step(thread)
            # Those that are detached get a moment to come by, and are abandoned if they do not.
            deadline = Clock.seconds() + GRACE
            while any(thread in self._flight for thread in unwanted):
                ready, left = self._take_ready(), deadline - Clock.seconds()
                if ready is not None:
                    self._step(ready)
                elif left > 0:
                    self._baton.sleep(left)
                else:
                    break
        finally:
            self.turns.put_back()
        for thread in unwanted:
            self._flight.pop(thread, None)
            self._baton.beside.discard(thread)

    def abandon(self) -> None:
        """Forget the trials in flight; nothing, wider fixtures included, tears theirs down."""
        for trial in self._flight.values():
            forget_finalizers(trial.clone)
        self._flight.clear()

    def _start_one(self, head: CaseTrials) -> TrialThread | None:
        """Make the next trial of the current case, or of one of the cases after it."""
        if head.serial or len(self._flight) >= self._limit or self._baton.only is not None:
            return None  # a case is serial beside others where it was found out to swap something
        if self._baton.holds_back:
            return None  # it could not run free, and would keep the baton where it blocks
        following = () if self._escaped else self._following(head)
        for trials in chain((head,), following):
            if trials.may_begin:
                trial = trials.begin(overlaps=True, baton=self._baton)
                self.turns.prepare(trial.thread, trial.item)
                self._flight[trial.thread] = trial
                return trial.thread
        return None

    def _following(self, head: CaseTrials) -> Iterator[CaseTrials]:
        """Give the cases after one while they may overlap it; stop at the first that may not.

        Of a function that runs in rounds it gives only the first of which a trial may begin: the
        others wait, all together, and to walk over them would cost each start as much.
        """
        following, passed = self.lookahead.after(head.item), set[Rounds]()
        while (item := next(following, None)) is not None:
            trials = self._case_of.get(item)
            if trials is None or trials.serial or trials.signature != head.signature:
                return
            rounds = self._rounds.get(trials.spec.case.function)
            if rounds is not None and rounds not in passed:
                passed.add(rounds)
                following = self.lookahead.after(head.item, beyond=rounds.last)
                trials = rounds.next_case()
            if trials is not None and not trials.is_set_up:
                return  # not before its own setup phase
            if trials is not None:
                yield trials

    def _step(self, thread: TrialThread) -> None:
        """Give a trial its turn, and then each trial to which the baton is passed on."""
        if not thread.done:
            try:
                self.turns.begin(thread)
                self._baton.lend(thread)
            finally:
                self.turns.end()  # of a trial from which the baton was taken
        elif not self._take_in(thread):  # Ctrl-C may come between its end and this bookkeeping
            self._let_go(thread)
        if self._failures:
            raise self._failures.pop()
        while self._left:
            left = self._left.pop()
            if left in self._flight:  # Ctrl-C may come when it was seen to already
                self._let_go(left)

    def _take_in(self, thread: TrialThread) -> bool:
        """Take in a trial that has ended, if there is no more to it than its result."""
        if self._baton.only is thread:
            self._baton.keep_to(None)
        if thread.escaped is not None or thread.is_void:
            return False
        trial = self._flight[thread]
        trials = self._case_of[trial.item]
        trials.finished(trial)
        del self._flight[thread]
        rounds = self._rounds.get(trials.spec.case.function)
        if rounds is not None and rounds.is_due():
            self._due.append(rounds)
        if thread.swapped:
            self.turns.process.guard.take()  # it may have left something for good
            self.hold_serial(trials.spec.case.function, thread.swapped)
        return True

    def hold_serial(self, function: str, reason: str) -> None:
        """Run the trials of a test function that are yet to begin one after the other."""
        for trials in self._cases:
            if trials.spec.case.function == function:
                trials.serial = trials.serial or reason
        if function in self._rounds:
            self._rounds[function].give_up("its trials run one after the other")

    def run_in_rounds(self, rounds: Iterable[Rounds]) -> None:
        """Run functions in rounds."""
        self._rounds = {one.function: one for one in rounds}

    def pass_over(self, item: pytest.Item) -> None:
        """Go on without a case of which no trial counts, as a plugin took over its protocol."""
        self.cancel(item)
        trials = self._case_of[item]
        trials.forget()
        if trials.spec.case.function in self._rounds:
            self._rounds[trials.spec.case.function].leave(trials)

    def _let_go(self, thread: TrialThread) -> None:
        """See to a trial that ended otherwise than by its result."""
        trial = self._flight.pop(thread)
        if thread.escaped is not None:
            self._escaped.setdefault(trial.item, thread.escaped)
            with suppress(Exception):  # as of a trial that is cancelled: it says nothing
                self.turns.tear_down(thread, trial.item, trial.clone)
        else:  # it was cancelled and says nothing
            del self._case_of[trial.item].running[trial.index]
            trial.release()
