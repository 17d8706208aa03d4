"""The hook between HTTP clients and the network, for our own clients and applications' clients.

A request whose reply is kept is answered by a stored reply, by a fresh one that is stored first,
or by a reply that says why there is none. That last one always has the header
``x-should-retry: false``, so that the SDK reports it instead of trying again.

httpx and httpx2 are alike in all that is touched here, and neither is imported: ``library`` is
the module of either, ``request`` and ``response`` are objects of that module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from json import loads
from typing import Any

from pytest_llmeval.cache.replies import StoredReply
from pytest_llmeval.errors import CallAbandoned, ClientLate, ReplayMiss, comes_of
from pytest_llmeval.models.attribution import SENDING, CurrentTrial
from pytest_llmeval.models.calls import Request
from pytest_llmeval.models.course import setting
from pytest_llmeval.models.http import attempt
from pytest_llmeval.models.http.dialect import FORM, HttpRequest, form_object
from pytest_llmeval.models.http.exchange import UNANSWERED, Exchange, Unanswered
from pytest_llmeval.models.http.http_reply import HttpReply, Reading, ReplyTooLarge, own_failure
from pytest_llmeval.models.limits.deadline import Deadline, TimeIsUp, run_on_loop
from pytest_llmeval.originals import Clock

# To a request that is not kept: an application may well ask whether something is there.
ANSWERING_STATUSES = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
# Bytes that are unpacked at a time, as nothing bounds what a library makes of more.
PIECE = 64
PACKING = "content-encoding"
# They describe bytes that were decoded, or a connection that is not the SDK's.
CONNECTION_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
# A redirected request would be another request, which a replay could not find.
DROPPED_HEADERS = (*CONNECTION_HEADERS, "location")


@dataclass(frozen=True, slots=True, repr=False)  # pytest would show prompt and URL in tracebacks
class Question:
    """A request whose reply is kept.

    Attributes:
        library: whose request it is.
        request: as its client sends it.
        sent: what was read of it.
        exchange: answers it.
        retries_errors: its client tries again whatever the network raises, after all that we have
            tried, with pauses in which no other trial can run. To a status it listens.
    """

    library: Any
    request: Any
    sent: HttpRequest
    exchange: Exchange
    retries_errors: bool = False

    def answer(self, send: attempt.Send) -> Any:
        """Answer it.

        Args:
            send: sends it once and reads the whole reply.

        Raises:
            library.RequestError: the network failed, however often it was tried.
            CacheError: the store cannot be used.
        """
        try:
            outcome: StoredReply | Unanswered = self.exchange.calls.call(self._call(send))
        except UNANSWERED as exc:
            outcome = exc
        return self._handed_on(outcome)

    async def answer_async(self, send: attempt.Send, *, awaits: bool = False) -> Any:
        """Answer it to a coroutine: as ``answer``. Once that has given up, no attempt is begun.

        Args:
            send: sends it once and reads the whole reply.
            awaits: an attempt goes on only while this event loop runs.
        """
        is_over = False

        def unless_over(deadline: Deadline) -> HttpReply:
            if is_over:
                raise CallAbandoned
            return send(deadline)

        outcome: StoredReply | Unanswered
        try:
            outcome = await self.exchange.calls.call_async(self._call(unless_over, awaits=awaits))
        except UNANSWERED as exc:
            outcome = exc
        finally:
            is_over = True
        return self._handed_on(outcome)

    async def answer_on_loop(self, send: Callable[[], Awaitable[HttpReply]]) -> Any:
        """Answer it to a coroutine: as ``answer_async``.

        Args:
            send: sends it once and reads the whole reply; run on this event loop.
        """
        import asyncio  # where nothing awaits nobody needs it

        run = partial(run_on_loop, send, asyncio.get_running_loop(), copy_context())
        return await self.answer_async(run, awaits=True)

    def _call(self, send: attempt.Send, *, awaits: bool = False) -> Request:
        # None where its client waits for ever or does not say.
        patience = self.request.extensions.get("timeout", {}).get("read")
        call, _ = self.exchange.call_for(self.sent, send, awaits=awaits, patience=patience)
        return call

    def _handed_on(self, outcome: StoredReply | Unanswered) -> Any:
        if isinstance(outcome, ClientLate):
            raise self.library.ReadTimeout(str(outcome), request=self.request)
        is_for_sdk = self.retries_errors and not isinstance(outcome, attempt.OwnDeadline)
        if isinstance(outcome, attempt.NetworkFailed) and not is_for_sdk:
            if isinstance(outcome, attempt.TimedOut):
                raise self.library.ReadTimeout(str(outcome), request=self.request)
            raise outcome.error
        return response(self.library, reply_for_sdk(outcome))


def described(request: Any) -> HttpRequest | None:
    """Describe a request that was read.

    Its body is a JSON object, or a form; None for any other, whose reply is not kept.
    """
    content_type, url = request.headers.get("content-type", ""), request.url
    is_form, content = content_type.lower().startswith(FORM), request.content
    try:
        body = form_object(content, content_type) if is_form else loads(content)
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    path, _, query = url.raw_path.decode("ascii").partition("?")
    return HttpRequest(
        origin=f"{url.scheme}://{url.netloc.decode('ascii')}",
        path=path,
        query=query,
        headers={name.lower(): text for name, text in request.headers.items()},
        body=body,
    )


def send_once(library: Any, send: Callable[[Any], Any], request: Any, *, most: int) -> HttpReply:
    """Send a request once and read the whole reply.

    Args:
        library: whose request it is.
        send: returns a response that is not read yet.
        request: to be sent.
        most: so many bytes are read at most.

    Raises:
        NetworkFailed: there was no reply, or it broke off.
        TimeIsUp: it was not complete in time.
    """
    reading = Reading(Clock.seconds(), most=most)
    try:
        with setting(SENDING, True):
            response = send(request)
        try:
            reading.add_all(response.iter_raw())
        finally:
            response.close()
        reply = reading.reply(response.status_code, dict(response.headers))
        return unpacked(library, reply, most=most)
    except ReplyTooLarge as exc:
        return exc.reply
    except TimeIsUp:
        raise
    except Exception as exc:  # a TLS error can come as it is
        raise attempt.NetworkFailed(exc) from exc


async def send_once_async(
    library: Any, send: Callable[[Any], Awaitable[Any]], request: Any, *, most: int
) -> HttpReply:
    """Send a request once and read the whole reply, as ``send_once``, on this event loop."""
    reading = Reading(Clock.seconds(), most=most)
    try:
        with setting(SENDING, True):
            response = await send(request)
        try:
            async for chunk in response.aiter_raw():
                reading.add(chunk)
        finally:
            await response.aclose()
        reply = reading.reply(response.status_code, dict(response.headers))
        return unpacked(library, reply, most=most)
    except ReplyTooLarge as exc:
        return exc.reply
    except Exception as exc:  # a RuntimeError, too, where a connection is another loop's
        raise attempt.NetworkFailed(exc) from exc


def reply_for_sdk(outcome: StoredReply | Unanswered) -> HttpReply:
    """Word the outcome of a request as a reply; for a failure the SDK raises by the status."""
    if isinstance(outcome, StoredReply):
        headers = {**outcome.headers, "x-llmeval-cached": str(outcome.replayed).lower()}
        return HttpReply(status=outcome.status, headers=headers, body=outcome.body)
    if isinstance(outcome, attempt.HttpFailed):
        reply = without_connection_headers(outcome.reply)
    elif isinstance(outcome, attempt.NetworkFailed):  # as a gateway would say it
        is_late = isinstance(outcome, attempt.TimedOut)
        status = HTTPStatus.GATEWAY_TIMEOUT if is_late else HTTPStatus.BAD_GATEWAY
        reply = own_failure(status, f"no reply: {outcome}", code="llmeval_no_reply")
    else:
        is_miss = isinstance(outcome, ReplayMiss)
        code = "llmeval_replay_miss" if is_miss else "llmeval_cap"
        reply = own_failure(HTTPStatus.FAILED_DEPENDENCY, str(outcome), code=code)
    headers = {**reply.headers, "x-should-retry": "false", "x-llmeval-failure": reply.failure}
    return HttpReply(status=reply.status, headers=headers, body=reply.body)


def without_connection_headers(reply: HttpReply) -> HttpReply:
    """Leave out the headers that describe encoded bytes, and the headers of a redirect."""
    kept = {name: text for name, text in reply.headers.items() if name not in DROPPED_HEADERS}
    return replace(reply, headers=kept)


def response(library: Any, reply: HttpReply) -> Any:
    """Make a response of a library out of a reply."""
    # Not content=: such a response counts as read, and its raw bytes cannot be asked for.
    headers = {**reply.headers, "content-length": str(len(reply.body))}
    return library.Response(reply.status, headers=headers, stream=library.ByteStream(reply.body))


@contextmanager
def uncached(trial: CurrentTrial | None, request: Any) -> Iterator[Callable[..., Any]]:
    """Note what becomes of a request whose reply is not kept: a list of models, say.

    A provider that fails is no result of the trial.

    Args:
        trial: on whose behalf it is sent; None where nothing is to be noted.
        request: to be sent in here.

    Yields:
        A function that takes the response, and its body where that was read, and returns the
        response.
    """
    name = f"{request.method} {request.url.path}"

    def came(response: Any, body: bytes = b"") -> Any:
        if trial is not None:
            status = response.status_code
            is_answer = status < HTTPStatus.BAD_REQUEST or status in ANSWERING_STATUSES
            reply = HttpReply(status=status, body=body)
            is_lost = not is_answer and reply.failure == "infrastructure"
            trial.note_uncached(name, lost=f"{name}: HTTP {status}" if is_lost else "")
        return response

    try:
        with setting(SENDING, True):
            yield came
    except Exception as exc:
        if trial is not None and not comes_of(exc, ReplayMiss):  # no provider was asked
            trial.note_uncached(name, lost=f"{name}: {type(exc).__name__}")
        raise


def unpacked(library: Any, reply: HttpReply, *, most: int) -> HttpReply:
    """Undo the packing of a reply that was read to its end, where it has a header of one.

    The library that asked for the packing undoes it, layer by layer: it would unpack a piece
    through all of them, a thousandfold in each.

    Raises:
        ReplyTooLarge: there is more than may be read in one of its layers.
    """
    if PACKING not in reply.headers:
        return reply
    body = reply.body
    for packing in reversed(reply.headers[PACKING].split(",")):
        pieces = (body[start : start + PIECE] for start in range(0, len(body), PIECE))
        again = library.Response(200, headers={PACKING: packing}, content=pieces)
        body = Reading(0.0, most).add_all(again.iter_bytes())
    return replace(reply, body=body)
