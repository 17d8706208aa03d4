"""The process-wide state that pytest and the standard library keep for "the" running test.

Trials take turns, so each sees this state as if it were alone: it is taken off with the
trial that waits and put on with the trial that goes on. It is a list of parts, each in a module of
its own. What is not listed here is not swapped: globals of modules and ``sys.path`` (but for what a
trial changes by ``monkeypatch``). While a trial has changed what many rely on, such as the clock,
no other one runs (``guard.py``).

A test may mock any function of the standard library, break a stream or remove the folder
it stands in. So what the parts use was imported by its own name, and what fails fails alone.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_llmeval.engine.isolation.attribute import FilledLater, OneAttribute
from pytest_llmeval.engine.isolation.call_output import CallOutput, CallsInTurn, following_calls
from pytest_llmeval.engine.isolation.capture import Capture, Streams
from pytest_llmeval.engine.isolation.environment import Environment
from pytest_llmeval.engine.isolation.folder import Folder
from pytest_llmeval.engine.isolation.guard import Guard
from pytest_llmeval.engine.isolation.logs import LogHandlers, LogLevels
from pytest_llmeval.engine.isolation.noted_changes import noted_changes
from pytest_llmeval.engine.isolation.part import Part
from pytest_llmeval.engine.isolation.patches import PatchesInTurn
from pytest_llmeval.engine.isolation.warning_filters import Warnings, WarningState

Nodes = dict[Any, Any]  # what ends their fixtures, by node
State = dict[Part[Any], Any]  # as a trial, or the session itself, left it


class ProcessState:
    """Take the state off the process, and put one on.

    Args:
        nodes: pytest's record of the nodes that are active.
        capture: its plugin that captures output, None where there is none that we know.
        handlers: its own for logs.

    Attributes:
        guard: compares places that are swapped by ways which are not known here.
        parts: in the order in which they are put on; they are taken off the last first, as what a
            trial patched may be what the others use.
    """

    def __init__(self, *, nodes: Any, capture: Any, handlers: Sequence[logging.Handler]) -> None:
        self.guard = Guard()
        self.nodes = OneAttribute(nodes, "stack")
        self.capture = Capture(capture)
        self.warnings = Warnings()
        self.handlers = LogHandlers(handlers)
        self.calls = CallsInTurn(handlers)
        self.patches = PatchesInTurn(self.guard)
        self._wide: tuple[Part[Any], ...] = (Environment(), Folder(), FilledLater(), LogLevels())
        self.parts: tuple[Part[Any], ...] = (
            self.nodes,
            *self._wide,
            self.capture,
            Streams(self.capture),
            self.warnings,
            self.handlers,
            self.calls,
            self.patches,
        )
        self._forked = tuple(one for one in self.parts if type(one).fork is not Part.fork)
        self._seen = tuple(one for one in self.parts if type(one).is_as is not Part.is_as)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Give patches to the trial that makes them, and output of calls to their trial."""
        with (
            self.guard.watching(),
            following_calls(list(self.capture.streams()), self.handlers.handlers),
            noted_changes(lambda: self.patches.current),
        ):
            yield

    def take_off(self, state: State) -> None:
        """Take the state off the process.

        Args:
            state: takes it. What cannot be taken off stays there as it was.

        Raises:
            Exception: of the first part of which that holds; all others are taken off.
        """
        failures = []
        for part in reversed(self.parts):
            try:
                state[part] = part.take_off()
            except Exception as exc:
                failures.append(exc)
        if failures:
            raise failures[0]

    def put_on(self, state: State) -> None:
        """Put the parts of a state on the process.

        Raises:
            Exception: of the first part that cannot be put on; all others are put on.
        """
        failures = []
        for part in self.parts:
            try:
                part.put_on(state[part])
            except Exception as exc:
                failures.append(exc)
        if failures:
            raise failures[0]

    def fork(
        self,
        session: State,
        *,
        nodes: Nodes,
        calls: CallOutput,
        show: Callable[[warnings.WarningMessage], object],
    ) -> State:
        """Make the state in which a new trial begins, from the session's own.

        Args:
            session: its state.
            nodes: those that are active for the trial.
            calls: takes the output of its calls.
            show: is shown its warnings.
        """
        self.guard.take()
        state = session | {part: part.fork(session[part]) for part in self._forked}
        own = WarningState(list(session[self.warnings].filters), show, show)
        return state | {self.nodes: nodes, self.calls: calls, self.warnings: own}

    def is_as(self, state: State) -> bool:
        """Whether code in other threads sees no difference between the state now and another."""
        return all(part.is_as(state[part]) for part in self._seen)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Run the phases of a trial inside a phase of the session, which keeps its output and logs.

        All else is the session's own.
        """
        parts: tuple[Part[Any], ...] = (self.capture, self.handlers)
        session = {part: part.take_off() for part in parts}
        for part in parts:
            part.put_on(part.fork(session[part]))
        try:
            yield
        finally:
            own = {part: part.take_off() for part in parts}
            self.capture.give(own, to=session)
            for part in parts:
                part.put_on(session[part])

    @contextmanager
    def lasting(self, states: Callable[[], Iterable[State]]) -> Iterator[None]:
        """Give changes meanwhile to all: a fixture makes them that outlives the trial.

        So it does not see what the trial has patched.
        """
        is_as_for_all = not self.guard.changed()
        before = [part.take_off() for part in self._wide]
        patches = self.patches.take_off()
        try:
            yield
        finally:
            self.patches.put_on(patches)
            if is_as_for_all:
                self.guard.take()
            after = [part.take_off() for part in self._wide]
            for state in states():
                for part, was, now in zip(self._wide, before, after, strict=True):
                    state[part] = part.follow(state[part], was, now)
