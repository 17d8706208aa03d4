"""Logging as one trial sees it: what pytest's two handlers caught, and the levels."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from pytest_llmeval.engine.baton.trial_thread import check_in
from pytest_llmeval.engine.isolation.patches import Patches
from pytest_llmeval.engine.isolation.places import Level


@dataclass(frozen=True, slots=True)
class LogState:
    """Logging as a trial, or the session, left it.

    Attributes:
        handlers: the attributes of each of pytest's handlers: records, stream, level, filters.
        attached: loggers with one of these handlers.
        disabled: as by ``logging.disable``.
    """

    handlers: tuple[dict[str, Any], ...]
    attached: Sequence[tuple[logging.Logger, logging.Handler]]
    root_level: int
    disabled: int

    def fork(self) -> LogState:
        """Make the state in which a new trial begins."""
        handlers = []
        for attributes in self.handlers:
            own = {"records": [], "filters": list(attributes["filters"])}
            handlers.append({**attributes, **own})
        return LogState(tuple(handlers), [], self.root_level, self.disabled)

    def with_levels_of(self, other: LogState) -> LogState:
        """Take over the levels of another state."""
        return replace(self, root_level=other.root_level, disabled=other.disabled)


class Logs:
    """Save and load the state of logging.

    Args:
        handlers: pytest's own, none if its logging plugin is off.
    """

    def __init__(self, handlers: Sequence[logging.Handler]) -> None:
        self.handlers = tuple(handlers)
        self._attached: Sequence[tuple[logging.Logger, logging.Handler]] = []

    def save(self) -> LogState:
        """Return the state of logging now."""
        self._attached = self._find_attached()
        handlers = tuple([vars(handler) for handler in self.handlers])
        return LogState(handlers, self._attached, logging.root.level, logging.root.manager.disable)

    def load(self, state: LogState) -> None:
        """Put a state back after another was saved."""
        for handler, attributes in zip(self.handlers, state.handlers, strict=True):
            handler.__dict__ = attributes
        if self._attached != state.attached:
            for logger, handler in self._attached:
                logger.removeHandler(handler)
            for logger, handler in state.attached:
                logger.addHandler(handler)
        if logging.root.level != state.root_level:
            logging.root.setLevel(state.root_level)
        if logging.root.manager.disable != state.disabled:
            logging.disable(state.disabled)

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
            patches.add(Level(changed), changed.level)
        return method(level, logger)

    for name in ("set_level", "at_level"):
        setattr(caplog, name, partial(change, getattr(caplog, name)))
