"""What a call prints and warns of in a thread of its own, while other trials have their turn.

It is kept for the trial that waits for the call, as what it logs is (``logs.py``), and
shown when that goes on. Filters of warnings are the trial's own too: one that makes an
error of a warning makes it in the call. Followed are ``print``, the streams of pytest and
``warnings.warn``; not the file descriptors, nor what imported ``warn`` by name before.
"""

from __future__ import annotations

import builtins
import io
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any


@dataclass(slots=True)
class Aside:
    """What was said aside on behalf of one trial.

    Attributes:
        filters: of warnings, as the trial had them when it began to wait.
        printed: name of the stream in ``sys`` and text.
    """

    filters: Sequence[Any] = ()
    printed: list[tuple[str, str]] = field(default_factory=list)
    warned: list[warnings.WarningMessage] = field(default_factory=list)

    def show(self, show_warning: Callable[[warnings.WarningMessage], object]) -> None:
        """Say it now, as the trial has its turn."""
        for name, text in self.printed:
            with suppress(Exception):  # the trial put a stream there that takes nothing
                getattr(sys, name).write(text)
        self.printed.clear()
        for message in self.warned:
            show_warning(message)
        self.warned.clear()


class Asides:
    """Tells what is said aside from what is said by the trial in turn."""

    def __init__(self) -> None:
        self._current: ContextVar[Aside | None] = ContextVar("llmeval_aside", default=None)

    @contextmanager
    def kept_in(self, aside: Aside) -> Iterator[None]:
        """Keep what is said here, and in threads that get this context."""
        token = self._current.set(aside)
        try:
            yield
        finally:
            self._current.reset(token)

    @contextmanager
    def listening(self, streams: Sequence[tuple[str, Any]]) -> Iterator[None]:
        """Follow what is printed and warned of.

        ``print`` too, and not the streams alone: the trial in turn may have put one of its
        own in their place.

        Args:
            streams: those that pytest puts into ``sys``, with their names there.
        """
        warn, show = warnings.warn, builtins.print
        for name, stream in streams:
            stream.write = partial(self._write, name, stream.write)
        warnings.warn = partial(self._warn, warn)
        builtins.print = partial(self._print, show)
        try:
            yield
        finally:
            warnings.warn, builtins.print = warn, show
            for _, stream in streams:
                del stream.write

    def _print(
        self, show: Callable[..., None], *values: object, file: Any = None, **more: Any
    ) -> None:
        aside = self._current.get()
        names = {id(None): "stdout", id(sys.stdout): "stdout", id(sys.stderr): "stderr"}
        if aside is None or id(file) not in names:
            show(*values, file=file, **more)
            return
        text = io.StringIO()
        show(*values, file=text, **more)
        aside.printed.append((names[id(file)], text.getvalue()))

    def _write(self, name: str, write: Callable[[str], int], text: str) -> int:
        aside = self._current.get()
        if aside is None:
            return write(text)
        aside.printed.append((name, text))
        return len(text)

    def _warn(
        self,
        warn: Callable[..., None],
        message: Warning | str,
        category: type[Warning] | None = None,
        stacklevel: int = 1,
        source: Any = None,
        **more: Any,
    ) -> None:
        __tracebackhide__ = True
        aside = self._current.get()
        if aside is None:
            warn(message, category, stacklevel + 1, source, **more)
            return
        warning = message if isinstance(message, Warning) else (category or UserWarning)(message)
        frame = _caller(sys._getframe(1), stacklevel)
        action = _action(aside.filters, warning, frame)
        if action == "error":
            raise warning
        if action != "ignore":
            file, line = frame.f_code.co_filename, frame.f_lineno
            kept = warnings.WarningMessage(warning, type(warning), file, line, source=source)
            aside.warned.append(kept)


def _caller(frame: FrameType, stacklevel: int) -> FrameType:
    for _ in range(stacklevel - 1):
        frame = frame.f_back or frame
    return frame


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
