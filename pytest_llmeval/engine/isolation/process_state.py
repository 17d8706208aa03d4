"""The process-wide state that pytest and the standard library keep for "the" running test.

Trials take turns, so each sees this state as if it were alone: it is taken away with the
trial that waits and put back with the trial that goes on. What is not listed here is not
swapped: globals of modules and ``sys.path`` (but for what a trial changes by ``monkeypatch``).
A trial that changes what many rely on, such as the clock, is let alone (``guard.py``).

A test may mock any function of the standard library, break a stream or remove the folder
it stands in. So what is used here was imported by its own name, and what may fail all the
same fails alone.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from os import chdir, environ, getcwd, putenv, rmdir, unsetenv
from tempfile import mkdtemp
from typing import Any, TextIO

import pytest

from pytest_llmeval.engine.compat import Abilities, remembered_absence, tell_of_new_filters
from pytest_llmeval.engine.holder import check_in
from pytest_llmeval.engine.isolation.generators import Generators, States
from pytest_llmeval.engine.isolation.guard import Guard
from pytest_llmeval.engine.isolation.output import CallOutput, Logs, LogState, following_calls
from pytest_llmeval.engine.isolation.patches import (
    Patches,
    watched_levels,
    watched_mocks,
    watched_patchers,
    watched_state,
)

Stack = dict[Any, Any]

# As the interpreter keeps it: pytest sets it for each phase of each trial.
_NO_TEST: dict[Any, None] = {environ.encodekey("PYTEST_CURRENT_TEST"): None}
# The mapping behind os.environ: decoding it would cost 40 us a switch.
_ENVIRON: dict[Any, Any] = getattr(environ, "_data", {})


@dataclass(slots=True)
class Surroundings:
    """The state that a fixture may change for all tests that come after it.

    Attributes:
        environ: raw environment, as the interpreter keeps it.
        directory: "" for one that is gone.
        root_level: of the root logger.
        disabled: as by ``logging.disable``.
    """

    environ: dict[Any, Any]
    directory: str
    root_level: int
    disabled: int


@dataclass(slots=True)
class Context(Surroundings):
    """The state as one trial, or the session itself, left it.

    Attributes:
        stack: pytest's active nodes and their finalizers.
        out: captured output that was drained when the trial last handed the baton back.
        patches: what the trial patches; None for the session, whose patches stay put.
        output: of calls of the trial while it waited; None for the session.
        generators: states of those that the trial has seeded.
    """

    stack: Stack
    stdout: TextIO | None
    stderr: TextIO | None
    is_capturing: bool
    logs: LogState
    filters: Any
    show_warning: Any
    patches: Patches | None
    output: CallOutput | None
    generators: States
    out: dict[str, str]

    def follow(self, before: Surroundings, after: Surroundings) -> None:
        """Apply the changes that a fixture made in the turn of another trial."""
        for name in before.environ.keys() - after.environ.keys():
            self.environ.pop(name, None)
        self.environ.update(after.environ.items() - before.environ.items())
        for name in ("directory", "root_level", "disabled"):
            if getattr(before, name) != getattr(after, name):
                setattr(self, name, getattr(after, name))

    def is_plain_beside(self, other: Context, *, alike: bool = False) -> bool:
        """Whether the trial finds nothing that others, with another state, do not find.

        Streams of pytest count only where both are in the same phase of its capture.

        Args:
            other: that state.
            alike: it is known that it looks like this one.
        """
        patches = self.patches
        if self.generators or (
            patches is not None and (patches.places or patches.mocks or patches.recorders)
        ):
            return False
        has_streams = self.stdout is other.stdout and self.stderr is other.stderr
        return alike or (
            (has_streams or self.is_capturing != other.is_capturing)
            and self.directory == other.directory
            and _is_same_environ(self.environ, other.environ)
        )

    def looks_like(self, other: Context) -> bool:
        """Whether calls, which run in other threads, see no difference between two states."""
        return (
            self.directory == other.directory
            and self.stdout is other.stdout
            and self.stderr is other.stderr
            and _is_same_environ(self.environ, other.environ)
        )


class Switch:
    """Save and load that state.

    Args:
        session: pytest's session.
        abilities: what can be swapped here.
    """

    def __init__(self, session: pytest.Session, abilities: Abilities) -> None:
        self._state = session._setupstate
        manager = session.config.pluginmanager
        self._capture: Any = manager.getplugin("capturemanager")
        plugin: Any = manager.getplugin("logging-plugin") if abilities.swaps_logs else None
        self.guard = Guard()
        self.generators = Generators(lambda: self._patches is not None)
        self.logs = Logs(() if plugin is None else (plugin.caplog_handler, plugin.report_handler))
        self._unset = remembered_absence() if abilities.swaps_patches else None
        self._patches: Patches | None = None  # of the trial whose turn it is
        self._output: CallOutput | None = None  # likewise
        self._left: Context | None = None  # saved last, if nothing was loaded since

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Give patches to the trial that makes them, and output of calls to their trial."""
        with ExitStack() as stack:
            stack.enter_context(self.guard.watching())
            stack.enter_context(self.generators.watching())
            stack.enter_context(following_calls(list(self._streams()), self.logs.handlers))
            if self._unset is not None:
                stack.enter_context(watched_patchers(self._adopt))
                stack.enter_context(watched_mocks(lambda: self._patches))
                stack.enter_context(watched_levels(lambda: self._patches))
                stack.enter_context(watched_state(lambda: self._patches))
            yield

    def _streams(self) -> Iterator[tuple[str, Any]]:
        """Give the streams that pytest puts into ``sys``, also while it does not."""
        running = getattr(self._capture, "_global_capturing", None)
        for name, kind in (("stdout", "out"), ("stderr", "err")):
            captured = getattr(getattr(running, kind, None), "tmpfile", None)
            if captured is not None:  # else nothing is captured, or no trial overlaps another
                yield name, captured
                if getattr(sys, name) is not captured:
                    yield name, getattr(sys, name)

    def save(self) -> Context:
        """Return the state of the process, with the output that was captured."""
        if self._patches is not None and self._patches.places:
            self._patches.leave()  # first: what is patched may be what is used here
        context = Context(
            stack=self._state.stack,
            environ=_ENVIRON.copy(),
            directory=_directory(),
            root_level=logging.root.level,
            disabled=logging.root.manager.disable,
            stdout=getattr(sys, "stdout", None),
            stderr=getattr(sys, "stderr", None),
            is_capturing=self._is_capturing(),
            logs=self.logs.save(),
            filters=warnings.filters,
            show_warning=warnings._showwarnmsg_impl,  # type: ignore[attr-defined]
            patches=self._patches,
            output=self._output,
            generators=self.generators.leave() if self.generators.of_all else {},
            out={"stdout": "", "stderr": ""},
        )
        self._drain(context)
        self._left = context
        return context

    def looks_like(self, context: Context) -> bool:
        """Whether nothing is patched, and the state is like another: as ``Context.looks_like``."""
        return (
            not (self._patches is not None and self._patches.places)
            and not self.generators.of_all
            and getattr(sys, "stdout", None) is context.stdout
            and getattr(sys, "stderr", None) is context.stderr
            and _is_same_environ(_ENVIRON, context.environ)
            and _directory() == context.directory
        )

    def is_plain_beside(self, context: Context) -> bool:
        """Likewise, for the state of the process now."""
        if self.generators.of_all:
            return False
        now = replace(
            context,
            patches=self._patches,
            stdout=getattr(sys, "stdout", None),
            stderr=getattr(sys, "stderr", None),
            is_capturing=self._is_capturing(),
            directory=_directory(),
            environ=_ENVIRON.copy(),
        )
        return now.is_plain_beside(context)

    def load(self, context: Context) -> None:
        """Make a state that of the process."""
        left, self._left = self._left, None  # Ctrl-C may break off what follows
        self._state.stack = context.stack
        _load_environ(context.environ)
        if left is None or left.directory != context.directory:
            _load_directory(context.directory)
        self._load_capture(context)
        if warnings.filters is not context.filters:
            warnings.filters = context.filters
            tell_of_new_filters()
        warnings._showwarnmsg_impl = context.show_warning  # type: ignore[attr-defined]
        self.logs.load(context.logs)
        if logging.root.level != context.root_level:
            logging.root.setLevel(context.root_level)
        if logging.root.manager.disable != context.disabled:
            logging.disable(context.disabled)
        self._patches = context.patches
        self._output = context.output
        if context.generators:
            self.generators.enter(context.generators)
        self.show_calls()
        if self._patches is not None and self._patches.places:
            self._patches.enter()

    def show_calls(self) -> None:
        """Show what calls of the trial whose turn it is have printed, logged and warned of."""
        if self._output is not None:
            self._output.show_logs(self.logs.handlers)
            if self._capture is None or self._is_capturing():
                self._output.show(warnings._showwarnmsg_impl)  # type: ignore[attr-defined]

    def give_back(self, context: Context) -> None:
        """Write again the captured output that was drained when a state was saved."""
        if context.is_capturing:
            for kind, text in context.out.items():
                if text:
                    with suppress(Exception):  # there is no stream, or it is closed
                        getattr(context, kind).write(text)
                    context.out[kind] = ""

    def fork(
        self,
        session: Context,
        *,
        stack: Stack,
        output: CallOutput,
        warned: list[warnings.WarningMessage],
    ) -> Context:
        """Make the state in which a new trial begins, from the session's own.

        Args:
            session: its state.
            stack: the active nodes of the trial.
            output: takes the output of calls of the trial.
            warned: takes the warnings of the trial.
        """
        return replace(
            session,
            stack=stack,
            environ=session.environ.copy(),
            filters=list(session.filters),
            show_warning=warned.append,
            logs=session.logs.fork(),
            patches=Patches(self._unset, self.guard),
            output=output,
            generators={},
            out={"stdout": "", "stderr": ""},
        )

    def look_around(self) -> None:
        """Take the state of the process, before a trial begins, for what all are to find."""
        self.guard.take()
        self.generators.look_at_imports()

    def surroundings(self) -> Surroundings:
        """Return the state that a fixture may change for all trials."""
        root = logging.root
        return Surroundings(_ENVIRON.copy(), _directory(), root.level, root.manager.disable)

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Let patches made meanwhile stay: a fixture makes them that outlives the trial."""
        patches, self._patches = self._patches, None
        try:
            with nullcontext() if patches is None else patches.spreading():
                yield
        finally:
            self._patches = patches

    @contextmanager
    def logs_apart(self) -> Iterator[None]:
        """Run the phases of a trial inside a phase of the session, which keeps its own logs."""
        kept = self.logs.save()
        self.logs.load(kept.fork())
        try:
            yield
        finally:
            self.logs.save()
            self.logs.load(kept)

    def _adopt(self, patcher: pytest.MonkeyPatch) -> None:
        check_in()
        if self._patches is not None:
            self._patches.adopt(patcher)

    def _is_capturing(self) -> bool:
        running = self._capture and self._capture._global_capturing
        return bool(running and running.is_started())

    def _drain(self, context: Context) -> None:
        running = self._capture and self._capture._global_capturing
        if running and running.out is not None and running._state in ("started", "suspended"):
            for kind, captured in (("stdout", running.out), ("stderr", running.err)):
                try:  # not suppress(): twice at every turn
                    context.out[kind] += captured.snap()
                except Exception:  # noqa: S112 - it is closed
                    continue

    def _load_capture(self, context: Context) -> None:
        if context.is_capturing != self._is_capturing():
            with suppress(Exception):  # a test closed what pytest captures
                if context.is_capturing:
                    self._capture.resume_global_capture()
                else:
                    self._capture.suspend_global_capture()
        sys.stdout = context.stdout
        sys.stderr = context.stderr


def _is_same_environ(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Whether two are equal but for the current test, which a trial that ended has not."""
    return len(one) == len(other) and one | _NO_TEST == other | _NO_TEST


def _directory() -> str:
    try:
        return getcwd()  # noqa: PTH109 - called at every switch
    except OSError:  # a test removed the folder it stands in
        return ""


def _load_directory(wanted: str) -> None:
    """Go where a trial stood; if that folder is gone, stand in one that is gone as well.

    Elsewhere the trial would not fail as it does alone, and write among another's files.
    """
    if wanted == _directory():
        return
    with suppress(OSError):
        if wanted:
            chdir(wanted)
            return
    with suppress(OSError):
        nowhere = mkdtemp()
        chdir(nowhere)
        rmdir(nowhere)  # noqa: PTH106 - what pathlib calls may be mocked


def _load_environ(wanted: dict[Any, Any]) -> None:
    """Make the environment what it was, touching only what differs."""
    for name, value in wanted.items():
        if _ENVIRON.get(name) is not value:  # nearly all are the very same objects
            putenv(name, value)
            _ENVIRON[name] = value
    if len(_ENVIRON) > len(wanted):
        for name in _ENVIRON.keys() - wanted.keys():
            unsetenv(name)
            del _ENVIRON[name]
