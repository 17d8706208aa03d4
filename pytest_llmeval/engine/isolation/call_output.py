"""Keep the output of a call for the trial that waits for it.

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
from contextlib import ExitStack, contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial, partialmethod
from itertools import product
from types import FrameType
from typing import Any

from pytest_llmeval.engine.baton import running_beside
from pytest_llmeval.engine.isolation.part import Part
from pytest_llmeval.models.attribution import replaced

_CURRENT: ContextVar[CallOutput | None] = ContextVar("llmeval_call_output", default=None)


def _current() -> CallOutput | None:
    """Return who keeps the output of this code; None if it belongs to the trial in turn."""
    output = _CURRENT.get()
    if output is None:
        trial = running_beside()
        return None if trial is None else trial.call_output
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

    def context(self) -> Context:
        """Return a context for a call, whose output is kept; the trial must have its turn now.

        A context and not a thread, because a call is made in a thread that can be left behind.
        """
        self.filters = warnings.filters
        context = copy_context()
        context.run(_CURRENT.set, self)
        return context

    def show(self, handlers: Sequence[logging.Handler]) -> None:
        """Print, warn and log now, as the trial has its turn.

        Args:
            handlers: pytest's own for logs.
        """
        for record, handler in product(self.logged, handlers):
            if record.levelno >= handler.level:
                with suppress(Exception):  # it cannot be formatted; the call is over
                    handler.handle(record)
        self.logged.clear()
        for name, text in self.printed:
            with suppress(Exception):  # the trial put a stream there that takes nothing
                getattr(sys, name).write(text)
        self.printed.clear()
        for message in self.warned:
            warnings._showwarnmsg_impl(message)  # type: ignore[attr-defined]
        self.warned.clear()


class CallsInTurn(Part[CallOutput | None]):
    """Show the trial in turn what its calls have printed, logged and warned of.

    Args:
        handlers: pytest's own for logs.
    """

    def __init__(self, handlers: Sequence[logging.Handler]) -> None:
        self._handlers = handlers
        self._current: CallOutput | None = None  # None for the session

    def take_off(self) -> CallOutput | None:
        """Return where the output goes while the trial waits."""
        output, self._current = self._current, None
        return output

    def put_on(self, saved: CallOutput | None) -> None:
        """Show what has come there meanwhile."""
        self._current = saved
        self.show()

    def show(self) -> None:
        """Show what has come since."""
        if self._current is not None:
            self._current.show(self._handlers)


@contextmanager
def following_calls(
    streams: Sequence[tuple[str, Any]], handlers: Sequence[logging.Handler]
) -> Iterator[None]:
    """Tell the output of calls from the output of the trial in turn.

    ``print`` is followed, and not the streams alone: the trial in turn may have put one of its
    own in their place.

    Args:
        streams: those that pytest puts into ``sys``, with their names there.
        handlers: pytest's own for logs.
    """
    plain = logging.Logger.callHandlers
    places = [
        (warnings, "warn", partial(_warn, warnings.warn)),
        (builtins, "print", partial(_print, print)),
        (logging.Logger, "callHandlers", partialmethod(_log, plain, handlers)),
        *((stream, "write", partial(_write, name, stream.write)) for name, stream in streams),
    ]
    with ExitStack() as stack:
        for owner, name, replacement in places:
            stack.enter_context(replaced(owner, name, replacement))
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


def _log(
    logger: logging.Logger,
    plain: Callable[[logging.Logger, logging.LogRecord], None],
    of_pytest: Sequence[logging.Handler],
    record: logging.LogRecord,
) -> None:
    """Keep what calls log from pytest's handlers, which are those of whoever has the turn.

    Between phases they are attached nowhere; a phase attaches them to the root.
    """
    output = _current()
    if output is None:
        plain(logger, record)
        return
    reaches = False
    at: logging.Logger | None = logger
    while at is not None:
        reaches = reaches or at is logging.root
        for handler in at.handlers:
            if handler in of_pytest:
                reaches = True
            elif record.levelno >= handler.level:
                handler.handle(record)
        at = at.parent if at.propagate else None
    if reaches:
        output.logged.append(record)


def _action(filters: Sequence[Any], warning: Warning, frame: FrameType) -> str:
    """Return what the first matching filter says; ``warnings`` knows only the filters in force."""
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
