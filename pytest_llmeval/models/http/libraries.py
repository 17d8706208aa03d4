"""The HTTP libraries under the vendors' SDKs: httpx, and httpx2 where a newer SDK brought it.

Both are alike in all that we touch. Importing this module imports one of them.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any, NamedTuple

try:
    import httpx2 as newest
except ImportError:
    import httpx as newest  # type: ignore[no-redef]

__all__ = [
    "Connecting",
    "connecting",
    "is_as_shipped",
    "is_stubbed",
    "library_of",
    "newest",
]

# The packages whose pools of connections they send through.
_CORES = {"httpx": "httpcore", "httpx2": "httpcore2"}
_BOUNDS = ("_max_connections", "_max_keepalive_connections")


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


def is_as_shipped(library: Any, *methods: Any) -> bool:
    """Whether nobody but us stands between blocking clients of a library and the network.

    Stubs, recorders and tracers do. What they put there may bear the name of what it wraps, but
    not its global variables; wrapt's objects, with which OpenTelemetry traces, are no functions.

    Args:
        library: a module.
        methods: looked at, too.
    """
    own = (library.__name__, _CORES[library.__name__], __package__.partition(".")[0])
    # The pools are imported once one sends: till then nobody has changed them.
    pool = getattr(sys.modules.get(own[1]), "ConnectionPool", library.HTTPTransport)
    for kind in (library.HTTPTransport, pool):
        methods += (getattr(kind, "handle_request", None),)
    for method in methods:
        names = method.__globals__ if type(method) is FunctionType else {}
        if names.get("__name__", "").partition(".")[0] not in own:
            return False
    return True


class Connecting(NamedTuple):
    """How a transport connects.

    Attributes:
        tls: how it encrypts.
        socket_options: arguments of ``setsockopt``.
    """

    tls: ssl.SSLContext
    socket_options: Sequence[Sequence[Any]]


def connecting(library: Any, transport: Any) -> Connecting | None:
    """Return how a transport of a library connects, if straight to whom it asks.

    None where it goes by a proxy or a socket of the application's choice, speaks HTTP/2 or bounds
    its connections: wherever more than its certificates and socket options is not as usual.
    """
    usual = library.HTTPTransport(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    try:
        pool, usual_pool = transport._pool, usual._pool
        if _settings(transport) != _settings(usual) or _settings(pool) != _settings(usual_pool):
            return None
        if any(vars(pool)[bound] < vars(usual_pool)[bound] for bound in _BOUNDS):
            return None
        return Connecting(tls=pool._ssl_context, socket_options=pool._socket_options or ())
    except (AttributeError, KeyError, TypeError):  # a version that builds them otherwise
        return None


def _settings(part: Any) -> tuple[type, Mapping[str, object]]:
    """Describe a part of a transport; objects in it count by their types."""
    free = (*_BOUNDS, "_socket_options", "close")
    return type(part), {
        name: value if isinstance(value, (type(None), int, float, str)) else type(value)
        for name, value in vars(part).items()
        if name not in free
    }
