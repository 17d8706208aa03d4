"""While a trial waits for a model its patches are undone, so that other trials do not see them.

pytest's ``MonkeyPatch`` and ``unittest.mock`` change attributes and items of which the process
has one. The environment and the working directory need nothing here: they are swapped as a
whole.
"""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_llmeval.engine.baton import check_in
from pytest_llmeval.engine.compat import INSTALLED
from pytest_llmeval.engine.isolation.guard import Guard
from pytest_llmeval.engine.isolation.part import Part
from pytest_llmeval.engine.isolation.places import Attribute, ImportPath, Item, Place, Switch, told

_PYTHON = sysconfig.get_path("stdlib")  # it expands a scheme of paths each time
SWITCHES = frozenset(("level", "propagate", "disabled"))  # of loggers


class Patches:
    """Everything that one trial patches, in the order in which it came to be.

    Args:
        guard: tells what was swapped otherwise while the trial has its turn.

    Attributes:
        outside: a package that is not the project's and was patched, "" if none was.
        mocks: how many patches of ``unittest.mock`` are in place.
        places: that were patched and are put away while the trial waits, by their keys.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.outside = ""
        self.mocks = 0
        self._variables: dict[str, str | None] = {}
        self.places: dict[object, Place] = {}

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
        if any(os.environ.get(name) != value for name, value in self._variables.items()):
            place = "os.putenv"
        return f"{place} was changed" if place else ""

    def add(self, place: Place) -> None:
        """Swap a place, which the trial is about to change, with it from now on."""
        if place.key not in self.places:
            place.base = place.read()
            self.places[place.key] = place

    def add_mock(self, patcher: Any) -> None:
        """Look at what a patch of ``unittest.mock`` is about to replace, unless it is a dict."""
        self.mocks += 1
        if hasattr(patcher, "getter"):
            with suppress(Exception):  # the patch itself will say what is wrong
                self.add(Attribute(patcher.getter(), patcher.attribute))

    def end_mock(self, *_: object) -> None:
        """Count one less."""
        self.mocks = max(0, self.mocks - 1)

    def add_switch(self, logger: logging.Logger, name: str, _: object) -> None:
        """Look at what a logger does; the root logger's level is swapped anyway."""
        if name != "level" or logger is not logging.root:
            self.add(Switch(logger, name))

    def add_variable(self, name: str | bytes, value: str | bytes | None = None) -> None:
        """Note what child processes find; the environment of Python may not know of it."""
        self._variables[os.fsdecode(name)] = None if value is None else os.fsdecode(value)

    def adopt(self, patcher: pytest.MonkeyPatch) -> None:
        """Watch what a ``MonkeyPatch`` of this trial does.

        What the environment and the folder need is noticed where they change.
        """
        notes: dict[str, Callable[..., object]] = {
            "setattr": self._note_attribute,
            "delattr": self._note_attribute,
            "setitem": self._note_item,
            "delitem": self._note_item,
            "syspath_prepend": self._note_import_path,
            "undo": partial(check_in, to_patch=True),
        }
        for name, note in notes.items():
            setattr(patcher, name, told(note, getattr(patcher, name)))

    def _note_attribute(self, target: Any, name: object = None, *_: object, **__: object) -> None:
        if isinstance(target, pytest.FixtureDef):
            return  # the trial's own; pytest-asyncio has it patched while it sets the fixture up
        check_in(to_patch=True)
        with suppress(Exception):  # the patch itself will say what is wrong
            if isinstance(target, str):
                target, name = resolve_name(target.rpartition(".")[0]), target.rpartition(".")[2]
            self.add(Attribute(target, name))
            self.outside = self.outside or package_outside(target)

    def _note_item(self, dic: Any, name: object, *_: object, **__: object) -> None:
        check_in(to_patch=True)
        if dic is not os.environ:
            self.add(Item(dic, name))
            self.outside = self.outside or ("sys.modules" if dic is sys.modules else "")

    def _note_import_path(self, *_: object, **__: object) -> None:
        check_in(to_patch=True)
        self.add(ImportPath(sys, "path"))


class PatchesInTurn(Part[Patches | None]):
    """Put the patches of the trial in turn away and back.

    Attributes:
        current: those; None for the session, whose patches stay put.
    """

    def __init__(self, guard: Guard) -> None:
        self.current: Patches | None = None
        self._guard = guard

    def take_off(self) -> Patches | None:
        """Put them away."""
        patches, self.current = self.current, None
        if patches is not None and patches.places:
            for place in reversed(patches.places.values()):
                place.leave()
        return patches

    def put_on(self, saved: Patches | None) -> None:
        """Put them in place again."""
        self.current = saved
        if saved is not None and saved.places:
            for place in saved.places.values():
                place.enter()

    def fork(self, saved: Patches | None) -> Patches | None:
        """Begin with none."""
        return Patches(self._guard)

    def is_as(self, saved: Patches | None) -> bool:
        """Whether nothing is patched."""
        mine = self.current
        return mine is None or not (mine.mocks or any(p.differs for p in mine.places.values()))


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
        is_of_python = Path(file).is_relative_to(_PYTHON)
        if not (is_of_python or INSTALLED.search(file)):
            return ""
    return str(name).partition(".")[0]
