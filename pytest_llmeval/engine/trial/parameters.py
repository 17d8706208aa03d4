"""Parameters of a case: each trial gets a copy of each parameter that a test can change.

pytest runs a test once, so many suites append to a list that ``parametrize`` gave them. Values are
copied, at any depth: lists, dicts, sets, and what else is equal by its content and can be changed.
So are iterators, which a test uses up. Whatever has an identity (a client, a class, an object of
the project) stays the very object, and a change of it is noted.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from pytest_llmeval.engine.isolation.patches import package_outside

_LARGEST = 10_000  # objects of a parameter that are looked at for changes
_UNCHANGING = (str, bytes, int, float, complex, type(None))  # most parameters
_USED_UP = (Iterator, io.StringIO, io.BytesIO)


class Parameters:
    """The parameters of a case, as they were collected.

    Args:
        item: the case.
        shared: names of those that a wider fixture takes, which trials share.
    """

    def __init__(self, item: pytest.Function, *, shared: Collection[str] = ()) -> None:
        self._callspec: Any = getattr(item, "callspec", None)
        self._staying: dict[str, dict[int, Any]] = {}  # what is no copy in the copy of each, by id
        self._looks: dict[str, list[object]] = {}  # of those that cannot be copied
        params: Mapping[str, Any] = {} if self._callspec is None else self._callspec.params
        for name, value in params.items():
            if name not in shared and not isinstance(value, _UNCHANGING):
                staying = {id(one): one for one in _walk(value, _is_value) if not _is_value(one)}
                if _can_be_copied(value, staying):
                    self._staying[name] = staying
                self._looks[name] = self._look(name)

    def for_trial(self) -> Any:
        """Return pytest's ``callspec`` for a trial, None where there are no parameters."""
        if not self._staying:
            return self._callspec
        params = self._callspec.params
        own = {name: copy.deepcopy(params[name], {**kept}) for name, kept in self._staying.items()}
        return replace(self._callspec, params={**params, **own})

    @property
    def changed(self) -> list[str]:
        """Names of the parameters that a trial changed for the others, too."""
        return [name for name, look in self._looks.items() if self._look(name) != look]

    def _look(self, name: str) -> list[object]:
        """Return what a parameter holds: plain values as they are, other objects by identity."""
        found = islice(_walk(self._callspec.params[name], _is_watched), _LARGEST)
        return [one if isinstance(one, _UNCHANGING) else id(one) for one in found]


def _can_be_copied(value: object, staying: Mapping[int, object]) -> bool:
    """Whether a value can be changed, and copied."""
    if not any(_is_changeable(one) for one in _walk(value, _is_value)):
        return False
    try:
        copy.deepcopy(value, {**staying})
    except Exception:  # whatever its classes raise
        return False
    return True


def _is_changeable(value: object) -> bool:
    """Whether a value is equal by its content, and so has no hash; or is one that is used up."""
    return type(value).__hash__ is None or isinstance(value, _USED_UP)


def _is_value(value: object) -> bool:
    """Whether a value is to be copied if anything in it can be changed."""
    if _is_changeable(value) or isinstance(value, tuple | frozenset):
        return True
    kind = type(value)  # a frozen dataclass, say
    return hasattr(kind, "__dataclass_fields__") and kind.__eq__ is not object.__eq__


def _is_watched(value: object) -> bool:
    return _is_value(value) or not (callable(value) or package_outside(value))


def _walk(value: object, opens: Callable[[object], bool]) -> Iterator[object]:
    """Give a value and all that it holds, once each; look into the objects that ``opens`` names."""
    seen, waiting = set(), [value]
    while waiting:
        one = waiting.pop()
        yield one
        if not isinstance(one, _UNCHANGING) and id(one) not in seen and opens(one):
            seen.add(id(one))
            waiting += _parts(one)


def _parts(value: Any) -> Iterable[object]:
    if isinstance(value, Mapping):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return value
    fields = getattr(type(value), "__dataclass_fields__", ())
    return [*getattr(value, "__dict__", {}).values(), *(getattr(value, f, None) for f in fields)]
