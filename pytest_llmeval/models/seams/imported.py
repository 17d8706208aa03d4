"""Wait until somebody imports a module, and hand it over, so that we need not import it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Take = Callable[[ModuleType], None]
# Modules whose clients are intercepted. What stands in their way is imported after them, as a
# session in which nobody uses them has no need of it.
SEEN = ("httpx", "httpx2", "aiohttp", "requests.adapters", "botocore.httpsession")


@contextmanager
def once_imported(names: Collection[str], take: Take) -> Iterator[None]:
    """Hand over modules: those that are imported already, and in here others as they are.

    Args:
        names: of modules, in full.
        take: is given each of them, imported to its end.
    """
    finder = _Finder(frozenset(names), take)
    for module in filter(None, map(sys.modules.get, names)):
        take(module)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds what the finders behind it find; whoever imports that tells of it."""

    def __init__(self, names: Collection[str], take: Take) -> None:
        self._names, self._take = names, take

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that is waited for, None for any other."""
        if name not in self._names or self not in sys.meta_path:
            return None
        others: list[Any] = sys.meta_path[sys.meta_path.index(self) + 1 :]
        found = (other.find_spec(name, path, target) for other in others)
        spec: ModuleSpec | None = next(filter(None, found), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Telling(spec.loader, self._take)
        return spec


class _Telling(Loader):
    """Loads a module as its own loader does, puts that one back, and tells of the module."""

    def __init__(self, plain: Loader, take: Take) -> None:
        self._plain, self._take = plain, take

    def __getattr__(self, name: str) -> Any:
        """Answer as the loader for those who look for a module and do not import it."""
        return getattr(self._plain, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Make the module, or leave that to Python."""
        return self._plain.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        assert module.__spec__ is not None  # noqa: S101 - it is being imported by it
        module.__spec__.loader = module.__loader__ = self._plain
        self._plain.exec_module(module)
        self._take(module)
