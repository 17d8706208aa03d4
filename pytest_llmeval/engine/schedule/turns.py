"""Swap the state of the process at each turn: it is a trial's while that has the baton.

The active nodes of pytest are part of it: a trial shares those of its module, say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import pytest

from pytest_llmeval.engine.compat import Abilities
from pytest_llmeval.engine.isolation.process_state import Nodes, ProcessState, State
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
            capture=abilities.capture,
            handlers=() if logs is None else (logs.caplog_handler, logs.report_handler),
        )
        self._in_flight = in_flight
        self._in_turn: TrialThread | None = None  # also at a step, while the session has the baton
        self._on: TrialThread | None = None  # whose state is on the process, also between its steps
        self._session: State | None = None  # its own state, while that does not stand there

    def prepare(self, thread: TrialThread, item: pytest.Function) -> None:
        """Make the state in which a new trial begins, from the session's own."""
        session = self._clear()
        thread.context = self.process.fork(
            session,
            nodes=self._nodes_of(item, session[self.process.nodes]),
            calls=thread.call_output,
            show=thread.warned.append,
        )
        thread.patches = thread.context[self.process.patches]

    def put_back(self) -> None:
        """Put the session's state back, which a turn had left away for the next one.

        What lies between two turns must not depend on the state of the process. Calls in other
        threads may: they go on meanwhile, and must not see what a trial has changed.
        """
        self._save()
        if self._session is not None:
            self.process.put_on(self._session)
            self._session = None  # not before: Ctrl-C may come at any line

    @contextmanager
    def turn(self, thread: TrialThread) -> Iterator[None]:
        """Swap the state of the process for the trial's, for a step on the event loop, say.

        Often the next step is of the same trial. So what calls would not notice is left as it is
        until another turn begins, or the session's state is put back.
        """
        around = self._in_turn  # runs the loop in its own turn
        if not thread.context or thread is around:
            yield  # it runs inline, or has its turn already
            return
        try:
            self.begin(thread)
            yield
        finally:
            self.end(is_step=True)
            if around is not None:
                self.begin(around)

    def begin(self, thread: TrialThread) -> None:
        """Swap the state of the process for that of a trial which overlaps others."""
        if self._on is thread:
            self.process.calls.show()
        else:
            self._clear()
            try:
                self.process.put_on(thread.context)
            except Exception as exc:
                thread.failure = thread.failure or exc
            self._on = thread
        self._in_turn = thread

    def end(self, *, is_step: bool = False) -> None:
        """End a turn, if one has begun: the state of its trial is saved.

        Args:
            is_step: the next turn may be of the same trial.
        """
        thread, self._in_turn = self._in_turn, None
        try:
            if thread is not None:
                thread.is_plain = self.is_plain()
        finally:  # Ctrl-C may come at any line
            if thread is not None and not thread.is_plain:
                self.put_back()
            elif not is_step:
                self._save()

    def is_plain(self) -> bool:
        """Whether the trial in turn has left the state of the process as all others have it."""
        return self._session is not None and self.process.is_as(self._session)

    @contextmanager
    def setting_up_shared(self, thread: TrialThread) -> Iterator[None]:
        """Set up a shared fixture: its changes to the process stay, for all trials."""
        if not thread.context:  # nothing is swapped
            yield
            return
        thread.holding += 1
        try:
            with self.process.lasting(self._states):
                yield
        finally:
            thread.holding -= 1

    def _states(self) -> Iterator[State]:
        return filter(None, (self._session, *(thread.context for thread in self._in_flight)))

    def tear_down(self, thread: TrialThread, item: pytest.Function, clone: pytest.Function) -> None:
        """End the fixtures of a trial that was left in the middle."""
        with self.turn(thread):
            if clone in self._state.stack:
                self._state.teardown_exact(item)

    @contextmanager
    def inline(self, item: pytest.Function, clone: pytest.Function) -> Iterator[None]:
        """Put the clone of a trial where its item stands among the active nodes.

        Wider nodes share their entries, so that a module fixture which this trial is the
        first to ask for outlives it.
        """
        self.put_back()
        others = {node: e for node, e in self._state.stack.items() if node is not item}
        with replaced(self._state, "stack", others):
            try:
                with self.process.apart():
                    yield
            finally:
                if clone in self._state.stack:  # pytest.exit, Ctrl-C: its fixtures end here
                    self._state.teardown_exact(item)

    def _nodes_of(self, item: pytest.Function, active: Nodes) -> Nodes:
        """Return the active nodes of a new trial, which it shares with the session."""
        shared = takewhile(active.__contains__, item.listchain()[:-1])
        return {node: active[node] for node in shared}

    def _clear(self) -> State:
        """Take off whatever state stands on the process; return the session's."""
        self._save()
        if self._session is None:
            session: State = {}
            self.process.take_off(session)
            self._session = session
        return self._session

    def _save(self) -> None:
        """Take off the state of the trial whose it is that stands there, if it is one's."""
        thread, self._on = self._on, None
        if thread is None:
            return
        try:
            self.process.take_off(thread.context)
        except Exception as exc:
            thread.failure = thread.failure or exc
        if thread.done and self._session is not None:
            # hooks printed it after the last phase: it is the case's
            self.process.capture.give(thread.context, to=self._session)
