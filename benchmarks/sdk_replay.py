"""How fast are replays through a vendor's own client?

2000 stored replies asked for through ``openai_client.chat.completions.create``, in one thread
on one core, beside the same SDK over a transport that has the bytes at hand (what no cache
below an SDK can beat), and beside a loop that only builds the SDK's objects from the bytes.
The targets are 1500 calls a second through the client, and a lookup within 1 ms in 99 of 100
cases. Run: ``python benchmarks/sdk_replay.py``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TypeVar

import httpx2
import openai
from concurrency import start_server
from openai.types.chat import ChatCompletion

from pytest_llmeval.cache.replies import Replies, StoredReply
from pytest_llmeval.engine.ledger import Ledger
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.providers import Providers

CALLS = 2000
ROUNDS = 7
LEAST_CALLS = 1500  # a second
SLOWEST_LOOKUP = 1e-3  # seconds, of 99 in 100
OURS = "openai_client, every reply stored"
SDK = "the SDK over a transport that has the bytes"
OBJECTS = "objects alone: ChatCompletion from the bytes"


AnyReplies = TypeVar("AnyReplies", bound=Replies)


class TimedReplies(Replies):
    """Replies that note how long each lookup takes."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.seconds: list[float] = []

    def lookup(self, *args: Any, **named: Any) -> StoredReply | None:
        """Look up, with a clock in hand."""
        started = time.thread_time()
        try:
            return super().lookup(*args, **named)
        finally:
            self.seconds.append(time.thread_time() - started)


class AtHand(httpx2.BaseTransport):
    """Answers every request with the same bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer."""
        return httpx2.Response(
            200, headers={"content-type": "application/json"}, content=self._content
        )


def ask_all(client: openai.OpenAI) -> None:
    """Ask every question once."""
    for number in range(CALLS):
        reply = client.chat.completions.create(
            model="bench", messages=[{"role": "user", "content": f"Question {number}?"}]
        )
        assert reply.choices[0].message.content == "yes"


def build_all(content: bytes) -> None:
    """Build what ``ask_all`` gets."""
    for _ in range(CALLS):
        reply = ChatCompletion.construct(**json.loads(content))
        assert reply.choices[0].message.content == "yes"


def seconds_of(work: Callable[[], None]) -> float:
    """Time a way."""
    started = time.thread_time()
    work()
    return time.thread_time() - started


def replies_in(folder: Path, kind: type[AnyReplies]) -> AnyReplies:
    """Open the replies of a folder as a session does."""
    return kind(folder, mode="auto", session="bench", warn=print)


def as_in_a_trial(providers: Providers, replies: Replies) -> openai.OpenAI:
    """Build the client as the fixture of a new trial does."""
    ledger = Ledger(0, wait=lambda function, **_: function(), wait_async=asyncio.to_thread)
    return providers.openai_client(CachedCalls(ledger, replies))


def measured(folder: Path) -> tuple[dict[str, list[float]], list[float]]:
    """Measure every way once a round; return seconds by way, and those of our lookups."""
    replies, providers = replies_in(folder, Replies), Providers()
    ask_all(as_in_a_trial(providers, replies))  # paid for
    stored = replies.lookup(*_first_call(providers, replies))
    assert stored is not None
    bare = openai.OpenAI(http_client=openai.DefaultHttpxClient(transport=AtHand(stored.body)))
    ways: dict[str, Callable[[], None]] = {
        OURS: lambda: ask_all(as_in_a_trial(providers, replies)),
        SDK: lambda: ask_all(bare),
        OBJECTS: lambda: build_all(stored.body),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            seconds[name].append(seconds_of(way))
    replies.close()
    timed = replies_in(folder, TimedReplies)
    ask_all(as_in_a_trial(providers, timed))  # apart: the clock takes its share
    providers.close()
    timed.close()
    return seconds, timed.seconds


def _first_call(providers: Providers, replies: Replies) -> tuple[Any, Any]:
    ledger = Ledger(0, wait=lambda function, **_: function(), wait_async=asyncio.to_thread)
    client = providers.openai_client(CachedCalls(ledger, replies))
    client.chat.completions.create(
        model="bench", messages=[{"role": "user", "content": "Question 0?"}]
    )
    (call,) = ledger.calls
    return call.key, call.slot


def table(seconds: dict[str, list[float]]) -> str:
    """Write a Markdown table: medians of the rounds, the ratio within each round."""
    rows = [f"| {CALLS} replies, one core | calls/s | ms a call | ratio |", "|---|---:|---:|---:|"]
    for name, each in seconds.items():
        took = median(each)
        ratio = median(one / other for one, other in zip(each, seconds[SDK], strict=True))
        rows.append(f"| {name} | {CALLS / took:.0f} | {took / CALLS * 1000:.3f} | {ratio:.2f} |")
    return "\n".join(rows)


def main() -> int:
    """Print the table; 1 if a target was missed."""
    os.environ |= {"OPENAI_BASE_URL": start_server(wait=0.0), "OPENAI_API_KEY": "bench"}
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    gc.freeze()  # garbage is collected as rarely as while trials run, in all three ways
    gc.set_threshold(10_000)
    with tempfile.TemporaryDirectory(prefix="llmeval-sdk-") as name:
        seconds, lookups = measured(Path(name))
    print(table(seconds))
    half, slowest = (quantiles(lookups, n=100)[place] for place in (49, 98))
    print(f"\nA lookup took {half * 1e6:.0f} us, 99 of 100 at most {slowest * 1e6:.0f} us.")
    print(f"Targets: {LEAST_CALLS} calls/s in the best round, and {SLOWEST_LOOKUP * 1e6:.0f} us.")
    is_fast = CALLS / min(seconds[OURS]) >= LEAST_CALLS
    return 0 if is_fast and slowest <= SLOWEST_LOOKUP else 1


if __name__ == "__main__":
    sys.exit(main())
