"""Output of one trial: what pytest's log handlers caught, and what comes of its calls.

A call runs in a thread of its own, and other trials have their turn meanwhile. So what it prints,
logs and warns of is kept for the trial that waits for it, and shown when that goes on. Filters of
warnings are the trial's own too: one that makes an error of a warning makes it in the call.
Followed are ``print``, the streams of pytest, ``warnings.warn`` and what pytest's log handlers
would catch; not the file descriptors, nor code that imported ``warn`` by name before.
"""

from __future__ import annotations

import builtins
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from pytest_llmeval.engine.holder import running_beside
from pytest_llmeval.engine.isolation.places import replaced

_CURRENT: ContextVar[CallOutput | None] = ContextVar("llmeval_call_output", default=None)


def _current() -> CallOutput | None:
    """Return where output of this code goes; None for that of the trial in turn."""
    output = _CURRENT.get()
    if output is None:
        trial = running_beside()
        output = None if trial is None else trial.call_output
    return output


class CallOutput:
    """The output of the calls of one trial, as far as it is not yet shown.

    Attributes:
        filters: of warnings, as the trial had them when it began to wait.
        printed: name of the stream in ``sys`` and text.
    """

    def __init__(self) -> None:
        self.filters: Sequence[Any] = ()
        self.printed: list[tuple[str, str]] = []
        self.logged: list[logging.LogRecord] = []
        self.warned: list[warnings.WarningMessage] = []

    def around_call(self) -> AbstractContextManager[None]:
        """Return the context for a call in another thread; the trial must have its turn now."""
        self.filters = warnings.filters
        return self._kept()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Keep the output of this code, and of threads that get this context.

        A context and not a thread, because a call is made in a thread that can be left behind.
        """
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def show(self, show_warning: Callable[[warnings.WarningMessage], object]) -> None:
        """Print and warn now, as the trial has its turn."""
        for name, text in self.printed:
            with suppress(Exception):  # the trial put a stream there that takes nothing
                getattr(sys, name).write(text)
        self.printed.clear()
        for message in self.warned:
            show_warning(message)
        self.warned.clear()

    def show_logs(self, handlers: Sequence[logging.Handler]) -> None:
        """Hand log records to the handlers, as the trial has its turn."""
        for record in self.logged:
            for handler in handlers:
                if record.levelno >= handler.level:
                    with suppress(Exception):  # it cannot be formatted; the call is over
                        handler.handle(record)
        self.logged.clear()


@contextmanager
def following_calls(
    streams: Sequence[tuple[str, Any]], handlers: Sequence[logging.Handler]
) -> Iterator[None]:
    """Tell the output of calls from that of the trial in turn.

    ``print`` is followed, and not the streams alone: the trial in turn may have put one of its
    own in their place.

    Args:
        streams: those that pytest puts into ``sys``, with their names there.
        handlers: pytest's own for logs.
    """
    call_handlers = _calling_handlers(logging.Logger.callHandlers, handlers)
    with ExitStack() as stack:
        for name, stream in streams:
            stack.enter_context(replaced(stream, "write", partial(_write, name, stream.write)))
        stack.enter_context(replaced(warnings, "warn", partial(_warn, warnings.warn)))
        stack.enter_context(replaced(builtins, "print", partial(_print, print)))
        stack.enter_context(replaced(logging.Logger, "callHandlers", call_handlers))
        for handler in handlers:
            handler.addFilter(_is_of_trial_in_turn)
            stack.callback(handler.removeFilter, _is_of_trial_in_turn)
        yield


def _print(show: Callable[..., None], *values: object, file: Any = None, **more: Any) -> None:
    output = _CURRENT.get()
    names = {id(None): "stdout", id(sys.stdout): "stdout", id(sys.stderr): "stderr"}
    if output is None or id(file) not in names:
        show(*values, file=file, **more)
        return
    text = io.StringIO()
    show(*values, file=text, **more)
    output.printed.append((names[id(file)], text.getvalue()))


def _write(name: str, write: Callable[[str], int], text: str) -> int:
    output = _current()
    if output is None:
        return write(text)
    output.printed.append((name, text))
    return len(text)


def _warn(
    warn: Callable[..., None],
    message: Warning | str,
    category: type[Warning] | None = None,
    stacklevel: int = 1,
    source: Any = None,
    **more: Any,
) -> None:
    __tracebackhide__ = True
    output = _current()
    if output is None:
        warn(message, category, stacklevel + 1, source, **more)
        return
    warning = message if isinstance(message, Warning) else (category or UserWarning)(message)
    frame = sys._getframe(1)
    for _ in range(stacklevel - 1):
        frame = frame.f_back or frame
    action = _action(output.filters, warning, frame)
    if action == "error":
        raise warning
    if action != "ignore":
        file, line = frame.f_code.co_filename, frame.f_lineno
        kept = warnings.WarningMessage(warning, type(warning), file, line, source=source)
        output.warned.append(kept)


def _calling_handlers(
    plain: Callable[[logging.Logger, logging.LogRecord], None], handlers: Sequence[logging.Handler]
) -> Callable[[logging.Logger, logging.LogRecord], None]:
    """Replace ``Logger.callHandlers``: between phases pytest's handlers are attached nowhere."""

    def call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
        output = _current()
        if output is None:
            plain(logger, record)
            return
        if _reaches(logger, handlers):
            output.logged.append(record)
        if logger.hasHandlers():  # else Python would print it, as the last resort
            plain(logger, record)

    return call_handlers


def _reaches(logger: logging.Logger | None, handlers: Sequence[logging.Handler]) -> bool:
    """Whether pytest's handlers, which a phase attaches to the root, get what a logger logs."""
    while logger is not None:
        if logger is logging.root or any(handler in logger.handlers for handler in handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _is_of_trial_in_turn(record: logging.LogRecord) -> bool:
    """Keep what calls log from the handlers of whoever has the turn."""
    return _current() is None


def _action(filters: Sequence[Any], warning: Warning, frame: FrameType) -> str:
    """Return what the first filter that fits says: ``warnings`` knows those in force alone."""
    module = frame.f_globals.get("__name__") or "<string>"
    for action, text, category, place, line in filters:
        if (
            isinstance(warning, category)
            and _fits(text, str(warning))
            and _fits(place, module)
            and line in (0, frame.f_lineno)
        ):
            return str(action)
    return "default"


def _fits(pattern: Any, text: str) -> bool:
    if pattern is None or isinstance(pattern, str):  # Python's own filters have plain texts
        return pattern in (None, text)
    return pattern.match(text) is not None


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
