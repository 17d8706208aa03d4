"""Plain HTTP for questions of ours and of our clients, by ``http.client`` of the standard library.

A question through it takes half the CPU time of the next fastest library (docs/decisions/http.md),
and the interpreter's one lock bounds how many calls can be in flight. It knows no proxies: behind
one, ``transports.Connections`` sends.
"""

from __future__ import annotations

import select
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from errno import EPROTO
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader
from socket import SocketIO, socket
from threading import TIMEOUT_MAX, Event
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_llmeval import __version__
from pytest_llmeval.cache.key import DEFAULT_PORTS
from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.models.deadline import DEFAULT_SECONDS, Deadline, TimeIsUp
from pytest_llmeval.models.http.http_reply import MAX_REPLY_BYTES, HttpReply, Reading, ReplyTooLarge
from pytest_llmeval.models.http.retries import NetworkFailed
from pytest_llmeval.originals import Clock
from pytest_llmeval.safe_text import printable

if TYPE_CHECKING:
    import ssl

CONNECT_SECONDS = 5.0  # the vendors' own
PIECE = 2**16  # bytes that are read or unpacked at a time
GZIP = 31  # what zlib calls it
_INTERIM = range(102, 200)  # statuses of what comes before a reply
_FAILURES = (HTTPException, OSError, zlib.error, EOFError, ValueError)
_HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": f"pytest-llm-baseline/{__version__}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRequest:
    """A request as it is sent.

    Attributes:
        origin: scheme, host and port, None for the usual one.
        target: path and query.
        headers: all of them, in their order.
        connect: seconds for opening a connection, None for any number.
        silence: seconds for which the connection may be silent, likewise.
        stall: seconds for which it may take nothing of what is sent, likewise.
    """

    origin: tuple[str, str, int | None]
    method: str
    target: str
    headers: Sequence[tuple[str | bytes, str | bytes]]
    content: bytes
    connect: float | None
    silence: float | None
    stall: float | None


class NotConnected(NetworkFailed):
    """There was no connection to send a request by."""


class KeptConnections:
    """Connections that are kept from call to call, one for each call that is under way.

    Args:
        seconds: for how long a connection may be silent.

    Attributes:
        most: bytes that are read of a reply.
    """

    def __init__(self, seconds: float, *, most: int) -> None:
        self.most = most
        self._seconds = seconds
        # By what they are for; the last used first. append and pop are atomic.
        self._idle: defaultdict[Any, list[Any]] = defaultdict(list)
        self._is_closed = False
        self._tls: ssl.SSLContext | None = None
        self._tls_lock = fork_safe_lock()

    def close(self) -> None:
        """Close every connection; one that is in use when its reply is there."""
        self._is_closed = True
        for idle in list(self._idle.values()):
            while idle:
                idle.pop().close()

    def _keep(self, connection: Any, idle: list[Any]) -> None:
        idle.append(connection)
        if self._is_closed:  # meanwhile: after Ctrl-C nobody waits for calls under way
            self.close()

    def _tls_context(self) -> ssl.SSLContext:
        with self._tls_lock:
            if self._tls is None:
                from pytest_llmeval.models.http.sender import newest

                self._tls = newest().create_ssl_context()  # it trusts whom the SDKs trust
            return self._tls


class PlainHttp(KeptConnections):
    """Sends questions; its connections are kept by scheme, host and port.

    Args:
        seconds: for how long a connection may be silent.
        most: bytes that are read of a reply.
        tls: how to encrypt; None for as the SDKs do by themselves.
        socket_options: arguments of ``setsockopt`` for each connection.
    """

    def __init__(
        self,
        seconds: float = DEFAULT_SECONDS,
        *,
        most: int = MAX_REPLY_BYTES,
        tls: ssl.SSLContext | None = None,
        socket_options: Iterable[Sequence[Any]] = (),
    ) -> None:
        super().__init__(seconds, most=most)
        self._tls = tls
        self._socket_options = tuple(socket_options)

    def post(
        self, url: str, headers: Mapping[str, str], content: bytes, deadline: Deadline
    ) -> HttpReply:
        """Post once and read the whole reply; from any thread.

        Args:
            url: http or https, without user and password.
            headers: besides our own.
            content: the body.
            deadline: of the call.

        Raises:
            NetworkFailed: there was no reply, or it broke off.
            TimeIsUp: it was not complete in time.
        """
        parts = urlsplit(url)
        own = {"host": parts.netloc, "content-length": str(len(content)), **_HEADERS}
        try:
            request = PlainRequest(
                origin=(parts.scheme, parts.hostname or "", parts.port),
                method="POST",
                target=f"{parts.path}?{parts.query}" if parts.query else parts.path,
                headers=[*{**own, **headers}.items()],
                content=content,
                connect=CONNECT_SECONDS,
                silence=self._seconds,
                stall=self._seconds,
            )
            reply = self.send(request, deadline)
            return replace(reply, body=_unpacked(reply, most=self.most))
        except ReplyTooLarge as exc:
            return exc.reply
        except _FAILURES as exc:
            raise NetworkFailed(exc) from exc

    def send(self, request: PlainRequest, deadline: Deadline) -> HttpReply:
        """Send a request once and read the whole reply as it is packed; from any thread.

        Raises:
            NetworkFailed: there was no reply, or it broke off; ``NotConnected`` if nothing was
                sent.
            ReplyTooLarge: more came than may be read.
            TimeIsUp: it was not complete in time.
        """
        idle = self._idle[request.origin]
        reading = Reading(most=self.most)
        try:
            connection = self._connected(request, idle, deadline=deadline)
        except _FAILURES as exc:
            raise NotConnected(exc) from exc
        end = Clock.seconds() + deadline.left
        try:
            with _response(connection.sock, request, end=end) as response:
                body = _read(response, reading)
        except (*_FAILURES, ReplyTooLarge) as exc:
            connection.close()
            if isinstance(exc, ReplyTooLarge):
                raise
            if isinstance(exc, OSError) and Clock.seconds() >= end:
                raise TimeIsUp from exc
            raise NetworkFailed(exc) from exc
        finally:
            deadline.left = end - Clock.seconds()
        if response.will_close:
            connection.close()
        else:
            self._keep(connection, idle)
        return HttpReply(
            status=response.status,
            headers=_by_name(response.getheaders()),
            body=body,
            seconds=Clock.seconds() - reading.started,
            first_chunk_seconds=reading.first,
        )

    def _connected(
        self, request: PlainRequest, idle: list[HTTPConnection], *, deadline: Deadline
    ) -> HTTPConnection:
        while idle:
            connection = idle.pop()
            if _is_alive(connection):
                return connection
            connection.close()
        connection = self._open(*request.origin)
        connection.timeout = request.connect
        _connect(connection, deadline, options=self._socket_options)
        return connection

    def _open(self, scheme: str, host: str, port: int | None) -> HTTPConnection:
        port = port or DEFAULT_PORTS.get(scheme, 80)  # else an IPv6 host would be cut
        if scheme == "https":
            tls = self._tls_context()
            tls.set_alpn_protocols(["http/1.1"])  # others share the context, and may speak HTTP/2
            return HTTPSConnection(host, port, context=tls)
        return HTTPConnection(host, port)


def _connect(
    connection: HTTPConnection, deadline: Deadline, *, options: Iterable[Sequence[Any]]
) -> None:
    """Connect in a thread that can be left behind: to look a host up may take any time."""
    is_late = Event()

    def connect() -> None:
        connection.connect()
        for option in options:
            connection.sock.setsockopt(*option)
        if is_late.is_set():
            connection.close()

    try:
        deadline.run(connect)
    except BaseException:
        is_late.set()
        connection.close()
        raise


def _response(sock: socket, request: PlainRequest, *, end: float) -> HTTPResponse:
    """Send a request and read the head of the reply, until the end of the time.

    Head and body are sent together, which ``http.client`` does one after the other. Each is a
    system call, two with the wait for room, and so a turn of the interpreter's lock.
    """
    content = memoryview(_as_bytes(request))
    try:
        while content:  # sendall bounds the whole of it, not the silence
            _allow_silence(sock, request.stall, end=end)
            content = content[sock.send(content) :]
    except TimeoutError:
        raise
    except OSError:  # who refuses what is large may answer, and close, before all is sent
        pass
    response = HTTPResponse(sock, method=request.method)
    response.fp.close()
    response.fp = BufferedReader(_PunctualReader(sock, request.silence, end=end))
    try:
        response.begin()
        while response.status in _INTERIM:  # of these http.client knows the first alone
            response.headers = None  # type: ignore[assignment]  # so it begins anew
            response.begin()
    except BaseException:
        response.close()
        raise
    return response


def _as_bytes(request: PlainRequest) -> bytes:
    """Write a request as it is sent.

    Raises:
        ValueError: its head has a character that no head can have.
    """
    lines = [f"{request.method} {request.target} HTTP/1.1".encode("ascii")]
    for name, text in request.headers:
        # In these codes a header is read on the other side.
        raw = name if isinstance(name, bytes) else name.encode("ascii")
        lines.append(b"%b: %b" % (raw, text if isinstance(text, bytes) else text.encode("latin-1")))
    head = b"\n".join(lines)
    has_line_end = head.count(b"\n") >= len(lines) or b"\r" in head or b"\0" in head
    if has_line_end or " " in request.target or not request.target.isprintable():
        raise ValueError("the head of the request has a space or a line end in it")
    return head.replace(b"\n", b"\r\n") + b"\r\n\r\n" + request.content


class _PunctualReader(SocketIO):
    """The bytes of a socket, which may be silent for so many seconds, until the end of the time."""

    def __init__(self, sock: socket, silence: float | None, *, end: float) -> None:
        super().__init__(sock, "r")
        self._allow_silence = partial(_allow_silence, sock, silence, end=end)

    def readinto(self, buffer: Any) -> int | None:
        self._allow_silence()
        return super().readinto(buffer)


def _allow_silence(sock: socket, most: float | None, *, end: float) -> None:
    """Bound the seconds that a socket waits, give or take a hundredth.

    To set the bound anew each time would be a turn of the interpreter's lock before every read.

    Args:
        sock: is about to wait.
        most: so many seconds, None for any number.
        end: of the time, which bounds them too.

    Raises:
        TimeoutError: there are none.
    """
    left = end - Clock.seconds()
    silence = left if most is None else min(most, left)
    if silence <= 0:
        raise TimeoutError
    if not silence <= (sock.gettimeout() or 0.0) <= silence * 1.01:
        sock.settimeout(min(silence, TIMEOUT_MAX))


def _is_alive(connection: HTTPConnection) -> bool:
    """Return whether the server has kept its end open: a closed one can be read before we ask."""
    waits = select.poll() if hasattr(select, "poll") else None
    if waits is None:
        return not select.select([connection.sock], [], [], 0)[0]
    waits.register(connection.sock, select.POLLIN)
    return not waits.poll(0)


def _read(response: HTTPResponse, reading: Reading) -> bytes:
    """Read the body of a reply as it came; raises ReplyTooLarge."""
    if response.length is not None:  # only if it reads to the end it tells that bytes are missing
        if response.length > reading.most:
            raise ReplyTooLarge(reading.most)
        if response.length:
            response.fp.peek(1)
            reading.add(b"")
        return response.read()
    return reading.add_all(iter(lambda: response.read1(PIECE), b""))


def _by_name(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return headers by lower-case name; several of one name are one list."""
    by_name: dict[str, str] = {}
    for name, text in headers:
        known = by_name.get(name.lower())
        by_name[name.lower()] = text if known is None else f"{known}, {text}"
    return by_name


def _unpacked(reply: HttpReply, *, most: int) -> bytes:
    """Unpack a reply that was packed though it was not asked to be; raises ReplyTooLarge."""
    packing = reply.headers.get("content-encoding", "identity").lower()
    if packing in ("gzip", "x-gzip"):
        return Reading(most=most).add_all(_inflated(reply.body))
    if packing != "identity":
        why = f"the reply is packed as '{printable(packing[:40])}', which was not asked for"
        raise OSError(EPROTO, why)  # the only kind of error whose words are shown
    return reply.body


def _inflated(packed: bytes) -> Iterator[bytes]:
    """Unpack gzip, of which there may be several one after the other, piece by piece."""
    while packed:
        member = zlib.decompressobj(wbits=GZIP)
        while not member.eof:
            piece = member.decompress(packed, PIECE)
            packed = member.unconsumed_tail
            if not (piece or packed or member.eof):
                raise EOFError("the packed reply is cut off")
            yield piece
        packed = member.unused_data.lstrip(b"\0")
