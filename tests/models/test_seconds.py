"""The seconds of a call: what the provider took, by a clock that the server and the test move."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import aiohttp
import httpx
import openai
import pytest
import requests

from pytest_llmeval.models.http.http_reply import Reading
from pytest_llmeval.models.http.sender import newest
from pytest_llmeval.originals import Clock
from tests.models.conftest import Session
from tests.models.test_interception import ASKED, LIBRARIES, Place, post, post_async
from tests.servers.openai_server import OpenAIServer, Scripted

SERVER_TAKES = 2.0
LOOP_IS_LATE = 100.0
PATIENCE = 60  # of a test that fails


class Hands:
    """The hands of a clock that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def seconds(self) -> float:
        return self.now


class Taking(threading.Event):
    """What a server waits for: so many seconds, which pass at once."""

    def __init__(self, hands: Hands, seconds: float = SERVER_TAKES) -> None:
        super().__init__()
        self._hands, self._seconds = hands, seconds

    def wait(self, timeout: float | None = None) -> bool:
        self._hands.now += self._seconds
        return True


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(Clock, "seconds", staticmethod(hands.seconds))
    return hands


@pytest.fixture
def place(session: Session) -> Place:
    return Place(session)


@pytest.fixture
def url(server: OpenAIServer) -> str:
    return f"{server.url}/chat/completions"


@pytest.fixture
def was_read(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Tell when a reply was read to its end."""
    was_read = threading.Event()

    def told(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*args: Any) -> Any:
            reply = read(*args)
            was_read.set()
            return reply

        return reading

    monkeypatch.setattr(Reading, "reply", told(Reading.reply))
    return was_read


async def by_aiohttp(url: str, **request: Any) -> None:
    async with aiohttp.ClientSession() as client, client.post(url, **request) as reply:
        await reply.read()


async def by_sdk(url: str, *, json: Any) -> None:
    base_url = url.removesuffix("/chat/completions")
    async with openai.AsyncOpenAI(base_url=base_url) as client:
        await client.chat.completions.create(**json)


def by_httpx(library: ModuleType) -> Callable[..., Any]:
    async def ask(url: str, **request: Any) -> None:
        await post_async(library, url, **request)

    return ask


AWAITABLE = {library.__name__: by_httpx(library) for library in LIBRARIES}
AWAITABLE |= {"aiohttp": by_aiohttp, "openai": by_sdk}
BLOCKING: dict[str, Callable[..., Any]] = {
    "httpx": lambda url, json: post(httpx, url, json=json),
    "newest": lambda url, json: post(newest(), url, json=json),
    "requests": lambda url, json: requests.post(url, json=json, timeout=PATIENCE),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("client", AWAITABLE)
def test_the_seconds_of_an_awaited_call_are_without_those_in_which_its_loop_was_busy(
    place: Place,
    server: OpenAIServer,
    url: str,
    hands: Hands,
    was_read: threading.Event,
    *,
    client: str,
    stream: bool,
) -> None:
    server.then(Scripted(until=Taking(hands)))
    asked = {**ASKED, "stream": True} if stream else ASKED

    async def main() -> None:
        asking = asyncio.create_task(AWAITABLE[client](url, json=asked))
        while not server.requests:
            await asyncio.sleep(0.01)
        was_read.wait(PATIENCE)  # another task of the loop computes meanwhile
        hands.now += LOOP_IS_LATE
        await asking

    with place.trial() as paid:
        asyncio.run(main())
    with place.trial() as replayed:
        asyncio.run(AWAITABLE[client](url, json=asked))

    assert [call.seconds for call in (*paid.calls, *replayed.calls)] == [SERVER_TAKES] * 2


@pytest.mark.parametrize("client", BLOCKING)
def test_the_seconds_of_a_blocking_call_are_those_of_the_server(
    place: Place, server: OpenAIServer, url: str, hands: Hands, client: str
) -> None:
    server.then(Scripted(until=Taking(hands)))

    with place.trial() as trial:
        BLOCKING[client](url, json=ASKED)

    assert [call.seconds for call in trial.calls] == [SERVER_TAKES]


@pytest.mark.parametrize("client", AWAITABLE)
def test_of_several_attempts_the_one_that_was_answered_counts(
    place: Place, server: OpenAIServer, url: str, hands: Hands, client: str
) -> None:
    slow = Taking(hands, seconds=50.0)
    server.then(Scripted(status=500, until=slow), Scripted(until=Taking(hands)))

    with place.trial() as trial:
        asyncio.run(AWAITABLE[client](url, json=ASKED))

    assert [call.seconds for call in trial.calls] == [SERVER_TAKES]
