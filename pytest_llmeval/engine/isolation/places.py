"""Swap what a trial patched, such as an attribute of a module, when its turn ends.

A trial that patched a place leaves behind what was there before when it waits, and finds what
it had when it goes on, also what it changed again by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import wraps
from inspect import getattr_static
from types import ModuleType
from typing import Any

from pytest_llmeval.engine.isolation.logs import set_switch
from pytest_llmeval.models.attribution import replaced

ABSENT = object()
_PLAIN_SETTERS: tuple[object, ...] = (object.__setattr__, ModuleType.__setattr__)


def told(note: Callable[..., object], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that tells another of each call before it is made."""

    @wraps(plain)
    def telling(*args: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        note(*args, **named)
        return plain(*args, **named)

    return telling


def noted(owner: Any, name: str, note: Callable[..., object]) -> AbstractContextManager[None]:
    """Have each call of a function told for a while."""
    return replaced(owner, name, told(note, getattr(owner, name)))


class Place:
    """A place where a trial has another value than all others.

    Args:
        target: the object that holds it.
        name: of the place in it.

    Attributes:
        key: what two names of one place have in common.
        base: what all others are to find there; ABSENT for nothing.
    """

    def __init__(self, target: Any, name: Any) -> None:
        self.key = (type(self), id(target), name)
        self._target = target
        self._name = name
        self.base: object = ABSENT
        self._mine: object = None
        self._is_in = True

    def read(self) -> object:
        """Return what is there, ABSENT for nothing."""
        raise NotImplementedError

    def write(self, value: Any) -> None:
        """Put something there, ABSENT for nothing."""
        raise NotImplementedError

    @property
    def differs(self) -> bool:
        """Whether the trial has there, at its turn, what the others do not find."""
        with suppress(Exception):
            return self.read() is not self.base
        return True

    def leave(self) -> None:
        """Keep what the trial has there, and put back what was there before.

        What cannot be written stays: the trial's own undo will say so in its teardown.
        """
        if self._is_in:
            with suppress(Exception):
                self._mine = self.read()
                if self._mine is not self.base:
                    self.write(self.base)
            self._is_in = False

    def enter(self) -> None:
        """Put there what the trial had, and remember what is there now."""
        if not self._is_in:
            with suppress(Exception):
                self.base = self.read()
                if self._mine is not self.base:
                    self.write(self._mine)
            self._is_in = True


class Attribute(Place):
    """An attribute as its owner keeps it: of a class the classmethod, not what it binds."""

    def read(self) -> object:
        """Look into the owner's own ``__dict__`` unless a descriptor stands before it."""
        kind, own = type(self._target), getattr(self._target, "__dict__", None)
        inherited = getattr_static(kind, self._name, None)
        if isinstance(self._target, type) or not hasattr(type(inherited), "__set__"):
            # Others may keep it elsewhere.
            is_plain = isinstance(self._target, type) or kind.__setattr__ in _PLAIN_SETTERS
            if own is not None and (is_plain or self._name in own):
                return own.get(self._name, ABSENT)
        return getattr(self._target, self._name, ABSENT)

    def write(self, value: object) -> None:
        """Set or delete it."""
        if value is ABSENT:
            delattr(self._target, self._name)
        else:
            setattr(self._target, self._name, value)


class Item(Place):
    """An entry of a dictionary. One that was deleted comes back as the last, as in pytest."""

    def read(self) -> object:
        """Get it, without the default of a ``defaultdict``."""
        return self._target.get(self._name, ABSENT)

    def write(self, value: object) -> None:
        """Set or delete it."""
        if value is ABSENT:
            del self._target[self._name]
        else:
            self._target[self._name] = value


class ImportPath(Place):
    """A list that keeps its identity: ``sys.path``."""

    def read(self) -> object:
        """Copy it."""
        return getattr(self._target, self._name)[:]

    def write(self, value: Any) -> None:
        """Fill it."""
        getattr(self._target, self._name)[:] = value


class Generator(Place):
    """The state of a generator of random numbers, once a trial has seeded it.

    So a trial that seeds one, as for few-shot examples that are to be the same each time, has that
    one for itself from then on. One that does not draws from that of all, as their order is chance
    anyway: were it given a copy, all trials would draw the same numbers.

    Its target are the functions that read the state and put it back.
    """

    def read(self) -> object:
        """Return the state."""
        return self._target[0]()

    def write(self, value: Any) -> None:
        """Put it back."""
        self._target[1](value)


class Switch(Place):
    """What a logger does: its level, whether it is disabled or propagates."""

    def read(self) -> object:
        """Look at it."""
        return vars(self._target)[self._name]

    def write(self, value: Any) -> None:
        """Set it, and clear what loggers remember of it."""
        set_switch(self._target, self._name, value)
