"""The HTTP libraries under the vendors' SDKs: httpx, and httpx2 where a newer SDK brought it.

Both are alike in all that we touch. Importing this module imports one of them.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

try:
    import httpx2 as newest
except ImportError:
    import httpx as newest  # type: ignore[no-redef]

__all__ = ["is_as_shipped", "is_stubbed", "library_of", "newest"]

# The packages whose pools of connections they send through.
_CORES = {"httpx": "httpcore", "httpx2": "httpcore2"}


def library_of(request: Any) -> Any:
    """Return the library that a request was made by."""
    kind: Any = type(request)
    return _library_under(kind)


@cache
def _library_under(kind: Any) -> Any:
    """Find the library of a class of requests, which may be derived from the library's own."""
    packages = (base.__module__.partition(".")[0] for base in kind.__mro__)
    return sys.modules[next(name for name in packages if name in ("httpx", "httpx2"))]


def is_stubbed(library: Any, *, awaits: bool) -> bool:
    """Whether respx answers what a library sends: its replies are no draws of a model.

    It puts functions of its own into the pools of connections, below the transports.
    """
    core = sys.modules.get(_CORES[library.__name__])
    kind, name = ("Async", "_async") if awaits else ("", "")
    pool = getattr(core, f"{kind}ConnectionPool", None)
    method = getattr(pool, f"handle{name}_request", None)
    return str(getattr(method, "__module__", "")).startswith("respx.")


def is_as_shipped(library: Any) -> bool:
    """Whether nobody but us stands between blocking clients of a library and the network.

    Stubs, recorders and tracers do. What they put there may bear the name of what it wraps, but
    not its global variables.
    """
    own = (library.__name__, _CORES[library.__name__], __package__.partition(".")[0])
    # The pools are imported once one sends: till then nobody has changed them.
    pool = getattr(sys.modules.get(own[1]), "ConnectionPool", None)
    for kind in (library.HTTPTransport, pool):
        names = getattr(getattr(kind, "handle_request", None), "__globals__", {})
        if kind is not None and names.get("__name__", "").partition(".")[0] not in own:
            return False
    return True
