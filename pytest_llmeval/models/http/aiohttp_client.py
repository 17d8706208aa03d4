"""The adapter of aiohttp's client sessions to the hook, which takes requests and replies of httpx.

The seam is ``BaseConnector.connect``: every session asks its connector for a connection before
it sends a request. A question is given a connection from which its reply is read, so that aiohttp
itself makes the response. This module is imported where aiohttp is there, and not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from http.client import responses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp

from pytest_llmeval.models.attribution import CurrentTrial
from pytest_llmeval.models.http.client_hook import send_once_async, uncached
from pytest_llmeval.models.http.libraries import newest

if TYPE_CHECKING:
    import httpx2 as _LIBRARY  # noqa: N812 - a constant: one of the two

    from pytest_llmeval.models.interception import Interception
else:
    _LIBRARY = newest()
# They are made anew of the bytes that are sent; and of what can be unpacked here.
MADE_ANEW = ("accept-encoding", "content-encoding", "content-length", "transfer-encoding")
CODINGS = ("Accept-Encoding", "gzip, deflate")
AS_THEY_ARE = ("Accept", "Content-Type", "User-Agent")


def connecting(
    plain: Callable[..., Awaitable[Any]], _library: Any, interception: Interception
) -> Callable[..., Awaitable[Any]]:
    """Make the method by which connectors get a connection for a request."""
    most = interception.retries.max_reply_bytes

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
                send = partial(send_by_connector, connector, timeout)
                attempt = partial(send_once_async, _LIBRARY, send, request, most=most)
                reply: Any
                try:
                    reply = await question.answer_on_loop(attempt)
                except TimeoutError as exc:  # aiohttp would take it for one of connecting
                    reply = exc
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


async def request_of(sent: Any) -> SentRequest:
    """Read the body of a ``ClientRequest``, and so all of it; raises as ``SentRequest``."""
    content = getattr(sent.body, "_value", sent.body)
    if not isinstance(content, bytes) and hasattr(sent.body, "as_bytes"):  # from 3.12 on
        content = await sent.body.as_bytes()
    return SentRequest(sent, content if isinstance(content, bytes) else b"")


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
    sent = request.headers.items()
    session = aiohttp.ClientSession(
        connector=connector, connector_owner=False, cookie_jar=aiohttp.DummyCookieJar()
    )
    try:
        response = await session.post(
            **request.options,
            data=request.content,
            headers=[
                *((name, text) for name, text in sent if name.lower() not in MADE_ANEW),
                CODINGS,
            ],
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
