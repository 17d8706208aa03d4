"""Swap the state of the process at each turn: it is a trial's while that has the baton.

The active nodes of pytest are part of it: a trial shares those of its module, say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import pytest

from pytest_llmeval.engine.compat import Abilities
from pytest_llmeval.engine.isolation.places import replaced
from pytest_llmeval.engine.isolation.process_state import Context, Stack, Switch
from pytest_llmeval.engine.trial.trial import TRIAL
from pytest_llmeval.engine.trial_thread import TrialThread


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
        self.switch = Switch(session, abilities)
        self._state = session._setupstate
        self._in_flight = in_flight
        self._taken: list[_Turn] = []  # one inside the other
        self._in_turn: TrialThread | None = None
        self._is_row = False
        self._away: Context | None = None  # the state beneath, between two turns in a row
        self._unsaved: _Turn | None = None  # the last step on the loop, if its state still stands

    def prepare(self, thread: TrialThread, item: pytest.Function) -> None:
        """Make the state in which a new trial begins, from the session's own."""
        self._save_last_step()
        session = self._away = self._away or self.switch.save()
        self.switch.look_around()
        thread.context = self.switch.fork(
            session,
            stack=self._stack_for(item, session.stack),
            output=thread.call_output,
            warned=thread.warned,
        )
        thread.patches = thread.context.patches

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
            self.switch.load(self._away)
            self.switch.give_back(self._away)
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
            self.switch.show_calls()
            return
        self._save_last_step()
        beneath = self._away = self._away or self.switch.save()
        self._taken.append(_Turn(thread, beneath))
        self._away = None
        self.switch.load(thread.context)
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
                if is_step and in_row and self.switch.looks_like(turn.beneath):
                    self._unsaved, is_alike = turn, True
                else:
                    kept = self._keep(turn)
                    looks_alike = kept.looks_like(turn.beneath)
                    is_alike = in_row and looks_alike
                    turn.thread.is_plain = kept.is_plain_beside(turn.beneath, alike=looks_alike)
        finally:  # whatever became of the trial's state: Ctrl-C may come at any line
            self._away = turn.beneath
            del self._taken[depth:]
            self._in_turn = self._taken[-1].thread if self._taken else None
            if not is_alike:
                self.put_back()

    def is_plain(self) -> bool:
        """Whether the trial in turn has left the state of the process as all others have it."""
        return bool(self._taken) and self.switch.is_plain_beside(self._taken[-1].beneath)

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
        before, guard = self.switch.surroundings(), self.switch.guard
        is_as_for_all = not guard.changed()
        thread.holding += 1
        try:
            with self.switch.lasting():
                yield
        finally:
            thread.holding -= 1
            if is_as_for_all:
                guard.take()
            after = self.switch.surroundings()
            contexts = (each.context for each in self._in_flight)
            beneath = (turn.beneath for turn in self._taken)
            for context in filter(None, (*beneath, *contexts)):
                context.follow(before, after)

    def tear_down(self, thread: TrialThread, item: pytest.Function, clone: pytest.Function) -> None:
        """End the fixtures of a trial that was left in the middle."""
        assert thread.context is not None  # noqa: S101 - it has had its turn
        self.put_back()
        session = self.switch.save()
        try:
            self.switch.load(thread.context)
            try:
                if clone in self._state.stack:
                    self._state.teardown_exact(item)
            finally:
                self.switch.save()
        finally:
            self.switch.load(session)

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
            with self.switch.logs_apart():
                yield
        finally:
            try:
                if clone in self._state.stack:  # pytest.exit, Ctrl-C: its fixtures end here
                    self._state.teardown_exact(item)
            finally:
                self._state.stack = stack

    def _stack_for(self, item: pytest.Function, active: Stack) -> Stack:
        """Return the active nodes of a new trial, which it shares with the session."""
        stack: Stack = {}
        for node in item.listchain()[:-1]:
            if node not in active:
                break
            stack[node] = active[node]
        return stack

    def _keep(self, turn: _Turn) -> Context:
        """Save the state of a trial that hands the baton back, and return it."""
        thread, beneath = turn
        assert thread.context is not None  # noqa: S101 - it was loaded
        drained = thread.context.out
        context = thread.context = self.switch.save()
        for kind, text in drained.items():
            context.out[kind] = text + context.out[kind]
            if thread.done:  # hooks printed it after the last phase: it is the case's
                beneath.out[kind] += context.out[kind]
        return context


class _Turn(NamedTuple):
    """A turn that is taken.

    Attributes:
        thread: of the trial whose it is.
        beneath: the state of the process that goes on after it.
    """

    thread: TrialThread
    beneath: Context


def capturing_throughout(config: pytest.Config) -> AbstractContextManager[None]:
    """Leave the capture on between the phases of trials.

    pytest turns it off after every phase, so that its own report can be printed, and on before the
    next. Of a trial nothing is printed; and with 64 in flight each of those twelve system calls
    hands the interpreter's lock to another thread.
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
            context = trial.thread.context
            if context is not None:  # what was drained while the trial waited comes first
                drained = context.out
                out, err = drained["stdout"] + out, drained["stderr"] + err
                drained["stdout"] = drained["stderr"] = ""
            item.add_report_section(when, "stdout", out)
            item.add_report_section(when, "stderr", err)

    return replaced(manager, "item_capture", item_capture)
