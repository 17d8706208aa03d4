"""The adapter of aiohttp's client sessions to the hook, which takes requests and replies of httpx.

The seam is ``BaseConnector.connect``: every session asks its connector for a connection before
it sends a request. A question is given a connection from which its reply is read, so that aiohttp
itself makes the response. This module is imported where aiohttp is there, and not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from http.client import RemoteDisconnected, responses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, finalize

import aiohttp

from pytest_llmeval.models.attribution import CurrentTrial
from pytest_llmeval.models.deadline import Deadline
from pytest_llmeval.models.http.client_hook import send_once_async, uncached
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.libraries import close_along, newest, package_of, receive
from pytest_llmeval.models.http.plain_http import NotConnected, PlainHttp, PlainRequest
from pytest_llmeval.models.http.retries import NetworkFailed

if TYPE_CHECKING:
    import httpx2 as _LIBRARY  # noqa: N812 - a constant: one of the two

    from pytest_llmeval.models.interception import Interception
else:
    _LIBRARY = newest()
# They are made anew of the bytes that are sent; and of what can be unpacked here.
MADE_ANEW = ("accept-encoding", "content-encoding", "content-length", "transfer-encoding")
CODINGS = ("Accept-Encoding", "gzip, deflate")
AS_THEY_ARE = ("Accept", "Content-Type", "User-Agent")
# Settings of a connector that say nothing of its own; one that another version lacks says nothing.
USUAL = {"_family": 0, "_local_addr_infos": None, "_socket_factory": None, "_limit_per_host": 0}
RESOLVERS = (aiohttp.ThreadedResolver, aiohttp.AsyncResolver)
LIMIT = 100  # connections, by default


def connecting(
    plain: Callable[..., Awaitable[Any]], _library: Any, interception: Interception
) -> Callable[..., Awaitable[Any]]:
    """Make the method by which connectors get a connection for a request."""
    most = interception.retries.max_reply_bytes
    stand_ins = StandIns(most=most)

    async def connect(connector: Any, sent: Any, traces: Any, timeout: Any) -> Any:
        candidate = interception.candidate(sent)
        if candidate is not None:
            try:
                request = await request_of(sent)
            except AttributeError as exc:
                interception.note_unknown(aiohttp, exc)
                return await plain(connector, sent, traces, timeout)
            question = interception.question(Library, request, candidate)
            if question is not None:
                request.extensions = {"timeout": {"read": timeout.sock_read or timeout.total}}
                stand_in = stand_ins.of(connector, sent)
                send = partial(send_by_connector, connector, timeout)
                on_loop = partial(send_once_async, _LIBRARY, send, request, most=most)
                reply: Any
                try:
                    if stand_in is None:
                        reply = await question.answer_on_loop(on_loop)
                    else:
                        attempt = partial(send_plainly, stand_in, request, timeout)
                        reply = await question.answer_beside_loop(attempt)
                except TimeoutError as exc:  # aiohttp would take it for one of connecting
                    reply = exc
                if connector.closed:
                    raise RuntimeError("Session is closed")
                return await plain(AnsweringConnector(reply), sent, traces, timeout)
        trial = interception.sdk_trial(sent)
        if trial is not None:
            sent.response_class = _noted(sent.response_class, trial, sent)
        with uncached(trial, sent):
            return await plain(connector, sent, traces, timeout)

    return connect


def _noted(kind: Any, trial: CurrentTrial, sent: Any) -> type:
    """Derive a class of responses that note what became of a request that is not kept."""

    class Noted(kind):  # type: ignore[misc]
        async def start(self, connection: Any) -> Any:
            with uncached(trial, sent) as came:
                started = await super().start(connection)
                came(SimpleNamespace(status_code=self.status))
                return started

    return Noted


class Library:
    """The parts of a library that the hook needs; a response is the bytes that a server sends."""

    ByteStream = bytes

    @staticmethod
    def ReadTimeout(message: str, *, request: object) -> Exception:  # noqa: N802 - as httpx names it
        """Make the error of a request that took too long."""
        error: Exception = aiohttp.ServerTimeoutError(message)
        return error

    @staticmethod
    def Response(status: int, *, headers: dict[str, str], stream: bytes) -> bytes:  # noqa: N802
        """Write a response as it is sent by HTTP/1.1."""
        lines = [
            f"HTTP/1.1 {status} {responses.get(status, '')}",
            *(f"{name}: {headers[name]}" for name in headers),
        ]
        return _bytes("\r\n".join((*lines, "", ""))) + stream


class Url(NamedTuple):
    """The parts of a URL as httpx has them."""

    scheme: str
    netloc: bytes
    raw_path: bytes


class SentRequest:
    """The parts of a request: as httpx has them, and how else it is sent.

    Args:
        sent: the ``ClientRequest`` of a session.
        content: its body.

    Raises:
        AttributeError: this aiohttp is not known.
    """

    def __init__(self, sent: Any, content: bytes) -> None:
        url, proxy, auth = sent.url, sent.proxy, getattr(sent, "proxy_auth", None)
        self.method = sent.method
        self.url = Url(url.scheme, url.host_port_subcomponent.encode(), url.raw_path_qs.encode())
        self.headers = sent.headers
        self.content = content
        self.loop = sent.loop
        self.extensions: dict[str, dict[str, float | None]] = {}
        self.options = {
            "url": url,
            "ssl": sent.ssl,
            "server_hostname": sent.server_hostname,
            "proxy": proxy
            if auth is None
            else proxy.with_user(auth.login).with_password(auth.password),
            "proxy_headers": sent.proxy_headers,
        }
        self.connection_key = sent.connection_key

    @property
    def sent_headers(self) -> list[tuple[str, str]]:
        """All headers, with those of the encoding as they are when it is sent from here."""
        sent = self.headers.items()
        return [*((name, text) for name, text in sent if name.lower() not in MADE_ANEW), CODINGS]


async def request_of(sent: Any) -> SentRequest:
    """Read the body of a ``ClientRequest``, and so all of it; raises as ``SentRequest``."""
    content = getattr(sent.body, "_value", sent.body)
    if not isinstance(content, bytes) and hasattr(sent.body, "as_bytes"):  # from 3.12 on
        content = await sent.body.as_bytes()
    return SentRequest(sent, content if isinstance(content, bytes) else b"")


class StandIns:
    """Send questions by connections of their own, each for a connector that connects as it comes.

    They need no event loop, so that what else runs there is not in the seconds of a call.

    Args:
        most: bytes that are read of a reply.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._by_connector: WeakKeyDictionary[Any, dict[Any, PlainHttp]] = WeakKeyDictionary()

    def of(self, connector: Any, sent: Any) -> PlainHttp | None:
        """Return what sends a request for a connector; None where that has to send by itself."""
        is_own = sent.loop is asyncio.get_running_loop() and not connector.closed
        try:
            if not is_own or not _is_usual(connector, sent):
                return None
            tls = connector._get_ssl_context(sent)
        except AttributeError:  # a version that has other parts
            return None
        by_tls = self._by_connector.setdefault(connector, {})
        if tls not in by_tls:
            by_tls[tls] = stand_in = PlainHttp(most=self._most, tls=tls)
            finalize(connector, stand_in.close)
            close_along(stand_in, connector, "close")
        return by_tls[tls]


def _is_usual(connector: Any, sent: Any) -> bool:
    """Whether a connector connects straight to whom a request asks, as by default."""
    connects = aiohttp.TCPConnector._create_connection
    return (
        type(connector) is aiohttp.TCPConnector
        and type(sent) is aiohttp.ClientRequest
        and package_of(connects) == "aiohttp"
        and all(getattr(connector, name, usual) == usual for name, usual in USUAL.items())
        and type(connector._resolver) in RESOLVERS
        and not 0 < connector.limit < LIMIT
        and not (sent.proxy or sent.server_hostname or connector._get_fingerprint(sent))
    )


def send_plainly(
    stand_in: PlainHttp, request: SentRequest, timeout: Any, deadline: Deadline
) -> HttpReply:
    """Send a question once in the place of a connector, and read the whole reply.

    Args:
        stand_in: sends it.
        request: to be sent.
        timeout: of the session, for each attempt.
        deadline: of the call.

    Raises:
        NetworkFailed: there was no reply, or it broke off.
        TimeIsUp: it was not complete in time.
    """
    length = ("Content-Length", str(len(request.content)))
    url = request.options["url"]
    sent = PlainRequest(
        origin=(url.scheme, url.raw_host, url.port),
        method=request.method,
        target=url.raw_path_qs,
        headers=[(name, _bytes(text)) for name, text in (*request.sent_headers, length)],
        content=request.content,
        connect=timeout.sock_connect or timeout.connect or timeout.total,
        silence=timeout.sock_read or timeout.total,
        stall=timeout.total,
    )
    as_raised = partial(_as_raised, key=request.connection_key)
    return receive(stand_in, _LIBRARY, sent, deadline, as_raised=as_raised)


def _as_raised(failed: NetworkFailed, *, key: Any) -> Exception:
    """Make the error that aiohttp raises of one that ``http.client`` raised."""
    is_connected, error = not isinstance(failed, NotConnected), failed.error
    raised: Exception
    if isinstance(error, TimeoutError):
        kind = aiohttp.SocketTimeoutError if is_connected else aiohttp.ConnectionTimeoutError
        raised = kind(str(error))
    elif isinstance(error, RemoteDisconnected):
        raised = aiohttp.ServerDisconnectedError()
    elif isinstance(error, OSError) and not is_connected:
        raised = aiohttp.ClientConnectorError(key, error)
    elif isinstance(error, OSError):
        raised = aiohttp.ClientOSError(error.errno, error.strerror)
    else:  # other words than the system's may quote a header, and so a key
        raised = aiohttp.ClientPayloadError(type(error).__name__)
    return raised


async def send_by_connector(connector: Any, timeout: Any, request: SentRequest) -> Any:
    """Send a question by the application's own connector, which has its connections.

    Args:
        connector: of the session.
        timeout: of the session, for each attempt.
        request: to be sent.

    Returns:
        A response of httpx that is not read yet.

    Raises:
        RuntimeError: the session belongs to another loop; sent, the reply could not be read.
    """
    if request.loop is not asyncio.get_running_loop():
        raise RuntimeError("the session of aiohttp belongs to another event loop")
    session = aiohttp.ClientSession(
        connector=connector, connector_owner=False, cookie_jar=aiohttp.DummyCookieJar()
    )
    try:
        response = await session.post(
            **request.options,
            data=request.content,
            headers=request.sent_headers,
            skip_auto_headers=AS_THEY_ARE,
            auto_decompress=False,
            allow_redirects=False,
            timeout=timeout,
        )
    finally:
        await session.close()  # the connections stay
    headers = [(name.encode(), _bytes(text)) for name, text in response.headers.items()]
    return _LIBRARY.Response(response.status, headers=headers, stream=_Body(response))


class _Body(_LIBRARY.AsyncByteStream):
    """The body of a response, as it comes."""

    def __init__(self, response: Any) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.content.iter_any():
            yield chunk

    async def aclose(self) -> None:
        self._response.release()


class AnsweringConnector(aiohttp.BaseConnector):  # type: ignore[misc]
    """Gives connections from which one reply is read; what is written to them goes nowhere.

    Args:
        reply: head and body, as a server sends them; or the error of reading it.
    """

    def __init__(self, reply: bytes | Exception) -> None:
        super().__init__(force_close=True)
        self._reply = reply

    async def _create_connection(self, *_args: object, **_options: object) -> Any:
        protocol, reply = self._factory(), self._reply
        if isinstance(reply, bytes):
            protocol.connection_made(_Nowhere(partial(protocol.data_received, reply)))
        else:
            protocol.connection_made(_Nowhere(lambda: None))
            protocol.set_exception(reply)
        return protocol


class _Nowhere(asyncio.Transport):
    """A transport without a network.

    Args:
        answer: receives the reply, once a request was written.
    """

    def __init__(self, answer: Callable[[], None]) -> None:
        super().__init__()
        self._answer = answer
        self._is_closing = self._was_asked = False

    def write(self, _data: object) -> None:
        if not self._was_asked:
            self._was_asked = True  # the rest of it comes before the loop goes round
            asyncio.get_running_loop().call_soon(self._reply)

    def writelines(self, _pieces: object) -> None:
        self.write(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def _reply(self) -> None:
        if not self._is_closing:
            self._answer()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # as aiohttp does
