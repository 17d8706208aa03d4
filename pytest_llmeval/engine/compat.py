"""Whether pytest and Python have the private parts that the engine needs.

Everything private of pytest is used in this folder alone. All of it is looked at once,
at the first eval, so that a pytest that moved a part ends in a sentence and not in a
traceback from the middle of a run. Without ``missing_parts`` there are no trials; without
those that ``find_abilities`` looks for they only do not overlap.
"""

from __future__ import annotations

import inspect
import os
import platform
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from _pytest.fixtures import FixtureDef

from pytest_llmeval.engine.isolation.patches import remembered_absence
from pytest_llmeval.engine.isolation.process_state import tell_of_new_filters


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What of the state of the process can be swapped here.

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
        """Say what is not as expected, and what that means; "" if all is."""
        lacking = [*self.missing, *(f"the inside of {name}" for name in self.exclusive)]
        if not lacking:
            return ""
        alone = "all cases" if self.missing else f"cases with {' or '.join(self.exclusive)}"
        return (
            f"{alone} ran serially, with the same outcomes: {', '.join(lacking)} is not as "
            f"expected in pytest {pytest.__version__} on Python {platform.python_version()}. "
            "To overlap them use versions that are known to work: pip install 'pytest>=8.4,<10'"
        )


def find_abilities(session: pytest.Session) -> Abilities:
    """Look at, and try, everything that is swapped when the turn goes to another trial."""
    manager = session.config.pluginmanager
    checks = {
        "FixtureManager._arg2fixturedefs": any(all_fixtures(session)),
        "CaptureManager._global_capturing": _has_capture(manager.getplugin("capturemanager")),
        "os.environ._data": isinstance(getattr(os.environ, "_data", None), dict),
        "warnings._showwarnmsg_impl": _records_warnings(),
    }
    return Abilities(
        missing=tuple(name for name, found in checks.items() if not found),
        swaps_patches=_remembers_patches(),
        swaps_logs=_has_handlers(manager.getplugin("logging-plugin")),
    )


def all_fixtures(
    session: pytest.Session,
) -> Iterator[tuple[str, Sequence[FixtureDef[Any]]]]:
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
        "_pytest.fixtures.FixtureDef.execute": hasattr(FixtureDef, "execute")
        and hasattr(FixtureDef, "cache_key"),
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


def _has_capture(manager: Any) -> bool:
    if manager is None:
        return True
    names = (
        "_global_capturing",
        "suspend_global_capture",
        "resume_global_capture",
        "item_capture",
        "read_global_capture",
    )
    if not all(hasattr(manager, name) for name in names):
        return False
    running = manager._global_capturing
    if running is None or getattr(running, "out", None) is None:
        return True
    parts = [(s, name) for s in (running.out, running.err) for name in ("snap", "tmpfile")]
    streams = all(hasattr(stream, name) for stream, name in parts)
    return streams and all(hasattr(running, name) for name in ("_state", "is_started"))


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
    try:
        remembered_absence()
    except (AttributeError, LookupError, TypeError, ValueError):
        return False
    return True


def _has_handlers(plugin: Any) -> bool:
    if plugin is None:
        return True
    handlers = [getattr(plugin, name, None) for name in ("caplog_handler", "report_handler")]
    parts = ("records", "stream", "level", "filters")
    return all(hasattr(handler, part) for handler in handlers for part in parts)
