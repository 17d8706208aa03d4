"""Which cases may overlap, and which of them with one another."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import pytest

from pytest_llmeval.engine.async_plugins import own_loop
from pytest_llmeval.engine.marker import Eval

# What these swap or record is the process's own, or they keep a "current test".
EXCLUSIVE_FIXTURES = frozenset(
    (
        "capsys", "capfd", "capsysbinary", "capfdbinary", "capteesys", "recwarn",
        "mocker", "pytester", "testdir", "doctest_namespace",
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


def signature(item: pytest.Function) -> Hashable:
    """Return what two cases must have in common for their trials to overlap.

    Fixtures that are wider than a function then live exactly as long as in serial pytest.
    """
    marks = (
        (mark.args, tuple(mark.kwargs.items())) for mark in item.iter_markers("filterwarnings")
    )
    return (_wide_nodes(item), _wide_parameters(item), tuple(marks))


def _wide_nodes(item: pytest.Function) -> tuple[int, ...]:
    """The collectors to which a fixture of the item is bound, and its packages."""
    bound = {id(node) for node in item.listchain() if isinstance(node, pytest.Package)}
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            kind = _WIDE.get(definition.scope)
            node = item.getparent(kind) if kind else None
            if node is not None:
                bound.add(id(node))
    return tuple(sorted(bound))


def _wide_parameters(item: pytest.Function) -> tuple[tuple[str, int], ...]:
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return ()
    definitions = item._fixtureinfo.name2fixturedefs
    return tuple(
        sorted(
            (name, index)
            for name, index in callspec.indices.items()
            if name in definitions and definitions[name][-1].scope != "function"
        )
    )
