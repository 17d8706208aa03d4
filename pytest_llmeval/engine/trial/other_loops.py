"""Event loops of others: pytest-asyncio's and anyio's, and which of them an eval must run on.

The coroutines of an eval run on a loop of ours, unless pytest-asyncio or anyio has to run them.
With pytest-asyncio its session-wide loop is the one on which all async evals wait. Its
fixtures ask for the runner of their scope by name; trials find ours under these names, so
that async fixtures and the body share that loop.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmeval.models.attribution import replaced

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

SESSION_RUNNER = "_session_scoped_runner"  # pytest-asyncio >= 1.2
TRIAL_RUNNER = "_llm_runner"
_ALIASES = {
    "_function_scoped_runner": TRIAL_RUNNER,
    "_class_scoped_runner": SESSION_RUNNER,
    "_module_scoped_runner": SESSION_RUNNER,
    "_package_scoped_runner": SESSION_RUNNER,
}
RUNNER_NAMES = frozenset(_ALIASES)
_OUR_SCOPES = ("function", "session")  # to a trial a loop of its own and a shared one are alike


def own_loop(item: pytest.Function) -> str:
    """Say why the coroutines of an eval must run on a loop that is not ours; "" if they need not.

    Such an eval is left to the plugin that has that loop, and runs alone.
    """
    if "anyio_backend" in item.fixturenames:
        return "anyio"
    if not iscoroutinefunction(item.obj) or type(item).runtest is pytest.Function.runtest:
        return ""  # no plugin claims it
    if not may_have_async_fixtures(item):
        return "pytest-asyncio without session runner"
    return _pinned(item)


def loop_aliases(item: pytest.Function) -> Mapping[str, str]:
    """Return the fixtures that a trial is to find under the names of pytest-asyncio's."""
    return {} if own_loop(item) or not may_have_async_fixtures(item) else _ALIASES


def may_have_async_fixtures(item: pytest.Function) -> bool:
    """Whether pytest-asyncio is there, with the loop that its fixtures share."""
    return bool(item.session._fixturemanager.getfixturedefs(SESSION_RUNNER, item))


def find_loop(request: pytest.FixtureRequest) -> AbstractEventLoop:
    """Return the loop on which trials wait: pytest-asyncio's, or one of our own."""
    found = request.getfixturevalue(loop_fixture(request._pyfuncitem))
    loop: AbstractEventLoop = getattr(found, "get_loop", lambda: found)()
    return loop


def loop_fixture(item: pytest.Function) -> str:
    """Name the fixture that has the loop."""
    return SESSION_RUNNER if may_have_async_fixtures(item) else "_llm_loop"


def _pinned(item: pytest.Function) -> str:
    """Say to which loop pytest-asyncio is told to bind a test; "" if ours will do."""
    mark = item.get_closest_marker("asyncio")
    arguments = {} if mark is None else mark.kwargs
    scope = arguments.get("loop_scope") or arguments.get("scope")
    if scope is None:
        scope = item.config.getini("asyncio_default_test_loop_scope")
    if scope not in _OUR_SCOPES:
        return f'asyncio loop_scope="{scope}"'
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "_asyncio_loop_factory" in callspec.params:
        return "asyncio loop factory"
    policies = item._fixtureinfo.name2fixturedefs.get("event_loop_policy", ())
    return "event_loop_policy" if len(policies) > 1 else ""


def unguarded_sockets() -> AbstractContextManager[None]:
    """Let a loop open the pair of sockets by which it is woken, where a test may open none."""
    guarded: Any = socket.socket
    kinds = getattr(guarded, "__mro__", ())
    plain = next((kind for kind in kinds if kind.__module__ == "socket"), guarded)
    return replaced(socket, "socket", plain)
