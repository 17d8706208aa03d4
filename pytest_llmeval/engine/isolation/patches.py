"""While a trial waits for a model its patches are undone, so that other trials do not see them.

pytest's ``MonkeyPatch`` and ``unittest.mock`` change attributes and items of which the process
has one. The environment and the working directory need nothing here: they are swapped as a
whole.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

import pytest

from pytest_llmeval.engine.holder import check_in
from pytest_llmeval.engine.isolation.guard import Guard
from pytest_llmeval.engine.isolation.places import (
    ABSENT,
    Attribute,
    ImportPath,
    Item,
    Level,
    Place,
    replaced,
)

T = TypeVar("T")

_CHANGING = ("setattr", "delattr", "setitem", "delitem", "syspath_prepend", "chdir", "undo")
_INSTALLED = ("site-packages", "dist-packages")
_CURRENT_TEST = os.environ.encodekey("PYTEST_CURRENT_TEST")  # which pytest sets at each phase


class Patches:
    """Everything that one trial patches, in the order in which it came to be.

    Args:
        unset: what a ``MonkeyPatch`` remembers of a place where there was nothing.
        guard: tells what was swapped otherwise while the trial has its turn.

    Attributes:
        outside: a package that is not the project's and was patched, "" if none was.
        mocks: how many patches of ``unittest.mock`` are in place.
        recorders: how many ``catch_warnings(record=True)`` are, as of ``pytest.warns``.
        places: that were patched and are put away while the trial waits, by their keys.
    """

    def __init__(self, unset: object, guard: Guard) -> None:
        self._guard = guard
        self.outside = ""
        self.mocks = 0
        self.recorders = 0
        self._unset = unset
        self.places: dict[object, Place] = {}
        self._patchers: list[pytest.MonkeyPatch] = []

    @property
    def are_in_use(self) -> bool:
        """Whether anything was patched, the environment and the directory included."""
        differ = any(place.differs for place in self.places.values())
        patchers = any(map(_has_changed, self._patchers))
        return bool(differ or self.mocks or patchers or self._guard.changed())

    @property
    def held_for(self) -> str:
        """What the trial swapped, at its turn, that others would see; "" if nothing.

        It keeps the baton in its calls then, and nothing else runs meanwhile.
        """
        if self.outside:
            return f"monkeypatch of {self.outside}"
        if self.mocks:
            return "mock.patch"
        place = self._guard.changed()
        return f"{place} was changed" if place else ""

    def leave(self) -> None:
        """Put everything away, the last first."""
        for place in reversed(self.places.values()):
            place.leave()

    def enter(self) -> None:
        """Put everything back in place."""
        for place in self.places.values():
            place.enter()

    def add(self, place: Place, base: object) -> None:
        """Swap a place with the trial from now on.

        Args:
            place: is changed by the trial.
            base: what was there before.
        """
        place.base = base
        self.places.setdefault(place.key, place)

    def add_mock(self, patcher: Any) -> None:
        """Look at what a patch of ``unittest.mock`` is about to replace, unless it is a dict."""
        if hasattr(patcher, "getter"):
            with suppress(Exception):  # the patch itself will say what is wrong
                place = Attribute(patcher.getter(), patcher.attribute)
                self.add(place, place.read())

    @contextmanager
    def spreading(self) -> Iterator[None]:
        """Give changes meanwhile to all trials: a fixture makes them that outlives this one."""
        places = [p for p in self.places.values() if not isinstance(p, ImportPath)]
        before = [place.read() for place in places]
        try:
            yield
        finally:
            for place, value in zip(places, before, strict=True):
                now = place.read()
                if now is not value:
                    place.base = now

    def adopt(self, patcher: pytest.MonkeyPatch) -> None:
        """Watch what a ``MonkeyPatch`` of this trial does."""
        self._patchers.append(patcher)
        for name in _CHANGING:
            setattr(patcher, name, partial(self._change, patcher, getattr(patcher, name)))

    def _change(
        self, patcher: Any, method: Callable[..., T], /, *args: object, **kwargs: object
    ) -> T:
        __tracebackhide__ = True
        check_in(alone=True)
        if method.__name__ in ("setattr", "delattr"):
            self._note_owner(*args)
        try:
            return method(*args, **kwargs)
        finally:
            self._note(patcher)

    def _note_owner(self, target: object = "", name: object = "", *_: object) -> None:
        """Look at an attribute beforehand: pytest 8 remembers what was inherited as its own."""
        if isinstance(name, str) and not isinstance(target, str):
            place = Attribute(target, name)
            self.add(place, place.read())

    def _note(self, patcher: Any) -> None:
        """Take in what was patched last."""
        for target, name, old in patcher._setattr[-1:]:
            self._add_patched(Attribute(target, name), old)
            self.outside = self.outside or package_outside(target)
        for target, name, old in patcher._setitem[-1:]:
            if target is not os.environ:
                self._add_patched(Item(target, name), old)
                self.outside = self.outside or ("sys.modules" if target is sys.modules else "")
        if patcher._savesyspath is not None:
            self.add(ImportPath(sys, "path"), patcher._savesyspath[:])

    def _add_patched(self, place: Place, old: object) -> None:
        self.add(place, ABSENT if old is self._unset else old)


@contextmanager
def watched_patchers(adopt: Callable[[pytest.MonkeyPatch], None]) -> Iterator[None]:
    """Call ``adopt`` for every new ``MonkeyPatch``: of a fixture, a ``with`` or a test itself."""
    plain = pytest.MonkeyPatch.__init__

    def init(patcher: pytest.MonkeyPatch) -> None:
        plain(patcher)
        adopt(patcher)

    with replaced(pytest.MonkeyPatch, "__init__", init):
        yield


@contextmanager
def watched_mocks(current: Callable[[], Patches | None]) -> Iterator[None]:
    """Count the patches of ``unittest.mock`` that the trial in turn has in place.

    What ``patch.dict`` changed is undone by itself alone and cannot be put away for others.

    Args:
        current: gives what the trial in turn patches.
    """
    mock: Any = sys.modules.get("unittest.mock")
    kinds = () if mock is None else (mock._patch, mock._patch_dict)
    with ExitStack() as stack:
        for kind in kinds:
            for name, step in (("__enter__", 1), ("__exit__", -1)):
                counting = _counting(getattr(kind, name), current, step=step)
                stack.enter_context(replaced(kind, name, counting))
        yield


def _counting(
    method: Callable[..., Any], current: Callable[[], Patches | None], *, step: int
) -> Callable[..., Any]:
    def counted(patcher: object, *exc_info: object) -> Any:
        check_in(alone=True)
        patches = current()
        if patches is not None:
            patches.mocks = max(0, patches.mocks + step)
            if step > 0:
                patches.add_mock(patcher)
        return method(patcher, *exc_info)

    return counted


@contextmanager
def watched_state(current: Callable[[], Patches | None]) -> Iterator[None]:
    """Have a trial take the baton again before it changes what is swapped with the baton.

    Args:
        current: gives what the trial in turn patches.
    """
    redirection: Any = contextlib._RedirectStream
    places: tuple[tuple[Any, str], ...] = (
        (os, "putenv"), (os, "unsetenv"), (os, "chdir"), (redirection, "__enter__")
    )  # fmt: skip
    recorder = warnings.catch_warnings
    with ExitStack() as stack:
        for owner, name in places:
            stack.enter_context(replaced(owner, name, _alone(getattr(owner, name))))
        for name, step in (("__enter__", 1), ("__exit__", -1)):
            counting = _counting_recorders(getattr(recorder, name), current, step=step)
            stack.enter_context(replaced(recorder, name, counting))
        yield


def _alone(plain: Callable[..., T]) -> Callable[..., T]:
    @wraps(plain)
    def alone(*args: Any, **named: Any) -> T:
        if args[:1] != (_CURRENT_TEST,):
            check_in(alone=True)
        return plain(*args, **named)

    return alone


def _counting_recorders(
    method: Callable[..., Any], current: Callable[[], Patches | None], *, step: int
) -> Callable[..., Any]:
    @wraps(method)
    def counted(recorder: Any, *exc_info: object) -> Any:
        if recorder._record:  # else libraries do it, for a moment
            check_in(alone=True)
            patches = current()
            if patches is not None:
                patches.recorders = max(0, patches.recorders + step)
        return method(recorder, *exc_info)

    return counted


@contextmanager
def watched_levels(current: Callable[[], Patches | None]) -> Iterator[None]:
    """Treat the levels of loggers that the trial in turn sets as patches of the trial.

    Args:
        current: gives what the trial in turn patches.
    """
    plain = logging.Logger.setLevel

    def set_level(logger: logging.Logger, level: int | str) -> None:
        if logger is not logging.root and logger.level != level:
            check_in(alone=True)
        patches = current()
        if patches is not None and logger is not logging.root:  # that level is swapped anyway
            patches.add(Level(logger, "level"), logger.level)
        plain(logger, level)

    with replaced(logging.Logger, "setLevel", set_level):
        yield


def adopt_caplog(caplog: pytest.LogCaptureFixture, patches: Patches) -> None:
    """Treat the levels that a trial's ``caplog`` sets as patches of the trial."""

    def change(method: Any, /, level: int | str, logger: str | None = None) -> Any:
        __tracebackhide__ = True
        check_in(alone=True)
        if logger:
            changed = logging.getLogger(logger)
            patches.add(Level(changed, "level"), changed.level)
        return method(level, logger)

    for name in ("set_level", "at_level"):
        setattr(caplog, name, partial(change, getattr(caplog, name)))


def _has_changed(patcher: Any) -> bool:
    return bool(patcher._setattr or patcher._setitem or patcher._cwd or patcher._savesyspath)


def package_outside(target: Any) -> str:
    """Name the package of an object if it is installed or comes with Python, else ""."""
    if isinstance(target, SimpleNamespace):  # only a bag, as a dictionary is
        return ""
    if isinstance(target, ModuleType):
        name = target.__name__
    else:  # a function and a class say it themselves
        name = getattr(target, "__module__", None) or type(target).__module__
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is not None:
        path = Path(file)
        is_installed = any(folder in path.parts for folder in _INSTALLED)
        if not is_installed and not path.is_relative_to(sysconfig.get_path("stdlib")):
            return ""
    return str(name).partition(".")[0]
