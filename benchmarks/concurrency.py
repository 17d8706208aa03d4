"""How close to the physical limit do trials overlap?

1000 calls of 200 ms at 64 in flight (the limit is 3.1 s), then 5000 of 20 ms, against a
loopback server of our own: our plugin with sync and with async tests, beside the fastest
bare script there is (AsyncOpenAI and a semaphore), the sync SDK in a bare thread pool, and
plain pytest under xdist, which is measured once, as it takes minutes. Whole processes, each
with an empty cache. Run: ``python benchmarks/concurrency.py``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from stopwatch import BARE_PYTEST, OUR_PYTEST, interleaved, python, table

IN_FLIGHT = 64
ROUNDS = 5
SIZES = ((200, 5, 0.2), (1000, 5, 0.02))  # cases, repeats, seconds a call
XDIST_WORKERS = 16

REPLY = (
    b'{"id":"x","object":"chat.completion","created":1,"model":"bench","choices":[{"index":0,'
    b'"finish_reason":"stop","message":{"role":"assistant","content":"yes"}}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

# A model without a price makes the extra ``cost``, where it is installed, look for one.
INI = """
[pytest]
llm_prices = openai/bench = 0.15, 0.60
"""
PLUGIN = """
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats={repeats})
@pytest.mark.parametrize("number", range({cases}))
def test_question(llm, number):
    assert llm.ask(f"Question {{number}}?").text == "yes"
"""
PLUGIN_ASYNC = """
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats={repeats})
@pytest.mark.parametrize("number", range({cases}))
async def test_question(async_llm, number):
    assert (await async_llm.ask(f"Question {{number}}?")).text == "yes"
"""
XDIST = """
import openai
import pytest

@pytest.fixture(scope="session")
def client():
    return openai.OpenAI()

@pytest.mark.parametrize("trial", range({repeats}))
@pytest.mark.parametrize("number", range({cases}))
def test_question(client, number, trial):
    reply = client.chat.completions.create(
        model="bench", messages=[{{"role": "user", "content": f"Question {{number}}?"}}]
    )
    assert reply.choices[0].message.content == "yes"
"""
BARE_ASYNC = """
import asyncio
import openai

async def main():
    client, limit = openai.AsyncOpenAI(), asyncio.Semaphore({in_flight})

    async def ask(number):
        async with limit:
            reply = await client.chat.completions.create(
                model="bench", messages=[{{"role": "user", "content": f"Question {{number}}?"}}]
            )
            assert reply.choices[0].message.content == "yes"

    await asyncio.gather(*(ask(n) for n in range({cases}) for _ in range({repeats})))

asyncio.run(main())
"""
BARE_THREADS = """
from concurrent.futures import ThreadPoolExecutor
import openai

client = openai.OpenAI()

def ask(number):
    reply = client.chat.completions.create(
        model="bench", messages=[{{"role": "user", "content": f"Question {{number}}?"}}]
    )
    assert reply.choices[0].message.content == "yes"

with ThreadPoolExecutor({in_flight}) as pool:
    list(pool.map(ask, [n for n in range({cases}) for _ in range({repeats})]))
"""


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait: float) -> None:
    """Answer every request of a connection after a while."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            await reader.readexactly(length)
            await asyncio.sleep(wait)
            writer.write(HEAD % len(REPLY) + REPLY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def start_server(wait: float) -> str:
    """Serve from a thread of this process; return the base URL."""
    started: list[int] = []
    ready = threading.Event()

    async def run() -> None:
        server = await asyncio.start_server(
            lambda reader, writer: serve(reader, writer, wait), "127.0.0.1", 0, backlog=1024
        )
        started.append(server.sockets[0].getsockname()[1])
        ready.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(run()), daemon=True).start()
    ready.wait()
    return f"http://127.0.0.1:{started[0]}/v1"


def commands() -> dict[str, Sequence[str]]:
    """What is timed; the last one is the reference."""
    ours = ["--llm-model=openai/bench", f"--llm-concurrency={IN_FLIGHT}"]
    return {
        "this plugin, sync tests": [*OUR_PYTEST, "test_plugin.py", *ours],
        "this plugin, async tests": [*OUR_PYTEST, "test_plugin_async.py", *ours],
        "sync SDK in a bare thread pool": ["bare_threads.py"],
        "AsyncOpenAI and a semaphore": ["bare_async.py"],
    }


def measure(cases: int, repeats: int, wait: float) -> None:
    """Print the table of one size."""
    numbers = {"cases": cases, "repeats": repeats, "in_flight": IN_FLIGHT}
    os.environ |= {"OPENAI_BASE_URL": start_server(wait), "OPENAI_API_KEY": "bench"}
    with tempfile.TemporaryDirectory(prefix="llmeval-concurrency-") as name:
        folder = Path(name)
        texts = {
            "test_plugin": PLUGIN,
            "test_plugin_async": PLUGIN_ASYNC,
            "test_xdist": XDIST,
            "bare_async": BARE_ASYNC,
            "bare_threads": BARE_THREADS,
        }
        (folder / "pytest.ini").write_text(INI, encoding="utf-8")
        for file, text in texts.items():
            (folder / f"{file}.py").write_text(text.format(**numbers), encoding="utf-8")
        usages = interleaved(
            commands(),
            folder=folder,
            rounds=ROUNDS,
            before_each=lambda: shutil.rmtree(folder / ".llmeval", ignore_errors=True),
        )
        print(table(usages, unit=f"{cases * repeats} calls of {wait * 1000:.0f} ms"), flush=True)
        xdist = [*BARE_PYTEST, "-p", "xdist", "test_xdist.py", "-n", str(XDIST_WORKERS)]
        once = python(xdist, folder=folder)
    print(f"Plain pytest, {XDIST_WORKERS} xdist workers, once: {once.wall:.1f} s\n", flush=True)


def main() -> int:
    """Print a table for each size."""
    for size in SIZES:
        measure(*size)
    print(f"Medians of {ROUNDS} interleaved rounds; the ratio is taken within each round.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
