"""Copy what other plugins put on an item to its trials, and choose the hooks that trials call.

A case is one item to a plugin that follows items, and it sees none of its trials. A reporter
(pytest-json-report, allure), a tracer or a timer begins something in its
``pytest_runtest_protocol`` and expects it in every phase of that item. A trial is no item: it may
run in another thread, and before the protocol of its case has begun. So such a plugin sees a case
as one item with one setup, one call and one teardown, and none of the trials. So does pytest-socket
where it keeps cases from the network: the end of one trial would let the others out.

A subtest that fails is a failure of its trial, and has no report of its own. What the fixture
``subtests`` does of itself, pytest's as well as that of pytest-subtests, is right for a test: it
counts and reports each failure, and the session fails. In a trial that is a miss.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import ismodule
from types import new_class
from typing import Any

import pytest

from pytest_llmeval.engine.trial.outcome import Failure, is_skip
from pytest_llmeval.errors import parts_of

SUBTESTS = "subtests"  # the fixture
_HOMES = ("_pytest.subtests", "pytest_subtests")
_OWN = ("_pytest.", "pytest_llmeval.")
_OF_REPORTS = ("pytest_runtest_makereport", "pytest_runtest_logreport", "pytest_exception_interact")
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


# --- subtests ---


def take_over_subtests(
    subtests: Any, note_failure: Callable[[Failure], None], *, is_debugged: bool
) -> None:
    """Let a trial know of the subtests that fail in it.

    Args:
        subtests: value of the fixture; that of another plugin stays as it is.
        note_failure: of the trial that asked for it.
        is_debugged: --pdb is to stop at a failure.
    """
    if type(subtests).__module__.startswith(_HOMES):
        subtests.test = partial(_subtest, None if is_debugged else note_failure)


def _ends_alone(error: BaseException) -> bool:
    ends_it = isinstance(error, Exception | pytest.fail.Exception | pytest.skip.Exception)
    return ends_it and not isinstance(error, pytest.exit.Exception)


@contextmanager
def _subtest(
    note_failure: Callable[[Failure], None] | None, msg: str | None = None, **labels: Any
) -> Iterator[None]:
    """Swallow what ends a subtest alone, as pytest does: the trial goes on after it.

    Args:
        note_failure: of the trial; None where a failure is to end it.
        msg: what the test calls the subtest.
        **labels: likewise.
    """
    __tracebackhide__ = True
    named = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in labels.items())
    parts = ("" if msg is None else f"[{msg}]", f"({named})" if named else "")
    name = " ".join(filter(None, parts))
    try:
        yield
    except BaseException as error:
        if not all(map(_ends_alone, parts_of(error))):
            raise
        if is_skip(error) or isinstance(error, pytest.xfail.Exception):
            return
        if name:
            error.add_note(f"in subtest {name}")
        if note_failure is None:
            raise
        note_failure(pytest.ExceptionInfo.from_exception(error))
