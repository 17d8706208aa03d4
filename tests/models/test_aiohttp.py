"""Client sessions of aiohttp under interception: as clients of httpx, by another library."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import openai
import pytest

from tests.models.conftest import SECRET, Session
from tests.models.test_interception import ASKED, Place, cancel, post
from tests.servers.openai_server import NEVER, OpenAIServer, Scripted

aiohttp = pytest.importorskip("aiohttp")
over_aiohttp = pytest.importorskip("httpx_aiohttp")

ADAPTER = "pytest_llmeval.models.seams.aiohttp_seam"
STREAM = {**ASKED, "stream": True}


@pytest.fixture
def place(session: Session) -> Place:
    return Place(session)


@pytest.fixture
def url(server: OpenAIServer) -> str:
    return f"{server.url}/chat/completions"


async def ask(url: str, **request: Any) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as client, client.post(url, **request) as reply:
        return reply.status, await reply.read()


async def ask_by_httpx(url: str, **request: Any) -> tuple[int, bytes]:
    async with over_aiohttp.HttpxAiohttpClient() as client:
        reply = await client.post(url, **request)
    return reply.status_code, reply.content


async def ask_by_sdk(_url: str, *, json: Any) -> tuple[int, bytes]:
    async with openai.AsyncOpenAI(http_client=over_aiohttp.HttpxAiohttpClient()) as client:
        asking = client.chat.completions.with_streaming_response.create(**json)
        async with asking as reply:
            return reply.status_code, await reply.read()


clients = pytest.mark.parametrize("ask", [ask, ask_by_httpx, ask_by_sdk])


@clients
@pytest.mark.parametrize("asked", [ASKED, STREAM], ids=["plain", "stream"])
def test_each_trial_draws_once_and_the_same_again(
    place: Place, server: OpenAIServer, url: str, *, ask: Callable[..., Any], asked: Any
) -> None:
    replies = []
    for index in (0, 1, 0, 1):
        with place.trial(index) as trial:
            replies.append(asyncio.run(ask(url, json=asked)))
        assert len(trial.calls) == 1

    assert [status for status, _ in replies] == [200] * 4
    assert replies[:2] == replies[2:]
    assert replies[0] != replies[1]
    assert len(server.requests) == 2


def test_its_draws_are_those_of_httpx(place: Place, server: OpenAIServer, url: str) -> None:
    with place.trial():
        paid = asyncio.run(ask(url, json=ASKED))
    with place.trial() as trial:
        replayed = post(httpx, url, json=ASKED)

    assert [call.replayed for call in trial.calls] == [True]
    assert (replayed.status_code, replayed.content) == paid
    assert len(server.requests) == 1


@pytest.mark.parametrize("asked", [{"json": ASKED}, {"json": ASKED, "compress": True}], ids=str)
def test_what_a_session_adds_to_a_request_is_sent(
    place: Place, server: OpenAIServer, asked: Any
) -> None:
    async def main() -> None:
        headers = {"x-own": "Zoë", "authorization": f"Bearer {SECRET}"}
        async with (
            aiohttp.ClientSession(
                server.origin, headers=headers, cookies={"a": "1"}, raise_for_status=True
            ) as client,
            client.post("/v1/chat/completions", params={"v": "2"}, **asked) as reply,
        ):
            assert reply.content_type == "application/json"
            assert reply.url.path == "/v1/chat/completions"

    with place.trial():
        asyncio.run(main())

    (request,) = server.requests
    assert request.path == "/v1/chat/completions?v=2"
    assert request.json == ASKED
    assert request.headers["cookie"] == "a=1"
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert "Python" in request.headers["user-agent"]
    assert request.headers["x-own"].encode("latin-1").decode() == "Zoë"


def test_a_question_goes_by_the_proxy_of_the_session(place: Place, server: OpenAIServer) -> None:
    proxy = server.origin.replace("http://", "http://user:pass@")

    with place.trial() as trial:
        status, _ = asyncio.run(
            ask("http://api.openai.com/v1/chat/completions", json=ASKED, proxy=proxy)
        )

    (request,) = server.requests
    assert (status, len(trial.calls)) == (200, 1)
    assert request.path == "http://api.openai.com/v1/chat/completions"
    assert request.headers["host"] == "api.openai.com"
    assert request.headers["proxy-authorization"].startswith("Basic ")


def test_the_own_retry_of_a_client_draws_what_was_lost(
    place: Place, server: OpenAIServer, url: str
) -> None:
    server.then(*[Scripted(drop="before")] * 4)

    async def ask_twice() -> tuple[int, bytes]:
        try:
            return await ask(url, json=ASKED)
        except aiohttp.ServerDisconnectedError:  # so does google-genai
            return await ask(url, json=ASKED)

    with place.trial() as trial:
        paid = asyncio.run(ask_twice())
    assert [(str(call.slot), call.failure) for call in trial.calls] == [
        ("0/0", "infrastructure"),
        ("0/0", None),
    ]

    with place.trial() as trial:
        assert asyncio.run(ask_twice()) == paid
    assert [str(call.slot) for call in trial.calls] == ["0/0"]
    assert len(server.requests) == 5


def test_a_stream_that_is_read_by_half_is_a_draw(
    place: Place, server: OpenAIServer, url: str
) -> None:
    async def read_a_line() -> bytes:
        async with aiohttp.ClientSession() as client, client.post(url, json=STREAM) as reply:
            line: bytes = await reply.content.readline()
            return line

    lines = []
    for _ in range(2):
        with place.trial() as trial:
            lines.append(asyncio.run(read_a_line()))
        assert [call.failure for call in trial.calls] == [None]

    assert lines[0].startswith(b"data: ")
    assert lines[0] == lines[1]
    assert len(server.requests) == 1


def test_a_reply_may_be_large_and_read_slowly(place: Place, server: OpenAIServer, url: str) -> None:
    text = "y" * 3_000_000
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    server.then(Scripted(body={"model": "gpt", "choices": [choice]}))

    async def read_slowly() -> bytes:
        patience = aiohttp.ClientTimeout(sock_read=2)
        async with aiohttp.ClientSession(timeout=patience) as client:
            reply = await client.post(url, json=ASKED)
            first: bytes = await reply.content.read(10)
            await asyncio.sleep(2.2)
            return first + await reply.content.read()

    with place.trial():
        assert asyncio.run(read_slowly()).count(b"y") == len(text)


@clients
def test_a_reply_may_be_packed(
    place: Place, server: OpenAIServer, url: str, *, ask: Callable[..., Any]
) -> None:
    plain = (
        b'{"model": "gpt", "choices": [{"finish_reason": "stop", "message": {"content": "Hi"}}]}'
    )
    packing = {"content-encoding": "gzip", "content-type": "application/json"}
    server.then(Scripted(body=gzip.compress(plain), headers=packing))

    for _ in range(2):
        with place.trial():
            assert asyncio.run(ask(url, json=ASKED)) == (200, plain)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("failure", "error", "attempts"),
    [
        (Scripted(drop="before"), "ServerDisconnectedError", 3),
        (Scripted(drop="midway"), "ClientPayloadError", 3),
        (Scripted(delay=NEVER), "SocketTimeoutError", 1),
        (Scripted(status=500), "ClientResponseError", 3),
        (Scripted(status=400), "ClientResponseError", 1),
    ],
    ids=str,
)
def test_a_call_that_fails_is_tried_again_by_us_and_ends_in_the_librarys_own_error(
    place: Place, server: OpenAIServer, url: str, *, failure: Scripted, error: str, attempts: int
) -> None:
    server.then(*[failure] * attempts)

    async def main() -> None:
        patience = aiohttp.ClientTimeout(sock_read=0.2)
        async with aiohttp.ClientSession(timeout=patience) as client:
            with pytest.raises(aiohttp.ClientError) as caught:
                (await client.post(url, json=ASKED)).raise_for_status()
            assert type(caught.value).__name__ == error
            (await client.post(url, json=ASKED)).raise_for_status()

    with place.trial() as trial:
        asyncio.run(main())

    failures = [call.failure for call in trial.calls]
    assert failures == ["content" if failure.status == 400 else "infrastructure", None]
    assert [str(call.slot) for call in trial.calls] == ["0/0", "0/0"]
    assert len(server.requests) == attempts + 1


@pytest.mark.parametrize("failure", [Scripted(status=500), Scripted(drop="before")], ids=str)
def test_an_sdk_does_not_try_again_what_we_gave_up(
    place: Place, server: OpenAIServer, url: str, failure: Scripted
) -> None:
    server.then(*[failure] * 9)

    with place.trial() as trial, pytest.raises(openai.InternalServerError):
        asyncio.run(ask_by_sdk(url, json=ASKED))

    assert len(trial.calls) == 1
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Scripted(status=500), "HTTP 500"),
        (Scripted(drop="before"), "ServerDisconnectedError"),
        (Scripted(status=404), ""),
    ],
    ids=str,
)
def test_a_provider_that_fails_at_what_is_no_question_is_a_loss(
    place: Place, server: OpenAIServer, failure: Scripted, reason: str
) -> None:
    server.then(failure, failure)  # aiohttp asks once more where a connection was lost

    async def main() -> None:
        http_client = over_aiohttp.HttpxAiohttpClient()
        async with openai.AsyncOpenAI(max_retries=0, http_client=http_client) as client:
            with contextlib.suppress(openai.APIError):
                await client.models.list()

    with place.trial() as trial:
        asyncio.run(main())

    assert trial.uncached == {"GET /v1/models": f"GET /v1/models: {reason}" if reason else ""}


def test_a_call_that_takes_too_long_ends_as_a_timeout(
    begin: Callable[..., Session], server: OpenAIServer, url: str
) -> None:
    place = Place(begin(timeout=0.05))
    server.then(Scripted(delay=NEVER))

    with place.trial(), pytest.raises(aiohttp.ServerTimeoutError, match="--llm-timeout"):
        asyncio.run(ask(url, json=ASKED))


def test_a_session_that_gives_up_has_a_failed_call_and_may_ask_again(
    place: Place, server: OpenAIServer, url: str
) -> None:
    gave_up = threading.Event()
    server.then(Scripted(until=gave_up))

    async def main() -> int:
        async with aiohttp.ClientSession() as client:
            with pytest.raises(TimeoutError):
                await client.post(url, json=ASKED, timeout=aiohttp.ClientTimeout(total=1))
            gave_up.set()
            reply = await client.post(url, json=ASKED)
            return int(reply.status)

    with place.trial() as trial:
        assert asyncio.run(main()) == 200

    assert [call.failure for call in trial.calls] == ["infrastructure", None]
    assert {str(call.slot) for call in trial.calls} == {"0/0"}


def test_a_task_that_is_cancelled_has_a_failed_call(
    place: Place, server: OpenAIServer, url: str
) -> None:
    given_up = threading.Event()
    server.then(Scripted(until=given_up))

    async def main() -> None:
        async with aiohttp.ClientSession() as client:
            task = asyncio.create_task(client.post(url, json=ASKED))
            while not server.requests:
                await asyncio.sleep(0.01)
            await cancel(task)
            given_up.set()
            await client.post(url, json=ASKED)

    with place.trial() as trial:
        asyncio.run(main())

    assert [call.failure for call in trial.calls] == ["infrastructure", None]
    assert len(server.requests) == 1


def test_a_session_that_is_closed_meanwhile_keeps_what_it_paid_for(
    place: Place, server: OpenAIServer, url: str
) -> None:
    is_closed = threading.Event()
    server.then(Scripted(until=is_closed))

    async def main() -> None:
        client = aiohttp.ClientSession()
        task = asyncio.create_task(client.post(url, json=ASKED))
        while not server.requests:
            await asyncio.sleep(0.01)
        await client.close()
        is_closed.set()
        with pytest.raises(RuntimeError, match="Session is closed"):
            await task

    with place.trial() as trial:
        asyncio.run(main())
    assert [call.failure for call in trial.calls] == [None]

    with place.trial():
        assert asyncio.run(ask(url, json=ASKED))[0] == 200
    assert len(server.requests) == 1


def test_a_session_of_another_loop_has_a_failed_call_and_sends_nothing(
    place: Place, server: OpenAIServer, url: str
) -> None:
    async def begin() -> Any:
        client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        await client.post(url, json=ASKED)
        return client

    async def go_on(client: Any) -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await client.post(url, json={**ASKED, "model": "other"})

    with place.trial() as trial, asyncio.Runner() as one, asyncio.Runner() as another:
        client = one.run(begin())
        another.run(go_on(client))
        one.run(client.close())

    assert [call.failure for call in trial.calls] == [None, "infrastructure"]
    assert len(server.requests) == 1


def test_identical_questions_at_once_are_different_draws(
    place: Place, server: OpenAIServer, url: str
) -> None:
    async def main() -> list[Any]:
        return await asyncio.gather(*(ask(url, json=ASKED) for _ in range(3)))

    with place.trial() as trial:
        replies = asyncio.run(main())

    assert len(set(replies)) == 3
    assert sorted(call.slot.occurrence for call in trial.calls) == [0, 1, 2]


def test_a_replay_opens_no_connection(
    place: Place, begin: Callable[..., Session], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.trial():
        paid = asyncio.run(ask(url, json=ASKED))
    replaying = Place(begin(mode="replay"))
    monkeypatch.setattr(aiohttp.TCPConnector, "_create_connection", None)

    with replaying.trial():
        assert asyncio.run(ask(url, json=ASKED)) == paid
        status, body = asyncio.run(ask(url, json={**ASKED, "model": "other"}))

    assert status == 424
    assert b"llmeval_replay_miss" in body


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("/v1/files", {"json": {"model": "gpt"}}),
        ("/v1/chat/completions", {"json": ["no", "object"]}),
        ("/v1/chat/completions", {"data": {"no": "JSON"}}),
    ],
    ids=str,
)
def test_other_traffic_passes(
    place: Place, server: OpenAIServer, path: str, request_: dict[str, Any]
) -> None:
    packed = Scripted(
        body=gzip.compress(b"as it was"), headers={"content-encoding": "gzip", "x-own": "1"}
    )
    server.then(packed, packed)

    async def main() -> None:
        async with aiohttp.ClientSession(auto_decompress=False) as client:
            for _ in range(2):
                reply = await client.post(f"{server.origin}{path}", **request_)
                assert gzip.decompress(await reply.read()) == b"as it was"
                assert reply.headers["x-own"] == "1"

    with place.trial() as trial:
        asyncio.run(main())

    assert trial.calls == []
    assert len(server.requests) == 2


def test_an_upload_passes_as_it_comes(place: Place, server: OpenAIServer) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    server.then(Scripted(chunks=[b"a\n", b"b\n"], pause=0.01))
    with place.trial():
        _, body = asyncio.run(ask(f"{server.origin}/other", data=chunks()))

    assert body == b"a\nb\n"
    assert server.requests[0].headers["transfer-encoding"] == "chunked"
    assert server.requests[0].body == b"onetwo"


def test_a_redirect_is_a_failed_call_and_not_followed(
    place: Place, server: OpenAIServer, url: str
) -> None:
    server.then(Scripted(status=307, headers={"location": "/v1/elsewhere"}))

    with place.trial() as trial:
        status, _ = asyncio.run(ask(url, json=ASKED))

    assert status == 307
    assert [call.failure for call in trial.calls] == ["infrastructure"]
    assert len(server.requests) == 1


def test_nothing_is_kept_afterwards(place: Place, server: OpenAIServer, url: str) -> None:
    before = aiohttp.BaseConnector.connect
    with place.trial():
        assert aiohttp.BaseConnector.connect is not before
        asyncio.run(ask(url, json=ASKED))
    assert aiohttp.BaseConnector.connect is before

    asyncio.run(ask(url, json=ASKED))
    assert len(server.requests) == 2


async def connect(self: object, request: object, *, options: object) -> None: ...


@pytest.mark.parametrize("there", [None, connect], ids=["too old", "too new"])
def test_an_aiohttp_without_the_seam_is_noted_and_left_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch, there: object
) -> None:
    monkeypatch.setattr(aiohttp.BaseConnector, "connect", there)
    with place.trial():
        assert vars(aiohttp.BaseConnector)["connect"] is there

    assert [note.partition(", as ")[0] for note in place.notes] == [NOT_KEPT]


def test_an_aiohttp_whose_requests_are_not_known_is_noted_once_and_left_alone(
    place: Place, server: OpenAIServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def without_a_part(*_: object) -> None:
        raise AttributeError("'ClientRequest' object has no attribute 'ssl'")

    monkeypatch.setattr(f"{ADAPTER}.request_of", without_a_part)
    with place.trial() as trial:
        for _ in range(2):
            asyncio.run(ask(url, json=ASKED))

    assert len(server.requests) == 2
    assert trial.calls == []
    assert [note.partition(", as ")[0] for note in place.notes] == [NOT_KEPT]


NOT_KEPT = f"what clients of aiohttp {aiohttp.__version__} ask is not kept"


def test_an_aiohttp_whose_parts_are_others_is_noted_and_left_alone(
    place: Place, server: OpenAIServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, ADAPTER, None)
    with place.trial() as trial:
        asyncio.run(ask(url, json=ASKED))

    assert (len(server.requests), trial.calls) == (1, [])
    (note,) = place.notes
    assert note.startswith(f"{NOT_KEPT}, as its parts are others (ModuleNotFoundError)")


def test_without_aiohttp_nothing_is_said(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with place.trial():
        pass

    assert place.notes == []
