"""A trial's own copy of a collected item, with function-scoped fixtures of its own.

pytest keeps a fixture's value and finalizers on its definition, which all items of a
function share. A trial gets private copies of the definitions that are bound to the
function, so that no trial can see, or tear down, another's fixtures; wider fixtures stay
shared, as they are between ordinary tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any

import pytest

from pytest_llmeval.engine.baton import check_in
from pytest_llmeval.engine.trial.other_loops import loop_aliases, own_loop
from pytest_llmeval.engine.trial.parameters import Parameters
from pytest_llmeval.engine.trial.put_on_item import PutOnItem, TrialHooks

FixtureDefs = Sequence[pytest.FixtureDef[Any]]


class PrivateFixtures(dict[str, FixtureDefs]):
    """Fixture definitions by name; a definition that is bound to the function is copied.

    Names that the test asks for only while it runs (``request.getfixturevalue``) are
    looked up and copied at that moment.

    Args:
        item: the case.
    """

    def __init__(self, item: pytest.Function) -> None:
        self._item = item
        self._aliases = loop_aliases(item)
        self._own: dict[int, pytest.FixtureDef[Any]] = {}  # by id, as the next one
        self._wider: dict[int, pytest.FixtureDef[Any]] = {}
        for name, definitions in item._fixtureinfo.name2fixturedefs.items():
            self[name] = self._copied(definitions)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the definitions of a fixture, the most specific last.

        What comes of it is bound to the active nodes, which are the trial's only while it
        has the baton.
        """
        check_in()
        name = self._aliases.get(name, name)
        if name not in self:
            found = self._item.session._fixturemanager.getfixturedefs(name, self._item)
            if not found:
                return default
            self[name] = self._copied(found)
        return self[name]

    def copy(self) -> PrivateFixtures:
        """Return the mapping itself, which a request copies up to pytest 9.0.

        A plain copy would quietly share the dynamic fixtures between trials.
        """
        return self

    def let_go(self) -> None:
        """Have wider fixtures forget the fixtures of the trial, which has ended.

        To pytest they are built on them, to be ended before them: it forgets none, 4 KiB a trial.
        """
        for definition in self._wider.values():
            for finalizer in tuple(definition._finalizers):
                finish = getattr(finalizer, "func", None)
                if id(getattr(finish, "__self__", None)) in self._own:
                    definition._finalizers.remove(finalizer)

    def _copied(self, definitions: FixtureDefs) -> FixtureDefs:
        copied = list(definitions)
        for place, definition in enumerate(definitions):
            if is_own(definition, self._item):
                own = copied[place] = copy(definition)
                own.cached_result = None
                own._finalizers = []  # type: ignore[misc]  # Final there
                self._own[id(own)] = own
            else:
                self._wider[id(definition)] = definition
        return copied


def is_own(definition: pytest.FixtureDef[Any], item: pytest.Function) -> bool:
    """Whether a fixture ends with the test itself, so that each trial needs one of its own.

    So does a class fixture of a function that is in no class, and a wider one to which a
    ``parametrize`` of that function gives its values.
    """
    scope: str = definition.scope
    if scope == "function":  # nearly all, and this is asked of each for every trial
        return True
    scopes = [scope]
    callspec: Any = getattr(item, "callspec", None)
    if callspec is not None and definition.argname in callspec.params:
        scopes.append(callspec._arg2scope[definition.argname].value)
    return "function" in scopes or ("class" in scopes and item.getparent(pytest.Class) is None)


def definitions_of(item: pytest.Function, name: str) -> FixtureDefs:
    """Return the fixtures of a name that an item sees, the most specific last."""
    known = item._fixtureinfo.name2fixturedefs.get(name)
    return known or item.session._fixturemanager.getfixturedefs(name, item) or ()


def wider_fixture(item: pytest.Function, name: str) -> pytest.FixtureDef[Any] | None:
    """Return the fixture of a name that an item gets, if it outlives the test; else None."""
    found = [one for one in definitions_of(item, name)[-1:] if not is_own(one, item)]
    return found[0] if found else None


def parameters_of(item: pytest.Function) -> Parameters:
    """Return the parameters of a case."""
    callspec: Any = getattr(item, "callspec", None)
    names = () if callspec is None else callspec.params
    return Parameters(item, shared=[name for name in names if wider_fixture(item, name)])


def clone_item(
    item: pytest.Function, *, inherited: PutOnItem, hooks: TrialHooks, parameters: Parameters
) -> pytest.Function:
    """Make an item that runs the same test with fixtures of its own.

    The clone bears the same node id and marks, has its own stash, sections and
    user properties, and is not part of the session's items.

    Args:
        item: the case.
        inherited: what was put on the item.
        hooks: those of the trial.
        parameters: of the case.
    """
    info: Any = item._fixtureinfo
    own = info.argnames, info.initialnames, info.names_closure, PrivateFixtures(item)
    clone: pytest.Function = hooks.kind(type(item)).from_parent(
        item.parent,
        name=item.name,
        callspec=parameters.for_trial(),
        fixtureinfo=type(info)(*own),  # in half the time that replace() takes
        originalname=item.originalname,
    )
    _mark_alike(clone, item)
    if not own_loop(item):
        # pytest-asyncio's kind of item would run its body to the end before any other.
        clone.runtest = partial(pytest.Function.runtest, clone)  # type: ignore[method-assign]
    inherited.give(clone)
    return clone


def _mark_alike(clone: pytest.Function, item: pytest.Function) -> None:
    """Give a clone the name, the place and the marks of its item."""
    for private in ("_id", "_nodeid"):  # the newer and the older name
        if hasattr(item, private):
            setattr(clone, private, getattr(item, private))
    # pytest would work it out again for each: 3 % of the instructions of a trial that is replayed.
    clone.__dict__["location"] = item.location
    clone.own_markers[:] = item.own_markers
    for mark in item.own_markers:  # also those that a conftest added after collection
        clone.keywords.setdefault(mark.name, mark)


def end_clone(clone: pytest.Function, *, of: pytest.Function) -> None:
    """Take from a clone what a trial that has ended needs no more, and each cycle through it.

    It goes on answering whoever keeps it: as pytest's own items, it has its node id, marks,
    stash and function, and neither a request nor values of fixtures.

    Args:
        clone: of a trial that has ended.
        of: the case.
    """
    fixtures: Any = clone._fixtureinfo.name2fixturedefs
    fixtures.let_go()
    ended: Any = clone
    ended._request, ended.funcargs = False, None
    ended.keywords.node = of  # of which pytest asks it nothing but how it is written
    for own in ("runtest", "repr_failure"):
        vars(clone).pop(own, None)


def forget_finalizers(clone: pytest.Function) -> None:
    """Leave the fixtures of a clone as they are.

    A wider fixture ends those that were built on it before itself, even of a clone that
    nobody has any more.
    """
    for definitions in clone._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            if is_own(definition, clone):
                definition._finalizers.clear()
