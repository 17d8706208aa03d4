"""What is done with the requests of clients that are not ours: kept, or let pass untouched."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from types import ModuleType
from typing import Any

import anthropic
import httpx
import ollama
import openai
import pytest

from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.models.attribution import (
    SENDING,
    charging,
    inherited_by_threads,
    trial_to_charge,
)
from pytest_llmeval.models.calls import Request
from pytest_llmeval.models.http.sender import newest
from pytest_llmeval.models.seams import taking_over
from pytest_llmeval.models.seams.imported import SEEN
from pytest_llmeval.records import Slot
from tests.models.conftest import CountingTrial, Session, intercepting, interception_of
from tests.servers.anthropic_server import AnthropicServer
from tests.servers.ollama_server import OllamaServer
from tests.servers.openai_server import NEVER, OpenAIServer, Scripted

ASKED = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}
LIBRARIES = list(dict.fromkeys((httpx, newest())))
SEAMS = {"HTTPTransport": "handle_request", "AsyncHTTPTransport": "handle_async_request"}


class Place:
    """A session that intercepts, and what it noted."""

    def __init__(self, session: Session, *, hosts: tuple[str, ...] = ()) -> None:
        self.notes: list[str] = []
        self.interception = interception_of(session, hosts=hosts, note=self.notes.append)

    @contextmanager
    def trial(self, index: int = 0) -> Iterator[CountingTrial]:
        trial = CountingTrial(index)
        with intercepting(self.interception), charging(trial):
            yield trial
        trial.course.close()


@pytest.fixture
def no_base_url(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing in the environment that tells of the server."""
    monkeypatch.delenv("OPENAI_BASE_URL")


@pytest.fixture
def place(session: Session) -> Place:
    return Place(session)


def post(library: Any, url: str, **request: Any) -> Any:
    with library.Client() as client:
        return client.post(url, **request)


async def post_async(library: Any, url: str, **request: Any) -> Any:
    async with library.AsyncClient() as client:
        return await client.post(url, **request)


def post_awaited(library: Any, url: str, **request: Any) -> Any:
    return asyncio.run(post_async(library, url, **request))


posts = pytest.mark.parametrize("send", [post, post_awaited])
libraries = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)


@posts
@libraries
def test_each_trial_draws_once_and_the_same_again(
    place: Place, server: OpenAIServer, library: ModuleType, send: Callable[..., Any]
) -> None:
    url = f"{server.url}/chat/completions"
    for expected in ("reply 0", "reply 1", "reply 0", "reply 1"):
        with place.trial(int(expected[-1])):
            reply = send(library, url, json=ASKED)
        assert reply.json()["choices"][0]["message"]["content"] == expected

    assert len(server.requests) == 2


def raw(library: Any, url: str) -> bytes:
    with library.Client() as client, client.stream("POST", url, json=ASKED) as response:
        return b"".join(response.iter_raw())


def raw_awaited(library: Any, url: str) -> bytes:
    async def ask() -> bytes:
        async with (
            library.AsyncClient() as client,
            client.stream("POST", url, json=ASKED) as response,
        ):
            return b"".join([chunk async for chunk in response.aiter_raw()])

    return asyncio.run(ask())


@libraries
@pytest.mark.parametrize("ask", [raw, raw_awaited])
def test_a_reply_can_be_read_as_it_came(
    place: Place, server: OpenAIServer, ask: Callable[[Any, str], bytes], library: ModuleType
) -> None:
    for _ in range(2):  # paid for, then replayed
        with place.trial():
            body = ask(library, f"{server.url}/chat/completions")
        assert json.loads(body)["choices"]
    assert len(server.requests) == 1


@posts
@libraries
def test_the_key_is_that_of_our_own_client(
    place: Place,
    session: Session,
    server: OpenAIServer,
    library: ModuleType,
    send: Callable[..., Any],
) -> None:
    session.client(CountingTrial(0)).chat.completions.create(**ASKED)  # type: ignore[call-overload]

    with place.trial() as trial:
        send(library, f"{server.url}/chat/completions", json=ASKED)

    assert [call.replayed for call in trial.calls] == [True]
    assert len(server.requests) == 1


def test_our_own_client_is_not_intercepted_once_more(
    place: Place, session: Session, server: OpenAIServer
) -> None:
    with place.trial() as trial:
        session.client(trial).chat.completions.create(**ASKED)  # type: ignore[call-overload]

    assert len(trial.calls) == len(server.requests) == 1


@posts
@libraries
@pytest.mark.parametrize(
    "sent",
    [
        ("/v1/files", {"model": "gpt"}),
        ("/shop/completions", {"model": "gpt"}),
        ("/v1/chat/completions", {"question": "no model"}),
        ("/v1/chat/completions", ["no", "object"]),
        ("/v1/messages", {"model": "claude"}),
        ("/api/chat", {"model": "llama"}),
    ],
    ids=str,
)
@pytest.mark.usefixtures("no_base_url")
def test_other_traffic_passes(
    place: Place,
    server: OpenAIServer,
    library: ModuleType,
    send: Callable[..., Any],
    sent: tuple[str, object],
) -> None:
    path, body = sent
    packed = gzip.compress(b'{"as": "it was"}')
    scripted = Scripted(body=packed, headers={"content-encoding": "gzip", "x-own": "1"})
    server.then(scripted, scripted)
    with place.trial() as trial:
        replies = [send(library, f"{server.origin}{path}", json=body) for _ in range(2)]

    assert trial.calls == []
    assert [reply.json() for reply in replies] == [{"as": "it was"}] * 2
    assert replies[0].headers["content-encoding"] == "gzip"
    assert replies[0].headers["x-own"] == "1"
    assert len(server.requests) == 2


@libraries
def test_an_upload_and_a_stream_pass_as_they_come(
    place: Place, server: OpenAIServer, library: Any
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"one"
        yield b"two"

    server.then(Scripted(chunks=[b"a\n", b"b\n"], pause=0.01))
    with (
        place.trial(),
        library.Client() as client,
        client.stream("POST", f"{server.origin}/other", content=chunks()) as reply,
    ):
        lines = list(reply.iter_lines())

    assert lines == ["a", "b"]
    assert server.requests[0].headers["transfer-encoding"] == "chunked"


@posts
def test_what_is_not_sent_as_json_is_no_question(
    place: Place, server: OpenAIServer, send: Callable[..., Any]
) -> None:
    with place.trial() as trial:
        plain = {"content-type": "text/plain"}
        send(httpx, f"{server.url}/chat/completions", content=json.dumps(ASKED), headers=plain)

    assert trial.calls == []


@libraries
def test_a_request_that_one_client_sends_by_another_is_recorded_once(
    place: Place, server: OpenAIServer, library: Any
) -> None:
    url = f"{server.url}/chat/completions"
    pool = type(library.AsyncHTTPTransport()._pool)
    send, seen = pool.handle_async_request, []

    async def by_another_client(own_pool: object, request: Any) -> Any:
        seen.append(SENDING.get())
        if len(seen) == 1:
            await post_async(httpx, url, json=ASKED)
        return await send(own_pool, request)

    with pytest.MonkeyPatch.context() as patch, place.trial() as trial:
        patch.setattr(pool, "handle_async_request", by_another_client)
        post_awaited(library, url, json=ASKED)

    assert set(seen) == {True}
    assert not SENDING.get()
    assert (len(trial.calls), len(server.requests)) == (1, 2)


def test_each_library_that_is_waited_for_has_its_seams() -> None:
    assert set(SEEN) == set(taking_over.SEAMS)


def test_nothing_is_kept_for_nobody(place: Place, server: OpenAIServer) -> None:
    with intercepting(place.interception):
        for _ in range(2):
            post(httpx, f"{server.url}/chat/completions", json=ASKED)

    assert len(server.requests) == 2


def test_everything_is_put_back(place: Place) -> None:
    def seams() -> list[object]:
        kinds = [getattr(one, kind) for one in LIBRARIES for kind in KINDS]
        return [vars(kind).get("handle_request", kind) for kind in kinds]

    before = seams()
    with place.trial():
        assert seams() != before
    assert seams() == before


KINDS = ("HTTPTransport", "AsyncHTTPTransport")


class WithMore:
    def handle_request(self, request: object, *, extra: object) -> None: ...


@pytest.mark.parametrize("kind", [None, object, WithMore])
def test_a_library_that_moved_its_seam_is_named_once_and_left_alone(
    place: Place, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, kind: type | None
) -> None:
    moved = ModuleType("httpx2")
    vars(moved).update(__version__="9.1", HTTPTransport=kind)
    monkeypatch.setitem(sys.modules, "httpx2", moved)

    with place.trial() as trial:
        post(httpx, f"{server.url}/chat/completions", json=ASKED)

    assert len(trial.calls) == 1
    assert place.notes == [
        "what clients of httpx2 9.1 ask is not kept, as HTTPTransport.handle_request is not as "
        "expected: install another version of it"
    ]


def test_a_local_server_that_is_asked_by_hand_is_said(
    place: Place, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    with place.trial() as trial:
        for _ in range(2):
            post(httpx, f"{server.url}/chat/completions", json=ASKED)

    assert len(trial.calls) == 2
    assert place.notes == [
        f"POST {server.url}/chat/completions was taken for a question to a model, as it names one"
    ]


def test_a_gateway_that_is_not_known_is_said_with_the_line_to_type(place: Place) -> None:
    def gone(*_args: object) -> httpx.Response:
        raise httpx.ConnectError("no network here")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx.HTTPTransport, "handle_request", gone)
        with place.trial() as trial, pytest.raises(httpx.ConnectError):
            post(httpx, "https://gateway.example.com/llm/chat/completions", json=ASKED)

    assert trial.calls == []
    (note,) = place.notes
    assert note.startswith("POST https://gateway.example.com/llm/chat/completions was left alone")
    assert note.endswith("llm_intercept_hosts = gateway.example.com")


@posts
def test_a_gateway_that_is_named_is_known(
    session: Session,
    server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    send: Callable[..., Any],
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    place = Place(session, hosts=(server.origin.removeprefix("http://"),))
    with place.trial() as trial:
        send(httpx, f"{server.origin}/llm/chat/completions", json=ASKED)

    assert [call.model for call in trial.calls] == ["openai/gpt"]
    assert place.notes == []


def test_an_sdk_is_known_wherever_it_sends(
    place: Place, monkeypatch: pytest.MonkeyPatch, server: OpenAIServer
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    with AnthropicServer() as other, OllamaServer() as local, place.trial() as trial:
        with openai.OpenAI(base_url=f"{server.origin}/llm", api_key="k") as gpt:
            gpt.chat.completions.create(**ASKED)  # type: ignore[call-overload]
        with anthropic.Anthropic(base_url=other.url, api_key="k") as claude:
            claude.messages.create(model="claude", max_tokens=9, messages=[])
        llama = ollama.Client(local.url)
        with closing(llama._client):  # SDK 0.6.0 closes nothing itself
            llama.chat("llama")

    assert [call.model for call in trial.calls] == [
        "openai/gpt",
        "anthropic/claude",
        "ollama/llama",
    ]


@posts
@libraries
def test_a_failing_call_is_tried_again_by_us_and_ends_in_the_librarys_own_error(
    place: Place,
    session: Session,
    server: OpenAIServer,
    library: Any,
    send: Callable[..., Any],
) -> None:
    server.then(*[Scripted(drop="before")] * 3)

    with place.trial() as trial, pytest.raises(library.TransportError):
        send(library, f"{server.url}/chat/completions", json=ASKED)

    assert len(server.requests) == 3
    assert len(session.slept) == 2
    assert [call.failure for call in trial.calls] == ["infrastructure"]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("failure", [Scripted(status=500), Scripted(drop="before")])
def test_an_sdk_does_not_try_again_what_we_gave_up(
    place: Place, server: OpenAIServer, failure: Scripted, is_async: bool
) -> None:
    server.then(*[failure] * 9)

    def ask() -> object:
        with openai.OpenAI() as client:
            return client.chat.completions.create(**ASKED)  # type: ignore[call-overload]

    async def ask_async() -> object:
        async with openai.AsyncOpenAI() as client:
            return await client.chat.completions.create(**ASKED)  # type: ignore[call-overload]

    with place.trial(), pytest.raises(openai.InternalServerError):
        asyncio.run(ask_async()) if is_async else ask()

    assert len(server.requests) == 3


@posts
@libraries
def test_a_call_that_takes_too_long_ends_as_a_timeout(
    begin: Callable[..., Session],
    server: OpenAIServer,
    library: Any,
    send: Callable[..., Any],
) -> None:
    place = Place(begin(timeout=0.05))
    server.then(Scripted(delay=NEVER))

    with place.trial(), pytest.raises(library.ReadTimeout, match="--llm-timeout"):
        send(library, f"{server.url}/chat/completions", json=ASKED)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Scripted(status=500), "HTTP 500"),
        (Scripted(drop="before"), "RemoteProtocolError"),
        (Scripted(status=404), ""),
    ],
)
def test_a_provider_that_fails_at_what_is_no_question_is_a_loss(
    place: Place, server: OpenAIServer, failure: Scripted, reason: str, is_async: bool
) -> None:
    server.then(failure)

    def ask() -> None:
        with openai.OpenAI(max_retries=0) as client:
            client.models.list()

    async def ask_async() -> None:
        async with openai.AsyncOpenAI(max_retries=0) as client:
            await client.models.list()

    with place.trial() as trial, contextlib.suppress(openai.APIError):
        asyncio.run(ask_async()) if is_async else ask()

    assert trial.uncached == {"GET /v1/models": f"GET /v1/models: {reason}" if reason else ""}


def test_an_sdk_does_not_try_again_what_took_too_long(
    begin: Callable[..., Session], server: OpenAIServer
) -> None:
    place = Place(begin(timeout=1))
    server.then(*[Scripted(delay=NEVER)] * 9)

    with (
        place.trial(),
        openai.OpenAI() as client,
        pytest.raises(openai.InternalServerError, match="--llm-timeout") as caught,
    ):
        client.chat.completions.create(**ASKED)  # type: ignore[call-overload]

    assert caught.value.status_code == 504
    assert len(server.requests) <= 1  # the server may not have read it yet


@posts
def test_a_replay_needs_no_server(
    place: Place, begin: Callable[..., Session], server: OpenAIServer, send: Callable[..., Any]
) -> None:
    url = f"{server.url}/chat/completions"
    with place.trial():
        send(newest(), url, json=ASKED)
    replaying = Place(begin(mode="replay"))

    with replaying.trial():
        known = send(newest(), url, json=ASKED)
        missed = send(newest(), url, json={**ASKED, "model": "other"})

    assert (known.status_code, missed.status_code) == (200, 424)
    assert missed.headers["x-should-retry"] == "false"
    assert len(server.requests) == 1


def test_a_call_that_was_given_up_is_lost_and_not_tried_again_unless_asked_for(
    place: Place, server: OpenAIServer
) -> None:
    given_up = threading.Event()
    server.then(Scripted(until=given_up, drop="before"))

    async def give_up() -> None:
        url = f"{server.url}/chat/completions"
        task = asyncio.create_task(post_async(httpx, url, json=ASKED))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        given_up.set()
        await asyncio.sleep(0.3)  # in which it would be tried again
        assert len(server.requests) == 1
        await post_async(httpx, url, json=ASKED)

    with place.trial() as trial:
        asyncio.run(give_up())

    assert [call.failure for call in trial.calls] == ["infrastructure", None]
    assert [str(call.slot) for call in trial.calls] == ["0/0", "0/0"]


def test_who_asks_again_while_a_call_that_was_given_up_is_under_way_gets_a_reply(
    place: Place, server: OpenAIServer
) -> None:
    given_up = threading.Event()
    server.then(Scripted(until=given_up, status=500))
    url = f"{server.url}/chat/completions"

    async def ask_twice() -> Any:
        task = asyncio.create_task(post_async(httpx, url, json=ASKED))
        while not server.requests:
            await asyncio.sleep(0.01)
        await cancel(task)
        given_up.set()
        return await post_async(httpx, url, json=ASKED)

    with place.trial() as trial:
        assert asyncio.run(ask_twice()).status_code == 200

    assert [(str(call.slot), call.failure) for call in trial.calls] == [
        ("0/0", "infrastructure"),
        ("0/0", None),
    ]
    assert len(server.requests) == 2


def test_a_stored_reply_can_be_given_up_as_one_that_is_paid_for(
    place: Place, server: OpenAIServer
) -> None:
    url = f"{server.url}/chat/completions"

    async def ask_twice() -> None:
        task = asyncio.create_task(post_async(httpx, url, json=ASKED))
        await asyncio.sleep(0)
        await cancel(task)
        await post_async(httpx, url, json=ASKED)

    for _ in ("paid", "replayed"):
        with place.trial() as trial:
            asyncio.run(ask_twice())
        assert [(str(call.slot), call.failure) for call in trial.calls] == [
            ("0/0", "infrastructure"),
            ("0/0", None),
        ]


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Left(BaseException):
    """What no ``except Exception`` stops."""


@contextmanager
def breaking(library: Any, error: BaseException, *, times: int) -> Iterator[list[int]]:
    """Have the connections of every client raise, below where clients are intercepted."""
    left = [times]
    with pytest.MonkeyPatch.context() as patch:
        for kind, name in SEAMS.items():
            pool = type(getattr(library, kind)()._pool)
            patch.setattr(pool, name, _breaking(getattr(pool, name), error, left))
        yield left


def _breaking(handle: Callable[..., Any], error: BaseException, left: list[int]) -> Any:
    def broken(pool: Any, request: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise error
        return handle(pool, request)

    return broken


@posts
@libraries
@pytest.mark.parametrize(
    ("error", "attempts"),
    [(RuntimeError("another loop"), 3), (Left(), 1)],
    ids=["exception", "no Exception"],
)
def test_whatever_leaves_a_send_is_a_failed_call_whose_draw_is_asked_for_again(
    place: Place,
    server: OpenAIServer,
    library: Any,
    *,
    send: Callable[..., Any],
    error: BaseException,
    attempts: int,
) -> None:
    url = f"{server.url}/chat/completions"
    with place.trial() as trial, breaking(library, error, times=attempts) as left:
        with pytest.raises(type(error)):
            send(library, url, json=ASKED)
        send(library, url, json=ASKED)

    assert left == [0]
    assert [str(call.slot) for call in trial.calls] == ["0/0", "0/0"]
    assert [call.failure for call in trial.calls] == ["infrastructure", None]


@pytest.mark.skipif(newest() is httpx, reason="it takes two libraries")
def test_of_two_identical_questions_at_once_the_one_that_failed_is_asked_for_again(
    place: Place, server: OpenAIServer
) -> None:
    url = f"{server.url}/chat/completions"

    async def ask(library: Any) -> None:
        try:
            await post_async(library, url, json=ASKED)
        except RuntimeError:
            await post_async(library, url, json=ASKED)

    async def ask_both() -> None:
        await asyncio.gather(ask(httpx), ask(newest()))

    with place.trial() as trial, breaking(httpx, RuntimeError(), times=3):
        asyncio.run(ask_both())

    answered = sorted(str(call.slot) for call in trial.calls if not call.failure)
    assert (len(trial.calls), answered) == (3, ["0/0", "0/1"])


@libraries
def test_a_provider_is_asked_once_a_draw_by_a_client_that_changes_its_loop(
    place: Place, server: OpenAIServer, library: Any
) -> None:
    client = library.AsyncClient()

    async def ask(times: int) -> None:
        for _ in range(times):
            await client.post(f"{server.url}/chat/completions", json=ASKED)

    with place.trial() as trial:
        for times in (1, 1, 2, 1):
            asyncio.run(ask(times))

    assert [call.failure for call in trial.calls] == [None] * 5
    assert len(server.requests) == 5


def test_a_client_keeps_its_connections_while_all_ask_from_one_loop(
    place: Place, server: OpenAIServer
) -> None:
    async def ask() -> None:
        async with httpx.AsyncClient() as client:
            for _ in range(4):
                await client.post(f"{server.url}/chat/completions", json=ASKED)

    with place.trial():
        asyncio.run(ask())

    assert len({request.port for request in server.requests[1:]}) == 1


def test_identical_questions_at_once_are_different_draws(
    place: Place, server: OpenAIServer
) -> None:
    url = f"{server.url}/chat/completions"

    async def ask() -> list[Any]:
        return await asyncio.gather(*(post_async(newest(), url, json=ASKED) for _ in range(3)))

    with place.trial() as trial:
        replies = asyncio.run(ask())

    assert len({reply.content for reply in replies}) == 3
    assert sorted(call.slot.occurrence for call in trial.calls) == [0, 1, 2]


def askers_of(begin: Callable[[Callable[[], object]], object]) -> list[object]:
    """Who asked in what was begun for trial 0, then for 1, then for nobody."""
    seen: list[object] = []
    for trial in (CountingTrial(0), CountingTrial(1), None):
        with charging(trial):
            begin(lambda: seen.append(getattr(trial_to_charge(), "index", None)))
    return seen


def test_a_thread_asks_for_who_started_it() -> None:
    def begin(function: Callable[[], object]) -> None:
        thread = threading.Thread(target=function)
        thread.start()
        thread.join()

    with inherited_by_threads():
        assert askers_of(begin) == [0, 1, None]
    assert askers_of(begin) == [None, None, None]


def test_the_work_of_a_pool_is_for_who_gave_it_whoever_started_the_pool() -> None:
    with inherited_by_threads(), ThreadPoolExecutor(1) as pool:
        assert askers_of(lambda function: pool.submit(function).result()) == [0, 1, None]


def test_tasks_and_their_threads_ask_for_who_began_them() -> None:
    async def main(function: Callable[[], object]) -> None:
        await asyncio.create_task(asyncio.to_thread(function))
        await asyncio.get_running_loop().run_in_executor(None, function)

    with inherited_by_threads():
        seen = askers_of(lambda function: asyncio.run(main(function)))

    assert seen == [0, 0, 1, 1, None, None]


def test_a_loop_in_another_thread_asks_for_who_gave_it_the_work() -> None:
    loop = asyncio.new_event_loop()
    with inherited_by_threads():
        with charging(CountingTrial(9)):
            thread = threading.Thread(target=loop.run_forever)
            thread.start()

        async def run(function: Callable[[], object]) -> None:
            function()

        def begin(function: Callable[[], object]) -> None:
            asyncio.run_coroutine_threadsafe(run(function), loop).result()

        seen = askers_of(begin)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()

    assert seen == [0, 1, None]


def test_what_a_model_asks_while_it_answers_is_its_own_business(
    place: Place, session: Session, server: OpenAIServer
) -> None:
    def perform(_slot: Slot) -> StoredReply:
        return paid_reply(body=post(httpx, f"{server.url}/chat/completions", json=ASKED).content)

    with place.trial() as trial:
        session.calls(trial).call(Request(key="0" * 64, perform=perform))

    assert [call.key for call in trial.calls] == ["0" * 64]
    assert len(server.requests) == 1
