"""How fast are replays through a vendor's own client?

1000 stored replies each, asked for through ``openai_client``, ``anthropic_client`` and
``ollama_client``, in one thread on one core, each beside the same SDK over a transport that has
the bytes at hand: what no cache below an SDK can beat. The targets are 1500 calls a second
through each client, and a lookup within 1 ms in 99 of 100 cases.
Run: ``python benchmarks/sdk_replay.py``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import anthropic
import httpx
import httpx2
import ollama
import openai

from pytest_llmeval.cache.replies import Replies, StoredReply
from pytest_llmeval.engine.trial.ledger import Ledger
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.settings import Settings

CALLS = 1000
ROUNDS = 7
LEAST_CALLS = 1500  # a second
SLOWEST_LOOKUP = 1e-3  # seconds, of 99 in 100
TEXT = "yes"


class Vendor(NamedTuple):
    """How to ask one vendor's model.

    Attributes:
        path: which the SDK posts to.
        reply: to every question.
        bare: makes a client over a transport.
        library: of the SDK's HTTP.
        ask: asks a client a question, and gives the text of its reply.
    """

    path: str
    reply: dict[str, Any]
    bare: Callable[[Any], Any]
    library: Any
    ask: Callable[[Any, list[dict[str, str]]], str | None]


VENDORS = {
    "openai": Vendor(
        "/v1/chat/completions",
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "bench",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": TEXT},
                }
            ],
            "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
        },
        lambda transport: openai.OpenAI(http_client=openai.DefaultHttpxClient(transport=transport)),
        httpx2,
        lambda client, messages: (
            client.chat.completions.create(model="bench", messages=messages)
            .choices[0]
            .message.content
        ),
    ),
    "anthropic": Vendor(
        "/v1/messages",
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "bench",
            "content": [{"type": "text", "text": TEXT}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 5, "output_tokens": 1},
        },
        lambda transport: anthropic.Anthropic(
            http_client=anthropic.DefaultHttpxClient(transport=transport)
        ),
        httpx2,
        lambda client, messages: (
            client.messages.create(model="bench", max_tokens=9, messages=messages).content[0].text
        ),
    ),
    "ollama": Vendor(
        "/api/chat",
        {
            "model": "bench",
            "created_at": "2026-01-01T00:00:00Z",
            "message": {"role": "assistant", "content": TEXT},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 5,
            "eval_count": 1,
        },
        lambda transport: ollama.Client(transport=transport),
        httpx,
        lambda client, messages: client.chat(model="bench", messages=messages).message.content,
    ),
}


class Server(BaseHTTPRequestHandler):
    """Answers each vendor's path with its reply."""

    def do_POST(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers["content-length"]))
        (vendor,) = (one for one in VENDORS.values() if one.path == self.path)
        body = json.dumps(vendor.reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


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


def at_hand(vendor: Vendor) -> Any:
    """Make a transport that answers every request with the same bytes."""
    body = json.dumps(vendor.reply).encode()
    library = vendor.library

    class AtHand(library.BaseTransport):  # type: ignore[misc]
        def handle_request(self, _: Any) -> Any:
            headers = {"content-type": "application/json"}
            return library.Response(200, headers=headers, content=body)

    return AtHand()


def ask_all(vendor: Vendor, client: Any) -> None:
    """Ask every question once."""
    for number in range(CALLS):
        messages = [{"role": "user", "content": f"Question {number}?"}]
        assert vendor.ask(client, messages) == TEXT


def seconds_of(vendor: Vendor, client: Any) -> float:
    """Ask every question once, against the clock."""
    started = time.thread_time()
    ask_all(vendor, client)
    return time.thread_time() - started


def session_in(folder: Path) -> ModelSession:
    """Begin a session that keeps its replies in a folder."""
    return ModelSession(Settings(directory=folder, session="bench"))


def as_in_a_trial(name: str, session: ModelSession) -> Any:
    """Build the client as the fixture of a new trial does."""
    ledger = Ledger(0, wait=lambda function, **_: function(), wait_async=asyncio.to_thread)
    return session.client(name, ledger)


def measured(folder: Path) -> tuple[dict[str, list[float]], dict[str, list[float]], list[float]]:
    """Measure every SDK once a round; return seconds with ours, without, and of our lookups."""
    session = session_in(folder)
    ours: dict[str, list[float]] = {name: [] for name in VENDORS}
    alone: dict[str, list[float]] = {name: [] for name in VENDORS}
    bare = {name: vendor.bare(at_hand(vendor)) for name, vendor in VENDORS.items()}
    for name, vendor in VENDORS.items():
        ask_all(vendor, as_in_a_trial(name, session))  # paid for
    gc.freeze()  # garbage is collected as rarely as while trials run, with ours and without
    gc.set_threshold(10_000)
    for _ in range(ROUNDS):
        for name, vendor in VENDORS.items():
            client = as_in_a_trial(name, session)
            ours[name].append(seconds_of(vendor, client))
            alone[name].append(seconds_of(vendor, bare[name]))
    session.close()
    session = session_in(folder)  # apart: the clock takes its share
    timed = TimedReplies(folder, mode="auto", session="bench", warn=print)
    session.replies = timed
    for name, vendor in VENDORS.items():
        ask_all(vendor, as_in_a_trial(name, session))
    session.close()
    return ours, alone, timed.seconds


def table(ours: dict[str, list[float]], alone: dict[str, list[float]]) -> str:
    """Write a Markdown table: the best round and the median, the ratio within each round."""
    rows = [
        f"| {CALLS} replays, one core | calls/s, best round | median "
        "| the SDK alone, best | median | time, ratio |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in VENDORS:
        pairs = zip(ours[name], alone[name], strict=True)
        speeds = (
            CALLS / seconds
            for each in (ours[name], alone[name])
            for seconds in (min(each), median(each))
        )
        told = " | ".join(f"{speed:.0f}" for speed in speeds)
        rows.append(f"| {name} | {told} | {median(one / other for one, other in pairs):.2f} |")
    return "\n".join(rows)


def main() -> int:
    """Print the table; 1 if a target was missed."""
    server = HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    os.environ |= {
        "OPENAI_BASE_URL": f"{base}/v1",
        "OPENAI_API_KEY": "bench",
        "ANTHROPIC_BASE_URL": base,
        "ANTHROPIC_API_KEY": "bench",
        "OLLAMA_HOST": base,
    }
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory(prefix="llmeval-sdk-") as name:
        ours, alone, lookups = measured(Path(name))
    server.shutdown()
    print(table(ours, alone))
    half, slowest = (quantiles(lookups, n=100)[place] for place in (49, 98))
    print(f"\nA lookup took {half * 1e6:.0f} us, 99 of 100 at most {slowest * 1e6:.0f} us.")
    print(f"Targets: {LEAST_CALLS} calls/s in the best round, and {SLOWEST_LOOKUP * 1e6:.0f} us.")
    slow = [name for name, each in ours.items() if CALLS / min(each) < LEAST_CALLS]
    if slow:
        print(f"Missed: {', '.join(slow)}.")
    return 1 if slow or slowest > SLOWEST_LOOKUP else 0


if __name__ == "__main__":
    sys.exit(main())
