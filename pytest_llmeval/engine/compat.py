"""The private parts of pytest and Python that the engine needs; begin here for a new pytest.

Private parts of pytest are used in this folder alone, and names of ``_pytest`` are imported in
this module alone. All of them are looked at once, at the first eval, so that a pytest that moved a
part ends in a sentence and not in a traceback from the middle of a run. Without the parts that
``missing_parts`` looks for there are no trials; without the parts that ``find_abilities`` looks for
no trial overlaps another.

To support another pytest, let ``make test-pytest-versions`` run it too, mend what uses the parts
that are named here, and widen ``SUPPORTED``.
"""

from __future__ import annotations

import inspect
import os
import platform
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    import _pytest.mark

ParameterSet: TypeAlias = "_pytest.mark.ParameterSet"


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None


# None where a part has moved: missing_parts says so before any of them is used.
call_and_report: Any = getattr(_module("_pytest.runner"), "call_and_report", None)
xfailed_key: Any = getattr(_module("_pytest.skipping"), "xfailed_key", None)

# What stands in the path of an installed package.
INSTALLED = re.compile(r"[/\\](?:site|dist)-packages(?:[/\\]|$)")
SUPPORTED = "pip install 'pytest>=8.4,<10'"
# Owners, and their parts by dots. An owner that a session does not have needs no part.
NEEDED = {
    "Session": (
        "_setupstate.stack", "_setupstate.teardown_exact", "_fixturemanager.getfixturedefs"
    ),
    "Function": (
        "_fixtureinfo.argnames", "_fixtureinfo.initialnames", "_fixtureinfo.names_closure",
        "_fixtureinfo.name2fixturedefs", "_report_sections", "_request._pyfuncitem",
    ),
    "Function with parameters": (
        "callspec.params", "callspec.indices", "callspec.id", "callspec.marks",
        "callspec._arg2scope",
    ),
    "FixtureDef": ("cache_key", "execute", "cached_result", "_finalizers"),
    "LoggingPlugin": ("_log_cli_enabled",),
    "_pytest.runner": ("call_and_report",),
    "_pytest.skipping": ("xfailed_key",),
}  # fmt: skip
_OF_CAPTURE = (
    "_global_capturing", "activate_fixture", "deactivate_fixture", "read_global_capture",
    "resume_global_capture", "suspend_global_capture",
)  # fmt: skip
_OF_RUNNING_CAPTURE = ("_state", "out.snap", "out.tmpfile", "err.snap", "err.tmpfile")
_OF_HANDLERS = ("records", "stream", "level", "filters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The parts of the state of the process that can be swapped here.

    Attributes:
        missing: parts without which no trial may overlap another.
        swaps_logs: the handlers of the logging plugin are.
        capture: the plugin that captures output, if it is there and is as expected.
    """

    missing: tuple[str, ...] = ()
    swaps_logs: bool = True
    capture: Any = None

    @property
    def serial(self) -> str:
        """Say why no trial may overlap another; "" if they may."""
        return f"no {', '.join(self.missing)}" if self.missing else ""

    @property
    def exclusive(self) -> tuple[str, ...]:
        """Fixtures whose cases must run alone for the lack of a part."""
        return () if self.swaps_logs else ("caplog",)

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
    capture = manager.getplugin("capturemanager")
    swaps_capture = _can_swap_capture(capture)
    checks = {
        "FixtureManager._arg2fixturedefs": any(all_fixtures(session)),
        "CaptureManager._global_capturing": swaps_capture,
        "os.environ._data": isinstance(getattr(os.environ, "_data", None), dict),
        "warnings._showwarnmsg_impl": _records_warnings(),
    }
    return Abilities(
        missing=tuple(name for name, found in checks.items() if not found),
        swaps_logs=_has_handlers(manager.getplugin("logging-plugin")),
        capture=capture if swaps_capture else None,
    )


def all_fixtures(session: pytest.Session) -> Iterator[tuple[str, Sequence[pytest.FixtureDef[Any]]]]:
    """Give every fixture that is known after collection: its name, and definitions of it."""
    manager = session._fixturemanager
    by_place = ("_arg2node2fixturedefs", "_arg2nodeid2fixturedefs")  # newer than pytest 9.0
    for attribute in by_place:
        for name, places in getattr(manager, attribute, {}).items():
            for definitions in places.values():
                yield name, definitions
    yield from getattr(manager, "_arg2fixturedefs", {}).items()


def missing_parts(session: pytest.Session, items: Sequence[pytest.Function]) -> list[str]:
    """Name the private parts of pytest that are not as the engine expects them.

    Args:
        session: the session, after collection.
        items: functions that were collected, at least one.
    """
    look_up: Any = getattr(getattr(session, "_fixturemanager", None), "getfixturedefs", None)
    owners: dict[str, Any] = {name: _module(name) for name in NEEDED if name.startswith("_pytest.")}
    owners |= {"Session": session, "Function": items[0]}
    with_parameters = [item for item in items if item.name != item.originalname]
    if with_parameters:
        owners["Function with parameters"] = with_parameters[0]
    logging_plugin = session.config.pluginmanager.getplugin("logging-plugin")
    if logging_plugin is not None:
        owners["LoggingPlugin"] = logging_plugin
    signature: Any = {} if look_up is None else inspect.signature(look_up).parameters
    if "node" in signature:
        owners["FixtureDef"] = (look_up("pytestconfig", items[0]) or (None,))[-1]
    parts = [(name, part) for name in owners for part in NEEDED[name]]
    missing = [f"{name}.{part}" for name, part in parts if not _has(owners[name], part)]
    if look_up is not None and "node" not in signature:
        missing.append("Session._fixturemanager.getfixturedefs(name, node)")
    if "_use_item_location" not in inspect.signature(pytest.skip.Exception).parameters:
        missing.append("skip.Exception(_use_item_location)")
    return missing


def _has(owner: Any, *parts: str) -> bool:
    """Whether an object has all parts, each with its own parts by dots."""
    try:
        attrgetter(*parts)(owner)
    except AttributeError:
        return False
    return True


def _can_swap_capture(manager: Any) -> bool:
    if manager is None or not _has(manager, *_OF_CAPTURE):
        return manager is None
    running = manager._global_capturing
    captures = getattr(running, "out", None) is not None
    return not captures or _has(running, *_OF_RUNNING_CAPTURE)


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


def _has_handlers(plugin: Any) -> bool:
    names = () if plugin is None else ("caplog_handler", "report_handler")
    return all(_has(getattr(plugin, name, None), *_OF_HANDLERS) for name in names)


def tell_of_new_filters() -> None:
    """Clear what ``warnings`` has cached for the filters before."""
    if hasattr(warnings, "_filters_mutated"):
        warnings._filters_mutated()
    else:  # Python 3.14
        with warnings._lock:  # type: ignore[attr-defined]
            warnings._filters_mutated_lock_held()  # type: ignore[attr-defined]
