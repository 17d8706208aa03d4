"""The adapter of aiohttp's client sessions to the hook, which takes requests and replies of httpx.

The seam is ``BaseConnector.connect``: every session asks its connector for a connection before
it sends a request. A question is given a connection from which its reply is read, so that aiohttp
itself makes the response. This module is imported where aiohttp is there, and not before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import copy_context
from functools import partial
from http.client import responses
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary, finalize

import aiohttp

from pytest_llmeval.models.attribution import CurrentTrial, charging
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.seam import send_once_async, uncached
from pytest_llmeval.models.http.sender import close_along, newest, package_of
from pytest_llmeval.models.interception import Interception, Method
from pytest_llmeval.models.limits.deadline import run_on_loop
from pytest_llmeval.originals import Clock

_LIBRARY: Any = newest()
# They are made anew of the bytes that are sent; and of what can be unpacked here.
MADE_ANEW = ("accept-encoding", "content-encoding", "content-length", "transfer-encoding")
CODINGS = ("Accept-Encoding", "gzip, deflate")
AS_THEY_ARE = ("Accept", "Content-Type", "User-Agent")
# Settings of a connector that say nothing of its own; one that another version lacks says nothing.
USUAL = {"_family": 0, "_local_addr_infos": None, "_socket_factory": None, "_limit_per_host": 0}
RESOLVERS = (aiohttp.ThreadedResolver, aiohttp.AsyncResolver)
LIMIT = 100  # connections, by default


def connecting(plain: Method, _library: Any, interception: Interception) -> Method:
    """Make the method by which connectors get a connection for a request."""
    beside, most = LoopBeside(), interception.sender.most
    interception.undoing.callback(beside.close)

    async def connect(connector: Any, sent: Any, traces: Any, timeout: Any) -> Any:
        candidate = interception.candidate(sent)
        if candidate is not None:
            try:
                request = await request_of(sent, timeout)
            except AttributeError as exc:
                interception.note_unknown(aiohttp, exc)
                return await plain(connector, sent, traces, timeout)
            question = interception.question(HttpxNames, request, candidate)
            if question is not None:
                reply: Any
                try:
                    once = partial(send_by_connector, timeout=timeout, request=request, most=most)
                    if _is_usual(connector, sent):
                        own = partial(beside.send, connector, once)
                        run = partial(run_on_loop, own, beside.loop(), copy_context())
                        reply = await question.answer_async(run)
                    else:
                        reply = await question.answer_on_loop(partial(once, connector))
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


class HttpxNames:
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
        told = [f"{name}: {headers[name]}" for name in headers]
        begin = f"HTTP/1.1 {status} {responses.get(status, '')}"
        return _bytes("\r\n".join((begin, *told, "", ""))) + stream


async def request_of(sent: Any, timeout: Any) -> SimpleNamespace:
    """Read the body of a request; return the parts as httpx has them, and how else it is sent.

    Args:
        sent: the ``ClientRequest`` of a session.
        timeout: of the session.

    Raises:
        AttributeError: this aiohttp is not known.
    """
    content = getattr(sent.body, "_value", sent.body)
    if not isinstance(content, bytes) and hasattr(sent.body, "as_bytes"):  # from 3.12 on
        content = await sent.body.as_bytes()
    url, proxy, auth = sent.url, sent.proxy, getattr(sent, "proxy_auth", None)
    if auth is not None:
        proxy = proxy.with_user(auth.login).with_password(auth.password)
    netloc, raw_path = url.host_port_subcomponent.encode(), url.raw_path_qs.encode()
    own = {"ssl": sent.ssl, "server_hostname": sent.server_hostname}
    return SimpleNamespace(
        method=sent.method,
        url=SimpleNamespace(scheme=url.scheme, netloc=netloc, raw_path=raw_path),
        headers=sent.headers,
        content=content if isinstance(content, bytes) else b"",
        extensions={"timeout": {"read": timeout.sock_read or timeout.total}},
        options={**own, "url": url, "proxy": proxy, "proxy_headers": sent.proxy_headers},
    )


class LoopBeside:
    """An event loop in a thread of its own, and a connector on it for each of an application.

    What else runs on the loop of the application is not in the seconds of a call.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connectors: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which runs; a new one in a process that was forked."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            self._connectors.clear()
            self._loop = asyncio.new_event_loop()
            Clock.keep(self._loop)
            self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
            with charging(None):  # it is not the work of a trial
                self._thread.start()
        return self._loop

    async def send(self, connector: Any, once: Callable[[Any], Awaitable[HttpReply]]) -> HttpReply:
        """Send a question, on the loop, in the place of a connector.

        Args:
            connector: of the application.
            once: sends it by a connector that it is given, and reads the whole reply.
        """
        if connector not in self._connectors:
            self._connectors[connector] = own = _Connector(ssl=connector._ssl, limit=0)
            close = partial(self._close, own)
            finalize(connector, close)
            close_along(close, connector, ("close",))
        own = self._connectors[connector]
        own.under_way += 1
        try:
            return await once(own)
        finally:
            own.under_way -= 1
            await own.close_unless_used()

    def close(self) -> None:
        """Close all connections, and the loop."""
        if self._loop is None or self._thread is None or not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for own in list(self._connectors.values()):
            await own.close()

    def _close(self, own: _Connector) -> None:
        own.is_over = True
        if self._loop is not None and not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(own.close_unless_used(), self._loop)


class _Connector(aiohttp.TCPConnector):  # type: ignore[misc]
    """A connector of ours. What is under way when it is over is paid for, and comes to its end."""

    under_way = 0
    is_over = False

    async def close_unless_used(self) -> None:
        """Close it, if it is over and no call uses it."""
        if self.is_over and not self.under_way:
            await self.close()


def _is_usual(connector: Any, sent: Any) -> bool:
    """Whether a connector connects straight to whom a request asks, as by default."""
    if sent.loop is not asyncio.get_running_loop() or connector.closed:
        return False
    connects = aiohttp.TCPConnector._create_connection
    return (
        type(connector) is aiohttp.TCPConnector
        and type(sent) is aiohttp.ClientRequest
        and package_of(connects) == "aiohttp"
        and all(getattr(connector, name, usual) == usual for name, usual in USUAL.items())
        and type(getattr(connector, "_resolver", None)) in RESOLVERS
        and hasattr(connector, "_ssl")
        and not 0 < connector.limit < LIMIT
    )


async def send_by_connector(connector: Any, *, timeout: Any, request: Any, most: int) -> HttpReply:
    """Send a question by a connector, which has its connections, and read the whole reply.

    Args:
        connector: the session's own, or one of ours on another event loop.
        timeout: of the session, for each attempt.
        request: to be sent, see ``request_of``.
        most: bytes that are read of the reply.

    Raises:
        NetworkFailed: there was no reply, or it broke off; or the connector belongs to another
            loop: if it were sent, the reply could not be read.
    """
    sent = [(name, text) for name, text in request.headers.items() if name.lower() not in MADE_ANEW]

    async def send(_: object) -> Any:
        if connector._loop is not asyncio.get_running_loop():
            raise RuntimeError("the session of aiohttp belongs to another event loop")
        session = aiohttp.ClientSession(
            connector=connector, connector_owner=False, cookie_jar=aiohttp.DummyCookieJar()
        )
        try:
            response = await session.post(
                **request.options,
                data=request.content,
                headers=[*sent, CODINGS],
                skip_auto_headers=AS_THEY_ARE,
                auto_decompress=False,
                allow_redirects=False,
                timeout=timeout,
            )
        finally:
            await session.close()  # the connections stay
        headers = [(name.encode(), _bytes(text)) for name, text in response.headers.items()]
        return _LIBRARY.Response(response.status, headers=headers, stream=_Body(response))

    return await send_once_async(_LIBRARY, send, request, most=most)


class _Body(_LIBRARY.AsyncByteStream):  # type: ignore[misc]
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
