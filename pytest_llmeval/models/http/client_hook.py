"""The shims for httpx2: under the SDKs of openai and anthropic, and for questions by a proxy.

Nothing is decided here: the library's requests and replies become ours and back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import cast

import httpx2

from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.http.exchange import (
    WIRE_HEADERS,
    Dialect,
    Exchange,
    JsonObject,
    cached_body,
)
from pytest_llmeval.models.http.httpx_messages import response, unpacked, wire_request
from pytest_llmeval.models.http.masking import secrets_of
from pytest_llmeval.models.http.streams import Reading
from pytest_llmeval.models.http.uncached import note_error, note_status, refusal, shown
from pytest_llmeval.models.limits.deadline import DEFAULT_SECONDS, Deadline
from pytest_llmeval.models.limits.retries import (
    MAX_REPLY_BYTES,
    NetworkFailed,
    RetryPolicy,
    TimedOut,
    WireReply,
)

CONNECT_SECONDS = 5.0  # the vendors' own


class _Shim:
    """What the blocking and the awaitable transport have in common.

    They leave the connections open when their client is closed: the clients of all trials
    share them.

    Args:
        connections: send a request.
        calls: the calls of the trial whose client this carries.
        dialect: the vendor of that client.
        retries: how to try again.
    """

    def __init__(
        self,
        connections: Connections,
        calls: CachedCalls,
        *,
        dialect: Dialect,
        retries: RetryPolicy,
    ) -> None:
        self._connections = connections
        self._calls = calls
        self._exchange = Exchange(dialect=dialect, calls=calls, retries=retries)

    def _pass_on(self, request: httpx2.Request) -> httpx2.Response:
        """Send what is not kept; a success is handed over unread."""
        name, trial = f"{request.method} {request.url.path}", self._calls.trial
        refused = refusal(self._calls, name)
        if refused is not None:
            return cast("httpx2.Response", response(httpx2, refused))
        try:
            sent = self._connections.pass_through(request)
            is_success = sent.status_code < HTTPStatus.BAD_REQUEST
            body = b"" if is_success else sent.read()
        except (httpx2.RequestError, OSError) as exc:
            note_error(trial, name, exc)
            raise
        note_status(trial, name, sent.status_code, body=body)
        if is_success:
            return sent
        told = WireReply(status=sent.status_code, headers=dict(sent.headers), body=body)
        query = request.url.query.decode("ascii")
        secrets = secrets_of(request.headers.items(), query=query)
        return cast("httpx2.Response", response(httpx2, shown(told, secrets)))

    def _cached_body(self, request: httpx2.Request) -> JsonObject | None:
        return cached_body(
            self._exchange.dialect,
            method=request.method,
            path=request.url.path,
            content_type=request.headers.get("content-type", ""),
            read=request.read,
        )


class CachingTransport(_Shim, httpx2.BaseTransport):
    """Answers requests to models from the store; sends what is not there."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer one request of the SDK.

        Raises:
            httpx2.RequestError: the network failed, however often it was tried.
            CacheError: the store cannot be used.
        """
        body = self._cached_body(request)
        if body is None:
            return self._pass_on(request)
        try:
            reply = self._exchange.reply(
                wire_request(request, body),
                lambda deadline: deadline.run(lambda: self._connections.send(request)),
            )
        except NetworkFailed as exc:
            error = _error(exc, request)
        else:
            return cast("httpx2.Response", response(httpx2, reply))
        # The SDK knows the errors of its own library. Raised out here so that ours
        # does not stand in the traceback.
        raise error


class AsyncCachingTransport(_Shim, httpx2.AsyncBaseTransport):
    """Does the same for an async client.

    Requests are sent by the blocking connections, in a thread each. So there are none that
    belong to an event loop and would have to be closed on it, and a call that was given up
    by the test is still paid to its end and kept.
    """

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer one request of the SDK.

        Raises:
            httpx2.RequestError: the network failed, however often it was tried.
            CacheError: the store cannot be used.
        """
        await request.aread()
        body = self._cached_body(request)
        if body is None:
            return await self._calls.trial.wait_async(lambda: self._read_through(request))
        try:
            reply = await self._exchange.reply_async(
                wire_request(request, body),
                lambda deadline: deadline.run(lambda: self._connections.send(request)),
            )
        except NetworkFailed as exc:
            error = _error(exc, request)
        else:
            return cast("httpx2.Response", response(httpx2, reply))
        raise error  # as above

    def _read_through(self, request: httpx2.Request) -> httpx2.Response:
        """Send what is not kept, and read the reply: its stream belongs to this thread."""
        response = self._pass_on(request)
        try:
            content = response.read()
        finally:
            response.close()
        headers = response.headers.multi_items()
        kept = [(name, text) for name, text in headers if name not in WIRE_HEADERS]
        return httpx2.Response(response.status_code, headers=kept, content=content)


class Connections:
    """What all trials send through: whole clients, for only those heed proxies.

    One client for each call that is under way, used again and again, the last one first.
    A single one for all looks at every idle connection before each call: with 64 in
    flight that took more time than the call itself.

    Args:
        seconds: for how long a connection may be silent.
        most: bytes that are read of a reply.
    """

    def __init__(self, seconds: float = DEFAULT_SECONDS, *, most: int = MAX_REPLY_BYTES) -> None:
        self._most = most
        self._timeouts = httpx2.Timeout(seconds, connect=CONNECT_SECONDS)
        self._tls = httpx2.create_ssl_context()
        self._untouched = self._open()
        self._idle: list[httpx2.Client] = []  # append and pop are atomic
        self._is_closed = False

    def post(
        self, url: str, *, headers: Mapping[str, str], content: bytes, deadline: Deadline
    ) -> WireReply:
        """Send a question of our own once, by a proxy: ``wire`` knows none.

        Raises:
            NetworkFailed: there was no reply, or it broke off.
            TimeIsUp: it did not come in time.
        """
        request = self._untouched.build_request("POST", url, headers=headers, content=content)
        return deadline.run(lambda: self.send(request))

    def send(self, request: httpx2.Request) -> WireReply:
        """Send a request once and read the whole reply; from any thread.

        Raises:
            NetworkFailed: there was none, or it broke off.
            ReplyTooLarge: it has more bytes than are read.
        """
        try:
            client = self._idle.pop()
        except IndexError:
            client = self._open()
        started = time.perf_counter()
        reading = Reading(started=started, most=self._most)
        try:
            response = _send(client, request)
            try:
                packed = reading.add_all(response.iter_raw())
            finally:
                response.close()
            body = unpacked(httpx2, response, packed, most=self._most)
        except (httpx2.RequestError, OSError) as exc:  # a TLS error can come as it is
            raise NetworkFailed(exc) from exc
        finally:
            self._idle.append(client)
            if self._is_closed:  # meanwhile: after Ctrl-C nobody waits for calls under way
                self.close()
        return WireReply(
            status=response.status_code,
            headers=dict(response.headers),
            body=body,
            seconds=time.perf_counter() - started,
            first_chunk_seconds=reading.first,
        )

    def pass_through(self, request: httpx2.Request) -> httpx2.Response:
        """Send what is no question to a model; the reply is handed over unread."""
        return _send(self._untouched, request)

    def close(self) -> None:
        """Close every connection; one that is in use when it comes back."""
        self._is_closed = True
        self._untouched.close()
        while self._idle:
            self._idle.pop().close()

    def _open(self) -> httpx2.Client:
        return httpx2.Client(verify=self._tls, timeout=self._timeouts)


def _error(failed: NetworkFailed, request: httpx2.Request) -> Exception:
    """Return what the SDK knows as an error of the network, or as a timeout."""
    if isinstance(failed, TimedOut):
        return httpx2.ReadTimeout(str(failed), request=request)
    return failed.error


def _send(client: httpx2.Client, request: httpx2.Request) -> httpx2.Response:
    """Send a request as it is."""
    return client.send(request, stream=True, auth=None, follow_redirects=False)
