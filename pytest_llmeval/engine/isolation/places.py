"""Places of which the process has one, such as an attribute of a module."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

ABSENT = object()
_PLAIN_SETTERS: tuple[object, ...] = (object.__setattr__, ModuleType.__setattr__)


class Place(Protocol):
    """Something of which the process has one, and which a trial wants otherwise."""

    @property
    def key(self) -> object:
        """What two names of one place have in common."""

    def read(self) -> object:
        """Return what is there, ABSENT for nothing."""

    def write(self, value: object) -> None:
        """Put something there, ABSENT for nothing."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute as its owner keeps it: of a class the classmethod, not what it binds."""

    target: Any
    name: str

    @property
    def key(self) -> object:
        """Owner and name."""
        return (Attribute, id(self.target), self.name)

    def read(self) -> object:
        """Look into the owner's own ``__dict__`` unless a descriptor stands before it."""
        kind, kept = type(self.target), getattr(self.target, "__dict__", None)
        if isinstance(self.target, type):
            return self.target.__dict__.get(self.name, ABSENT)
        if isinstance(kept, Mapping) and not _is_data_descriptor(kind, self.name):
            is_plain = kind.__setattr__ in _PLAIN_SETTERS  # others may keep it elsewhere
            if is_plain or self.name in kept:
                return kept.get(self.name, ABSENT)
        return getattr(self.target, self.name, ABSENT)

    def write(self, value: object) -> None:
        """Set or delete it."""
        if value is ABSENT:
            delattr(self.target, self.name)
        else:
            setattr(self.target, self.name, value)


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of a dictionary. One that was deleted comes back as the last, as in pytest."""

    target: Any
    name: object

    @property
    def key(self) -> object:
        """Dictionary and key."""
        return (Item, id(self.target), self.name)

    def read(self) -> object:
        """Get it, without the default of a ``defaultdict``."""
        return self.target.get(self.name, ABSENT)

    def write(self, value: object) -> None:
        """Set or delete it."""
        if value is ABSENT:
            del self.target[self.name]
        else:
            self.target[self.name] = value


@dataclass(frozen=True, slots=True)
class ImportPath:
    """``sys.path``, which keeps its identity."""

    key: object = "sys.path"

    def read(self) -> object:
        """Copy it."""
        return sys.path[:]

    def write(self, value: Any) -> None:
        """Fill it."""
        sys.path[:] = value


@dataclass(frozen=True, slots=True)
class Level:
    """The level of a logger."""

    logger: logging.Logger

    @property
    def key(self) -> object:
        """The logger."""
        return (Level, self.logger.name)

    def read(self) -> object:
        """Return the level."""
        return self.logger.level

    def write(self, value: Any) -> None:
        """Set the level, which also clears what loggers remember of it."""
        self.logger.setLevel(value)


def _is_data_descriptor(owner: type, name: str) -> bool:
    """Whether the class decides where an attribute of its instances is kept."""
    for base in owner.__mro__:
        if name in base.__dict__:
            kind = type(base.__dict__[name])
            return hasattr(kind, "__set__") or hasattr(kind, "__delete__")
    return False
