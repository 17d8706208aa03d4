"""The sender: requests of httpx and httpx2 go out as the transport of their client sends them.

They go by connections of its pool's own kind, with its certificates, proxies and sockets, which are
kept here. A pool that many calls share looks at every idle connection before each of them, and each
look is a turn of the interpreter's lock; what a transport makes around a connection costs as much
as the connection. Sockets look at the time that their call has left before they wait, so no thread
has to be left behind when it is over. Connections block, those of awaitable transports, too: what
else runs on the event loop is not in the seconds of a call, and no connection belongs to a loop.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from errno import EPROTO
from functools import cache, partial
from importlib import import_module
from inspect import signature
from json import dumps
from threading import TIMEOUT_MAX, Event
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, finalize, ref

from pytest_llmeval.cache.key import DEFAULT_PORTS
from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.models.http import http_reply
from pytest_llmeval.models.http.attempt import NetworkFailed, Send
from pytest_llmeval.models.http.dialect import HttpRequest
from pytest_llmeval.models.http.seam import PACKING, send_once, unpacked
from pytest_llmeval.models.limits.deadline import Deadline, TimeIsUp
from pytest_llmeval.originals import Clock
from pytest_llmeval.safe_text import printable
from pytest_llmeval.version import __version__

if TYPE_CHECKING:
    import ssl

# The packages whose pools of connections they send through.
CORES = {"httpx": "httpcore", "httpx2": "httpcore2"}
HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": f"pytest-llm-baseline/{__version__}",
}
PACKINGS = ("gzip", "identity")
CONNECT_SECONDS = 5.0  # the vendors' own
TIMEOUTS = {"timeout": {"connect": CONNECT_SECONDS}}
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


@cache
def library_of(kind: Any) -> Any:
    """Return the library of a class of requests, which may be derived from the library's own."""
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


def package_of(method: Any) -> str:
    """Return the package whose code a method is; empty where it is none of Python.

    What a tracer puts there may bear the name of what it wraps, but not its global variables;
    wrapt's objects, with which OpenTelemetry traces, are no functions.
    """
    names = method.__globals__ if type(method) is FunctionType else {}
    return str(names.get("__name__", "")).partition(".")[0]


class Sender:
    """Sends requests once, each as its client's transport would. From any thread.

    Args:
        most: bytes that are read of a reply.
    """

    def __init__(self, *, most: int) -> None:
        self.most = most
        self._connections: WeakKeyDictionary[Any, IdleConnections | None] = WeakKeyDictionary()
        self._clients: dict[Any, Any] = {}  # of ours, by library
        self._ways: dict[str, _Way] = {}  # of our questions, by URL
        self._opening = fork_safe_lock()
        self._tls: ssl.SSLContext | None = None

    def attempt(self, library: Any, transport: Any, request: Any, plain: Any = None) -> Send:
        """Return what sends a request, which was read, by a blocking transport.

        Args:
            library: of the request.
            transport: of its client.
            request: to be sent.
            plain: the method by which such transports send; None for the one that they have now.
        """
        plain = plain or library.HTTPTransport.handle_request
        beside = self.beside(library, transport, request, plain)
        if beside is not None:
            return beside
        receive = partial(send_once, library, partial(plain, transport), request, most=self.most)
        # Its deadline is kept by a thread, which is left behind.
        return lambda deadline: deadline.run(receive)

    def beside(
        self, library: Any, transport: Any, request: Any, plain: Any, *, awaits: bool = False
    ) -> Send | None:
        """Return what sends a request as a transport would, by connections that are kept here.

        None where the transport has to send by itself: somebody stands below it (what stubs,
        recorders and tracers put there would be passed by), it is of a class of the application,
        has HTTP/2 or few connections for all calls, or connects by a way that is not its library's.
        Arguments as for ``attempt``; ``awaits`` for an awaitable transport.
        """
        own = {library.__name__, CORES[library.__name__], __package__.partition(".")[0]}
        methods = (plain, _of_pool(library, awaits=awaits) or plain)
        if request.url.scheme not in DEFAULT_PORTS or not own.issuperset(map(package_of, methods)):
            return None
        connections = self._of(library, transport)
        return None if connections is None else partial(connections.send, request)

    def own(self, library: Any, url: Any) -> Any:
        """Return the blocking transport of ours for a URL: as the environment has proxies."""
        with self._opening:
            if library not in self._clients:
                self._tls = self._tls or newest().create_ssl_context()  # trusts whom SDKs trust
                self._clients[library] = library.Client(verify=self._tls)
        return self._clients[library]._transport_for_url(url)

    def post(self, url: str, question: HttpRequest, deadline: Deadline) -> http_reply.HttpReply:
        """Post a question of our own once and read the whole reply, past the SDKs.

        Args:
            url: http or https, without user and password.
            question: what is asked; its headers come besides our own.
            deadline: of the call.

        Raises:
            NetworkFailed: there was no reply, or it broke off.
            TimeIsUp: it was not complete in time.
        """
        library = newest()
        body = dumps(question.body, separators=(",", ":"), ensure_ascii=False).encode()
        try:
            way = self._ways.get(url)
            if way is None:
                parsed = library.URL(url)
                transport = self.own(library, parsed)
                way = self._ways[url] = parsed, transport, self._of(library, transport)
            parsed, transport, connections = way
            every = {
                "host": parsed.netloc.decode("ascii"),
                **HEADERS,
                "content-length": str(len(body)),
                **question.headers,
            }
            raw = []
            for name, text in every.items():
                raw.append((name.encode("ascii"), text.encode("latin-1")))
            if connections is None:  # a version of the library that is not known
                request = library.Request("POST", parsed, headers=raw, content=body)
                reply = self.attempt(library, transport, request)(deadline)
            else:
                headers = SimpleNamespace(raw=raw)
                sent = SimpleNamespace(
                    method="POST", url=parsed, headers=headers, content=body, extensions=TIMEOUTS
                )
                reply = connections.send(sent, deadline)
        except (library.InvalidURL, ValueError) as exc:
            raise NetworkFailed(exc) from exc
        except NetworkFailed as exc:
            raise NetworkFailed(_system_error(exc) or exc.error) from exc
        packing = reply.headers.get(PACKING, "identity").lower()
        if packing not in PACKINGS:
            why = f"the reply is packed as '{printable(packing[:40])}', which was not asked for"
            raise NetworkFailed(OSError(EPROTO, why))  # the only error whose words are shown
        return reply

    def close(self) -> None:
        """Close every connection; one that is in use when its reply is there."""
        with self._opening:
            for client in self._clients.values():
                client.close()
            self._clients.clear()
            self._ways.clear()
        for connections in filter(None, list(self._connections.values())):
            connections.close()

    def _of(self, library: Any, transport: Any) -> IdleConnections | None:
        """Return what keeps the connections of a transport; None for one that is not known."""
        if transport not in self._connections:
            pool = _pool_to_copy(library, transport)
            made = None if pool is None else IdleConnections(library, pool, most=self.most)
            # Of two threads that come here at once the second takes what the first has made.
            made = self._connections.setdefault(transport, made)
            if made is not None:
                finalize(transport, made.close)
                close_along(made.close, transport._pool, ("close", "aclose"))
        return self._connections[transport]


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


# A URL that was parsed, the transport that leads there, and what keeps its connections.
_Way = tuple[Any, Any, "IdleConnections | None"]


def _system_error(exc: BaseException) -> OSError | None:
    """Find the error of the system below that of a library, which says more; None if none is."""
    below = exc.__cause__
    return below if below is None or isinstance(below, OSError) else _system_error(below)


class IdleConnections:
    """The connections of one transport that no call uses now; the last used first.

    Args:
        library: of the transport.
        pool: of it.
        most: bytes that are read of a reply.
    """

    def __init__(self, library: Any, pool: Any, *, most: int) -> None:
        self._library, self._core = library, sys.modules[CORES[library.__name__]]
        self._options, self._kind = _options(pool), _blocking_kind(pool)
        self._most = most
        # By scheme, host and port. append and pop are atomic.
        self._idle: defaultdict[Any, list[tuple[PunctualSockets, Any]]] = defaultdict(list)
        self._is_closed = False

    def send(self, request: Any, deadline: Deadline) -> http_reply.HttpReply:
        """Send a request once and read the whole reply.

        Args:
            request: of the library, which was read; or an object that has its parts.
            deadline: of the call.

        Raises:
            NetworkFailed: there was no reply, or it broke off.
            TimeIsUp: it was not complete in time.
        """
        library, core = self._library, self._core
        try:
            return unpacked(library, self._exchange(request, deadline), most=self._most)
        except http_reply.ReplyTooLarge as exc:
            return exc.reply
        except TimeIsUp:
            raise
        except Exception as exc:  # a TLS error can come as it is
            name = type(exc).__name__
            if getattr(core, name, None) is not type(exc):
                raise NetworkFailed(exc) from exc
            # Other words than the system's may quote a header, and so a key.
            words = str(exc) if _system_error(exc) else name
            raise NetworkFailed(getattr(library, name)(words, request=request)) from exc

    def _exchange(self, request: Any, deadline: Deadline) -> http_reply.HttpReply:
        url, core = request.url, self._core
        where = {"scheme": url.raw_scheme, "host": url.raw_host, "port": url.port}
        sent = core.Request(
            request.method,
            core.URL(target=url.raw_path, **where),
            headers=request.headers.raw,
            content=request.content,
            extensions=request.extensions,
        )
        idle = self._idle[tuple(where.values())]
        sockets, connection = self._taken(idle, sent.url.origin)
        reading = http_reply.Reading(Clock.seconds(), most=self._most)
        sockets.begin(deadline)
        try:
            response = connection.handle_request(sent)
            reading.add_all(response.stream)
            response.close()
        except BaseException as exc:
            connection.close()
            if isinstance(exc, core.TimeoutException) and sockets.end <= Clock.seconds():
                raise TimeIsUp from exc
            raise
        finally:
            deadline.left = sockets.end - Clock.seconds()
        if self._options["max_keepalive_connections"] and connection.is_idle():
            idle.append((sockets, connection))
        else:
            connection.close()
        if self._is_closed:  # meanwhile: after Ctrl-C nobody waits for calls under way
            self.close()
        return reading.reply(response.status, http_reply.headers_by_name(response.headers))

    def close(self) -> None:
        """Close every connection; one that is in use when its reply is there."""
        self._is_closed = True
        for idle in list(self._idle.values()):
            while idle:
                idle.pop()[1].close()

    def _taken(self, idle: list[tuple[PunctualSockets, Any]], origin: Any) -> Any:
        """Take a connection, with its sockets; a new one where none is idle."""
        while idle:
            sockets, connection = idle.pop()
            if not connection.has_expired():
                return sockets, connection
            connection.close()
        kind, options = self._kind, self._options
        usual = kind(**{**options, "network_backend": None})
        sockets = PunctualSockets(usual._network_backend)
        return sockets, kind(**{**options, "network_backend": sockets}).create_connection(origin)


class PunctualSockets:
    """Connects as a library does, by sockets that wait no longer than a call has time.

    Args:
        plain: the library's own way to connect.

    Attributes:
        end: when the time of the call is over, on ``Clock.seconds``.
    """

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.end = 0.0
        self._deadline: Deadline | None = None

    def begin(self, deadline: Deadline) -> None:
        """Let the next call begin."""
        self._deadline, self.end = deadline, Clock.seconds() + deadline.left

    def bound(self, silence: float | None) -> float | None:
        """Bound the seconds that a socket waits; None for any number. Raises TimeIsUp."""
        left = self.end - Clock.seconds()
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
        self._deadline.left = self.end - Clock.seconds()
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

    Attributes:
        close: closes it; ``get_extra_info`` tells of the socket.
    """

    def __init__(self, plain: Any, bound: Callable[[float | None], float | None]) -> None:
        self._plain = plain
        self.close, self.get_extra_info = plain.close, plain.get_extra_info
        self._bound = bound
        self._held = b""

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        """Write what is held, then read what has come, or wait for it."""
        if self._held:
            held, self._held = self._held, b""
            try:
                self._plain.write(held, self._bound(timeout))
            except Exception as exc:
                if type(exc).__name__ != "WriteError":  # who refuses may have answered already
                    raise
        return self._plain.read(max_bytes, self._bound(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all, a piece at a time; hold what is small, as a head is: its body comes next."""
        self._held += buffer
        if len(self._held) > PIECE:
            whole, self._held = self._held, b""
            for begin in range(0, len(whole), PIECE):
                self._plain.write(whole[begin : begin + PIECE], self._bound(timeout))

    def start_tls(self, ssl_context: Any, server_hostname: Any = None, timeout: Any = None) -> Any:
        """Encrypt what follows."""
        started = self._plain.start_tls(ssl_context, server_hostname, self._bound(timeout))
        return PunctualStream(started, self._bound)
