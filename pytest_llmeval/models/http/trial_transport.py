"""The transports under the clients of fixtures, each of which asks for one trial."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pytest_llmeval.errors import ReplayMiss
from pytest_llmeval.models.attribution import charging
from pytest_llmeval.models.http import seam
from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.masking import masked, secrets_of
from pytest_llmeval.models.http.sender import Sender, library_of, newest

if TYPE_CHECKING:
    import httpx2 as _LIBRARY  # noqa: N812 - a constant: one of the two
else:
    _LIBRARY = newest()


class _Transport:
    """The part that the blocking and the awaitable transport have in common.

    They leave the connections open when their client is closed: the clients of all trials
    share them.

    Args:
        sender: sends a request.
        exchange: answers the requests of the client that this carries.
    """

    def __init__(self, sender: Sender, exchange: Exchange) -> None:
        self._sender = sender
        self._exchange = exchange

    def _question(self, request: Any) -> seam.Question | None:
        """Look at a request; None if its reply is not kept."""
        if not self._exchange.dialect.keeps(request.method, request.url.path, request.headers):
            return None  # unread, as an upload may be large
        request.read()
        body = seam.body_of(request)
        library = library_of(request)
        return None if body is None else seam.Question(library, request, body, self._exchange)

    def _pass_on(self, request: Any) -> Any:
        """Send a request whose reply is not kept; a success is handed over unread."""
        calls, library = self._exchange.calls, library_of(request)
        if calls.replies.only_replays:
            miss = ReplayMiss(
                f"the reply to {request.method} {request.url.path} is never kept, so there is none "
                "to replay: --llm-cache=replay does not send it, and --llm-cache=auto sends it in "
                "every session"
            )
            calls.trial.deny(miss)
            return seam.response(library, seam.reply_for_sdk(miss))
        with seam.uncached(calls.trial, request) as came:
            with charging(None):  # it is noted as what is not kept
                sent = self._sender.own(library, request.url).handle_request(request)
            if sent.status_code < HTTPStatus.BAD_REQUEST:
                return came(sent)
            came(sent, sent.read())
            sent.close()
        told = HttpReply(status=sent.status_code, headers=dict(sent.headers), body=sent.content)
        secrets = secrets_of(request.headers, query=request.url.query.decode("ascii"))
        return seam.response(library, seam.without_connection_headers(masked(told, secrets)))


class TrialTransport(_Transport, _LIBRARY.BaseTransport):
    """Answers requests to models from the store; sends the requests that are not there.

    Clients of httpx and httpx2 take it: they ask for no more than its methods.
    """

    def handle_request(self, request: Any) -> Any:
        """Answer one request of the SDK; raises as ``Question.answer``."""
        question = self._question(request)
        if question is None:
            return self._pass_on(request)
        own = self._sender.own(question.library, request.url)
        return question.answer(self._sender.attempt(question.library, own, request))


class AsyncTrialTransport(_Transport, _LIBRARY.AsyncBaseTransport):
    """Does the same for an async client.

    Requests are sent by the blocking connections, in a thread each. So there are none that
    belong to an event loop and would have to be closed on it, and a call that was given up
    by the test is still paid to its end and kept.
    """

    async def handle_async_request(self, request: Any) -> Any:
        """Answer one request of the SDK; raises as ``Question.answer``."""
        await request.aread()
        question = self._question(request)
        if question is None:
            trial = self._exchange.calls.trial
            return await trial.wait_async(lambda: self._read_through(request))
        own = self._sender.own(question.library, request.url)
        return await question.answer_async(self._sender.attempt(question.library, own, request))

    def _read_through(self, request: Any) -> Any:
        """Send a request and read the reply here: its stream belongs to this thread."""
        sent = self._pass_on(request)
        try:
            content = sent.read()
        finally:
            sent.close()
        headers = sent.headers.multi_items()
        kept = [(name, text) for name, text in headers if name not in seam.CONNECTION_HEADERS]
        return library_of(request).Response(sent.status_code, headers=kept, content=content)
