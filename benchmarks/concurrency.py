"""How close to the physical limit do trials overlap, and what do the roads through the SDKs take?

1000 calls of 200 ms at 64 in flight (the limit is 3.1 s) by every road, then 5000 of 20 ms by
``llm`` alone, against a loopback server of our own: beside the fastest bare script there is
(AsyncOpenAI and a semaphore), the sync SDK in a bare thread pool, and plain pytest under
xdist, which is measured once, as it takes minutes. Whole processes, each with an empty
cache. Run: ``python benchmarks/concurrency.py``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stopwatch import BARE_PYTEST, OUR_PYTEST, ROUNDS, interleaved, python, table

IN_FLIGHT = 64
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
ASKED = """chat.completions.create(
        model="bench", messages=[{"role": "user", "content": f"Question {number}?"}]
    )"""
ANSWER = "reply.choices[0].message.content"
EVAL = """
import pytest
from pytest_llmeval import llm_eval
{head}
@llm_eval(repeats={repeats}{options})
@pytest.mark.parametrize("number", range({cases}))
{define} test_question({fixture}number):
    reply = {call}
    assert {answer} == "yes"
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
    reply = client.{asked}
    assert {answer} == "yes"
"""
BARE_ASYNC = """
import asyncio
import openai

async def main():
    client, limit = openai.AsyncOpenAI(), asyncio.Semaphore({in_flight})

    async def ask(number):
        async with limit:
            reply = await client.{asked}
            assert {answer} == "yes"

    await asyncio.gather(*(ask(n) for n in range({cases}) for _ in range({repeats})))

asyncio.run(main())
"""
BARE_THREADS = """
from concurrent.futures import ThreadPoolExecutor
import openai

client = openai.OpenAI()

def ask(number):
    reply = client.{asked}
    assert {answer} == "yes"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Road:
    """How trials ask: what ``EVAL`` is filled with, and the target for 1000 calls of 200 ms."""

    call: str
    target: str
    answer: str = ANSWER
    define: str = "def"
    fixture: str = ""
    head: str = ""
    options: str = ""


LLM_ASKED = 'llm.ask(f"Question {number}?")'
OF_SDKS = "wall 1.10, CPU 1.80, memory 1.60"
ROADS = {
    "llm, sync tests": Road(
        fixture="llm, ", call=LLM_ASKED, answer="reply.text", target="wall 0.95"
    ),
    "async_llm": Road(
        define="async def",
        fixture="async_llm, ",
        call=f"await async_{LLM_ASKED}",
        answer="reply.text",
        target="wall 1.00",
    ),
    "openai_client": Road(fixture="openai_client, ", call=f"openai_client.{ASKED}", target=OF_SDKS),
    "async_openai_client": Road(
        define="async def",
        fixture="async_openai_client, ",
        call=f"await async_openai_client.{ASKED}",
        target=OF_SDKS,
    ),
    "intercepted OpenAI() of a module": Road(
        head="import openai\n\nclient = openai.OpenAI()\n",
        options=", intercept=True",
        call=f"client.{ASKED}",
        target=OF_SDKS,
    ),
}
OF_LLM = ("llm, sync tests", "async_llm")
BARE = {
    "sync SDK in a bare thread pool": ("bare_threads.py", BARE_THREADS),
    "AsyncOpenAI and a semaphore": ("bare_async.py", BARE_ASYNC),
}


def write_project(folder: Path, *, cases: int, repeats: int) -> dict[str, Sequence[str]]:
    """Write what is measured; return the commands, of which the last is the reference."""
    numbers = {"cases": cases, "repeats": repeats, "in_flight": IN_FLIGHT, "asked": ASKED}
    ours = ["--llm-model=openai/bench", f"--llm-concurrency={IN_FLIGHT}"]
    commands: dict[str, Sequence[str]] = {}
    texts = {"pytest.ini": INI, "test_xdist.py": XDIST.format(answer=ANSWER, **numbers)}
    for place, (name, road) in enumerate(ROADS.items()):
        texts[f"test_road_{place}.py"] = EVAL.format(**asdict(road), **numbers)
        commands[name] = [*OUR_PYTEST, f"test_road_{place}.py", *ours]
    for name, (file, text) in BARE.items():
        texts[file] = text.format(answer=ANSWER, **numbers)
        commands[name] = [file]
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return commands


def measure(roads: Collection[str], *, cases: int, wait: float, targets: Mapping[str, str]) -> None:
    """Print the table of some roads, with five repeats of each case."""
    os.environ |= {"OPENAI_BASE_URL": start_server(wait), "OPENAI_API_KEY": "bench"}
    with tempfile.TemporaryDirectory(prefix="llmeval-concurrency-") as name:
        folder = Path(name)
        commands = write_project(folder, cases=cases, repeats=5)
        usages = interleaved(
            {name: each for name, each in commands.items() if name in {*roads, *BARE}},
            folder=folder,
            rounds=ROUNDS,
            before_each=lambda: shutil.rmtree(folder / ".llmeval", ignore_errors=True),
        )
        unit = f"{5 * cases} calls of {wait * 1000:.0f} ms"
        print(table(usages, unit=unit, targets=targets), flush=True)
        xdist = [*BARE_PYTEST, "-p", "xdist", "test_xdist.py", "-n", str(XDIST_WORKERS)]
        once = python(xdist, folder=folder)
    print(f"Plain pytest, {XDIST_WORKERS} xdist workers, once: {once.wall:.1f} s\n", flush=True)


def main() -> int:
    """Print a table for each size."""
    targets = {name: road.target for name, road in ROADS.items()}
    measure(ROADS, cases=200, wait=0.2, targets=targets)
    measure(OF_LLM, cases=1000, wait=0.02, targets={"llm, sync tests": "wall 1.35, aim 1.10"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
