"""Under a client of httpx: what the ollama SDK's requests do not show by themselves."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.retries import RetryPolicy
from pytest_llmeval.models.http.transports import AsyncCachingTransport, CachingTransport
from pytest_llmeval.models.providers.ollama import VENDOR
from tests.models.conftest import CountingTrial, Session
from tests.servers.openai_server import OpenAIServer, Scripted


def exchange(session: Session) -> Exchange:
    return Exchange(dialect=VENDOR, calls=session.calls(CountingTrial(0)), retries=RetryPolicy())


def blocking(session: Session) -> httpx.Client:
    transport: Any = CachingTransport(session.models.connections(), exchange(session))
    return httpx.Client(transport=transport)


def awaitable(session: Session) -> httpx.AsyncClient:
    transport: Any = AsyncCachingTransport(session.models.connections(), exchange(session))
    return httpx.AsyncClient(transport=transport)


def test_method_query_headers_and_body_arrive_as_they_were(
    session: Session, server: OpenAIServer
) -> None:
    response = blocking(session).post(
        f"{server.origin}/files?name=a%20b", headers={"x-trace": "1"}, content=b"\x00\xff"
    )

    (request,) = server.requests
    assert response.status_code == 200
    assert (request.method, request.path) == ("POST", "/files?name=a%20b")
    assert (request.headers["x-trace"], request.body) == ("1", b"\x00\xff")


def test_an_upload_is_sent_as_it_is_read(session: Session, server: OpenAIServer) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"one"
        yield b"two"

    blocking(session).post(f"{server.origin}/files", content=chunks())

    assert server.requests[0].headers["transfer-encoding"] == "chunked"


def test_a_coroutine_can_upload_too(session: Session, server: OpenAIServer) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async def send() -> int:
        async with awaitable(session) as client:
            response = await client.post(f"{server.origin}/files", content=chunks())
        return response.status_code

    assert asyncio.run(send()) == 200
    assert len(server.requests) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_packed_reply_that_passes_through_is_unpacked(
    session: Session, server: OpenAIServer, is_async: bool
) -> None:
    packed = gzip.compress(b'{"models": []}')
    server.then(
        Scripted(
            body=packed,
            headers={
                "content-encoding": "gzip",
                "content-length": str(len(packed)),
                "x-kept": "1",
            },
        )
    )

    async def get() -> httpx.Response:
        async with awaitable(session) as client:
            return await client.get(f"{server.origin}/api/tags")

    url = f"{server.origin}/api/tags"
    response = asyncio.run(get()) if is_async else blocking(session).get(url)

    assert response.json() == {"models": []}
    assert response.headers["x-kept"] == "1"


def test_a_reply_that_passes_through_comes_as_it_is_sent(
    session: Session, server: OpenAIServer
) -> None:
    server.then(Scripted(body=b"progress\n" * 3))

    with blocking(session).stream("POST", f"{server.origin}/api/pull") as response:
        lines = list(response.iter_lines())

    assert lines == ["progress"] * 3
    assert response.is_closed
