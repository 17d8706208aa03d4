"""What becomes of an HTTP request that a coroutine awaits: as in ``exchange``."""

from __future__ import annotations

from functools import partial

from pytest_llmeval.cache.replies import Answer, StoredReply
from pytest_llmeval.errors import BudgetExceeded, ReplayMiss
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.http.exchange import (
    Dialect,
    HttpFailed,
    WireRequest,
    answered,
    describe,
    perform,
    refused,
)
from pytest_llmeval.models.limits.retries import Attempt, RetryPolicy, WireReply
from pytest_llmeval.records import Slot


async def answer_async(
    request: WireRequest,
    attempt: Attempt,
    *,
    dialect: Dialect,
    calls: CachedCalls,
    retries: RetryPolicy,
    awaits: bool = False,
) -> StoredReply:
    """Answer a request: as ``answer``, with attempts in another thread.

    Args:
        request: what is to be sent.
        attempt: sends it once.
        dialect: whose request it is.
        calls: where replies are kept and calls recorded.
        retries: how to try again.
        awaits: an attempt goes on only while this event loop runs.
    """
    make = partial(perform, request, attempt, dialect=dialect, retries=retries)

    def draw(_slot: Slot) -> Answer:
        return make()

    return await calls.call_async(describe(request, dialect, calls.aliases), draw, awaits=awaits)


async def exchange_async(
    request: WireRequest,
    attempt: Attempt,
    *,
    dialect: Dialect,
    calls: CachedCalls,
    retries: RetryPolicy,
    awaits: bool = False,
) -> WireReply:
    """Answer a request of an awaitable SDK: as ``exchange``; see ``answer_async``."""
    try:
        reply = await answer_async(
            request, attempt, dialect=dialect, calls=calls, retries=retries, awaits=awaits
        )
        return answered(reply)
    except (ReplayMiss, BudgetExceeded, HttpFailed) as exc:
        return refused(exc)
