"""Plugins that follow each item through its protocol, and what they put on it.

A reporter (pytest-json-report, allure), a tracer or a timer begins something in its
``pytest_runtest_protocol`` and expects it in every phase of that item. A trial is no item: it may
run in another thread, and before the protocol of its case has begun. So such a plugin sees a case
as one item with one setup, one call and one teardown, and none of the trials. So does pytest-socket
where it keeps cases from the network: the end of one trial would let the others out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import ismodule
from types import new_class
from typing import Any

import pytest

_OWN = ("_pytest.", "pytest_llmeval.")
_SOCKETS = "pytest_socket"
_SOCKET_OPTIONS = ("disable_socket", "allow_hosts")
_SOCKET_MARKS = ("disable_socket", "enable_socket", "allow_hosts")
_OF_ITEM = frozenset(
    (
        *("setup", "runtest", "teardown", "repr_failure"),  # what the case took over
        *("_obj", "_instance"),  # pytest's; a trial has an instance of its own
    )
)
# What a plugin that follows items is not told of trials.
_FOLLOWED = frozenset(
    (
        "pytest_runtest_setup",
        "pytest_runtest_call",
        "pytest_runtest_teardown",
        "pytest_runtest_makereport",
        "pytest_exception_interact",  # pytest-timeout ends its timer, in the main thread alone
        "pytest_fixture_setup",
        "pytest_fixture_post_finalizer",
    )
)


def followers(items: Sequence[pytest.Function]) -> frozenset[object]:
    """Find the plugins that follow items: neither pytest's own, nor ours, nor a conftest."""
    config = items[0].config
    is_restricted = any(map(_restricts_sockets, items))
    plugins = config.pluginmanager.get_plugins() if is_restricted else ()
    guards = [plugin for plugin in plugins if _module_of(plugin) == _SOCKETS]
    return frozenset(guards).union(
        plugin
        for plugin in _around_protocol(config.hook)
        if not (_module_of(plugin).startswith(_OWN) or _is_conftest(plugin))
    )


def _restricts_sockets(item: pytest.Function) -> bool:
    """Whether pytest-socket is to keep an item from the network, or others but not this one."""
    options = (item.config.getoption(name, None) for name in _SOCKET_OPTIONS)
    return any(options) or any(map(item.get_closest_marker, _SOCKET_MARKS))


@contextmanager
def unguarded_sockets() -> Iterator[None]:
    """Let a loop open the pair of sockets by which it is woken, where a test may open none."""
    import socket

    guarded: Any = socket.socket
    kinds = getattr(guarded, "__mro__", ())
    plain = next((kind for kind in kinds if kind.__module__ == "socket"), guarded)
    socket.socket = plain  # type: ignore[misc]
    try:
        yield
    finally:
        socket.socket = guarded  # type: ignore[misc]


def needs_protocol(item: pytest.Function, following: frozenset[object]) -> bool:
    """Whether no trial of an item may start before the item's own protocol does.

    Its fixtures need what was put there: a conftest does something around that protocol, or they
    are fixtures of a plugin that follows items (``json_metadata``). Or pytest-socket begins there.
    """
    modules = set(map(_module_of, following))
    definitions = item._fixtureinfo.name2fixturedefs.values()
    functions = (definition.func for found in definitions for definition in found)
    asks = modules and any(function.__module__ in modules for function in functions)
    is_guarded = _restricts_sockets(item)
    return bool(asks) or is_guarded or any(map(_is_conftest, _around_protocol(item.ihook)))


def _around_protocol(hooks: Any) -> Iterator[object]:
    for found in hooks.pytest_runtest_protocol.get_hookimpls():
        if found.wrapper or found.hookwrapper:
            yield found.plugin


def _module_of(plugin: object) -> str:
    name: str = plugin.__name__ if ismodule(plugin) else type(plugin).__module__
    return name


def _is_conftest(plugin: object) -> bool:
    return ismodule(plugin) and str(plugin.__file__).endswith("conftest.py")


class TrialHooks:
    """The hooks that are called for trials: those of the items of a file but for followers' own.

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
        """Return the kind of item that has these hooks, and is else as those of the file."""
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


@dataclass(slots=True)
class PutOnItem:
    """What plugins and hooks of collection put on an item, for each of its trials to find."""

    attributes: dict[str, Any]
    stash: dict[Any, object]
    properties: tuple[tuple[str, object], ...]

    def give(self, clone: pytest.Function) -> None:
        """Put the same on the clone of a trial; what that has already stays."""
        own = vars(clone)
        self.attributes = {name: v for name, v in self.attributes.items() if name not in own}
        own.update(self.attributes)
        for key, value in self.stash.items():
            clone.stash.setdefault(key, value)
        clone.user_properties[:] = self.properties


def put_on(item: pytest.Item, *, without: pytest.StashKey[Any]) -> PutOnItem:
    """Note what was put on an item before its first phase.

    Args:
        item: the case.
        without: a key of its stash that is no trial's.
    """
    kept: dict[Any, object] = getattr(item.stash, "_storage", {})
    return PutOnItem(
        {name: value for name, value in vars(item).items() if name not in _OF_ITEM},
        {key: value for key, value in kept.items() if key is not without},
        tuple(item.user_properties),
    )
