"""Logging as one trial sees it: what pytest's two handlers caught, and the levels of caplog."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from pytest_llmeval.engine.isolation.patches import Patches
from pytest_llmeval.engine.isolation.places import Level
from pytest_llmeval.engine.trial_thread import check_in


@dataclass(frozen=True, slots=True)
class LogState:
    """Pytest's handlers as a trial, or the session, left them.

    Attributes:
        handlers: the attributes of each: records, stream, level, filters.
        attached: loggers with one of these handlers.
    """

    handlers: tuple[dict[str, Any], ...]
    attached: Sequence[tuple[logging.Logger, logging.Handler]]

    def fork(self) -> LogState:
        """Make the state in which a new trial begins."""
        handlers = [
            {**attributes, "records": [], "filters": list(attributes["filters"])}
            for attributes in self.handlers
        ]
        return LogState(tuple(handlers), [])


class Logs:
    """Save and load the state of pytest's handlers.

    Args:
        handlers: pytest's own, none if its logging plugin is off.
    """

    def __init__(self, handlers: Sequence[logging.Handler]) -> None:
        self.handlers = tuple(handlers)
        self._attached: Sequence[tuple[logging.Logger, logging.Handler]] = []

    def save(self) -> LogState:
        """Return the state of the handlers now."""
        self._attached = self._find_attached()
        return LogState(tuple([vars(handler) for handler in self.handlers]), self._attached)

    def load(self, state: LogState) -> None:
        """Put a state back after another was saved."""
        for handler, attributes in zip(self.handlers, state.handlers, strict=True):
            handler.__dict__ = attributes
        if self._attached != state.attached:
            for logger, handler in self._attached:
                logger.removeHandler(handler)
            for logger, handler in state.attached:
                logger.addHandler(handler)

    def _find_attached(self) -> Sequence[tuple[logging.Logger, logging.Handler]]:
        """Find the loggers with each handler: root, and those that do not propagate to it."""
        loggers: list[logging.Logger] = [logging.root]
        for logger in list(logging.root.manager.loggerDict.values()):  # a call may add one
            if isinstance(logger, logging.Logger) and not logger.propagate:
                loggers.append(logger)
        return [
            (logger, handler)
            for logger in loggers
            for handler in self.handlers
            if handler in logger.handlers
        ]


def adopt_caplog(caplog: pytest.LogCaptureFixture, patches: Patches) -> None:
    """Treat the levels that a trial's ``caplog`` sets as patches of the trial."""

    def change(method: Any, /, level: int | str, logger: str | None = None) -> Any:
        __tracebackhide__ = True
        check_in()
        if logger:
            changed = logging.getLogger(logger)
            patches.add(Level(changed, "level"), changed.level)
        return method(level, logger)

    for name in ("set_level", "at_level"):
        setattr(caplog, name, partial(change, getattr(caplog, name)))
