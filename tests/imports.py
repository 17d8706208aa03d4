"""What sessions and commands import, imported once in the processes that tests run in.

A session that judges, or a command, spends twice as long on that as on all the rest.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module


def import_package() -> None:
    """Import all modules of the package, and what they import at the first use of a function."""
    import pytest_llmeval  # not above: pytest imports it first, and rewrites it

    for module in pkgutil.walk_packages(pytest_llmeval.__path__, "pytest_llmeval."):
        import_module(module.name)
    for name in ("numpy", "scipy.special", "scipy.optimize", "jinja2"):
        import_module(name)
