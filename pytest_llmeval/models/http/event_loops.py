"""The event loops of applications, on which their awaitable clients have their connections."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from contextvars import copy_context
from weakref import ref

from pytest_llmeval.errors import CallAbandoned
from pytest_llmeval.models.attribution import charging
from pytest_llmeval.models.deadline import Deadline
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.retries import Attempt


class EventLoops:
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
def on_this_loop(function: Callable[[], Awaitable[HttpReply]]) -> Iterator[Attempt]:
    """Let other threads run a coroutine function here, as this one's own, and wait for it.

    After the end nobody here waits any more, so that nothing more is begun.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    is_over = False

    async def unless_over() -> HttpReply:
        if is_over:
            raise CallAbandoned
        with charging(None):  # the cache sees what it opens
            return await function()

    def run(deadline: Deadline) -> HttpReply:
        coroutine = unless_over()
        try:
            future = context.run(asyncio.run_coroutine_threadsafe, coroutine, loop)
        except RuntimeError as exc:  # the loop is closed
            coroutine.close()
            raise CallAbandoned from exc
        try:
            return deadline.wait(future)
        except CancelledError as exc:
            raise CallAbandoned from exc

    try:
        yield run
    finally:
        is_over = True
