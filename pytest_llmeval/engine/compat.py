"""The private parts of pytest and Python that the engine needs; begin here for a new pytest.

Everything private of pytest is used in this folder alone. All of it is looked at once,
at the first eval, so that a pytest that moved a part ends in a sentence and not in a
traceback from the middle of a run. Without ``missing_parts`` there are no trials; without
those that ``find_abilities`` looks for they only do not overlap.

To support another pytest, let ``make test-pytest-versions`` run it too, mend what uses the parts
that are named here, and widen ``SUPPORTED``.
"""

from __future__ import annotations

import inspect
import os
import platform
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest
from _pytest.fixtures import FixtureDef

from pytest_llmeval.engine.isolation.patches import remembered_absence
from pytest_llmeval.engine.isolation.process_state import tell_of_new_filters

SUPPORTED = "pip install 'pytest>=8.4,<10'"
# Owner and its part, by dots.
_NEEDED = (
    ("Session", "_setupstate.stack"),
    ("Session", "_setupstate.teardown_exact"),
    ("Session", "_fixturemanager.getfixturedefs"),
    ("Function", "_fixtureinfo.argnames"),
    ("Function", "_fixtureinfo.initialnames"),
    ("Function", "_fixtureinfo.names_closure"),
    ("Function", "_fixtureinfo.name2fixturedefs"),
    ("Function", "_report_sections"),
    ("Function", "_request._pyfuncitem"),
    ("_pytest.fixtures", "FixtureDef.cache_key"),
    ("_pytest.fixtures", "FixtureDef.execute"),
    ("_pytest.fixtures", "FuncFixtureInfo"),
    ("_pytest.runner", "call_and_report"),
    ("_pytest.skipping", "xfailed_key"),
)
_OF_CAPTURE = (
    "_global_capturing",
    "activate_fixture",
    "deactivate_fixture",
    "item_capture",
    "read_global_capture",
    "resume_global_capture",
    "suspend_global_capture",
)
_OF_RUNNING_CAPTURE = ("_state", "is_started", "out.snap", "out.tmpfile", "err.snap", "err.tmpfile")
_OF_HANDLERS = ("records", "stream", "level", "filters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The parts of the state of the process that can be swapped here.

    Attributes:
        missing: parts without which no trial may overlap another.
        swaps_patches: ``MonkeyPatch`` is as we know it.
        swaps_logs: the handlers of the logging plugin are.
    """

    missing: tuple[str, ...] = ()
    swaps_patches: bool = True
    swaps_logs: bool = True

    @property
    def serial(self) -> str:
        """Say why no trial may overlap another; "" if they may."""
        return f"no {', '.join(self.missing)}" if self.missing else ""

    @property
    def exclusive(self) -> tuple[str, ...]:
        """Fixtures whose cases must run alone for the lack of a part."""
        lacking = {"monkeypatch": not self.swaps_patches, "caplog": not self.swaps_logs}
        return tuple(name for name, lacks in lacking.items() if lacks)

    @property
    def note(self) -> str:
        """Say what is not as expected, and what that means, where anything is lacking."""
        lacking = [*self.missing, *(f"the inside of {name}" for name in self.exclusive)]
        alone = "all cases" if self.missing else f"cases with {' or '.join(self.exclusive)}"
        return (
            f"{alone} ran serially, with the same outcomes: {', '.join(lacking)} is not as "
            f"expected in pytest {pytest.__version__} on Python {platform.python_version()}. "
            f"To overlap them use versions that are known to work: {SUPPORTED}"
        )


def find_abilities(session: pytest.Session) -> Abilities:
    """Look at, and try, everything that is swapped when the turn goes to another trial."""
    manager = session.config.pluginmanager
    checks = {
        "FixtureManager._arg2fixturedefs": any(all_fixtures(session)),
        "CaptureManager._global_capturing": _can_swap_capture(manager.getplugin("capturemanager")),
        "os.environ._data": isinstance(getattr(os.environ, "_data", None), dict),
        "warnings._showwarnmsg_impl": _records_warnings(),
    }
    return Abilities(
        missing=tuple(name for name, found in checks.items() if not found),
        swaps_patches=_remembers_patches(),
        swaps_logs=_has_handlers(manager.getplugin("logging-plugin")),
    )


def all_fixtures(session: pytest.Session) -> Iterator[tuple[str, Sequence[FixtureDef[Any]]]]:
    """Give every fixture that is known after collection: its name, and definitions of it."""
    manager = session._fixturemanager
    by_place = ("_arg2node2fixturedefs", "_arg2nodeid2fixturedefs")  # newer than pytest 9.0
    for attribute in by_place:
        for name, places in getattr(manager, attribute, {}).items():
            for definitions in places.values():
                yield name, definitions
    yield from getattr(manager, "_arg2fixturedefs", {}).items()


def missing_parts(session: pytest.Session, item: pytest.Function) -> list[str]:
    """Name the private parts of pytest that are not as the engine expects them.

    Args:
        session: the session, after collection.
        item: any collected function.
    """
    missing = []
    for name, part in _NEEDED:
        owners: dict[str, Any] = {"Session": session, "Function": item}
        owner = owners[name] if name in owners else import_module(name)
        if not _has(owner, part):
            missing.append(f"{name}.{part}")
    look_up = getattr(getattr(session, "_fixturemanager", None), "getfixturedefs", None)
    if look_up is None:
        return missing
    if "node" not in inspect.signature(look_up).parameters:
        missing.append("Session._fixturemanager.getfixturedefs(name, node)")
    elif not all(hasattr(one, "_finalizers") for one in look_up("pytestconfig", item) or ()):
        missing.append("_pytest.fixtures.FixtureDef._finalizers")
    return missing


def _has(owner: Any, part: str) -> bool:
    for name in part.split("."):
        if not hasattr(owner, name):
            return False
        owner = getattr(owner, name)
    return True


def _can_swap_capture(manager: Any) -> bool:
    if manager is None:
        return True
    if not all(_has(manager, part) for part in _OF_CAPTURE):
        return False
    running = manager._global_capturing
    captures = getattr(running, "out", None) is not None
    return not captures or all(_has(running, part) for part in _OF_RUNNING_CAPTURE)


def _records_warnings() -> bool:
    """Give a warning to see who gets it: Python 3.14 may keep filters elsewhere."""
    recorded: list[warnings.WarningMessage] = []
    with warnings.catch_warnings(record=True):
        try:
            warnings._showwarnmsg_impl  # type: ignore[attr-defined]  # noqa: B018
            warnings.filters = [("always", None, Warning, None, 0)]
            tell_of_new_filters()
            warnings._showwarnmsg_impl = recorded.append  # type: ignore[attr-defined]
        except AttributeError:
            return False
        warnings.warn("looking for who records this", stacklevel=1)
    return len(recorded) == 1


def _remembers_patches() -> bool:
    with suppress(AttributeError, LookupError, TypeError, ValueError):
        remembered_absence()
        return True
    return False


def _has_handlers(plugin: Any) -> bool:
    if plugin is None:
        return True
    handlers = [getattr(plugin, name, None) for name in ("caplog_handler", "report_handler")]
    return all(_has(handler, part) for handler in handlers for part in _OF_HANDLERS)
