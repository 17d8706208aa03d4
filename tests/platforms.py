"""What an operating system lacks, and which tests are skipped for it.

A test says by the names in its code what it needs, so nobody has to remember a mark. What its
helpers need is told where they are imported: by ``needs``.
"""

from __future__ import annotations

import importlib
import inspect
import os
import signal
from collections.abc import Iterable, Iterator
from types import CodeType, ModuleType
from typing import Any

import pytest

IS_POSIX = os.name == "posix"

# Names that a test uses, whether they are of use here, and the reason where they are not.
NEEDED = (
    (("fork",), hasattr(os, "fork"), "processes cannot be forked here"),
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


def obstacle(function: Any, needed: Iterable[Any] = NEEDED) -> str | None:
    """Return why a test cannot run here, or None."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    names = set(_names(code)) if code else set()
    return next(
        (reason for what, is_here, reason in needed if not is_here and names & set(what)), None
    )


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
