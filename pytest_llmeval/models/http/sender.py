"""The sender: requests of httpx and httpx2 go out through the transport that their client has.

A copy of that transport sends, with its certificates, proxies and sockets, and with connections of
its own. Each copy is for one call at a time: a pool that all calls share looks at every idle
connection before each of them, and each look is a turn of the interpreter's lock. The connections
of a copy look at the time that its call has left before they wait, so no thread has to be left
behind when it is over. All copies block, those of awaitable transports, too: what else runs on the
event loop is not in the seconds of a call, and no connection belongs to a loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from inspect import signature
from threading import TIMEOUT_MAX, Event
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, finalize, ref

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.models.deadline import Deadline, TimeIsUp
from pytest_llmeval.models.http.client_hook import send_once
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.retries import Attempt, NetworkFailed
from pytest_llmeval.originals import Clock

if TYPE_CHECKING:
    import ssl

# The packages whose pools of connections they send through.
CORES = {"httpx": "httpcore", "httpx2": "httpcore2"}
CONNECT_SECONDS = 5.0  # the vendors' own
FEW = 100  # connections: a pool that has fewer was bounded by somebody
PIECE = 2**16  # bytes that are written at a time
# Arguments of a pool that it does not keep: who logs in at a proxy is in its headers.
NOT_KEPT = {"proxy_auth"}


@cache
def newest() -> Any:
    """Import the newer one of the two libraries that are here."""
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
    return sys.modules[next(name for name in packages if name in CORES)]


def is_stubbed(library: Any, *, awaits: bool) -> bool:
    """Whether respx answers what a library sends: its replies are no draws of a model.

    It puts functions of its own into the pools of connections, below the transports.
    """
    method = _of_pool(library, awaits=awaits)
    return str(getattr(method, "__module__", "")).startswith("respx.")


def _of_pool(library: Any, *, awaits: bool) -> Any:
    """Find the method of pools by which they send; None till one of them sends."""
    kind, name = ("Async", "_async") if awaits else ("", "")
    pool = getattr(sys.modules.get(CORES[library.__name__]), f"{kind}ConnectionPool", None)
    return getattr(pool, f"handle{name}_request", None)


def is_as_shipped(library: Any, plain: Any) -> bool:
    """Whether nobody but us stands between awaitable clients of a library and the network.

    A copy blocks, so it would pass by what stubs, recorders and tracers put there.

    Args:
        library: a module.
        plain: the method by which its awaitable transports send.
    """
    own = (library.__name__, CORES[library.__name__])
    return all(package_of(one) in own for one in (plain, _of_pool(library, awaits=True) or plain))


def package_of(method: Any) -> str:
    """Return the package whose code a method is; empty where it is none of Python.

    What a tracer puts there may bear the name of what it wraps, but not its global variables;
    wrapt's objects, with which OpenTelemetry traces, are no functions.
    """
    names = method.__globals__ if type(method) is FunctionType else {}
    return str(names.get("__name__", "")).partition(".")[0]


class Sender:
    """Sends requests once, each by a copy of a transport. From any thread.

    Args:
        most: bytes that are read of a reply.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._copies: WeakKeyDictionary[Any, _Copies | None] = WeakKeyDictionary()
        self._clients: dict[Any, Any] = {}  # of ours, by library
        self._opening = fork_safe_lock()
        self._tls: ssl.SSLContext | None = None

    def attempt(self, library: Any, transport: Any, request: Any) -> Attempt:
        """Return what sends a request, which was read, by a blocking transport."""
        beside = self.beside(library, transport, request)
        if beside is not None:
            return beside
        send = partial(library.HTTPTransport.handle_request, transport)
        receive = partial(send_once, library, send, request, most=self._most)
        # Its deadline is kept by a thread, which is left behind.
        return lambda deadline: deadline.run(receive)

    def beside(self, library: Any, transport: Any, request: Any) -> Attempt | None:
        """Return what sends a request by a copy of a transport.

        None where the transport has to send by itself: it is of a class of the application, has
        HTTP/2 or few connections for all calls, or connects by a way that is not its library's.
        """
        if transport not in self._copies:
            pool = _pool_to_copy(library, transport)
            copies = None if pool is None else _Copies(library, pool)
            # Of two threads that come here at once the second takes what the first has made.
            copies = self._copies.setdefault(transport, copies)
            if copies is not None:
                finalize(transport, copies.close)
                close_along(copies.close, transport._pool, ("close", "aclose"))
        copies = self._copies[transport]
        return None if copies is None else partial(copies.send, request, most=self._most)

    def own(self, request: Any) -> Any:
        """Return the blocking transport of ours for a request: as the environment has proxies."""
        library = library_of(request)
        with self._opening:
            if library not in self._clients:
                self._tls = self._tls or newest().create_ssl_context()  # trusts whom SDKs trust
                self._clients[library] = library.Client(verify=self._tls)
        return self._clients[library]._transport_for_url(request.url)

    def post(
        self, url: str, headers: Mapping[str, str], content: bytes, deadline: Deadline
    ) -> HttpReply:
        """Send a question of our own once and read the whole reply.

        Raises:
            NetworkFailed: there was no reply, or it broke off.
            TimeIsUp: it did not come in time.
        """
        library = newest()
        timeouts = {"timeout": {"connect": CONNECT_SECONDS}}
        request = library.Request(
            "POST", url, headers=headers, content=content, extensions=timeouts
        )
        return self.attempt(library, self.own(request), request)(deadline)

    def close(self) -> None:
        """Close every connection; one that is in use when its reply is there."""
        with self._opening:
            for client in self._clients.values():
                client.close()
            self._clients.clear()
        for copies in list(self._copies.values()):
            if copies is not None:
                copies.close()


def close_along(close: Callable[[], Any], owner: Any, names: Iterable[str]) -> None:
    """Close something with an object, which may live on: a server may wait for that at its end.

    Args:
        close: closes it.
        owner: the object.
        names: of the methods that close the object, as far as it has them.
    """
    known = ref(owner)

    def close_both(plain: Callable[[Any], Any]) -> Any:
        close()
        return plain(known())

    for name in names:
        if hasattr(owner, name):
            setattr(owner, name, partial(close_both, getattr(type(owner), name)))


def _pool_to_copy(library: Any, transport: Any) -> Any:
    """Return the pool of a transport that can be copied; None for any other."""
    core = CORES[library.__name__]
    try:
        if type(transport) not in (library.HTTPTransport, library.AsyncHTTPTransport):
            return None
        pool = transport._pool
        parts = (pool, pool._network_backend)
        is_own = all(type(part).__module__.partition(".")[0] == core for part in parts)
        is_shared = pool._http2 or pool._max_connections < FEW
        if not is_own or is_shared or any(map(callable, vars(pool).values())):
            return None
        _options(pool)
    except (AttributeError, KeyError, TypeError):  # a version that builds them otherwise
        return None
    return pool


def _blocking_kind(pool: Any) -> Any:
    """Find the blocking one of two classes of pools."""
    kind = type(pool)
    core = sys.modules[kind.__module__.partition(".")[0]]
    return getattr(core, kind.__name__.removeprefix("Async"))


def _options(pool: Any) -> dict[str, Any]:
    """Read the arguments with which a pool was made; raises KeyError where one is not kept."""
    names, kept = signature(_blocking_kind(pool)).parameters, vars(pool)
    return {name: kept[f"_{name}"] for name in names if f"_{name}" in kept or name not in NOT_KEPT}


class _Copies:
    """The copies of one transport that no call uses now; the last used first.

    Args:
        library: of the transport.
        pool: of it.
    """

    def __init__(self, library: Any, pool: Any) -> None:
        self._library = library
        self._options, self._kind = _options(pool), _blocking_kind(pool)
        self._idle: list[_Copy] = []  # append and pop are atomic
        self._is_closed = False

    def send(self, request: Any, deadline: Deadline, *, most: int) -> HttpReply:
        """Send a request once and read the whole reply.

        Raises:
            NetworkFailed: there was no reply, or it broke off.
            TimeIsUp: it was not complete in time.
        """
        try:
            copy = self._idle.pop()
        except IndexError:
            copy = _Copy(self._library, self._kind, self._options)
        sockets, library = copy.sockets, self._library
        sockets.begin(deadline)
        try:
            return send_once(library, copy.transport.handle_request, request, most=most)
        except NetworkFailed as exc:
            if isinstance(exc.error, library.TimeoutException) and sockets.left <= 0:
                raise TimeIsUp from exc
            raise
        finally:
            deadline.left = sockets.left
            self._idle.append(copy)
            if self._is_closed:  # meanwhile: after Ctrl-C nobody waits for calls under way
                self.close()

    def close(self) -> None:
        """Close every connection; one that is in use when its reply is there."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().transport.close()


class _Copy:
    """A copy of a transport, for one call at a time.

    Args:
        library: of the transport.
        kind: of its pool.
        options: with which that is made.
    """

    def __init__(self, library: Any, kind: Any, options: dict[str, Any]) -> None:
        usual = kind(**{**options, "network_backend": None})
        self.sockets = PunctualSockets(usual._network_backend)
        self.transport = library.HTTPTransport.__new__(library.HTTPTransport)
        self.transport._pool = kind(**{**options, "network_backend": self.sockets})


class PunctualSockets:
    """Connects as a library does, by sockets that wait no longer than a call has time.

    Args:
        plain: the library's own way to connect.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self._end = 0.0
        self._deadline: Deadline | None = None

    def begin(self, deadline: Deadline) -> None:
        """Let the next call begin."""
        self._deadline, self._end = deadline, Clock.seconds() + deadline.left

    @property
    def left(self) -> float:
        """Seconds that the call has left."""
        return self._end - Clock.seconds()

    def bound(self, silence: float | None) -> float | None:
        """Bound the seconds that a socket waits; None for any number. Raises TimeIsUp."""
        left = self._end - Clock.seconds()
        if left <= 0:
            raise TimeIsUp
        if silence is not None and silence < left:
            return silence
        return left if left <= TIMEOUT_MAX else None

    def connect_tcp(self, *where: Any, **how: Any) -> Any:
        """Connect to a host."""
        return self._opened(partial(self._plain.connect_tcp, *where, **how))

    def connect_unix_socket(self, *where: Any, **how: Any) -> Any:
        """Connect to a socket of this machine."""
        return self._opened(partial(self._plain.connect_unix_socket, *where, **how))

    def sleep(self, seconds: float) -> None:
        """Wait until a connection is tried again."""
        self._plain.sleep(self.bound(seconds))

    def _opened(self, connect: Callable[[], Any]) -> PunctualStream:
        """Connect in a thread that can be left behind: to look a host up may take any time."""
        opened, is_late = list[Any](), Event()

        def run() -> Any:
            opened.append(connect())
            if is_late.is_set():
                opened[0].close()
            return opened[0]

        assert self._deadline is not None  # noqa: S101 - a call has begun
        self._deadline.left = self.left
        try:
            return PunctualStream(self._deadline.run(run), self.bound)
        except BaseException:
            is_late.set()
            for stream in opened:
                stream.close()
            raise


class PunctualStream:
    """A connection whose waits are bounded.

    Args:
        plain: the library's own.
        bound: of the waits; see ``PunctualSockets.bound``.
    """

    def __init__(self, plain: Any, bound: Callable[[float | None], float | None]) -> None:
        self._plain = plain
        self._bound = bound

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        """Read what has come, or wait for it."""
        return self._plain.read(max_bytes, self._bound(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all, a piece at a time."""
        for begin in range(0, len(buffer), PIECE):
            self._plain.write(buffer[begin : begin + PIECE], self._bound(timeout))

    def close(self) -> None:
        """Close it."""
        self._plain.close()

    def start_tls(self, ssl_context: Any, server_hostname: Any = None, timeout: Any = None) -> Any:
        """Encrypt what follows."""
        started = self._plain.start_tls(ssl_context, server_hostname, self._bound(timeout))
        return PunctualStream(started, self._bound)

    def get_extra_info(self, info: str) -> Any:
        """Tell of the socket."""
        return self._plain.get_extra_info(info)
