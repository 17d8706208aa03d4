"""The clients that an application builds itself: their questions to models are kept too.

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
from pytest_llmeval.models.http.client_hook import Question, received, received_async, uncached
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
            blocking = _Blocking(library, interception)
            awaitable = _Awaitable(library, interception)
            for (kind, name), handle in zip(
                SEAMS, (blocking.handle, awaitable.handle), strict=True
            ):
                owner, plain = _seam(library, kind, name)
                setattr(owner, name, _method(handle, plain))
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


class _Blocking:
    """Answers what blocking clients send."""

    def __init__(self, library: Any, interception: Interception) -> None:
        self._library = library
        self._interception = interception

    def handle(self, send: Callable[[Any], Any], request: Any) -> Any:
        """Answer one request, or send it as it is."""
        question = self._question(request)
        if question is None:
            with uncached(self._interception.sdk_trial(request), request) as came:
                return came(send(request))
        most = self._interception.retries.max_reply_bytes
        return question.answer(lambda: received(self._library, send, request, most=most))

    def _question(self, request: Any) -> Question | None:
        candidate = self._interception.candidate(request)
        if candidate is None:
            return None
        request.read()
        return self._interception.question(self._library, request, candidate)


class _Awaitable:
    """Answers what awaitable clients send, on asyncio; elsewhere it lets all pass.

    An attempt runs on the loop, where the client's connections are; what waits for it and
    keeps the reply does so in a thread.
    """

    def __init__(self, library: Any, interception: Interception) -> None:
        self._library = library
        self._interception = interception
        self._loop: Callable[[], AbstractEventLoop | None] = lambda: None
        self._loops = 0

    async def handle(self, send: Callable[[Any], Awaitable[Any]], request: Any) -> Any:
        """Answer one request, or send it as it is."""
        question = await self._question(request)
        if question is None:
            with uncached(self._interception.sdk_trial(request), request) as came:
                return came(await send(request))
        if self._may_change_its_loop():
            request.headers["connection"] = "close"
        most = self._interception.retries.max_reply_bytes
        receive = partial(received_async, self._library, send, request, most=most)
        this_loop = _ThisLoop()
        try:
            return await question.answer_async(lambda: this_loop.run(receive), awaits=True)
        finally:
            this_loop.is_over = True

    def _may_change_its_loop(self) -> bool:
        """Tell whether the next request of a client may come from another loop than this one.

        A connection that was kept belongs to the loop on which it was opened. A request from
        another loop would be sent on it, and paid for, but its reply could not be read.
        """
        loop = asyncio.get_running_loop()
        is_new = self._loop() is not loop
        if is_new:
            self._loop = ref(loop)
            self._loops += 1
        return is_new or self._loops > 1

    async def _question(self, request: Any) -> Question | None:
        candidate = self._interception.candidate(request)
        if candidate is None or not is_on_asyncio():
            return None
        await request.aread()
        return self._interception.question(self._library, request, candidate)


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


def _method(handle: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    def method(transport: Any, request: Any) -> Any:
        return handle(partial(plain, transport), request)

    return method


class _ThisLoop:
    """Lets other threads run coroutines here, as this one's own, and wait for them.

    Attributes:
        is_over: nobody here waits any more, so that nothing more is to be begun.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()

    def run(self, function: Callable[[], Awaitable[HttpReply]]) -> HttpReply:
        coroutine = self._unless_over(function)
        try:
            future = self._context.run(asyncio.run_coroutine_threadsafe, coroutine, self._loop)
        except RuntimeError as exc:  # the loop is closed
            coroutine.close()
            raise CallAbandoned from exc
        try:
            return future.result()
        except CancelledError as exc:
            raise CallAbandoned from exc

    async def _unless_over(self, function: Callable[[], Awaitable[HttpReply]]) -> HttpReply:
        if self.is_over:
            raise CallAbandoned
        return await function()
