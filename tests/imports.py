"""What sessions and commands import, imported once in the processes that tests run in.

A session that judges, or a command, spends twice as long on that as on all the rest.
"""

from __future__ import annotations

import functools
import pkgutil
from importlib import import_module, metadata
from typing import Any

import pytest


def import_package() -> None:
    """Import all modules of the package, and what they import at the first use of a function."""
    import pytest_llmeval  # not above: pytest imports it first, and rewrites it

    for module in pkgutil.walk_packages(pytest_llmeval.__path__, "pytest_llmeval."):
        import_module(module.name)
    for name in ("numpy", "scipy.special", "jinja2"):
        import_module(name)


class _Installed:
    """A distribution, each of whose files is read once."""

    def __init__(self, found: metadata.Distribution) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._found, name)
        setattr(self, name, value)
        return value


def read_installed_once(patch: pytest.MonkeyPatch) -> None:
    """Let what is installed be read once, by all sessions from now on."""
    found = [_Installed(one) for one in metadata.distributions()]
    patch.setattr(metadata, "distributions", lambda: found)
    patch.setattr(metadata, "version", functools.cache(metadata.version))
