"""A reply is read with a bound, whichever library carries it and however it is packed."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import os
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from pytest_llmeval.models.attribution import charging
from pytest_llmeval.models.http.sender import newest
from tests.models.conftest import CountingTrial, Session, intercepting, interception_of
from tests.servers.ollama_server import chat_reply
from tests.servers.openai_server import OpenAIServer, Scripted, chat_completion
from tests.servers.openai_streams import chat_chunks

MOST = 2**20
ASKED: dict[str, Any] = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}
TOLD = r"larger than 1 MiB.*llm_max_reply_mb"
Ask = Callable[[Session, CountingTrial, OpenAIServer], object]


def by_llm(session: Session, trial: CountingTrial, _server: OpenAIServer) -> object:
    return session.model("openai/gpt", trial).ask("Hello").text


def by_llm_behind_a_proxy(session: Session, trial: CountingTrial, _server: OpenAIServer) -> object:
    session.models.post = session.models.sender().post  # type: ignore[method-assign]
    return session.model("openai/gpt", trial).ask("Hello").text


def by_openai(session: Session, trial: CountingTrial, _server: OpenAIServer) -> object:
    return session.client(trial).chat.completions.create(**ASKED).choices[0].message.content


def by_async_openai(session: Session, trial: CountingTrial, _server: OpenAIServer) -> object:
    asked = session.async_client(trial).chat.completions.create(**ASKED)
    return asyncio.run(asked).choices[0].message.content


def by_ollama(session: Session, trial: CountingTrial, server: OpenAIServer) -> object:
    os.environ["OLLAMA_HOST"] = server.origin
    client = session.models.client("ollama", trial)
    return client.chat("gpt", ASKED["messages"]).message.content


@contextmanager
def intercepting_for(session: Session, trial: CountingTrial) -> Iterator[None]:
    interception = interception_of(session, note=lambda _note: None)
    with intercepting(interception), charging(trial):
        yield


def intercepted(
    library: Any, session: Session, trial: CountingTrial, server: OpenAIServer, *, is_async: bool
) -> object:
    url = f"{server.url}/chat/completions"

    async def post() -> Any:
        async with library.AsyncClient() as client:
            return await client.post(url, json=ASKED)

    with intercepting_for(session, trial):
        if is_async:
            reply = asyncio.run(post())
        else:
            with library.Client() as client:
                reply = client.post(url, json=ASKED)
    if reply.status_code >= 400:
        raise RuntimeError(reply.text)
    return reply.json()["choices"][0]["message"]["content"]


def by_aiohttp(session: Session, trial: CountingTrial, server: OpenAIServer) -> object:
    aiohttp = pytest.importorskip("aiohttp")

    async def post() -> Any:
        url = f"{server.url}/chat/completions"
        async with aiohttp.ClientSession() as client, client.post(url, json=ASKED) as reply:
            if reply.status >= 400:
                raise RuntimeError(await reply.text())
            return await reply.json()

    with intercepting_for(session, trial):
        return asyncio.run(post())["choices"][0]["message"]["content"]


ROADS: dict[str, Ask] = {
    "llm": by_llm,
    "llm behind a proxy": by_llm_behind_a_proxy,
    "openai": by_openai,
    "async openai": by_async_openai,
    "ollama": by_ollama,
    "aiohttp": by_aiohttp,
    **{
        f"{library.__name__}{' async' * is_async}": functools.partial(
            intercepted, library, is_async=is_async
        )
        for library in dict.fromkeys((httpx, newest()))
        for is_async in (False, True)
    },
}
EVERY_ROAD = pytest.mark.parametrize("ask", ROADS.values(), ids=ROADS.keys())


@pytest.fixture(autouse=True)
def _ollama_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "")


@pytest.fixture
def small(begin: Callable[..., Session]) -> Session:
    session = begin(most=MOST)
    session.models.sender().own(newest(), newest().URL("http://127.0.0.1"))  # needed once
    return session


def reply_of(length: int) -> bytes:
    """Word a reply of this many bytes, for openai and ollama alike."""
    body = {**chat_completion("Hi", "gpt"), **chat_reply({"content": "Hi"}), "more": ""}
    spare = length - len(json.dumps(body))
    return json.dumps({**body, "more": "x" * spare}).encode()


@functools.cache
def bomb(megabytes: int, *, layers: int = 1) -> bytes:
    """Pack zeros, which takes a third of a second, and pack that again."""
    if layers > 1:
        return gzip.compress(bomb(megabytes, layers=layers - 1))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(2**20)
    return b"".join([packer.compress(zeros) for _ in range(megabytes)]) + packer.flush()


def packed(body: bytes, coding: str = "gzip") -> Scripted:
    return Scripted(body=body, headers={"content-encoding": coding})


def in_chunks(body: bytes) -> Scripted:
    chunks = [body[start : start + 50_000] for start in range(0, len(body), 50_000)]
    return Scripted(chunks=chunks, headers={"content-type": "application/json"})


FITTING = {
    "plain": Scripted(body=reply_of(MOST)),
    "in chunks": in_chunks(reply_of(MOST)),
    "gzip": packed(gzip.compress(reply_of(MOST))),
}
TOO_LARGE = {
    "plain": Scripted(body=reply_of(MOST + 1)),
    "in chunks": in_chunks(reply_of(MOST + 1)),
    "gzip": packed(gzip.compress(reply_of(MOST + 1))),
    "failing": Scripted(status=500, body=reply_of(MOST + 1)),
}


@EVERY_ROAD
@pytest.mark.parametrize("scripted", FITTING.values(), ids=FITTING.keys())
def test_a_reply_as_large_as_may_be_is_read(
    small: Session, server: OpenAIServer, trial: CountingTrial, ask: Ask, scripted: Scripted
) -> None:
    server.then(scripted)

    assert ask(small, trial, server) == "Hi"


@EVERY_ROAD
@pytest.mark.parametrize("scripted", TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_a_larger_one_is_a_failure_that_names_the_option_and_is_not_asked_for_again(
    small: Session, server: OpenAIServer, trial: CountingTrial, ask: Ask, scripted: Scripted
) -> None:
    server.then(scripted)

    with pytest.raises(Exception, match=TOLD):
        ask(small, trial, server)

    assert len(server.requests) == 1
    assert [(call.failure, call.reason) for call in trial.calls] == [
        ("infrastructure", "HTTP 502 (llmeval_reply_too_large)")
    ]
    server.then(FITTING["plain"])
    assert ask(small, CountingTrial(0), server) == "Hi"


@pytest.mark.parametrize("layers", [1, 2, 3])
@EVERY_ROAD
def test_what_is_packed_is_unpacked_no_further_than_to_the_bound(
    small: Session, server: OpenAIServer, trial: CountingTrial, ask: Ask, layers: int
) -> None:
    if layers > 1 and ask is by_llm:
        pytest.skip("our own questions take one layer")
    server.then(packed(bomb(64, layers=layers), ", ".join(["gzip"] * layers)))
    tracemalloc.start()
    try:
        with pytest.raises(Exception, match=TOLD):
            ask(small, trial, server)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 16 * MOST


def test_a_stream_is_read_with_the_same_bound(
    small: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(chunks=chat_chunks([{"content": "x" * 100_000}] * 12, "gpt")))

    with pytest.raises(Exception, match=TOLD):
        small.client(trial).chat.completions.create(**ASKED, stream=True)

    assert len(server.requests) == 1


@pytest.mark.parametrize("ask", [by_openai, ROADS["httpx"]], ids=["openai", "httpx"])
def test_other_packings_are_those_of_the_library(
    small: Session, server: OpenAIServer, trial: CountingTrial, ask: Ask
) -> None:
    server.then(packed(zlib.compress(reply_of(10_000)), "deflate"))

    assert ask(small, trial, server) == "Hi"


@pytest.mark.parametrize("ask", [by_openai, ROADS["httpx"]], ids=["openai", "httpx"])
def test_what_is_packed_several_times_is_unpacked_in_the_opposite_order(
    small: Session, server: OpenAIServer, trial: CountingTrial, ask: Ask
) -> None:
    body = gzip.compress(zlib.compress(reply_of(10_000)))
    server.then(packed(body, "deflate, identity,gzip"))

    assert ask(small, trial, server) == "Hi"


@pytest.mark.parametrize("length", [0, 1, 20, -40])
def test_gzip_that_is_cut_is_a_lost_reply(
    small: Session, server: OpenAIServer, trial: CountingTrial, length: int
) -> None:
    server.then(packed(gzip.compress(reply_of(3000))[:length]))

    assert by_llm(small, trial, server) == "reply 1"
    assert len(server.requests) == 2
