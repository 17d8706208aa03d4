"""Swap the state of the process at each turn: it is a trial's while that has the baton.

The active nodes of pytest are part of it: a trial shares those of its module, say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import pytest

from pytest_llmeval.engine.compat import Abilities
from pytest_llmeval.engine.isolation.process_state import Nodes, ProcessState, State
from pytest_llmeval.engine.trial.trial import TRIAL
from pytest_llmeval.engine.trial_thread import TrialThread
from pytest_llmeval.models.attribution import replaced


class Turns:
    """Give trials their turns.

    Args:
        session: pytest's session.
        abilities: what can be swapped here.
        in_flight: the threads of the trials that are under way.
    """

    def __init__(
        self, session: pytest.Session, *, abilities: Abilities, in_flight: Collection[TrialThread]
    ) -> None:
        self._state = session._setupstate
        manager = session.config.pluginmanager
        logs: Any = manager.getplugin("logging-plugin") if abilities.swaps_logs else None
        self.process = ProcessState(
            nodes=self._state,
            capture=manager.getplugin("capturemanager"),
            handlers=() if logs is None else (logs.caplog_handler, logs.report_handler),
        )
        self._in_flight = in_flight
        self._taken: list[_Turn] = []  # one inside the other
        self._in_turn: TrialThread | None = None
        self._is_row = False
        self._away: State | None = None  # the state beneath, between two turns in a row
        self._unsaved: _Turn | None = None  # the last step on the loop, if its state still stands

    def prepare(self, thread: TrialThread, item: pytest.Function) -> None:
        """Make the state in which a new trial begins, from the session's own."""
        self._save_last_step()
        session = self._away = self._away or self._taken_off()
        thread.context = self.process.fork(
            session,
            nodes=self._nodes_of(item, session[self.process.nodes]),
            calls=thread.call_output,
            show=thread.warned.append,
        )
        thread.patches = thread.context[self.process.patches]

    @contextmanager
    def in_a_row(self) -> Iterator[None]:
        """Let one turn follow another: the session's own state is put back at the end.

        What lies between two turns must not depend on the state of the process. Calls in other
        threads may: they go on meanwhile, and must not see what a trial has changed.
        """
        self._is_row = True
        try:
            yield
        finally:
            self._is_row = False
            self.put_back()

    def put_back(self) -> None:
        """Put the session's state back, which a turn in a row had left away for the next one."""
        self._save_last_step()
        if self._away is not None:
            self.process.put_on(self._away)
            self._away = None  # not before: Ctrl-C may come at any line

    @contextmanager
    def turn(self, thread: TrialThread) -> Iterator[None]:
        """Swap the state of the process for the trial's, during a step on the event loop.

        Often the next step is of the same trial. So what calls would not notice is left as it is
        until another turn begins, or the state beneath is put back.
        """
        if thread.context is None or thread is self._in_turn:
            yield  # it runs inline, or has its turn already
            return
        depth = len(self._taken)
        try:
            self.begin(thread)
            yield
        finally:
            self.end(depth, is_step=True)

    def begin(self, thread: TrialThread) -> None:
        """Swap the state of the process for that of a trial which overlaps others."""
        assert thread.context is not None  # noqa: S101 - it was prepared
        last = self._unsaved
        if last is not None and last.thread is thread:
            self._taken.append(last)
            self._in_turn, self._unsaved, self._away = thread, None, None
            self.process.calls.show()
            return
        self._save_last_step()
        beneath = self._away = self._away or self._taken_off()
        self._taken.append(_Turn(thread, beneath))
        self._away = None
        try:
            self.process.put_on(thread.context)
        except Exception as exc:
            thread.failure = thread.failure or exc
        self._in_turn = thread

    def end(self, depth: int = 0, *, is_step: bool = False) -> None:
        """Keep the state of the trial whose turn it is, and go back to that beneath it.

        Args:
            depth: how many turns go on; nothing is done if no more than those are taken.
            is_step: the next turn may be of the same trial.
        """
        if len(self._taken) <= depth:
            return
        turn = self._taken[depth]
        in_row = self._is_row and not depth
        is_alike = False
        try:
            if self._in_turn is turn.thread:  # else Ctrl-C broke into its beginning
                turn.thread.is_plain = self.process.is_as(turn.beneath)
                is_alike = in_row and turn.thread.is_plain
                if is_step and is_alike:
                    self._unsaved = turn
                else:
                    self._keep(turn)
        finally:  # whatever became of the trial's state: Ctrl-C may come at any line
            self._away = turn.beneath
            del self._taken[depth:]
            self._in_turn = self._taken[-1].thread if self._taken else None
            if not is_alike:
                self.put_back()

    def is_plain(self) -> bool:
        """Whether the trial in turn has left the state of the process as all others have it."""
        return bool(self._taken) and self.process.is_as(self._taken[-1].beneath)

    def _save_last_step(self) -> None:
        if self._unsaved is not None:
            self._keep(self._unsaved)
            self._unsaved = None

    @contextmanager
    def setting_up_shared(self, thread: TrialThread) -> Iterator[None]:
        """Set up a shared fixture: its changes to the process stay, for all trials."""
        if thread.context is None:  # nothing is swapped
            yield
            return
        thread.holding += 1
        try:
            with self.process.lasting(self._states):
                yield
        finally:
            thread.holding -= 1

    def _states(self) -> Iterator[State]:
        yield from (turn.beneath for turn in self._taken)
        yield from filter(None, (thread.context for thread in self._in_flight))

    def tear_down(self, thread: TrialThread, item: pytest.Function, clone: pytest.Function) -> None:
        """End the fixtures of a trial that was left in the middle."""
        assert thread.context is not None  # noqa: S101 - it has had its turn
        self.put_back()
        session = self._taken_off()
        try:
            self.process.put_on(thread.context)
            try:
                if clone in self._state.stack:
                    self._state.teardown_exact(item)
            finally:
                self.process.take_off(thread.context)
        finally:
            self.process.put_on(session)

    @contextmanager
    def inline(self, item: pytest.Function, clone: pytest.Function) -> Iterator[None]:
        """Put the clone of a trial where its item stands among the active nodes.

        Wider nodes share their entries, so that a module fixture which this trial is the
        first to ask for outlives it.
        """
        self.put_back()
        stack = self._state.stack
        self._state.stack = {node: e for node, e in stack.items() if node is not item}
        try:
            with self.process.handlers.apart(), self.process.capture.apart():
                yield
        finally:
            try:
                if clone in self._state.stack:  # pytest.exit, Ctrl-C: its fixtures end here
                    self._state.teardown_exact(item)
            finally:
                self._state.stack = stack

    def _nodes_of(self, item: pytest.Function, active: Nodes) -> Nodes:
        """Return the active nodes of a new trial, which it shares with the session."""
        stack: Nodes = {}
        for node in item.listchain()[:-1]:
            if node not in active:
                break
            stack[node] = active[node]
        return stack

    def _keep(self, turn: _Turn) -> None:
        """Take off the state of a trial that hands the baton back."""
        thread, beneath = turn
        assert thread.context is not None  # noqa: S101 - it was put on
        try:
            self.process.take_off(thread.context)
        except Exception as exc:
            thread.failure = thread.failure or exc
        if thread.done:  # hooks printed it after the last phase: it is the case's
            self.process.capture.hand_over(thread.context, to=beneath)

    def _taken_off(self) -> State:
        state: State = {}
        self.process.take_off(state)
        return state


class _Turn(NamedTuple):
    """A turn that is taken.

    Attributes:
        thread: of the trial whose it is.
        beneath: the state of the process that goes on after it.
    """

    thread: TrialThread
    beneath: State


def capturing_throughout(config: pytest.Config) -> AbstractContextManager[None]:
    """Leave the capture on between the phases of trials.

    pytest turns it off after every phase, so that its own report can be printed, and on before the
    next. Of a trial nothing is printed; and with 64 in flight each of those twelve system calls
    hands the interpreter's lock to another thread. Without this such a session takes 3 to 9 % more
    CPU.
    """
    manager: Any = config.pluginmanager.getplugin("capturemanager")
    plain = getattr(manager, "item_capture", None)
    if plain is None:  # or it is not as we know it: then no trial overlaps another
        return nullcontext()

    @contextmanager
    def item_capture(when: str, item: pytest.Item) -> Iterator[None]:
        trial = item.stash.get(TRIAL, None)
        if trial is None:
            with plain(when, item):
                yield
            return
        manager.activate_fixture()
        try:
            yield
        finally:
            manager.deactivate_fixture()
            out, err = manager.read_global_capture()
            item.add_report_section(when, "stdout", out)
            item.add_report_section(when, "stderr", err)

    return replaced(manager, "item_capture", item_capture)
