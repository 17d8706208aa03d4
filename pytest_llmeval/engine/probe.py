"""Whether this pytest has the private parts that the engine needs.

Everything private of pytest is used in this folder alone. ``missing_parts`` looks at
them once, at the first eval, so that a pytest that moved one of them ends in a sentence
and not in a traceback from the middle of a run.
"""

from __future__ import annotations

import inspect

import pytest


def missing_parts(session: pytest.Session, item: pytest.Function) -> list[str]:
    """Name the private parts of pytest that are not as the engine expects them.

    Args:
        session: the session, after collection.
        item: any collected function.
    """
    checks = {
        "Session._setupstate.stack": isinstance(
            getattr(getattr(session, "_setupstate", None), "stack", None), dict
        ),
        "Session._fixturemanager.getfixturedefs(name, node)": _takes_node(session),
        "Function._fixtureinfo.name2fixturedefs": isinstance(
            getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", None), dict
        ),
        "_pytest.runner.call_and_report": _importable("_pytest.runner", "call_and_report"),
        "_pytest.skipping.xfailed_key": _importable("_pytest.skipping", "xfailed_key"),
        "_pytest.fixtures.FuncFixtureInfo": _importable("_pytest.fixtures", "FuncFixtureInfo"),
    }
    return [name for name, found in checks.items() if not found]


def _takes_node(session: pytest.Session) -> bool:
    manager = getattr(session, "_fixturemanager", None)
    look_up = getattr(manager, "getfixturedefs", None)
    return callable(look_up) and "node" in inspect.signature(look_up).parameters


def _importable(module: str, name: str) -> bool:
    from importlib import import_module

    try:
        return hasattr(import_module(module), name)
    except ImportError:
        return False
