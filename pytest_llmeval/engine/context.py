"""The process-wide state that pytest and the standard library keep for "the" running test.

Trials take turns, so each sees this state as if it were alone: it is taken away with the
trial that waits and put back with the trial that goes on. What is not listed here is not
swapped: globals of modules, other loggers' levels, ``sys.path``, locale.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any, TextIO

import pytest

Stack = dict[Any, Any]


@dataclass(slots=True)
class Context:
    """The state as one trial, or the session itself, left it.

    Attributes:
        stack: pytest's active nodes and their finalizers.
        environ: raw environment, as the interpreter keeps it.
        out: captured output that was drained when the trial last handed the baton back.
        warned: warnings recorded for a trial; None for the session, whose own stay put.
    """

    stack: Stack
    environ: dict[Any, Any]
    directory: str
    stdout: TextIO
    stderr: TextIO
    is_capturing: bool
    handlers: tuple[tuple[bool, list[logging.LogRecord], Any, int], ...]
    root_level: int
    filters: Any
    show_warning: Any
    out: dict[str, str] = field(default_factory=lambda: {"stdout": "", "stderr": ""})


class Switch:
    """Takes the state away and puts it back."""

    def __init__(self, session: pytest.Session) -> None:
        self._state = session._setupstate
        manager = session.config.pluginmanager
        self._capture: Any = manager.getplugin("capturemanager")
        logs: Any = manager.getplugin("logging-plugin")
        self._handlers = () if logs is None else (logs.caplog_handler, logs.report_handler)

    def save(self) -> Context:
        """Take the state away, captured output included."""
        root = logging.getLogger()
        context = Context(
            stack=self._state.stack,
            environ=raw_environ().copy(),
            directory=_directory(),
            stdout=sys.stdout,
            stderr=sys.stderr,
            is_capturing=self._is_capturing(),
            handlers=tuple(
                (handler in root.handlers, handler.records, handler.stream, handler.level)
                for handler in self._handlers
            ),
            root_level=root.level,
            filters=warnings.filters,
            show_warning=warnings._showwarnmsg_impl,  # type: ignore[attr-defined]
        )
        self._drain(context)
        return context

    def load(self, context: Context) -> None:
        """Put a state back."""
        self._state.stack = context.stack
        _load_environ(context.environ)
        if context.directory and context.directory != _directory():
            os.chdir(context.directory)
        self._load_capture(context)
        self._load_logging(context)
        if warnings.filters is not context.filters:
            warnings.filters = context.filters
            warnings._filters_mutated()  # type: ignore[attr-defined]
        warnings._showwarnmsg_impl = context.show_warning  # type: ignore[attr-defined]

    def fork(self, stack: Stack, *, warned: list[warnings.WarningMessage]) -> Context:
        """Make the state in which a new trial begins, from the session's own.

        Args:
            stack: the active nodes of the trial.
            warned: takes the warnings of the trial.
        """
        context = self.save()
        context.stack = stack
        context.filters = list(warnings.filters)
        context.show_warning = warned.append
        context.handlers = tuple((False, [], None, level) for _, _, _, level in context.handlers)
        return context

    def _is_capturing(self) -> bool:
        running = self._capture and self._capture._global_capturing
        return bool(running and running.is_started())

    def _drain(self, context: Context) -> None:
        running = self._capture and self._capture._global_capturing
        if running and running.out is not None and running._state in ("started", "suspended"):
            context.out["stdout"] += running.out.snap()
            context.out["stderr"] += running.err.snap()

    def _load_capture(self, context: Context) -> None:
        if context.is_capturing != self._is_capturing():
            if context.is_capturing:
                self._capture.resume_global_capture()
            else:
                self._capture.suspend_global_capture()
        sys.stdout = context.stdout
        sys.stderr = context.stderr

    def _load_logging(self, context: Context) -> None:
        root = logging.getLogger()
        for handler, (attached, records, stream, level) in zip(
            self._handlers, context.handlers, strict=True
        ):
            handler.records, handler.level = records, level
            if stream is not None:
                handler.stream = stream
            if attached != (handler in root.handlers):
                (root.addHandler if attached else root.removeHandler)(handler)
        if root.level != context.root_level:
            root.setLevel(context.root_level)


def raw_environ() -> dict[Any, Any]:
    """Return the mapping behind ``os.environ``: decoding it would cost 40 us a switch."""
    return os.environ._data  # type: ignore[attr-defined,no-any-return]


def _directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - called at every switch
    except OSError:  # a test removed the folder it stands in
        return ""


def _load_environ(wanted: dict[Any, Any]) -> None:
    """Make the environment what it was, touching only what differs."""
    current = raw_environ()
    if current == wanted:
        return
    for name in current.keys() - wanted.keys():
        os.unsetenv(name)
        del current[name]
    for name, value in wanted.items():
        if current.get(name) != value:
            os.putenv(name, value)
            current[name] = value
