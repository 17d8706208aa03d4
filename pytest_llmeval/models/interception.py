"""Interception of the clients that an application builds itself: their questions are kept too.

The seam is what every client of httpx and httpx2 sends through in the end, the public
``handle_request`` of their ``HTTPTransport``. It is taken at the class, so it does not matter
when and where a client was built. What is asked anew goes on through the client's own
transport, with its proxies and certificates; whatever else it sends is not even looked into.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import SplitResult, urlsplit
from weakref import ref

import httpx

from pytest_llmeval.errors import CallAbandoned, SettingsError
from pytest_llmeval.models.attribution import CurrentTrial, is_sending
from pytest_llmeval.models.calls import CachedCalls, is_on_asyncio
from pytest_llmeval.models.http.client_hook import (
    Question,
    json_object,
    send_once,
    send_once_async,
    uncached,
)
from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.libraries import newest
from pytest_llmeval.models.http.retries import RetryPolicy
from pytest_llmeval.models.providers.vendor import Recognition

LIBRARIES = (newest, httpx)
# By this header the SDKs of openai and anthropic tell that they try again themselves.
RETRYING = "x-stainless-retry-count"
SEAMS = (("HTTPTransport", "handle_request"), ("AsyncHTTPTransport", "handle_async_request"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A request that is a question if its body agrees.

    Attributes:
        exchange: answers it.
        url: where it goes.
        is_known: any JSON object will do; else it must name a model.
    """

    exchange: Exchange
    url: SplitResult
    is_known: bool


class Interception:
    """Decides which requests of an application are kept, and on whose behalf.

    Args:
        trial_to_charge: returns the trial that asks; None where a request is to be left alone.
        calls_of: makes the calls of a trial.
        retries: how to try again.
        recognition: tells questions to models from other traffic.
        note: takes a sentence for the section.

    Attributes:
        most: bytes that are read of a reply.
    """

    def __init__(
        self,
        trial_to_charge: Callable[[], CurrentTrial | None],
        *,
        calls_of: Callable[[CurrentTrial], CachedCalls],
        retries: RetryPolicy,
        recognition: Recognition,
        note: Callable[[str], None],
    ) -> None:
        self.most = retries.max_reply_bytes
        self._retries = retries
        self._trial_to_charge = trial_to_charge
        self._calls_of = calls_of
        self._recognition = recognition
        self._note = note
        self._noted: set[str] = set()

    def sdk_trial(self, request: Any) -> CurrentTrial | None:
        """Return the trial that sends a request by an SDK; None where it is to be left alone."""
        return self._trial_to_charge() if RETRYING in request.headers else None

    def candidate(self, request: Any) -> Candidate | None:
        """Look at all but the body of a request; None for one that is to be left alone."""
        trial = None if is_sending() else self._trial_to_charge()
        if trial is None or request.method != "POST":
            return None
        url, headers = urlsplit(str(request.url)), request.headers
        vendor, certainty = self._recognition.recognize(request.method, url, headers)
        if vendor is None:
            return None
        if certainty != "no":
            exchange = Exchange(dialect=vendor, calls=self._calls_of(trial), retries=self._retries)
            return Candidate(exchange=exchange, url=url, is_known=certainty == "known")
        if url.path.endswith(vendor.noted_paths):
            self._tell(
                url,
                "was left alone, though it looks like a question to a model. If it is one, "
                f"name the host in the ini file: llm_intercept_hosts = {_host(url)}",
            )
        return None

    def question(self, library: Any, request: Any, candidate: Candidate) -> Question | None:
        """Look at the body of a candidate, which has been read; None as above."""
        body = json_object(request.content)
        if body is None:
            return None
        if not candidate.is_known:
            asked = candidate.exchange.dialect.read_request(candidate.url.path, body)
            if not isinstance(asked.model, str):
                return None
            self._tell(candidate.url, "was taken for a question to a model, as it names one")
        return Question(
            library,
            request,
            body=body,
            exchange=candidate.exchange,
            retries_errors=RETRYING in request.headers,
        )

    def _tell(self, url: SplitResult, what: str) -> None:
        shown = f"{url.scheme}://{_host(url)}{url.path}"
        if shown not in self._noted:
            self._noted.add(shown)
            self._note(f"POST {shown} {what}")


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]  # without user and password


@contextmanager
def intercepting(interception: Interception) -> Iterator[None]:
    """Stand between all clients of httpx and httpx2 and the network.

    Raises:
        SettingsError: one of these libraries is not as expected.
    """
    check_seams()
    with ExitStack() as undoing:
        for library in dict.fromkeys(LIBRARIES):  # they may be one
            for (kind, name), patched in zip(SEAMS, (_blocking, _awaitable), strict=True):
                owner, plain = _seam(library, kind, name)
                setattr(owner, name, patched(plain, library, interception))
                undoing.callback(setattr, owner, name, plain)
        yield


def check_seams() -> None:
    """Find out, before anything is spent, whether clients can be intercepted.

    Raises:
        SettingsError: one of the libraries is not as expected.
    """
    for library in LIBRARIES:
        for kind, name in SEAMS:
            _seam(library, kind, name)


def _seam(library: Any, kind: str, name: str) -> tuple[type, Callable[..., Any]]:
    owner = getattr(library, kind, None)
    plain = vars(owner).get(name) if isinstance(owner, type) else None
    if not isinstance(owner, type) or not callable(plain):
        version = getattr(library, "__version__", "?")
        raise SettingsError(
            f"interception does not know this {library.__name__} ({version}): "
            f"{kind}.{name} is not there. Install another version of it, or leave intercept off"
        )
    return owner, plain


def _blocking(
    plain: Callable[[Any, Any], Any], library: Any, interception: Interception
) -> Callable[[Any, Any], Any]:
    """Make the method by which blocking clients send."""

    def handle_request(transport: Any, request: Any) -> Any:
        candidate = interception.candidate(request)
        if candidate is not None:
            request.read()
            question = interception.question(library, request, candidate)
            if question is not None:
                send = partial(plain, transport)
                return question.answer(
                    lambda: send_once(library, send, request, most=interception.most)
                )
        with uncached(interception.sdk_trial(request), request) as came:
            return came(plain(transport, request))

    return handle_request


def _awaitable(
    plain: Callable[[Any, Any], Awaitable[Any]], library: Any, interception: Interception
) -> Callable[[Any, Any], Awaitable[Any]]:
    """Make the method by which awaitable clients send; off asyncio it lets all pass.

    An attempt runs on the loop, where the client's connections are; what waits for it and
    keeps the reply does so in a thread.
    """
    loops = _Loops()

    async def handle_async_request(transport: Any, request: Any) -> Any:
        candidate = interception.candidate(request)
        if candidate is not None and is_on_asyncio():
            await request.aread()
            question = interception.question(library, request, candidate)
            if question is not None:
                if loops.may_change():
                    request.headers["connection"] = "close"
                send = partial(plain, transport)
                attempt = partial(send_once_async, library, send, request, most=interception.most)
                with _this_loop() as run:
                    return await question.answer_async(lambda: run(attempt), awaits=True)
        with uncached(interception.sdk_trial(request), request) as came:
            return came(await plain(transport, request))

    return handle_async_request


class _Loops:
    """The event loops from which requests came."""

    def __init__(self) -> None:
        self._last: Callable[[], AbstractEventLoop | None] = lambda: None
        self._number = 0

    def may_change(self) -> bool:
        """Tell whether the next request of a client may come from another loop than this one.

        A connection that was kept belongs to the loop on which it was opened. A request from
        another loop would be sent on it, and paid for, but its reply could not be read.
        """
        loop = asyncio.get_running_loop()
        is_new = self._last() is not loop
        if is_new:
            self._last = ref(loop)
            self._number += 1
        return is_new or self._number > 1


@contextmanager
def _this_loop() -> Iterator[Callable[[Callable[[], Awaitable[HttpReply]]], HttpReply]]:
    """Let other threads run coroutines here, as this one's own, and wait for them.

    After the end nobody here waits any more, so that nothing more is begun.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    is_over = False

    async def unless_over(function: Callable[[], Awaitable[HttpReply]]) -> HttpReply:
        if is_over:
            raise CallAbandoned
        return await function()

    def run(function: Callable[[], Awaitable[HttpReply]]) -> HttpReply:
        coroutine = unless_over(function)
        try:
            future = context.run(asyncio.run_coroutine_threadsafe, coroutine, loop)
        except RuntimeError as exc:  # the loop is closed
            coroutine.close()
            raise CallAbandoned from exc
        try:
            return future.result()
        except CancelledError as exc:
            raise CallAbandoned from exc

    try:
        yield run
    finally:
        is_over = True
