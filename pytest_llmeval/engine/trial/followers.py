"""Plugins that follow items: a case is one item to them, and they see none of its trials.

A reporter (pytest-json-report, allure), a tracer or a timer begins something in its
``pytest_runtest_protocol`` and expects it in every phase of that item. A trial is no item: it may
run in another thread, and before the protocol of its case has begun. So such a plugin sees a case
as one item with one setup, one call and one teardown, and none of the trials. So does pytest-socket
where it keeps cases from the network: the end of one trial would let the others out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import ismodule
from typing import Any

import pytest

_OWN = ("_pytest.", "pytest_llmeval.")
_OF_REPORTS = ("pytest_runtest_makereport", "pytest_runtest_logreport", "pytest_exception_interact")


def followers(items: Sequence[pytest.Function]) -> frozenset[object]:
    """Find the plugins that follow items: neither pytest's own, nor ours, nor a conftest."""
    config = items[0].config
    is_restricted = any(map(_restricts_sockets, items))
    plugins = config.pluginmanager.get_plugins() if is_restricted else ()
    guards = [plugin for plugin in plugins if _module_of(plugin) == "pytest_socket"]
    return frozenset(guards).union(
        plugin
        for plugin in _around_protocol(config.hook)
        if not (_module_of(plugin).startswith(_OWN) or _is_conftest(plugin))
    )


def needs_protocol(item: pytest.Function, following: frozenset[object]) -> bool:
    """Whether no trial of an item may start before the item's own protocol does.

    Its fixtures need what was put there: a conftest does something around that protocol, or they
    are fixtures of a plugin that follows items (``json_metadata``). Or pytest-socket begins there,
    or it is decided there by the reports of earlier tests.
    """
    modules = set(map(_module_of, following))
    definitions = item._fixtureinfo.name2fixturedefs.values()
    functions = (definition.func for found in definitions for definition in found)
    asks = modules and any(function.__module__ in modules for function in functions)
    is_guarded = _restricts_sockets(item) or _is_decided_by_reports(item)
    return bool(asks) or is_guarded or any(map(_is_conftest, _around_protocol(item.ihook)))


def _is_decided_by_reports(item: pytest.Function) -> bool:
    """Whether the reports of earlier tests may decide if an item runs (pytest-dependency).

    A conftest or a plugin sees reports, and does something before each test; a plugin, which every
    session loads, looks for a mark that the item has.
    """
    see = (getattr(item.ihook, name).get_hookimpls() for name in _OF_REPORTS)
    seeing = {found.plugin for several in see for found in several}
    marks = {mark.name for mark in item.iter_markers()}
    for found in item.ihook.pytest_runtest_setup.get_hookimpls():
        if found.plugin in seeing and not _module_of(found.plugin).startswith(_OWN):
            code = getattr(found.function, "__code__", None)
            if _is_conftest(found.plugin) or marks.intersection(getattr(code, "co_consts", ())):
                return True
    return False


def _around_protocol(hooks: Any) -> Iterator[object]:
    for found in hooks.pytest_runtest_protocol.get_hookimpls():
        if found.wrapper or found.hookwrapper:
            yield found.plugin


def _module_of(plugin: object) -> str:
    name: str = plugin.__name__ if ismodule(plugin) else type(plugin).__module__
    return name


def _is_conftest(plugin: object) -> bool:
    return ismodule(plugin) and str(plugin.__file__).endswith("conftest.py")


def _restricts_sockets(item: pytest.Function) -> bool:
    """Whether pytest-socket is to keep an item from the network, or others but not this one."""
    options = (item.config.getoption(name, None) for name in ("disable_socket", "allow_hosts"))
    marks = ("disable_socket", "enable_socket", "allow_hosts")
    return any(options) or any(map(item.get_closest_marker, marks))
