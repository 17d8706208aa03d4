"""Logging, as parts of the process state: pytest's handlers, and the levels of loggers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from pytest_llmeval.engine.isolation.part import Part


def set_switch(logger: logging.Logger, name: str, value: object) -> None:
    """Set a level or such past who is told while evals run, and clear what loggers remember."""
    vars(logger)[name] = value
    logger.manager._clear_cache()  # type: ignore[attr-defined]


class LogLevels(Part[tuple[int, int]]):
    """Swap the level of the root logger, and that of ``logging.disable``."""

    def take_off(self) -> tuple[int, int]:
        """Return them."""
        return logging.root.level, logging.root.manager.disable

    def put_on(self, saved: tuple[int, int]) -> None:
        """Set them."""
        level, disabled = saved
        if logging.root.level != level:
            set_switch(logging.root, "level", level)
        if logging.root.manager.disable != disabled:
            logging.disable(disabled)


class HandlerState(NamedTuple):
    """Pytest's handlers as a trial, or the session, left them.

    Attributes:
        attributes: of each handler: records, stream, level, filters.
        attached: loggers with one of these handlers.
    """

    attributes: Sequence[dict[str, Any]]
    attached: Sequence[tuple[logging.Logger, logging.Handler]]


class LogHandlers(Part[HandlerState]):
    """Swap what pytest's handlers caught, and where they are attached.

    Args:
        handlers: pytest's own, none if its logging plugin is off.
    """

    def __init__(self, handlers: Sequence[logging.Handler]) -> None:
        self.handlers = tuple(handlers)
        self._attached: Sequence[tuple[logging.Logger, logging.Handler]] = []

    def take_off(self) -> HandlerState:
        """Return their state."""
        self._attached = self._find_attached()
        return HandlerState([vars(handler) for handler in self.handlers], self._attached)

    def put_on(self, saved: HandlerState) -> None:
        """Put a state back after another was taken off."""
        for handler, attributes in zip(self.handlers, saved.attributes, strict=True):
            handler.__dict__ = attributes
        if self._attached != saved.attached:
            for logger, handler in self._attached:
                logger.removeHandler(handler)
            for logger, handler in saved.attached:
                logger.addHandler(handler)

    def fork(self, saved: HandlerState) -> HandlerState:
        """Begin with handlers that are attached nowhere and have caught nothing."""
        return HandlerState(
            [{**one, "records": [], "filters": list(one["filters"])} for one in saved.attributes],
            [],
        )

    def _find_attached(self) -> Sequence[tuple[logging.Logger, logging.Handler]]:
        """Find the loggers with each handler: root, and loggers that have handlers of their own."""
        loggers: list[logging.Logger] = [logging.root]
        for logger in list(logging.root.manager.loggerDict.values()):  # a call may add one
            if isinstance(logger, logging.Logger) and logger.handlers:
                loggers.append(logger)
        return [
            (logger, handler)
            for logger in loggers
            for handler in self.handlers
            if handler in logger.handlers
        ]
