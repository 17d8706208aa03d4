"""The transports under our clients of the vendors' SDKs, and the connections they send through."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.errors import ReplayMiss
from pytest_llmeval.models.attribution import charging
from pytest_llmeval.models.deadline import Deadline
from pytest_llmeval.models.http.client_hook import (
    CONNECTION_HEADERS,
    Question,
    body_of,
    reply_for_sdk,
    response,
    send_once,
    uncached,
    without_connection_headers,
)
from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.libraries import is_plain, library_of, newest, send_plainly
from pytest_llmeval.models.http.masking import masked, secrets_of
from pytest_llmeval.models.http.plain_http import CONNECT_SECONDS, KeptConnections, PlainHttp
from pytest_llmeval.models.http.retries import Attempt

if TYPE_CHECKING:
    import httpx2 as _LIBRARY  # noqa: N812 - a constant: one of the two
else:
    _LIBRARY = newest()


class _Transport:
    """The part that the blocking and the awaitable transport have in common.

    They leave the connections open when their client is closed: the clients of all trials
    share them.

    Args:
        connections: send a request.
        exchange: answers the requests of the client that this carries.
    """

    def __init__(self, connections: Connections, exchange: Exchange) -> None:
        self._connections = connections
        self._exchange = exchange

    def _question(self, library: Any, request: Any) -> Question | None:
        """Look at a request; None if its reply is not kept."""
        if not self._exchange.dialect.keeps(request.method, request.url.path, request.headers):
            return None  # unread, as an upload may be large
        request.read()
        body = body_of(request)
        if body is None:
            return None
        return Question(library, request, body=body, exchange=self._exchange)

    def _pass_on(self, request: Any) -> Any:
        """Send a request whose reply is not kept; a success is handed over unread."""
        calls = self._exchange.calls
        if calls.replies.only_replays:
            miss = ReplayMiss(
                f"the reply to {request.method} {request.url.path} is never kept, so there is none "
                "to replay: --llm-cache=replay does not send it, and --llm-cache=auto sends it in "
                "every session"
            )
            calls.trial.deny(miss)
            return response(library_of(request), reply_for_sdk(miss))
        with uncached(calls.trial, request) as came:
            sent = self._connections.pass_through(request)
            if sent.status_code < HTTPStatus.BAD_REQUEST:
                return came(sent)
            came(sent, sent.read())
        told = HttpReply(status=sent.status_code, headers=dict(sent.headers), body=sent.content)
        secrets = secrets_of(request.headers.items(), query=request.url.query.decode("ascii"))
        return response(library_of(request), without_connection_headers(masked(told, secrets)))


class CachingTransport(_Transport, _LIBRARY.BaseTransport):
    """Answers requests to models from the store; sends those that are not there.

    Clients of httpx and httpx2 take it: they ask for no more than its methods.
    """

    def handle_request(self, request: Any) -> Any:
        """Answer one request of the SDK; raises as ``Question.answer``."""
        library = library_of(request)
        question = self._question(library, request)
        if question is None:
            return self._pass_on(request)
        return question.answer(self._connections.attempt(library, request))


class AsyncCachingTransport(_Transport, _LIBRARY.AsyncBaseTransport):
    """Does the same for an async client.

    Requests are sent by the blocking connections, in a thread each. So there are none that
    belong to an event loop and would have to be closed on it, and a call that was given up
    by the test is still paid to its end and kept.
    """

    async def handle_async_request(self, request: Any) -> Any:
        """Answer one request of the SDK; raises as ``Question.answer``."""
        await request.aread()
        library = library_of(request)
        question = self._question(library, request)
        if question is None:
            trial = self._exchange.calls.trial
            return await trial.wait_async(lambda: self._read_through(request))
        return await question.answer_async(self._connections.attempt(library, request))

    def _read_through(self, request: Any) -> Any:
        """Send a request and read the reply here: its stream belongs to this thread."""
        sent = self._pass_on(request)
        try:
            content = sent.read()
        finally:
            sent.close()
        headers = sent.headers.multi_items()
        kept = [(name, text) for name, text in headers if name not in CONNECTION_HEADERS]
        return library_of(request).Response(sent.status_code, headers=kept, content=content)


class Connections(KeptConnections):
    """The connections through which the clients of all trials send.

    Questions go by ``PlainHttp`` where that can send them. Else by HTTP clients, whole ones, for
    only those heed proxies: one for each call that is under way, used again and again, the last
    one first. A single one for all looks at every idle connection before each call: with 64 in
    flight that took more time than the call itself.

    Args:
        seconds: for how long a connection may be silent.
        most: bytes that are read of a reply.
        plain_http: sends questions; None where there are proxies.
    """

    def __init__(self, seconds: float, *, most: int, plain_http: PlainHttp | None) -> None:
        super().__init__(seconds, most=most)
        self._plain_http = plain_http
        self._passing: dict[Any, Any] = {}  # each by library
        self._opening = fork_safe_lock()

    def post(
        self, url: str, headers: Mapping[str, str], content: bytes, deadline: Deadline
    ) -> HttpReply:
        """Send a question of our own once, by a proxy: ``plain_http`` knows none.

        Raises:
            NetworkFailed: there was no reply, or it broke off.
            TimeIsUp: it did not come in time.
        """
        client = self._untouched(_LIBRARY)
        request = client.build_request("POST", url, headers=headers, content=content)
        return deadline.run(lambda: self._receive(_LIBRARY, request))

    def attempt(self, library: Any, request: Any) -> Attempt:
        """Return what sends a request of a library once and reads the whole reply."""
        if self._plain_http is not None and is_plain(library, request):
            return partial(send_plainly, self._plain_http, library, request)
        return lambda deadline: deadline.run(lambda: self._receive(library, request))

    def _receive(self, library: Any, request: Any) -> HttpReply:
        try:
            client = self._idle[library].pop()
        except IndexError:
            client = self._open(library)
        try:
            return send_once(library, partial(_send, client), request, most=self.most)
        finally:
            self._keep(client, self._idle[library])

    def pass_through(self, request: Any) -> Any:
        """Send a request that is no question to a model; the reply is handed over unread."""
        with charging(None):  # it is noted as what is not kept
            return _send(self._untouched(library_of(request)), request)

    def close(self) -> None:
        """Close every connection; one that is in use when it comes back."""
        for client in list(self._passing.values()):
            client.close()
        super().close()

    def _untouched(self, library: Any) -> Any:
        with self._opening:
            if library not in self._passing:
                self._passing[library] = self._open(library)
            return self._passing[library]

    def _open(self, library: Any) -> Any:
        timeouts = library.Timeout(self._seconds, connect=CONNECT_SECONDS)
        return library.Client(verify=self._tls_context(), timeout=timeouts)


def _send(client: Any, request: Any) -> Any:
    """Send a request as it is."""
    return client.send(request, stream=True, auth=None, follow_redirects=False)
