"""Other plugins beside trials: those that follow items, that run coroutines, that have subtests.

A reporter (pytest-json-report, allure), a tracer or a timer begins something in its
``pytest_runtest_protocol`` and expects it in every phase of that item. A trial is no item: it may
run in another thread, and before the protocol of its case has begun. So such a plugin sees a case
as one item with one setup, one call and one teardown, and none of the trials. So does pytest-socket
where it keeps cases from the network: the end of one trial would let the others out.

The coroutines of an eval run on a loop of ours, unless pytest-asyncio or anyio has to run them.
With pytest-asyncio its session-wide loop is the one on which all async evals wait. Its
fixtures ask for the runner of their scope by name; trials find ours under these names, so
that async fixtures and the body share that loop.

What the fixture ``subtests`` does of itself, pytest's as well as that of pytest-subtests, is right
for a test: it counts and reports each failure, and the session fails. A subtest that fails in a
trial is a failure of that trial, which is a miss, and has no report of its own.
"""

from __future__ import annotations

import reprlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction, ismodule
from types import new_class
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmeval.engine.isolation.places import replaced
from pytest_llmeval.engine.trial.outcome import Failure, is_skip
from pytest_llmeval.errors import parts_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

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
_SEE_REPORTS = (
    "pytest_runtest_makereport",
    "pytest_runtest_logreport",
    "pytest_exception_interact",
)
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
SUBTESTS = "subtests"  # the fixture
_HOMES_OF_SUBTESTS = ("_pytest.subtests", "pytest_subtests")


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


def unguarded_sockets() -> AbstractContextManager[None]:
    """Let a loop open the pair of sockets by which it is woken, where a test may open none."""
    guarded: Any = socket.socket
    kinds = getattr(guarded, "__mro__", ())
    plain = next((kind for kind in kinds if kind.__module__ == "socket"), guarded)
    return replaced(socket, "socket", plain)


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
    see = (getattr(item.ihook, name).get_hookimpls() for name in _SEE_REPORTS)
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


def take_over_subtests(
    subtests: Any, note_failure: Callable[[Failure], None], *, is_debugged: bool
) -> None:
    """Let a trial know of the subtests that fail in it.

    Args:
        subtests: value of the fixture; that of another plugin stays as it is.
        note_failure: of the trial that asked for it.
        is_debugged: --pdb is to stop at a failure.
    """
    if type(subtests).__module__.startswith(_HOMES_OF_SUBTESTS):
        subtests.test = partial(_Subtest, None if is_debugged else note_failure)


def _ends_alone(error: BaseException) -> bool:
    ends_it = isinstance(error, Exception | pytest.fail.Exception | pytest.skip.Exception)
    return ends_it and not isinstance(error, pytest.exit.Exception)


class _Subtest:
    """What stands in the ``with`` of a subtest: the trial goes on after a failure in it.

    Args:
        note_failure: of the trial; None where a failure is to end it.
        msg, labels: what the test calls it.
    """

    def __init__(
        self,
        note_failure: Callable[[Failure], None] | None,
        msg: str | None = None,
        **labels: Any,
    ) -> None:
        self._note_failure = note_failure
        named = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in labels.items())
        parts = ("" if msg is None else f"[{msg}]", f"({named})" if named else "")
        self._name = " ".join(filter(None, parts))

    def __enter__(self) -> None:
        """Begin the subtest."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        """Swallow what ends the subtest alone, as pytest does; --pdb is to stop at a failure."""
        __tracebackhide__ = True
        if error is None or not all(map(_ends_alone, parts_of(error))):
            return False
        if is_skip(error) or isinstance(error, pytest.xfail.Exception):
            return True
        if self._name:
            error.add_note(f"in subtest {self._name}")
        if self._note_failure is None:
            return False
        self._note_failure(pytest.ExceptionInfo.from_exception(error))
        return True
