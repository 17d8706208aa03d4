"""The seam of httpx and httpx2: the public ``handle_request`` of their ``HTTPTransport``.

Every client sends through it in the end. It is taken at the class, so it does not matter when and
where a client was built; and once somebody has imported the library, so a session imports none for
its own sake.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from pytest_llmeval.models.attribution import SENDING
from pytest_llmeval.models.course import running_loop
from pytest_llmeval.models.http.seam import send_once_async, uncached
from pytest_llmeval.models.http.sender import is_stubbed
from pytest_llmeval.models.interception import Interception, Method

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def sending_by_httpx(plain: Method, library: Any, interception: Interception) -> Method:
    """Make the method by which blocking clients send."""

    def handle_request(transport: Any, request: Any) -> Any:
        if SENDING.get() or is_stubbed(library, awaits=False):
            return plain(transport, request)
        candidate = interception.candidate(request)
        if candidate is not None:
            request.read()
            question = interception.question(library, request, candidate)
            if question is not None:
                return question.answer(
                    interception.sender.attempt(library, transport, request, plain)
                )
        with uncached(interception.sdk_trial(request), request) as came:
            return came(plain(transport, request))

    return handle_request


def sending_awaitably(plain: Method, library: Any, interception: Interception) -> Method:
    """Make the method by which awaitable clients send; off asyncio it lets all pass.

    An attempt that is made through the transport itself runs on the loop, where its connections
    are; what waits for it and keeps the reply does so in a thread.
    """
    most = interception.sender.most
    last_loops: deque[ref[AbstractEventLoop]] = deque(maxlen=2)  # from which requests came

    async def handle_async_request(transport: Any, request: Any) -> Any:
        if SENDING.get() or is_stubbed(library, awaits=True):
            return await plain(transport, request)
        candidate = interception.candidate(request)
        loop = None if candidate is None else running_loop()
        if candidate is not None and loop:
            await request.aread()
            question = interception.question(library, request, candidate)
            if question is not None:
                beside = interception.sender.beside(library, transport, request, plain, awaits=True)
                if beside is not None:
                    return await question.answer_async(beside)
                # A connection that was kept belongs to the loop on which it was opened. A request
                # from another loop would be sent on it, and paid for, but its reply not be read.
                is_new = not last_loops or last_loops[-1]() is not loop
                if is_new:
                    last_loops.append(ref(loop))
                if is_new or len(last_loops) > 1:
                    request.headers["connection"] = "close"
                send = partial(plain, transport)
                return await question.answer_on_loop(
                    partial(send_once_async, library, send, request, most=most)
                )
        with uncached(interception.sdk_trial(request), request) as came:
            return came(await plain(transport, request))

    return handle_async_request
