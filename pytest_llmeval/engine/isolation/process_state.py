"""The process-wide state that pytest and the standard library keep for "the" running test.

Trials take turns, so each sees this state as if it were alone: it is taken away with the
trial that waits and put back with the trial that goes on. What is not listed here is not
swapped: globals of modules, levels of loggers and ``sys.path`` (but for what a trial changes
by ``monkeypatch`` and ``caplog``), locale.

A test may mock any function of the standard library, break a stream or remove the folder
it stands in. So what is used here was imported by its own name, and what may fail all the
same fails alone.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from os import chdir, environ, getcwd, putenv, rmdir, unsetenv
from tempfile import mkdtemp
from typing import Any, TextIO

import pytest

from pytest_llmeval.engine.baton.trial_thread import check_in
from pytest_llmeval.engine.isolation.call_output import Aside, Asides
from pytest_llmeval.engine.isolation.logs import Late, Logs, LogState
from pytest_llmeval.engine.isolation.patches import (
    Patches,
    remembered_absence,
    watched_mocks,
    watched_patchers,
)

Stack = dict[Any, Any]

# As the interpreter keeps it: pytest sets it for each phase of each trial.
_CURRENT_TEST: Any = environ.encodekey("PYTEST_CURRENT_TEST")


@dataclass(slots=True)
class Context:
    """The state as one trial, or the session itself, left it.

    Attributes:
        stack: pytest's active nodes and their finalizers.
        environ: raw environment, as the interpreter keeps it.
        directory: "" for one that is gone.
        out: captured output that was drained when the trial last handed the baton back.
        patches: what the trial patches; None for the session, whose patches stay put.
        aside: what calls said on behalf of the trial while it waited; None for the session.
    """

    stack: Stack
    environ: dict[Any, Any]
    directory: str
    stdout: TextIO | None
    stderr: TextIO | None
    is_capturing: bool
    logs: LogState
    filters: Any
    show_warning: Any
    patches: Patches | None
    aside: Aside | None
    out: dict[str, str] = field(default_factory=lambda: {"stdout": "", "stderr": ""})

    def follow(self, before: Surroundings, after: Surroundings) -> None:
        """Take over what became different in the state of another."""
        for name in before.environ.keys() - after.environ.keys():
            self.environ.pop(name, None)
        self.environ.update(after.environ.items() - before.environ.items())
        if before.directory != after.directory:
            self.directory = after.directory
        if before.root_level != after.root_level:
            self.logs = replace(self.logs, root_level=after.root_level)
        if before.disabled != after.disabled:
            self.logs = replace(self.logs, disabled=after.disabled)

    def looks_like(self, other: Context) -> bool:
        """Whether other threads, in which calls are made, see the same in either."""
        mine, others = self.environ, other.environ
        return (
            self.directory == other.directory
            and self.stdout is other.stdout
            and self.stderr is other.stderr
            and len(mine) == len(others)
            and all(
                others.get(name) is value or name == _CURRENT_TEST for name, value in mine.items()
            )
        )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a fixture may change for all tests that come after it."""

    environ: dict[Any, Any]
    directory: str
    root_level: int
    disabled: int


class Switch:
    """Takes the state away and puts it back.

    Args:
        session: pytest's session.
        swaps_logs: whether pytest's logging plugin is as we know it.
        swaps_patches: whether ``MonkeyPatch`` is.
    """

    def __init__(self, session: pytest.Session, *, swaps_logs: bool, swaps_patches: bool) -> None:
        self._state = session._setupstate
        manager = session.config.pluginmanager
        self._capture: Any = manager.getplugin("capturemanager")
        plugin: Any = manager.getplugin("logging-plugin") if swaps_logs else None
        self.logs = Logs(() if plugin is None else (plugin.caplog_handler, plugin.report_handler))
        self._unset = remembered_absence() if swaps_patches else None
        self._patches: Patches | None = None  # of the trial whose turn it is
        self._aside: Aside | None = None  # likewise
        self._asides = Asides()
        self._left: Context | None = None  # saved last, if nothing was loaded since

    @contextmanager
    def watching_patches(self) -> Iterator[None]:
        """Have each ``MonkeyPatch`` and mock patch belong to the trial that makes it."""
        if self._unset is None:
            yield
            return
        with watched_patchers(self._adopt), watched_mocks(lambda: self._patches):
            yield

    def listening(self) -> AbstractContextManager[None]:
        """Tell what calls print and warn of beside the trial in turn from what that does."""
        streams = {id(stream): (name, stream) for name, stream in self._streams()}
        return self._asides.listening(list(streams.values()))

    def _streams(self) -> Iterator[tuple[str, Any]]:
        """Give what pytest puts into ``sys`` while it captures, and while it does not."""
        running = getattr(self._capture, "_global_capturing", None)
        for name, kind in (("stdout", "out"), ("stderr", "err")):
            captured = getattr(getattr(running, kind, None), "tmpfile", None)
            if captured is not None:  # else nothing is captured, or no trial overlaps another
                yield name, captured
                yield name, getattr(sys, name)

    def beside(self, late: Late, aside: Aside) -> AbstractContextManager[None]:
        """Return what goes around work in another thread for the trial that has its turn now."""
        aside.filters = warnings.filters
        return self._kept(late, aside)

    @contextmanager
    def _kept(self, late: Late, aside: Aside) -> Iterator[None]:
        with self.logs.kept_for(late), self._asides.kept_in(aside):
            yield

    def save(self) -> Context:
        """Take the state away, captured output included."""
        if self._patches:
            self._patches.leave()  # first: what is patched may be what is used here
        context = Context(
            stack=self._state.stack,
            environ=raw_environ().copy(),
            directory=_directory(),
            stdout=getattr(sys, "stdout", None),
            stderr=getattr(sys, "stderr", None),
            is_capturing=self._is_capturing(),
            logs=self.logs.save(),
            filters=warnings.filters,
            show_warning=warnings._showwarnmsg_impl,  # type: ignore[attr-defined]
            patches=self._patches,
            aside=self._aside,
        )
        self._drain(context)
        self._left = context
        return context

    def load(self, context: Context) -> None:
        """Put a state back."""
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
        self._patches = context.patches
        self._aside = context.aside
        if self._aside and (context.is_capturing or self._capture is None):
            self._aside.show(context.show_warning)
        if self._patches:
            self._patches.enter()

    def give_back(self, context: Context) -> None:
        """Hand out what was drained when a state was saved that now goes on."""
        if context.is_capturing:
            for stream, kind in ((context.stdout, "stdout"), (context.stderr, "stderr")):
                if context.out[kind] and stream is not None:
                    with suppress(Exception):  # it is closed
                        stream.write(context.out[kind])
                    context.out[kind] = ""

    def fork(
        self, session: Context, *, stack: Stack, warned: list[warnings.WarningMessage]
    ) -> Context:
        """Make the state in which a new trial begins, from the session's own.

        Args:
            session: its state.
            stack: the active nodes of the trial.
            warned: takes the warnings of the trial.
        """
        return replace(
            session,
            stack=stack,
            environ=session.environ.copy(),
            filters=list(session.filters),
            show_warning=warned.append,
            logs=self.logs.fork(session.logs),
            patches=Patches(self._unset),
            aside=Aside(),
            out={"stdout": "", "stderr": ""},
        )

    def surroundings(self) -> Surroundings:
        """Look at what a fixture may change for all."""
        root = logging.root
        return Surroundings(
            raw_environ().copy(), _directory(), root_level=root.level, disabled=root.manager.disable
        )

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Let what is patched meanwhile stay: it is patched by a fixture that outlives a trial."""
        patches, self._patches = self._patches, None
        try:
            if patches is None:
                yield
            else:
                with patches.spreading():
                    yield
        finally:
            self._patches = patches

    def _adopt(self, patcher: pytest.MonkeyPatch) -> None:
        check_in()
        if self._patches is not None:
            self._patches.adopt(patcher)

    @contextmanager
    def logs_apart(self) -> Iterator[None]:
        """Run the phases of a trial inside a phase of the session, which keeps its own logs."""
        kept = self.logs.save()
        self.logs.load(self.logs.fork(kept))
        try:
            yield
        finally:
            after = self.logs.save()  # a fixture that lives on may have set the level
            self.logs.load(replace(kept, root_level=after.root_level, disabled=after.disabled))

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


def raw_environ() -> dict[Any, Any]:
    """Return the mapping behind ``os.environ``: decoding it would cost 40 us a switch."""
    return environ._data  # type: ignore[attr-defined,no-any-return]


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
    current = raw_environ()
    for name, value in wanted.items():
        if current.get(name) is not value:  # nearly all are the very same objects
            putenv(name, value)
            current[name] = value
    if len(current) > len(wanted):
        for name in current.keys() - wanted.keys():
            unsetenv(name)
            del current[name]


def tell_of_new_filters() -> None:
    """Have ``warnings`` forget what it made of the filters before."""
    if hasattr(warnings, "_filters_mutated"):
        warnings._filters_mutated()
    else:  # Python 3.14
        with warnings._lock:  # type: ignore[attr-defined]
            warnings._filters_mutated_lock_held()  # type: ignore[attr-defined]
