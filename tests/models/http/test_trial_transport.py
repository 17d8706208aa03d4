"""Under our clients: what is sent for them, and what they are handed."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpcore
import httpx
import openai
import pytest

from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.trial_transport import TrialTransport
from pytest_llmeval.models.vendors.ollama import VENDOR
from tests.models.conftest import CountingTrial, Session
from tests.servers.openai_server import NEVER, OpenAIServer, Scripted


def exchange(session: Session) -> Exchange:
    calls = session.calls(CountingTrial(0))
    return Exchange(dialect=VENDOR, calls=calls)


def blocking(session: Session) -> httpx.Client:
    transport: Any = TrialTransport(session.models.sender(), exchange(session))
    return httpx.Client(transport=transport)


def awaitable(session: Session) -> httpx.AsyncClient:
    transport: Any = TrialTransport(session.models.sender(), exchange(session), awaits=True)
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


QUESTION: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
REPLY = {"message": {"role": "assistant", "content": "Hi"}, "done": True}
LISTED = [("X-Team", "evals"), ("x-team", "again"), ("X-Cafe", "caf\u00e9".encode())]


def ask(client: httpx.Client, url: str, **options: Any) -> httpx.Response:
    return client.post(f"{url}/api/chat", json=QUESTION, **options)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_question_arrives_as_the_sdk_alone_sends_it(
    session: Session, server: OpenAIServer, is_async: bool
) -> None:
    trial, headers = CountingTrial(0), {"X-Trace": "1"}

    async def ask_both() -> None:
        for client in (session.async_client(trial), openai.AsyncOpenAI(max_retries=0)):
            async with client.with_options(default_headers=headers) as sending:
                await sending.chat.completions.create(**QUESTION)

    if is_async:
        asyncio.run(ask_both())
    else:
        for client in (session.client(trial), openai.OpenAI(max_retries=0)):
            with client.with_options(default_headers=headers) as sending:
                sending.chat.completions.create(**QUESTION)

    ours, alone = server.requests
    assert ours.head == alone.head
    assert (ours.method, ours.path, ours.body) == (alone.method, alone.path, alone.body)


def test_headers_arrive_in_their_order_and_several_of_a_name(
    session: Session, server: OpenAIServer
) -> None:
    server.then(*[Scripted(body=REPLY)] * 2)
    for client in (blocking(session), httpx.Client()):
        with client:
            ask(client, server.origin, headers=LISTED, params={"a": "b c"})

    ours, alone = server.requests
    assert ours.head == alone.head
    assert ours.path == alone.path
    assert ours.path in ("/api/chat?a=b+c", "/api/chat?a=b%20c")  # httpx 0.27 writes the latter


def test_an_error_has_all_headers_of_a_name(session: Session, server: OpenAIServer) -> None:
    server.then(Scripted(status=400, headers={"X-Reason": "one", "x-reason": "two"}))

    assert ask(blocking(session), server.origin).headers["x-reason"] == "one, two"


@pytest.mark.parametrize(
    ("scripted", "kind"),
    [
        (Scripted(drop="before"), httpx.RemoteProtocolError),
        (Scripted(drop="midway"), httpx.RemoteProtocolError),
        (Scripted(body=b"no gzip", headers={"content-encoding": "gzip"}), httpx.DecodingError),
    ],
)
def test_what_the_network_does_is_told_as_the_library_tells_it(
    session: Session, server: OpenAIServer, scripted: Scripted, kind: type[Exception]
) -> None:
    server.then(*[scripted] * 3)

    with pytest.raises(kind):
        ask(blocking(session), server.origin)


def test_a_question_has_the_timeout_of_its_client(session: Session, server: OpenAIServer) -> None:
    server.then(*[Scripted(delay=NEVER)] * 3)

    with pytest.raises(httpx.ReadTimeout, match="timed out"):
        ask(blocking(session), server.origin, timeout=0.1)


@pytest.mark.parametrize(
    ("url", "kind"),
    [("http://127.0.0.1:9", httpx.ConnectError), ("ftp://127.0.0.1", httpx.UnsupportedProtocol)],
)
def test_a_server_that_cannot_be_asked_is_told_as_the_library_tells_it(
    session: Session, url: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        ask(blocking(session), url)


def test_a_question_without_a_timeout_has_that_of_the_session(
    begin: Callable[..., Session], server: OpenAIServer
) -> None:
    session = begin(timeout=0.3)
    server.then(Scripted(delay=NEVER))

    with pytest.raises(httpx.ReadTimeout, match="--llm-timeout"):
        ask(blocking(session), server.origin, timeout=None)


def test_a_question_in_chunks_is_sent_so(session: Session, server: OpenAIServer) -> None:
    sent: dict[str, Any] = {
        "headers": {"content-type": "application/json"},
        "content": iter([b"{}"]),
    }
    server.then(Scripted(body=REPLY))

    assert blocking(session).post(f"{server.origin}/api/chat", **sent).status_code == 200
    assert server.requests[0].headers["transfer-encoding"] == "chunked"


@pytest.mark.parametrize(
    ("owner", "answer"),
    [
        (httpx.HTTPTransport, httpx.Response(418, stream=httpx.ByteStream(b""))),
        (httpcore.ConnectionPool, httpcore.Response(418)),
    ],
)
def test_a_stub_of_a_library_answers(
    session: Session,
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    answer: object,
) -> None:
    monkeypatch.setattr(owner, "handle_request", lambda _self, _request: answer)

    assert ask(blocking(session), server.origin).status_code == 418
    assert not server.requests


def test_a_request_that_is_traced_tells_its_tracer(session: Session, server: OpenAIServer) -> None:
    told: list[str] = []
    server.then(Scripted(body=REPLY))
    traced = {"trace": lambda name, _info: told.append(name)}

    ask(blocking(session), server.origin, extensions=traced)

    assert "connection.connect_tcp.complete" in told


@pytest.mark.usefixtures("behind_proxy")
def test_behind_a_proxy_clients_ask_it(session: Session, server: OpenAIServer) -> None:
    for _ in range(2):
        session.client(CountingTrial(0)).chat.completions.create(**QUESTION)

    assert server.requests[0].path == "http://models.invalid/v1/chat/completions"
