"""Races of replies that the cache has already: each trial ends as it did, whatever came first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.truth.clients import CLIENT
from tests.truth.kinds import Kind
from tests.truth.sessions import RatedServer, Sessions
from tests.truth.test_kinds import differing

HELPERS = """
async def first_of(*asks):
    tasks = {asyncio.ensure_future(ask) for ask in asks}
    done, late = await asyncio.wait(tasks, return_when=FIRST_COMPLETED)
    if late:
        await asyncio.wait(late)
    return done.pop().result()

def begun(ask, *arguments):
    threads = [threading.Thread(target=ask, args=each) for each in arguments]
    for thread in threads:
        thread.start()
    return threads

def joined(threads):
    for thread in threads:
        thread.join()
"""
PAYING = (
    HELPERS
    + """
@evaluated()
def test_0_pay(llm, i):
    for who in "abc":
        llm.ask(f"{who} {i} rate=1")
"""
)
PAYING_CLIENT = (
    HELPERS
    + CLIENT
    + """
async def plain(client, who, i):
    reply = await client.chat.completions.create(**asked(f"{who} {i} rate=1"))
    assert said(reply) == "yes"
    return who

async def streamed(client, who, i, came=()):
    question = asked(f"{who} {i} rate=1")
    async for chunk in await client.chat.completions.create(**question, stream=True):
        if came:
            came.append(who)
    return who

@evaluated(intercept=True)
async def test_0_pay(i):
    async with openai.AsyncOpenAI() as client:
        for who in "abc":
            await plain(client, who, i)
            await streamed(client, who, i)
"""
)


def race(name: str, body: str) -> Kind:
    """A kind whose trials note in ``came`` what comes, and pass or miss by the order."""
    return Kind(name=name, source=PAYING + body)


def race_of_clients(name: str, body: str) -> Kind:
    """The same with clients of the application."""
    return Kind(name=name, source=PAYING_CLIENT + body, has_clients=True)


RACES = [
    race(
        "to_thread, the first that is done",
        """
@evaluated()
async def test_a(llm, i):
    def ask(who):
        llm.ask(f"{who} {i} rate=1")
        return who
    assert await first_of(asyncio.to_thread(ask, "a"), asyncio.to_thread(ask, "b")) == "a"
""",
    ),
    race(
        "to_thread, gathered",
        """
@evaluated()
async def test_a(llm, i):
    came = []
    async def one(who):
        await asyncio.to_thread(llm.ask, f"{who} {i} rate=1")
        came.append(who)
    await asyncio.gather(*map(one, "abc"))
    assert came[-1] == "c"
""",
    ),
    race(
        "a thread and a coroutine",
        """
@evaluated()
async def test_a(llm, async_llm, i):
    def ask():
        llm.ask(f"a {i} rate=1")
        return "a"
    async def ask_async():
        await async_llm.ask(f"b {i} rate=1")
        return "b"
    assert await first_of(asyncio.to_thread(ask), ask_async()) == "a"
""",
    ),
    race(
        "a pool, the first that is done",
        """
@evaluated()
def test_a(llm, i):
    with ThreadPoolExecutor(2) as pool:
        asked = {pool.submit(llm.ask, f"{who} {i} rate=1"): who for who in "ab"}
        done, _ = wait_for_futures(asked, return_when=FIRST_COMPLETED)
        assert asked[done.pop()] == "a"
""",
    ),
    race(
        "a pool, as completed",
        """
@evaluated()
def test_a(llm, i):
    with ThreadPoolExecutor(2) as pool:
        asked = {pool.submit(llm.ask, f"{who} {i} rate=1"): who for who in "ab"}
        assert asked[next(as_completed(asked))] == "a"
""",
    ),
    race(
        "threads and a queue",
        """
import queue

@evaluated()
def test_a(llm, i):
    came = queue.Queue()
    def ask(who):
        llm.ask(f"{who} {i} rate=1")
        came.put(who)
    threads = begun(ask, "a", "b")
    first = came.get()
    joined(threads)
    assert first == "a"
""",
    ),
    race(
        "threads that ask twice, joined",
        """
@evaluated()
def test_a(llm, i):
    came = []
    def ask(*several):
        for who in several:
            llm.ask(f"{who} {i} rate=1")
            came.append(who)
    joined(begun(ask, "ab", "ca"))  # two questions each
    assert "".join(came) in ("abca", "acba", "caab")
""",
    ),
    race_of_clients(
        "clients, the first that is done",
        """
@evaluated(intercept=True)
async def test_a(i):
    async with openai.AsyncOpenAI() as client:
        assert await first_of(plain(client, "a", i), plain(client, "b", i)) == "a"
""",
    ),
    race_of_clients(
        "clients, a stream and a plain question",
        """
@evaluated(intercept=True)
async def test_a(i):
    async with openai.AsyncOpenAI() as client:
        assert await first_of(streamed(client, "a", i), plain(client, "b", i)) == "a"
""",
    ),
    race_of_clients(
        "clients, as completed",
        """
@evaluated(intercept=True)
async def test_a(i):
    async with openai.AsyncOpenAI() as client:
        asks = [streamed(client, "a", i), plain(client, "b", i), plain(client, "c", i)]
        assert [await one for one in asyncio.as_completed(asks)][:2] == ["a", "b"]
""",
    ),
    race_of_clients(
        "clients, chunks of two streams",
        """
@evaluated(intercept=True)
async def test_a(i):
    came = ["begin"]
    async with openai.AsyncOpenAI() as client:
        await asyncio.gather(streamed(client, "a", i, came), streamed(client, "b", i, came))
    assert came[1:4] == ["a"] * 3
""",
    ),
    race_of_clients(
        "clients in a pool",
        """
@evaluated(intercept=True)
def test_a(i):
    with ThreadPoolExecutor(2) as pool:
        asked = {pool.submit(ask, f"{who} {i} rate=1"): who for who in "ab"}
        assert asked[next(as_completed(asked))] == "a"
""",
    ),
    race_of_clients(
        "a client in a thread and a stream",
        """
@evaluated(intercept=True)
async def test_a(i):
    def in_thread():
        ask(f"a {i} rate=1")
        return "a"
    async with openai.AsyncOpenAI() as client:
        first = await first_of(asyncio.to_thread(in_thread), streamed(client, "b", i))
        assert first == "a"
""",
    ),
]


@pytest.mark.parametrize("kind", RACES, ids=lambda kind: kind.name)
def test_a_race_ends_as_it_did(kind: Kind, pytester: pytest.Pytester, server: RatedServer) -> None:
    source = kind.source.replace("@evaluated(", "@evaluated(cases=12, ").replace(", )", ")")
    sessions = Sessions(replace(kind, source=source), pytester, server)
    sessions.run("-k", "pay")
    first = sessions.run("-k", "test_a")

    for _ in range(2):
        again = sessions.run("-k", "test_a")

        assert differing(first, again) == []
        assert again.asked == 0
