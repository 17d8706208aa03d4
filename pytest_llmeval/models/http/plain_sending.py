"""Requests of httpx and httpx2, sent by plain HTTP.

They are sent as their library would send them, with its timeouts, and what fails is its error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from typing import Any
from weakref import WeakKeyDictionary, finalize, ref

from pytest_llmeval.cache.key import DEFAULT_PORTS
from pytest_llmeval.models.deadline import Deadline
from pytest_llmeval.models.http.client_hook import PACKING, send_once, unpacked
from pytest_llmeval.models.http.http_reply import HttpReply, ReplyTooLarge
from pytest_llmeval.models.http.libraries import connecting, is_as_shipped
from pytest_llmeval.models.http.plain_http import NotConnected, PlainHttp, PlainRequest
from pytest_llmeval.models.http.retries import Attempt, NetworkFailed


class StandIns:
    """Send what clients of an application ask, each by connections of its own.

    They stand in for transports that connect as they come, with the certificates and the socket
    options of each. Their connections are closed with the transport.

    Args:
        library: whose transports they are.
        plain: the method by which those send.
        most: bytes that are read of a reply.
    """

    def __init__(self, library: Any, plain: Callable[[Any, Any], Any], *, most: int) -> None:
        self._library = library
        self._plain = plain
        self._most = most
        self._is_own = is_as_shipped(library, plain)
        self._by_transport: WeakKeyDictionary[Any, PlainHttp | None] = WeakKeyDictionary()

    def attempt(self, transport: Any, request: Any) -> Attempt:
        """Return what sends a request once, for a transport, and reads the whole reply."""
        stand_in = self._of(transport) if is_plain(self._library, request) else None
        if stand_in is not None:
            return partial(send_plainly, stand_in, self._library, request)
        send = partial(self._plain, transport)
        receive = partial(send_once, self._library, send, request, most=self._most)
        return lambda deadline: deadline.run(receive)

    def _of(self, transport: Any) -> PlainHttp | None:
        if not self._is_own or type(transport) is not self._library.HTTPTransport:
            return None
        if transport not in self._by_transport:
            stand_in, way = None, connecting(self._library, transport)
            if way is not None:
                tls, socket_options = way
                stand_in = PlainHttp(most=self._most, tls=tls, socket_options=socket_options)
                finalize(transport, stand_in.close)
            # Of two threads that come here at once the second takes what the first has made.
            stand_in = self._by_transport.setdefault(transport, stand_in)
            if stand_in is not None:
                _close_along(stand_in, transport._pool)
        return self._by_transport[transport]


def _close_along(stand_in: PlainHttp, pool: Any) -> None:
    """Close a stand-in with a pool, which may live on: a server may wait for that at its end."""
    known, close = ref(pool), type(pool).close

    def close_both() -> None:
        stand_in.close()
        close(known())

    pool.close = close_both


def send_plainly(
    plain_http: PlainHttp, library: Any, request: Any, deadline: Deadline
) -> HttpReply:
    """Send a request of a library once and read the whole reply.

    Raises:
        NetworkFailed: there was no reply, or it broke off.
        TimeIsUp: it was not complete in time.
    """
    try:
        reply = plain_http.send(_as_sent(request), deadline)
        return unpacked(library, reply, most=plain_http.most) if PACKING in reply.headers else reply
    except ReplyTooLarge as exc:
        return exc.reply
    except NetworkFailed as exc:
        raise NetworkFailed(_as_raised(library, exc, request)) from exc
    except library.DecodingError as exc:
        raise NetworkFailed(exc) from exc


def is_plain(library: Any, request: Any) -> bool:
    """Whether ``http.client`` sends a request as its library would."""
    return (
        request.url.scheme in DEFAULT_PORTS
        and "transfer-encoding" not in request.headers
        and request.extensions.keys() <= {"timeout"}
        and is_as_shipped(library)
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


def _as_raised(library: Any, failed: NetworkFailed, request: Any) -> Exception:
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
