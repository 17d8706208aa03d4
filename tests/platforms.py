"""What an operating system lacks, and which tests are skipped for it.

A test says by the names in its code what it needs, so nobody has to remember a mark. The code of
its fixtures counts too, of functions that it is given and of functions of its module. What other
helpers need is told where they are imported: by ``needs``.
"""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

IS_POSIX = os.name == "posix"

# Names that a test uses, whether they are of use here, and the reason where they are not.
NEEDED = (
    (("fork",), hasattr(os, "fork"), "processes cannot be forked here"),
    (("fcntl", "ProcessLocks"), find_spec("fcntl"), "files are locked in another way here"),
    (("mkfifo",), hasattr(os, "mkfifo"), "there are no named pipes here"),
    (("AF_UNIX",), IS_POSIX, "there are no sockets with paths here"),
    (("getuid", "geteuid", "chown"), hasattr(os, "getuid"), "users have no numbers here"),
    (("chmod",), IS_POSIX, "files have no modes here"),
    (("symlink", "symlink_to", "hardlink_to"), IS_POSIX, "links need rights here"),
    (
        ("killpg", "setsid", "SIGKILL", "SIGHUP", "SIGSTOP", "SIGALRM", "alarm", "setitimer"),
        hasattr(signal, "SIGKILL"),
        "there are no such signals here",
    ),
)


def obstacle(item: pytest.Function, needed: Iterable[Any] = NEEDED) -> str | None:
    """Return why a test cannot run here, or None."""
    lacking = [(set(what), reason) for what, is_here, reason in needed if not is_here]
    if not lacking:
        return None
    fixtures = [
        one.func for several in item._fixtureinfo.name2fixturedefs.values() for one in several
    ]
    names: set[str] = set()
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    for function in (item.function, *fixtures, *given):
        if getattr(function, "__module__", "") != "tests.conftest":  # whose helpers do without
            names.update(_names_of(function, set()))
    return next((reason for what, reason in lacking if names & what), None)


def _names_of(function: Any, seen: set[Any]) -> set[str]:
    """Return the names that a function uses, and the functions of its module that it calls."""
    if not isinstance(function, FunctionType) or function in seen:
        return set()
    seen.add(function)
    names = set(_names(function.__code__))
    for helper in map(function.__globals__.get, tuple(names)):
        if getattr(helper, "__module__", "") == function.__module__:
            names |= _names_of(helper, seen)
    return names


def _names(code: CodeType) -> Iterator[str]:
    """List the globals and attributes that a function uses, and the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def needs(module: str, reason: str) -> ModuleType:
    """Import a module of the standard library that not every system has.

    Where there is none, the module of tests that imports this one is skipped.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        pytest.skip(f"{reason} here: no module {module}", allow_module_level=True)
