"""The cases that may overlap, and why the others run alone."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Collection, Hashable
from types import FunctionType, ModuleType
from typing import Any

import pytest

from pytest_llmeval.engine.compat import all_fixtures
from pytest_llmeval.engine.isolation.patches import package_outside
from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.engine.trial.clone import definitions_of, wider_fixture
from pytest_llmeval.engine.trial.other_loops import RUNNER_NAMES, own_loop

# What these swap or record is the process's own, or they keep a "current test".
EXCLUSIVE_FIXTURES = frozenset(
    (
        "capsys", "capfd", "capsysbinary", "capfdbinary", "capteesys", "recwarn",
        "mocker", "class_mocker", "module_mocker", "package_mocker", "session_mocker",
        "pytester", "testdir", "doctest_namespace", "socket_disabled", "socket_enabled",
        "db", "transactional_db", "page",
    )
)  # fmt: skip
_GREENLETS = ("gevent", "eventlet")
# Plugins that keep a "current test" for each thread, and by which packages a test tells them of it.
_TELLS_OF_TEST = {"allure_listener": ("allure", "allure_commons")}
# They swap clocks, clients, sockets or files of the whole process, or gather there what a test has
# found. Who swaps by one that is not named here is found out in its first trial
# (``isolation/guard.py``).
_SWAPPING = frozenset(
    (
        "aioresponses", "assertpy", "betamax", "delayed_assert", "fake_filesystem", "freezegun",
        "httpretty", "mocket", "moto", "pook", "pyfakefs", "pytest_assume", "pytest_check",
        "pytest_subprocess", "requests_mock", "respx", "responses", "smart_assertions",
        "time_machine", "vcr",
    )
)  # fmt: skip
# They raise in any other thread. ``signal.signal`` is named by what it is for.
_OF_MAIN_THREAD = frozenset(("get_event_loop", "SIGALRM", "SIGINT", "SIGTERM", "SIGUSR1"))
_NO_SETUP = pytest.Collector.setup  # packages have one
_NODES: dict[str, Any] = {"class": pytest.Class, "module": pytest.Module, "package": pytest.Package}


def serial_session(config: pytest.Config) -> str:
    """Say why no trial of a session may overlap another; "" if they may."""
    options = {
        "usepdb": "--pdb", "trace": "--trace", "setupshow": "--setup-show",
        "setuponly": "--setup-only", "setupplan": "--setup-plan",
    }  # fmt: skip
    for name, shown in options.items():
        if config.getoption(name, False):
            return shown
    if config.getoption("capture", "fd") == "no":
        return "-s"
    logs = config.pluginmanager.getplugin("logging-plugin")
    if logs is not None and logs._log_cli_enabled():
        return "log_cli"
    return greenlets()


def greenlets() -> str:
    """Name the library that put greenlets in the place of threads; "" if none did.

    A thread that waits for another would then keep that from running.
    """
    start = getattr(threading, "_start_new_thread", None)
    package = str(getattr(start, "__module__", "")).partition(".")[0]
    return package if package in _GREENLETS else ""


def serial_case(spec: Eval, exclusive: Collection[str]) -> str:
    """Say why the trials of a case must run alone, one after the other; "" if they need not.

    Args:
        spec: the case.
        exclusive: names of fixtures whose cases run alone.
    """
    if spec.is_serial:
        return 'concurrency="serial"'
    item = spec.item
    reason = own_loop(item) or _told_of_test(item) or _swapped_by(item) or _bound_to_main(item)
    return reason or next((name for name in spec.item.fixturenames if name in exclusive), "")


def _told_of_test(item: pytest.Function) -> str:
    """Name the package by which a test tells a plugin of itself; "" if none."""
    manager = item.config.pluginmanager
    for plugin, packages in _TELLS_OF_TEST.items():
        if manager.has_plugin(plugin) and not _homes(item.obj).isdisjoint(packages):
            return packages[0]
    return ""


def _swapped_by(item: pytest.Function) -> str:
    """Name the package by which a test or its fixtures swap what the process has; "" if none."""
    known = _SWAPPING.intersection(sys.modules)
    if not known:
        return ""
    definitions = item._fixtureinfo.name2fixturedefs.values()
    fixtures = (definition.func for found in definitions for definition in found)
    return next((name for one in (item.obj, *fixtures) for name in sorted(known & _homes(one))), "")


def _bound_to_main(item: pytest.Function) -> str:
    """Name what a test or its helpers call that Python allows in its main thread alone, or ""."""
    left, seen = [inspect.unwrap(item.obj)], set[object]()
    while left:
        function = left.pop()
        seen.add(function)
        names = getattr(getattr(function, "__code__", None), "co_names", ())
        if bound := next((name for name in names if name in _OF_MAIN_THREAD), ""):
            return bound
        there = getattr(function, "__globals__", {})
        modules = [vars(one) for one in map(there.get, names) if isinstance(one, ModuleType)]
        found = [space.get(name) for space in (there, *modules) for name in names]
        called = [one for one in found if isinstance(one, FunctionType)]
        own = (inspect.unwrap(one) for one in called if not package_outside(one))
        left += [one for one in own if one not in seen]
    return ""


def _homes(function: Callable[..., object]) -> set[str]:
    """Name the packages of which something stands in the module of a function."""
    used = getattr(inspect.unwrap(function), "__globals__", {}).values()
    homes = (getattr(one, "__module__", None) or getattr(one, "__name__", "") for one in used)
    return {str(home).partition(".")[0] for home in homes}


def askable(session: pytest.Session) -> tuple[str, ...]:
    """Name the class and module fixtures that a test may ask for while it runs.

    Parametrized fixtures are left out, as pytest does not give them to
    ``request.getfixturevalue``. We refuse the exclusive ones and replace pytest-asyncio's runners.
    """
    return tuple(
        name
        for name, definitions in all_fixtures(session)
        if name not in EXCLUSIVE_FIXTURES | RUNNER_NAMES
        and any(d.scope in ("class", "module") and d.params is None for d in definitions)
    )


def signature(item: pytest.Function, askable: Collection[str]) -> Hashable:
    """Return what two cases must have in common for their trials to overlap.

    Fixtures that are wider than a function then live exactly as long as in serial pytest.

    Args:
        item: the case.
        askable: names of fixtures that it may ask for without naming them.
    """
    marks = (
        (mark.args, tuple(mark.kwargs.items())) for mark in item.iter_markers("filterwarnings")
    )
    return (_shared_nodes(item, askable), _shared_parameters(item), tuple(marks))


def _shared_nodes(item: pytest.Function, askable: Collection[str]) -> tuple[int, ...]:
    """The collectors to which a fixture of the item is or may be bound, or that are set up."""
    bound = {id(one) for one in item.listchain()[:-1] if type(one).setup is not _NO_SETUP}
    names = {*item._fixtureinfo.name2fixturedefs, *item.fixturenames, *askable}
    scopes = {definition.scope for name in names for definition in definitions_of(item, name)}
    for scope in scopes & _NODES.keys():
        node = item.getparent(_NODES[scope])
        if node is not None:
            bound.add(id(node))
    return tuple(sorted(bound))


def _shared_parameters(item: pytest.Function) -> tuple[tuple[str, int], ...]:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return ()
    indices = sorted(callspec.indices.items())
    return tuple((name, index) for name, index in indices if wider_fixture(item, name))
