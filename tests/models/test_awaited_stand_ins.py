"""Questions of awaitable clients that go out beside their event loop, and those that do not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import httpx
import pytest

from pytest_llmeval.models.attribution import charging
from pytest_llmeval.models.http.sender import PunctualSockets, newest
from pytest_llmeval.models.seams.aiohttp_seam import LoopBeside
from tests.models.conftest import CountingTrial, Session, encrypted, intercepting, interception_of
from tests.models.test_stand_ins import QUESTION, REPLY, answering_once, libraries, read_request
from tests.servers.openai_server import OpenAIServer


@pytest.fixture(autouse=True)
def trial(session: Session) -> Iterator[CountingTrial]:
    trial = CountingTrial(0)
    with intercepting(interception_of(session, note=[].append)), charging(trial):
        yield trial


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List what is sent beside the loop, by library."""
    beside: list[str] = []
    begin, send = PunctualSockets.begin, LoopBeside.send

    def beginning(*args: Any) -> None:
        beside.append("httpx")
        begin(*args)

    def sending(*args: Any) -> Any:
        beside.append("aiohttp")
        return send(*args)

    monkeypatch.setattr(PunctualSockets, "begin", beginning)
    monkeypatch.setattr(LoopBeside, "send", sending)
    return beside


class Derived(httpx.AsyncHTTPTransport):
    """A transport of the application."""


class DerivedFromNewest(newest().AsyncHTTPTransport):
    """The same, of the other library."""


WAYS_OF_HTTPX: dict[str, Callable[[Any], Any]] = {
    "usual": lambda library: library.AsyncHTTPTransport(),
    "retries": lambda library: library.AsyncHTTPTransport(retries=1),
    "address": lambda library: library.AsyncHTTPTransport(local_address="127.0.0.1"),
    "bound": lambda library: library.AsyncHTTPTransport(limits=library.Limits(max_connections=1)),
    "derived": lambda library: Derived() if library is httpx else DerivedFromNewest(),
}


@libraries
@pytest.mark.parametrize("way", WAYS_OF_HTTPX)
def test_a_transport_with_a_way_of_its_own_sends_itself(
    server: OpenAIServer, library: ModuleType, way: str, beside: list[str]
) -> None:
    async def main() -> None:
        async with library.AsyncClient(transport=WAYS_OF_HTTPX[way](library)) as client:
            reply = await client.post(f"{server.url}/chat/completions", json=QUESTION)
            assert reply.status_code == 200

    asyncio.run(main())

    assert len(server.requests) == 1
    assert bool(beside) is (way not in ("bound", "derived"))


async def ask_by_httpx(url: str) -> None:
    async with httpx.AsyncClient() as client:
        assert (await client.post(url, json=QUESTION)).status_code == 200
    assert client.is_closed


async def ask_by_newest(url: str) -> None:
    async with newest().AsyncClient() as client:
        assert (await client.post(url, json=QUESTION)).status_code == 200
    assert client.is_closed


async def ask_by_aiohttp(url: str) -> None:
    async with aiohttp.ClientSession() as client, client.post(url, json=QUESTION) as reply:
        assert reply.status == 200
    assert client.closed


@pytest.mark.parametrize("ask", [ask_by_httpx, ask_by_newest, ask_by_aiohttp])
def test_the_connection_ends_with_its_client(ask: Callable[[str], Awaitable[None]]) -> None:
    ended: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(REPLY)
        connection.settimeout(60)
        ended.append(connection.recv(1))

    with answering_once(answer) as url:
        asyncio.run(ask(url))

    assert ended == [b""]


class Connector(aiohttp.TCPConnector):
    """A connector of the application."""


class Resolver(aiohttp.ThreadedResolver):
    """A resolver of the application."""


WAYS_OF_AIOHTTP: dict[str, Callable[[], Any]] = {
    "usual": aiohttp.TCPConnector,
    "no bound": lambda: aiohttp.TCPConnector(limit=0),
    "bound": lambda: aiohttp.TCPConnector(limit=1),
    "bound for a host": lambda: aiohttp.TCPConnector(limit_per_host=1),
    "family": lambda: aiohttp.TCPConnector(family=socket.AF_INET),
    "address": lambda: aiohttp.TCPConnector(local_addr=("127.0.0.1", 0)),
    "resolver": lambda: aiohttp.TCPConnector(resolver=Resolver()),
    "derived": Connector,
}


@pytest.mark.parametrize("way", WAYS_OF_AIOHTTP)
def test_a_connector_with_a_way_of_its_own_connects_itself(
    server: OpenAIServer, way: str, beside: list[str]
) -> None:
    async def main() -> None:
        async with aiohttp.ClientSession(connector=WAYS_OF_AIOHTTP[way]()) as client:
            reply = await client.post(f"{server.url}/chat/completions", json=QUESTION)
            assert reply.status == 200

    asyncio.run(main())

    assert len(server.requests) == 1
    assert bool(beside) is (way in ("usual", "no bound"))


def test_a_session_of_aiohttp_trusts_whom_it_was_told_to(
    server: OpenAIServer, certificate: Path
) -> None:
    url = f"{encrypted(server, certificate)}/v1/chat/completions"

    async def ask(**options: Any) -> int:
        asked = {**QUESTION, "seed": len(server.requests)}
        connector = aiohttp.TCPConnector(**options)
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.post(url, json=asked) as reply,
        ):
            return reply.status

    assert asyncio.run(ask(ssl=False)) == 200
    with pytest.raises(aiohttp.ClientConnectorError, match="CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(ask())
    with pytest.raises(aiohttp.ServerFingerprintMismatch):  # by a way of its own
        asyncio.run(ask(ssl=aiohttp.Fingerprint(bytes(32))))


def test_a_tracer_below_aiohttp_is_told(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    plain = aiohttp.TCPConnector._create_connection

    async def traced(connector: Any, sent: Any, *more: Any) -> Any:
        told.append(sent.method)
        return await plain(connector, sent, *more)

    monkeypatch.setattr(aiohttp.TCPConnector, "_create_connection", traced)

    asyncio.run(ask_by_aiohttp(f"{server.url}/chat/completions"))

    assert told == ["POST"]
