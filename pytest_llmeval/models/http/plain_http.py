"""Plain HTTP for our own questions, by ``http.client`` of the standard library.

A question through it takes half the CPU time of the next fastest library (docs/decisions/http.md),
and the interpreter's one lock bounds how many calls can be in flight. It knows no proxies: behind
one, ``transports.Connections`` sends.
"""

from __future__ import annotations

import select
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EPROTO
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader, RawIOBase
from socket import socket
from threading import TIMEOUT_MAX, Event
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from pytest_llmeval import __version__
from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.models.deadline import DEFAULT_SECONDS, Deadline, TimeIsUp
from pytest_llmeval.models.http.http_reply import MAX_REPLY_BYTES, HttpReply, Reading, ReplyTooLarge
from pytest_llmeval.models.http.retries import NetworkFailed
from pytest_llmeval.safe_text import printable

if TYPE_CHECKING:
    import ssl

CONNECT_SECONDS = 5.0  # the vendors' own
PIECE = 2**16  # bytes that are read or unpacked at a time
GZIP = 31  # what zlib calls it
_FAILURES = (HTTPException, OSError, zlib.error, EOFError, ValueError)
_HEADERS = {"accept": "application/json", "user-agent": f"pytest-llm-baseline/{__version__}"}


class KeptConnections:
    """Connections that are kept from call to call, one for each call that is under way.

    Args:
        seconds: for how long a connection may be silent.
        most: bytes that are read of a reply.
    """

    def __init__(self, seconds: float = DEFAULT_SECONDS, *, most: int = MAX_REPLY_BYTES) -> None:
        self._seconds = seconds
        self._most = most
        # By what they are for; the last used first. append and pop are atomic.
        self._idle: defaultdict[Any, list[Any]] = defaultdict(list)
        self._is_closed = False

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


class PlainHttp(KeptConnections):
    """Posts questions; its connections are kept by scheme and host."""

    def __init__(self, seconds: float = DEFAULT_SECONDS, *, most: int = MAX_REPLY_BYTES) -> None:
        super().__init__(seconds, most=most)
        self._tls: ssl.SSLContext | None = None
        self._tls_lock = fork_safe_lock()

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
        idle = self._idle[parts.scheme, parts.netloc]
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        started = time.perf_counter()
        connection: HTTPConnection | None = None
        try:
            connection = self._connected(parts, idle, deadline=deadline)
            with _until(deadline, connection, silence=self._seconds):
                connection.request("POST", target, body=content, headers={**_HEADERS, **headers})
                response = connection.getresponse()
                body = _decoded(response, most=self._most)
        except (*_FAILURES, ReplyTooLarge) as exc:
            if connection is not None:
                connection.close()
            if isinstance(exc, ReplyTooLarge):
                return exc.reply
            raise NetworkFailed(exc) from exc
        reply_headers = {name.lower(): value for name, value in response.getheaders()}
        if connection.sock is not None:  # else the server wanted it closed
            self._keep(connection, idle)
        seconds = time.perf_counter() - started
        return HttpReply(status=response.status, headers=reply_headers, body=body, seconds=seconds)

    def _connected(
        self, parts: SplitResult, idle: list[HTTPConnection], *, deadline: Deadline
    ) -> HTTPConnection:
        while idle:
            connection = idle.pop()
            if _is_alive(connection):
                return connection
            connection.close()
        connection = self._open(parts)
        _connect(connection, deadline)
        return connection

    def _open(self, parts: SplitResult) -> HTTPConnection:
        host = parts.hostname or ""
        if parts.scheme == "https":
            return _SecureConnection(
                host, parts.port, timeout=CONNECT_SECONDS, context=self._tls_context()
            )
        return _Connection(host, parts.port, timeout=CONNECT_SECONDS)

    def _tls_context(self) -> ssl.SSLContext:
        with self._tls_lock:
            if self._tls is None:
                from pytest_llmeval.models.http.libraries import newest

                self._tls = newest.create_ssl_context()  # it trusts whom the SDKs trust
            return self._tls


class _Connection(HTTPConnection):
    """Sends head and body of a request together, which the library does one after the other.

    Each is a system call, two with the wait for room, and so a turn of the interpreter's lock.
    """

    _held: list[bytes] | None = None

    def request(self, *args: Any, **kwargs: Any) -> None:
        held = self._held = []
        try:
            super().request(*args, **kwargs)
        finally:
            self._held = None
        self.send(b"".join(held))

    def send(self, data: Any) -> None:
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)


class _SecureConnection(_Connection, HTTPSConnection):
    """The same over TLS."""


def _connect(connection: HTTPConnection, deadline: Deadline) -> None:
    """Connect in a thread that can be left behind: to look a host up may take any time."""
    is_late = Event()

    def connect() -> None:
        connection.connect()
        if is_late.is_set():
            connection.close()

    try:
        deadline.run(connect)
    except TimeIsUp:
        is_late.set()
        connection.close()
        raise


@contextmanager
def _until(deadline: Deadline, connection: HTTPConnection, *, silence: float) -> Iterator[None]:
    """Let a connection be used until the deadline of a call, and be silent for some seconds.

    Raises:
        TimeIsUp: nothing is left of that time.
    """
    started = time.perf_counter()
    end = started + deadline.left
    silence = min(silence, deadline.left)
    connection.response_class = partial(_PunctualResponse, end=end)  # type: ignore[assignment]
    try:
        _allow(connection.sock, silence, least=silence)
        yield
    except OSError:
        if time.perf_counter() < end:
            raise
        connection.close()
        raise TimeIsUp from None
    finally:
        deadline.allows(time.perf_counter() - started)


class _PunctualResponse(HTTPResponse):
    """A reply that is not read beyond the end of the time."""

    def __init__(self, sock: socket, *, method: str | None = None, end: float) -> None:
        super().__init__(sock, method=method)
        self.fp = BufferedReader(_PunctualReader(self.fp.detach(), sock, end=end))


class _PunctualReader(RawIOBase):
    """The bytes of a socket, until the end of the time."""

    def __init__(self, raw: RawIOBase, sock: socket, *, end: float) -> None:
        self._raw = raw
        self._sock = sock
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        _allow(self._sock, self._end - time.perf_counter())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _allow(sock: socket, most: float, *, least: float = 0.0) -> None:
    """Bound the seconds that a socket waits, give or take a hundredth.

    To set the bound anew each time would be a turn of the interpreter's lock before every read.

    Raises:
        TimeoutError: there are none.
    """
    if most <= 0:
        raise TimeoutError
    if not least <= (sock.gettimeout() or 0.0) <= most * 1.01:
        sock.settimeout(min(most, TIMEOUT_MAX))


def _is_alive(connection: HTTPConnection) -> bool:
    """Return whether the server has kept its end open: a closed one can be read before we ask."""
    waits = select.poll() if hasattr(select, "poll") else None
    if waits is None:
        return not select.select([connection.sock], [], [], 0)[0]
    waits.register(connection.sock, select.POLLIN)
    return not waits.poll(0)


def _decoded(response: HTTPResponse, *, most: int) -> bytes:
    """Read a reply to its end, packed though it was not asked to be; raises ReplyTooLarge."""
    body = _read(response, most)
    packing = (response.getheader("content-encoding") or "identity").lower()
    if packing in ("gzip", "x-gzip"):
        return Reading(most=most).add_all(_inflated(body))
    if packing != "identity":
        why = f"the reply is packed as '{printable(packing[:40])}', which was not asked for"
        raise OSError(EPROTO, why)  # the only kind of error whose words are shown
    return body


def _read(response: HTTPResponse, most: int) -> bytes:
    """Read a reply as it came."""
    if response.length is not None:  # only if it reads to the end it tells that bytes are missing
        if response.length > most:
            raise ReplyTooLarge(most)
        return response.read()
    return Reading(most=most).add_all(iter(lambda: response.read(PIECE), b""))


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
