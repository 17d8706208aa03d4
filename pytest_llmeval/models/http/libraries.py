"""The HTTP libraries under the vendors' SDKs: httpx, and httpx2 where a newer SDK brought it.

Both are alike in all that we touch. Importing this module imports neither. Where nobody stands
between a library and the network, its requests are sent by plain HTTP: as it would send them, with
its timeouts, and what fails is its error.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from http.client import HTTPException
from importlib import import_module
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary, finalize, ref

from pytest_llmeval.cache.key import DEFAULT_PORTS
from pytest_llmeval.models.deadline import Deadline
from pytest_llmeval.models.http.client_hook import PACKING, unpacked
from pytest_llmeval.models.http.http_reply import HttpReply, ReplyTooLarge
from pytest_llmeval.models.http.plain_http import NotConnected, PlainHttp, PlainRequest
from pytest_llmeval.models.http.retries import Attempt, NetworkFailed

# The packages whose pools of connections they send through.
_CORES = {"httpx": "httpcore", "httpx2": "httpcore2"}
_BOUNDS = ("_max_connections", "_max_keepalive_connections")


@cache
def newest() -> Any:
    """Import the newer one of those that are here."""
    try:
        return import_module("httpx2")
    except ImportError:
        return import_module("httpx")


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


def is_as_shipped(library: Any, *methods: Any, awaits: bool = False) -> bool:
    """Whether nobody but us stands between clients of a library and the network.

    Stubs, recorders and tracers do. What they put there may bear the name of what it wraps, but
    not its global variables; wrapt's objects, with which OpenTelemetry traces, are no functions.

    Args:
        library: a module.
        methods: looked at, too.
        awaits: of its awaitable clients.
    """
    kind, name = ("Async", "_async") if awaits else ("", "")
    own = (library.__name__, _CORES[library.__name__], __package__.partition(".")[0])
    # The pools are imported once one sends: till then nobody has changed them.
    transport = getattr(library, f"{kind}HTTPTransport")
    pool = getattr(sys.modules.get(own[1]), f"{kind}ConnectionPool", transport)
    for part in (transport, pool):
        methods += (getattr(part, f"handle{name}_request", None),)
    return all(package_of(method) in own for method in methods)


def package_of(method: Any) -> str:
    """Return the package whose code a method is; empty where it is none of Python."""
    names = method.__globals__ if type(method) is FunctionType else {}
    return str(names.get("__name__", "")).partition(".")[0]


def stand_in_for(transport: Any, *, most: int) -> PlainHttp | None:
    """Make what sends in the place of a transport that connects straight to whom it asks.

    It has the certificates and socket options of the transport. There is none where that goes by a
    proxy or a socket of the application's choice, speaks HTTP/2 or bounds its connections: wherever
    more than certificates and socket options is not as usual.
    """
    usual = type(transport)(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    try:
        pool, usual_pool = transport._pool, usual._pool
        if _settings(transport) != _settings(usual) or _settings(pool) != _settings(usual_pool):
            return None
        if any(vars(pool)[bound] < vars(usual_pool)[bound] for bound in _BOUNDS):
            return None
        options = pool._socket_options or ()
        return PlainHttp(most=most, tls=pool._ssl_context, socket_options=options)
    except (AttributeError, KeyError, TypeError):  # a version that builds them otherwise
        return None


def _settings(part: Any) -> tuple[type, Mapping[str, object]]:
    """Describe a part of a transport; objects in it count by their types."""
    free = (*_BOUNDS, "_socket_options", "close", "aclose")
    return type(part), {
        name: value if isinstance(value, (type(None), int, float, str)) else type(value)
        for name, value in vars(part).items()
        if name not in free
    }


class StandIns:
    """Send what clients of an application ask, each by connections of its own.

    They stand in for transports that connect as they come, with the certificates and the socket
    options of each. Their connections are closed with the transport.

    Args:
        library: whose transports they are.
        plain: the method by which those send.
        most: bytes that are read of a reply.
        awaits: of awaitable clients, whose event loop the stand-ins do not need: what else runs
            there is not in the seconds of a call.
    """

    def __init__(
        self, library: Any, plain: Callable[[Any, Any], Any], *, most: int, awaits: bool = False
    ) -> None:
        self._library = library
        self._most = most
        self._awaits = awaits
        self._kind = getattr(library, "AsyncHTTPTransport" if awaits else "HTTPTransport")
        self._is_own = is_as_shipped(library, plain, awaits=awaits)
        self._by_transport: WeakKeyDictionary[Any, PlainHttp | None] = WeakKeyDictionary()

    def attempt(self, transport: Any, request: Any) -> Attempt | None:
        """Return what sends a request once, for a transport, and reads the whole reply.

        None where the transport has to send by itself.
        """
        is_sent_alike = is_plain(self._library, request, awaits=self._awaits)
        stand_in = self._of(transport) if is_sent_alike else None
        return None if stand_in is None else partial(send_plainly, stand_in, self._library, request)

    def _of(self, transport: Any) -> PlainHttp | None:
        if not self._is_own or type(transport) is not self._kind:
            return None
        if transport not in self._by_transport:
            stand_in = stand_in_for(transport, most=self._most)
            # Of two threads that come here at once the second takes what the first has made.
            stand_in = self._by_transport.setdefault(transport, stand_in)
            if stand_in is not None:
                finalize(transport, stand_in.close)
                close_along(stand_in, transport._pool, "aclose" if self._awaits else "close")
        return self._by_transport[transport]


def close_along(stand_in: PlainHttp, pool: Any, name: str) -> None:
    """Close a stand-in with a pool, which may live on: a server may wait for that at its end.

    Args:
        stand_in: to be closed.
        pool: of connections.
        name: of the method that closes the pool.
    """
    known, close = ref(pool), getattr(type(pool), name)

    def close_both() -> Any:
        stand_in.close()
        return close(known())

    setattr(pool, name, close_both)


def send_plainly(
    plain_http: PlainHttp, library: Any, request: Any, deadline: Deadline
) -> HttpReply:
    """Send a request of a library once and read the whole reply.

    Raises:
        NetworkFailed: there was no reply, or it broke off.
        TimeIsUp: it was not complete in time.
    """
    as_raised = partial(_as_raised, library, request=request)
    return receive(plain_http, library, _as_sent(request), deadline, as_raised=as_raised)


def receive(
    plain_http: PlainHttp,
    library: Any,
    sent: PlainRequest,
    deadline: Deadline,
    *,
    as_raised: Callable[[NetworkFailed], Exception],
) -> HttpReply:
    """Send a request once, read the whole reply and unpack it; raises as ``send_plainly``.

    Args:
        plain_http: sends it.
        library: unpacks the reply.
        sent: the request.
        deadline: of the call.
        as_raised: makes the error that the request's own library raises.
    """
    try:
        reply = plain_http.send(sent, deadline)
        return unpacked(library, reply, most=plain_http.most) if PACKING in reply.headers else reply
    except ReplyTooLarge as exc:
        return exc.reply
    except NetworkFailed as exc:
        raise NetworkFailed(as_raised(exc)) from exc
    except library.DecodingError as exc:
        raise NetworkFailed(exc) from exc


def is_plain(library: Any, request: Any, *, awaits: bool = False) -> bool:
    """Whether ``http.client`` sends a request as its library would, by an awaitable client too."""
    return (
        request.url.scheme in DEFAULT_PORTS
        and "transfer-encoding" not in request.headers
        and request.extensions.keys() <= {"timeout"}
        and is_as_shipped(library, awaits=awaits)
    )


def _as_sent(request: Any) -> PlainRequest:
    """Describe a request of a library, which has been read, as that would send it."""
    url, timeouts = request.url, request.extensions.get("timeout", {})
    return PlainRequest(
        origin=(url.scheme, url.raw_host.decode("ascii"), url.port),
        method=request.method,
        target=url.raw_path.decode("ascii"),
        headers=request.headers.raw,
        content=request.content,
        connect=timeouts.get("connect"),
        silence=timeouts.get("read"),
        stall=timeouts.get("write"),
    )


def _as_raised(library: Any, failed: NetworkFailed, *, request: Any) -> Exception:
    """Make the error that a library raises of one that ``http.client`` raised."""
    is_connected, error = not isinstance(failed, NotConnected), failed.error
    if isinstance(error, TimeoutError):
        kind = library.ReadTimeout if is_connected else library.ConnectTimeout
    elif isinstance(error, HTTPException):
        kind = library.RemoteProtocolError
    elif isinstance(error, OSError):
        kind = library.ReadError if is_connected else library.ConnectError
    else:
        kind = library.LocalProtocolError
    # Other words than the system's may quote a header, and so a key.
    words = str(error) if isinstance(error, OSError) else type(error).__name__
    raised: Exception = kind(words, request=request)
    return raised
