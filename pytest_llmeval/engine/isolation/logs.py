"""Logging as one trial sees it: what pytest's two handlers caught, and the levels.

A call that waits in another thread logs while other trials have their turn. What it
logs is kept for its own trial, and shown to the handlers when that goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.engine.baton.trial_thread import check_in
from pytest_llmeval.engine.isolation.patches import Patches
from pytest_llmeval.engine.isolation.places import Level

Late = list[tuple[logging.Handler, logging.LogRecord]]


@dataclass(frozen=True, slots=True)
class LogState:
    """Logging as a trial, or the session, left it.

    Attributes:
        handlers: the attributes of each of pytest's handlers: records, stream, level, filters.
        attached: the loggers to which each is attached.
        disabled: as by ``logging.disable``.
        late: what was logged on the trial's behalf while it waited.
    """

    handlers: tuple[dict[str, Any], ...]
    attached: tuple[list[logging.Logger], ...]
    root_level: int
    disabled: int
    late: Late = field(default_factory=list)


class _Ear(logging.Handler):
    """Hands every record on as it is, whatever handlers are attached besides.

    Args:
        hear: takes a record, from any thread.
    """

    def __init__(self, hear: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record on."""
        self._hear(record)


class Logs:
    """Takes that state away and puts it back.

    Args:
        handlers: pytest's own, none if its logging plugin is off.
    """

    def __init__(self, handlers: Sequence[logging.Handler]) -> None:
        self._handlers = tuple(handlers)
        self._late: Late = []
        self._elsewhere: ContextVar[Late | None] = ContextVar("llmeval_late", default=None)
        self._attached: tuple[list[logging.Logger], ...] = ()
        for handler in self._handlers:
            handler.addFilter(partial(self._is_for_now, handler))
        self._ear = _Ear(self._hear)
        self._listeners = 0
        self._counting = fork_safe_lock()

    def save(self) -> LogState:
        """Look at everything."""
        root = logging.root
        self._attached = self._find_attached()
        return LogState(
            handlers=tuple(vars(handler) for handler in self._handlers),
            attached=self._attached,
            root_level=root.level,
            disabled=root.manager.disable,
            late=self._late,
        )

    def load(self, state: LogState) -> None:
        """Put a state back after another was saved, and show the handlers what came late."""
        root = logging.root
        self._late = state.late
        for handler, attributes, now, wanted in zip(
            self._handlers, state.handlers, self._attached, state.attached, strict=True
        ):
            handler.__dict__ = attributes
            if now != wanted:
                for logger in now:
                    logger.removeHandler(handler)
                for logger in wanted:
                    logger.addHandler(handler)
        if root.level != state.root_level:
            root.setLevel(state.root_level)
        if root.manager.disable != state.disabled:
            logging.disable(state.disabled)
        self._show_late()

    def fork(self, state: LogState) -> LogState:
        """Make the state in which a new trial begins."""
        handlers = tuple(
            {**attributes, "records": [], "filters": list(attributes["filters"])}
            for attributes in state.handlers
        )
        return replace(state, handlers=handlers, attached=tuple([] for _ in handlers), late=[])

    @contextmanager
    def kept_for(self, late: Late) -> Iterator[None]:
        """Keep what is logged here, and in threads that get this context, until the trial goes on.

        A context and not a thread, because a call is made in a thread that can be left behind.
        """
        token = self._elsewhere.set(late)
        with self._counting:
            self._listeners += 1
            logging.root.addHandler(self._ear)
        try:
            yield
        finally:
            with self._counting:
                self._listeners -= 1
                if not self._listeners:
                    logging.root.removeHandler(self._ear)
            self._elsewhere.reset(token)

    def _hear(self, record: logging.LogRecord) -> None:
        """Take a record while pytest's handlers are off, as between the phases of another."""
        for handler in self._handlers:
            self._is_for_now(handler, record)

    def _is_for_now(self, handler: logging.Handler, record: logging.LogRecord) -> bool:
        late = self._elsewhere.get()
        if late is None:
            return True
        if (handler, record) not in late:
            late.append((handler, record))
        return False

    def _show_late(self) -> None:
        for handler, record in self._late:
            if record.levelno >= handler.level:
                with suppress(Exception):  # it cannot be formatted; the call is over
                    handler.handle(record)
        self._late.clear()

    def _find_attached(self) -> tuple[list[logging.Logger], ...]:
        """Find the loggers with each handler: root, and those that do not propagate to it."""
        root = logging.root
        loggers: list[logging.Logger] = [root]
        for logger in list(root.manager.loggerDict.values()):  # a call may add one meanwhile
            if isinstance(logger, logging.Logger) and not logger.propagate:
                loggers.append(logger)
        return tuple(
            [logger for logger in loggers if handler in logger.handlers]
            for handler in self._handlers
        )


def adopt_caplog(caplog: pytest.LogCaptureFixture, patches: Patches) -> None:
    """Take the levels that a trial's ``caplog`` sets for what the trial patches."""

    def change(method: Any, /, level: int | str, logger: str | None = None) -> Any:
        __tracebackhide__ = True
        check_in()
        if logger:
            changed = logging.getLogger(logger)
            patches.add(Level(changed), changed.level)
        return method(level, logger)

    for name in ("set_level", "at_level"):
        setattr(caplog, name, partial(change, getattr(caplog, name)))
