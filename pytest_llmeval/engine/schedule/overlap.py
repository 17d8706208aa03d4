"""Which cases may overlap, and which of them with one another."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import pytest
from _pytest.fixtures import FixtureDef

from pytest_llmeval.engine.compat import all_fixtures
from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.engine.trial.async_plugins import RUNNER_NAMES, own_loop
from pytest_llmeval.engine.trial.clone import is_own

# What these swap or record is the process's own, or they keep a "current test".
EXCLUSIVE_FIXTURES = frozenset(
    (
        "capsys", "capfd", "capsysbinary", "capfdbinary", "capteesys", "recwarn",
        "mocker", "class_mocker", "module_mocker", "package_mocker", "session_mocker",
        "pytester", "testdir", "doctest_namespace",
        "db", "transactional_db", "page",
    )
)  # fmt: skip
_WIDE: dict[str, Any] = {"class": pytest.Class, "module": pytest.Module, "package": pytest.Package}


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
    return "log_cli" if logs is not None and logs._log_cli_enabled() else ""


def serial_case(spec: Eval, more: Collection[str]) -> str:
    """Say why the trials of a case must run alone, one after the other; "" if they need not.

    Args:
        spec: the case.
        more: names of fixtures that the user declared as exclusive.
    """
    if spec.concurrency == "serial":
        return 'concurrency="serial"'
    reason = own_loop(spec.item)
    if reason:
        return reason
    for name in spec.item.fixturenames:
        if name in EXCLUSIVE_FIXTURES or name in more:
            return name
    return ""


def askable(session: pytest.Session) -> tuple[str, ...]:
    """Name the class and module fixtures that a test may ask for while it runs.

    Those that are parametrized pytest does not give to ``request.getfixturevalue``; the
    exclusive ones and pytest-asyncio's runners are ours to refuse and to replace.
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
    return (_wide_nodes(item, askable), _wide_parameters(item), tuple(marks))


def _wide_nodes(item: pytest.Function, askable: Collection[str]) -> tuple[int, ...]:
    """The collectors to which a fixture of the item is or may be bound, and its packages."""
    bound = {id(node) for node in item.listchain() if isinstance(node, pytest.Package)}
    names = {*item._fixtureinfo.name2fixturedefs, *item.fixturenames, *askable}
    scopes = {definition.scope for name in names for definition in _definitions(item, name)}
    for scope in scopes & _WIDE.keys():
        node = item.getparent(_WIDE[scope])
        if node is not None:
            bound.add(id(node))
    return tuple(sorted(bound))


def _definitions(item: pytest.Function, name: str) -> Sequence[FixtureDef[Any]]:
    """Find the fixtures of a name that the item sees, the most specific last."""
    known = item._fixtureinfo.name2fixturedefs.get(name)
    return known or item.session._fixturemanager.getfixturedefs(name, item) or ()


def _wide_parameters(item: pytest.Function) -> tuple[tuple[str, int], ...]:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return ()
    return tuple(
        sorted(
            (name, index)
            for name, index in callspec.indices.items()
            if not all(is_own(definition, item) for definition in _definitions(item, name)[-1:])
        )
    )
