"""The hook between HTTP clients and the network, for our own clients and applications' clients.

A request whose reply is kept is answered by a stored reply, by a fresh one that is stored first,
or by a reply that says why there is none. That last one always has the header
``x-should-retry: false``, so that the SDK reports it instead of trying again.

httpx and httpx2 are alike in all that is touched here, and neither is imported: ``library`` is
the module of either, ``request`` and ``response`` are objects of that module.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from json import loads
from typing import TYPE_CHECKING, Any

from pytest_llmeval.cache.replies import StoredReply
from pytest_llmeval.errors import CallAbandoned, ClientLate, ReplayMiss, comes_of
from pytest_llmeval.models.attribution import SENDING, CurrentTrial, charging
from pytest_llmeval.models.calls import Request
from pytest_llmeval.models.course import setting
from pytest_llmeval.models.http import attempt
from pytest_llmeval.models.http.dialect import HttpRequest
from pytest_llmeval.models.http.exchange import UNANSWERED, Exchange, Unanswered
from pytest_llmeval.models.http.http_reply import (
    ANSWERING_STATUSES,
    HttpReply,
    Reading,
    ReplyTooLarge,
    own_failure,
)
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.models.http.uploads import FORM, form_object
from pytest_llmeval.models.limits.deadline import Deadline, TimeIsUp
from pytest_llmeval.originals import Clock

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

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
        body: the JSON object that was read of it.
        exchange: answers it.
        retries_errors: its client tries again whatever the network raises, after all that we have
            tried, with pauses in which no other trial can run. To a status it listens.
    """

    library: Any
    request: Any
    body: JsonObject
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
        outcome: StoredReply | Unanswered
        try:
            outcome = self.exchange.calls.call(self._call(send))
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
        url = self.request.url
        path, _, query = url.raw_path.decode("ascii").partition("?")
        sent = HttpRequest(
            method=self.request.method,
            origin=f"{url.scheme}://{url.netloc.decode('ascii')}",
            path=path,
            query=query,
            headers={name.lower(): text for name, text in self.request.headers.items()},
            body=self.body,
            asked=self.exchange.dialect.read_request(path, self.body),
        )
        # None where its client waits for ever or does not say.
        patience = self.request.extensions.get("timeout", {}).get("read")
        call, _ = self.exchange.call_for(sent, send, awaits=awaits, patience=patience)
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


def run_on_loop(
    function: Callable[[], Awaitable[HttpReply]],
    loop: AbstractEventLoop,
    context: Context,
    deadline: Deadline,
) -> HttpReply:
    """Run a coroutine function on the event loop of another thread, and wait for it.

    Args:
        function: sends a request once.
        loop: to run it on.
        context: in which it runs there.
        deadline: of the call.
    """
    import asyncio

    async def charged() -> HttpReply:
        with charging(None):  # the cache sees what it opens
            return await function()

    coroutine = charged()
    try:
        future = context.run(asyncio.run_coroutine_threadsafe, coroutine, loop)
    except RuntimeError as exc:  # the loop is closed
        coroutine.close()
        raise CallAbandoned from exc
    try:
        return deadline.wait(future)
    except TimeIsUp:
        future.cancel()
        raise
    except CancelledError as exc:
        raise CallAbandoned from exc


def json_object(content: bytes) -> JsonObject | None:
    """Read the body of a request whose reply is kept; None if it is no JSON object."""
    try:
        body = loads(content)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def body_of(request: Any) -> JsonObject | None:
    """Read the body of a request that was read: JSON, or a form. None if its reply is not kept."""
    content_type = request.headers.get("content-type", "")
    if content_type.lower().startswith(FORM):
        return form_object(request.content, content_type)
    return json_object(request.content)


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
            packed = reading.add_all(response.iter_raw())
        finally:
            response.close()
        return _http_reply(library, response, reading, packed)
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
        return _http_reply(library, response, reading, reading.body)
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
    """Undo the packing of a reply that was read to its end, and has a header of it.

    The library that asked for the packing undoes it, layer by layer: it would unpack a piece
    through all of them, a thousandfold in each.

    Raises:
        ReplyTooLarge: there is more than may be read in one of its layers.
    """
    body = reply.body
    for packing in reversed(reply.headers[PACKING].split(",")):
        pieces = (body[start : start + PIECE] for start in range(0, len(body), PIECE))
        again = library.Response(200, headers={PACKING: packing}, content=pieces)
        body = Reading(0.0, most).add_all(again.iter_bytes())
    return replace(reply, body=body)


def _http_reply(library: Any, response: Any, reading: Reading, packed: bytes) -> HttpReply:
    """Describe a reply that was read to its end; raises as ``unpacked``."""
    reply = reading.reply(response.status_code, packed, dict(response.headers))
    return unpacked(library, reply, most=reading.most) if PACKING in reply.headers else reply
