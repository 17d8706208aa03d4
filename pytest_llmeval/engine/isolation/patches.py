"""What a trial patches holds while the trial has its turn, and is away while it waits.

pytest's ``MonkeyPatch`` changes attributes and items of which the process has one. A
trial that hands the baton back leaves behind what was there before; when it goes on it
finds what it had, also what it changed again by hand. The environment and the working
directory need nothing here: they are swapped as a whole.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

import pytest

from pytest_llmeval.engine.baton.trial_thread import check_in
from pytest_llmeval.engine.isolation.places import ABSENT, Attribute, ImportPath, Item, Place

T = TypeVar("T")

_CHANGING = ("setattr", "delattr", "setitem", "delitem", "syspath_prepend", "chdir", "undo")
_INSTALLED = ("site-packages", "dist-packages")


class Patched:
    """A place with what the trial wants there, and what all others are to find there."""

    __slots__ = ("_is_in", "_mine", "base", "place")

    def __init__(self, place: Place, base: object) -> None:
        self.place = place
        self.base = base
        self._mine: object = None
        self._is_in = True

    @property
    def differs(self) -> bool:
        """Whether the trial has there, at its turn, what the others do not find."""
        with suppress(Exception):
            return self.place.read() is not self.base
        return True

    def leave(self) -> None:
        """Keep what the trial has there, and put back what was there before.

        What cannot be written stays: the trial's own undo will say so in its teardown.
        """
        if self._is_in:
            with suppress(Exception):
                self._mine = self.place.read()
                if self._mine is not self.base:
                    self.place.write(self.base)
            self._is_in = False

    def enter(self) -> None:
        """Put there what the trial had, and remember what is there now."""
        if not self._is_in:
            with suppress(Exception):
                self.base = self.place.read()
                if self._mine is not self.base:
                    self.place.write(self._mine)
            self._is_in = True


class Patches:
    """Everything that one trial patches, in the order in which it came to be.

    Args:
        unset: what a ``MonkeyPatch`` remembers of a place where there was nothing.

    Attributes:
        outside: a package that is not the project's and was patched, "" if none was.
        mocks: how many patches of ``unittest.mock`` are in place.
        were_used: anything was patched at some time, environment and directory included.
    """

    def __init__(self, unset: object) -> None:
        self.outside = ""
        self.mocks = 0
        self.were_used = False
        self._unset = unset
        self._patched: dict[object, Patched] = {}
        self._patchers: list[pytest.MonkeyPatch] = []

    def __bool__(self) -> bool:
        """Whether anything was patched that must be put away."""
        return bool(self._patched)

    @property
    def are_in_use(self) -> bool:
        """Whether anything was patched, the environment and the directory included."""
        places = any(patched.differs for patched in self._patched.values())
        return bool(places or self.mocks) or any(map(_has_changed, self._patchers))

    @property
    def held_for(self) -> str:
        """For whose sake the baton is to stay with the trial in its calls; "" if it need not."""
        if self.outside:
            return f"monkeypatch of {self.outside}"
        return "mock.patch" if self.mocks else ""

    def leave(self) -> None:
        """Put everything away, the last first."""
        for patched in reversed(self._patched.values()):
            patched.leave()

    def enter(self) -> None:
        """Put everything back in place."""
        for patched in self._patched.values():
            patched.enter()

    def add(self, place: Place, base: object) -> None:
        """Put a place under this care, unless it is.

        Args:
            place: is changed by the trial.
            base: what was there before.
        """
        self._patched.setdefault(place.key, Patched(place, base))

    def add_mock(self, patcher: Any) -> None:
        """Look at what a patch of ``unittest.mock`` is about to replace, unless it is a dict."""
        if hasattr(patcher, "getter"):
            with suppress(Exception):  # the patch itself will say what is wrong
                place = Attribute(patcher.getter(), patcher.attribute)
                self.add(place, place.read())

    @contextmanager
    def spreading(self) -> Iterator[None]:
        """Let what changes meanwhile be for all: it is the work of a fixture that outlives us."""
        known = [p for p in self._patched.values() if not isinstance(p.place, ImportPath)]
        before = [patched.place.read() for patched in known]
        try:
            yield
        finally:
            for patched, value in zip(known, before, strict=True):
                now = patched.place.read()
                if now is not value:
                    patched.base = now

    def adopt(self, patcher: pytest.MonkeyPatch) -> None:
        """Watch what a ``MonkeyPatch`` of this trial does."""
        self._patchers.append(patcher)
        for name in _CHANGING:
            setattr(patcher, name, partial(self._change, patcher, getattr(patcher, name)))

    def _change(
        self, patcher: Any, method: Callable[..., T], /, *args: object, **kwargs: object
    ) -> T:
        __tracebackhide__ = True
        check_in()  # a trial that lost the baton must not patch over another
        self.were_used = True
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
            self.outside = self.outside or _package_outside(target)
        for target, name, old in patcher._setitem[-1:]:
            if target is not os.environ:
                self._add_patched(Item(target, name), old)
                self.outside = self.outside or ("sys.modules" if target is sys.modules else "")
        if patcher._savesyspath is not None:
            self.add(ImportPath(), patcher._savesyspath[:])

    def _add_patched(self, place: Place, old: object) -> None:
        self.add(place, ABSENT if old is self._unset else old)


@contextmanager
def watched_patchers(adopt: Callable[[pytest.MonkeyPatch], None]) -> Iterator[None]:
    """Tell of every ``MonkeyPatch`` that is made, by a fixture, a ``with`` or a test itself."""
    plain = pytest.MonkeyPatch.__init__

    def init(patcher: pytest.MonkeyPatch) -> None:
        plain(patcher)
        adopt(patcher)

    pytest.MonkeyPatch.__init__ = init  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        pytest.MonkeyPatch.__init__ = plain  # type: ignore[method-assign]


@contextmanager
def watched_mocks(current: Callable[[], Patches | None]) -> Iterator[None]:
    """Count the patches of ``unittest.mock`` that the trial in turn has in place.

    What ``patch.dict`` changed is undone by itself alone and cannot be put away for others.

    Args:
        current: gives what the trial in turn patches.
    """
    mock: Any = sys.modules.get("unittest.mock")
    kinds = () if mock is None else (mock._patch, mock._patch_dict)
    plain = [(kind, kind.__enter__, kind.__exit__) for kind in kinds]
    for kind, enter, leave in plain:
        kind.__enter__ = _counting(enter, current, step=1)
        kind.__exit__ = _counting(leave, current, step=-1)
    try:
        yield
    finally:
        for kind, enter, leave in plain:
            kind.__enter__, kind.__exit__ = enter, leave


def _counting(
    method: Callable[..., Any], current: Callable[[], Patches | None], *, step: int
) -> Callable[..., Any]:
    def counted(patcher: object, *exc_info: object) -> Any:
        check_in()  # a trial that lost the baton must not patch over another
        patches = current()
        if patches is not None:
            patches.mocks = max(0, patches.mocks + step)
            patches.were_used = True
            if step > 0:
                patches.add_mock(patcher)
        return method(patcher, *exc_info)

    return counted


def remembered_absence() -> object:
    """Learn what a ``MonkeyPatch`` remembers of a place where there was nothing.

    Raises:
        AttributeError, LookupError, TypeError, ValueError: its private parts have moved.
    """
    patcher: Any = pytest.MonkeyPatch()
    patcher.setitem({}, "place", "value")
    (_, _, unset), *_ = patcher._setitem
    list(patcher._setattr)
    vars(patcher)["_savesyspath"]
    return unset


def _has_changed(patcher: Any) -> bool:
    return bool(patcher._setattr or patcher._setitem or patcher._cwd or patcher._savesyspath)


def _package_outside(target: Any) -> str:
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
