"""Send the requests of a client fixture as calls of its trial."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pytest_llmeval.errors import ReplayMiss
from pytest_llmeval.models.attribution import charging
from pytest_llmeval.models.http import seam
from pytest_llmeval.models.http.attempt import Send
from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.masking import masked, secrets_of
from pytest_llmeval.models.http.sender import Sender, library_of, newest

_LIBRARY: Any = newest()


class TrialTransport(_LIBRARY.BaseTransport, _LIBRARY.AsyncBaseTransport):  # type: ignore[misc]
    """Answers requests to models from the store; sends the requests that are not there.

    Clients of httpx and httpx2 take it, blocking and awaitable ones: they ask for no more than its
    methods. It leaves the connections open when its client is closed: the clients of all trials
    share them.

    Those of awaitable clients are sent by the blocking connections, too, in a thread each. So there
    are none that belong to an event loop and would have to be closed on it, and a call that was
    given up by the test is still paid to its end and kept.

    Args:
        sender: sends a request.
        exchange: answers the requests of the client that this carries.
        awaits: the client is to be awaited.
    """

    def __init__(self, sender: Sender, exchange: Exchange, *, awaits: bool = False) -> None:
        self._sender = sender
        self._exchange = exchange
        self.awaits = awaits

    def handle_request(self, request: Any) -> Any:
        """Answer one request of the SDK; raises as ``Question.answer``."""
        question = self._question(request)
        return self._pass_on(request) if question is None else question.answer(self._send(question))

    async def handle_async_request(self, request: Any) -> Any:
        """Answer one request of the SDK; raises as ``Question.answer``."""
        await request.aread()
        question = self._question(request)
        if question is None:
            trial = self._exchange.calls.trial
            return await trial.wait_async(lambda: self._read_through(request))
        return await question.answer_async(self._send(question))

    def _question(self, request: Any) -> seam.Question | None:
        """Look at a request; None if its reply is not kept."""
        if not self._exchange.dialect.keeps(request.method, request.url.path, request.headers):
            return None  # unread, as an upload may be large
        request.read()
        sent, library = seam.described(request), library_of(request.__class__)
        return None if sent is None else seam.Question(library, request, sent, self._exchange)

    def _send(self, question: seam.Question) -> Send:
        library, request = question.library, question.request
        return self._sender.attempt(library, self._sender.own(library, request.url), request)

    def _pass_on(self, request: Any) -> Any:
        """Send a request whose reply is not kept; a success is handed over unread."""
        calls, library = self._exchange.calls, library_of(request.__class__)
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

    def _read_through(self, request: Any) -> Any:
        """Send a request and read the reply here: its stream belongs to this thread."""
        sent = self._pass_on(request)
        try:
            content = sent.read()
        finally:
            sent.close()
        headers, library = sent.headers.multi_items(), library_of(request.__class__)
        kept = [(name, text) for name, text in headers if name not in seam.CONNECTION_HEADERS]
        return library.Response(sent.status_code, headers=kept, content=content)
