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
from functools import partial
from typing import Any
from weakref import ref

import httpx
import httpx2

from pytest_llmeval.errors import CallAbandoned, SettingsError
from pytest_llmeval.models.calls import is_on_asyncio
from pytest_llmeval.models.http.client_hook import received, received_async, uncached
from pytest_llmeval.models.http_reply import HttpReply
from pytest_llmeval.models.intercept.questions import Interception

LIBRARIES = (httpx2, httpx)
SEAMS = (("HTTPTransport", "handle_request"), ("AsyncHTTPTransport", "handle_async_request"))


@contextmanager
def intercepting(interception: Interception) -> Iterator[None]:
    """Stand between all clients of httpx and httpx2 and the network.

    Raises:
        SettingsError: one of these libraries is not as expected.
    """
    check_seams()
    with ExitStack() as undoing:
        for library in dict.fromkeys(LIBRARIES):  # httpx2 can pose as httpx
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
                    lambda: received(library, send, request, most=interception.most)
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
                with _this_loop() as run:
                    return await question.answer_async(
                        lambda: run(
                            lambda: received_async(library, send, request, most=interception.most)
                        ),
                        awaits=True,
                    )
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
