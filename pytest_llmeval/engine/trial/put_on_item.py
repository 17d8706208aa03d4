"""Others' share in a trial: what they put on its item, and the hooks that are called for it."""

from __future__ import annotations

from types import new_class
from typing import Any

import pytest

# What the case took over; and what is pytest's, as a trial has an instance of its own.
_OF_ITEM = frozenset(("setup", "runtest", "teardown", "repr_failure", "_obj", "_instance"))
# What a plugin that follows items is not told of trials; pytest-timeout ends its timer, in the
# main thread alone, where an exception is to be interacted with.
_FOLLOWED = frozenset((
    "pytest_runtest_setup", "pytest_runtest_call", "pytest_runtest_teardown",
    "pytest_runtest_makereport", "pytest_exception_interact", "pytest_fixture_setup",
    "pytest_fixture_post_finalizer",
))  # fmt: skip


class PutOnItem:
    """What plugins and hooks of collection put on an item so far, for each trial to find."""

    def __init__(self, item: pytest.Item) -> None:
        self.properties = tuple(item.user_properties)
        self._stash = dict(getattr(item.stash, "_storage", {}))
        self._attributes = {name: v for name, v in vars(item).items() if name not in _OF_ITEM}

    def give(self, clone: pytest.Function) -> None:
        """Put the same on the clone of a trial; what that has already stays."""
        own = vars(clone)
        self._attributes = {name: v for name, v in self._attributes.items() if name not in own}
        own.update(self._attributes)
        for key, value in self._stash.items():
            clone.stash.setdefault(key, value)
        clone.user_properties[:] = self.properties


class TrialHooks:
    """The hooks that are called for trials: the hooks of a file's items without followers' own.

    pytest finds the hooks of a file anew each time that an item asks for them, and where several
    folders have a conftest.py each hook as well.

    Args:
        item: one of the file.
        without: plugins that see no trials.
    """

    def __init__(self, item: pytest.Item, *, without: frozenset[object]) -> None:
        self._of_item = item.ihook
        self._manager = item.config.pluginmanager
        self._without = without
        self._kinds: dict[type[pytest.Function], type[pytest.Function]] = {}

    def kind(self, of_items: type[pytest.Function]) -> type[pytest.Function]:
        """Return a kind of item that has these hooks, and is else like the items of the file."""
        if of_items not in self._kinds:
            own = {"ihook": self, "__module__": of_items.__module__}
            self._kinds[of_items] = new_class(
                of_items.__name__, (of_items,), exec_body=lambda members: members.update(own)
            )
        return self._kinds[of_items]

    def __getattr__(self, name: str) -> Any:
        caller = getattr(self._of_item, name)
        if name in _FOLLOWED:
            here = {found.plugin for found in caller.get_hookimpls()}
            every = getattr(self._manager.hook, name).get_hookimpls()
            elsewhere = {found.plugin for found in every} - here  # conftests of other folders
            caller = self._manager.subset_hook_caller(name, elsewhere | self._without)
        self.__dict__[name] = caller
        return caller
