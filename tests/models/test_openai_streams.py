"""Streams through the vendor's own clients: whole on disk before the first chunk is seen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest

from pytest_llmeval.errors import Lost, SettingsError
from tests.cache.calls import wanted
from tests.models.conftest import SECRET, CountingTrial, Session
from tests.servers.openai_server import NEVER, OpenAIServer, Scripted
from tests.servers.openai_streams import DONE, chat_stream, event, tool_call_stream

NAME = "openai/gpt"
QUESTION: dict[str, Any] = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}
WITH_USAGE = {**QUESTION, "stream_options": {"include_usage": True}}
CHUNKS = chat_stream("Hello you", {"model": "gpt"})
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look_up",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}

Ways = Callable[[Session, CountingTrial], list[Any]]


def stream_chat(session: Session, trial: CountingTrial) -> list[Any]:
    return list(session.client(trial).chat.completions.create(**WITH_USAGE, stream=True))


def stream_chat_async(session: Session, trial: CountingTrial) -> list[Any]:
    async def collect() -> list[Any]:
        client = session.async_client(trial)
        stream = await client.chat.completions.create(**WITH_USAGE, stream=True)
        return [chunk async for chunk in stream]

    return asyncio.run(collect())


def stream_by_helper(session: Session, trial: CountingTrial) -> list[Any]:
    with session.client(trial).chat.completions.stream(**WITH_USAGE) as stream:
        return [*stream, stream.get_final_completion()]


def stream_by_helper_async(session: Session, trial: CountingTrial) -> list[Any]:
    async def collect() -> list[Any]:
        async with session.async_client(trial).chat.completions.stream(**WITH_USAGE) as stream:
            return [*[event async for event in stream], await stream.get_final_completion()]

    return asyncio.run(collect())


def stream_response(session: Session, trial: CountingTrial) -> list[Any]:
    return list(session.client(trial).responses.create(model="gpt", input="Hello", stream=True))


def stream_response_by_helper(session: Session, trial: CountingTrial) -> list[Any]:
    with session.client(trial).responses.stream(model="gpt", input="Hello") as stream:
        return [*stream, stream.get_final_response()]


def stream_response_async(session: Session, trial: CountingTrial) -> list[Any]:
    async def collect() -> list[Any]:
        client = session.async_client(trial)
        stream = await client.responses.create(model="gpt", input="Hello", stream=True)
        return [event async for event in stream]

    return asyncio.run(collect())


WAYS = {
    "chat": stream_chat,
    "chat async": stream_chat_async,
    "chat helper": stream_by_helper,
    "chat helper async": stream_by_helper_async,
    "responses": stream_response,
    "responses helper": stream_response_by_helper,
    "responses async": stream_response_async,
}


@pytest.mark.parametrize("stream", WAYS.values(), ids=WAYS)
def test_a_stream_is_replayed_chunk_by_chunk_without_a_call(
    begin: Callable[..., Session], server: OpenAIServer, stream: Ways
) -> None:
    first, second = CountingTrial(0), CountingTrial(0)

    paid = stream(begin(), first)
    replayed = stream(begin(mode="replay"), second)

    assert len(paid) > 3
    assert replayed == paid
    assert len(server.requests) == 1
    assert (first.calls[0].draw, second.calls[0].draw) == (first.calls[0].draw,) * 2
    assert [call.replayed for call in second.calls] == [True]


@pytest.mark.parametrize("stream", WAYS.values(), ids=WAYS)
@pytest.mark.usefixtures("server")
def test_a_stream_is_recorded_with_who_answered_and_what_it_took(
    session: Session, trial: CountingTrial, stream: Ways
) -> None:
    stream(session, trial)

    (call,) = trial.calls
    assert (call.model, call.served) == (NAME, "gpt-2026-01-01")
    assert (call.usage.input_tokens, call.usage.output_tokens) == (7, 2)
    assert call.failure is None


def test_bytes_are_replayed_as_they_came(
    begin: Callable[..., Session], server: OpenAIServer
) -> None:
    odd = b": hi\r\n\r\n" + b"".join(CHUNKS).replace(b"data: ", b"data:")
    kind = "text/event-stream; charset=utf-8"
    server.then(Scripted(chunks=[odd[:50], odd[50:51], odd[51:]], headers={"content-type": kind}))

    for _ in range(2):
        client = begin().client(CountingTrial(0))
        with client.chat.completions.with_streaming_response.create(
            **QUESTION, stream=True
        ) as response:
            assert b"".join(response.iter_bytes()) == odd
            assert response.headers["content-type"] == kind

    assert len(server.requests) == 1


def test_a_stream_and_a_plain_reply_are_two_requests(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    stream_chat(session, trial)
    session.client(trial).chat.completions.create(**WITH_USAGE)

    assert len({call.key for call in trial.calls}) == 2
    assert len(server.requests) == 2


def test_the_times_of_the_first_and_the_last_chunk_are_kept(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(chunks=CHUNKS, pause=0.02))
    stream_chat(begin(), trial)

    (call,) = trial.calls
    stored = begin().replies.lookup(wanted(call.key), call.slot)
    assert stored is not None
    first, last = stored.facts["first_chunk_seconds"], stored.facts["seconds"]
    assert isinstance(first, float)
    assert isinstance(last, float)
    assert 0 < first < last - 0.02 * (len(CHUNKS) - 2)
    assert call.seconds == last


def test_the_whole_stream_is_stored_before_its_first_chunk_is_seen(
    begin: Callable[..., Session], trial: CountingTrial, server: OpenAIServer
) -> None:
    seen = []
    for _chunk in begin().client(trial).chat.completions.create(**WITH_USAGE, stream=True):
        seen.append(stream_chat(begin(mode="replay"), CountingTrial(0)))
        break

    assert len(seen[0]) > 3


@pytest.mark.usefixtures("server")
def test_a_test_that_stops_early_leaves_the_whole_reply(begin: Callable[..., Session]) -> None:
    with (
        begin()
        .client(CountingTrial(0))
        .chat.completions.create(**WITH_USAGE, stream=True) as stream
    ):
        next(iter(stream))

    assert stream_chat(begin(mode="replay"), CountingTrial(0))[-1].usage.total_tokens == 9


@pytest.mark.usefixtures("server")
def test_a_coroutine_that_stops_early_leaves_the_whole_reply(
    begin: Callable[..., Session],
) -> None:
    async def stop_early() -> None:
        client = begin().async_client(CountingTrial(0))
        async with await client.chat.completions.create(**WITH_USAGE, stream=True) as stream:
            await anext(aiter(stream))

    asyncio.run(stop_early())

    assert stream_chat(begin(mode="replay"), CountingTrial(0))[-1].usage.total_tokens == 9


def test_a_stream_is_read_while_the_trial_waits(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    stream = session.client(trial).chat.completions.create(**QUESTION, stream=True)
    waits = trial.waits

    list(stream)

    assert (waits, trial.waits) == (1, 1)


def test_a_coroutine_goes_on_while_a_stream_comes_in(
    session: Session, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, ticked = threading.Event(), threading.Event()

    def hold(_body: object, _number: int) -> str:
        asked.set()
        assert ticked.wait(300)
        return "Hello you"

    async def tick() -> None:
        await asyncio.to_thread(asked.wait, 10)
        ticked.set()

    async def both() -> None:
        client = session.async_client(trial)
        await asyncio.gather(client.chat.completions.create(**QUESTION, stream=True), tick())

    with OpenAIServer(hold) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        asyncio.run(both())

    assert trial.calls[0].failure is None


def test_a_call_of_a_tool_comes_in_pieces(
    begin: Callable[..., Session], server: OpenAIServer
) -> None:
    server.then(Scripted(chunks=tool_call_stream(['{"city"', ': "Li', 'ma"}'], "gpt")))

    for _ in range(2):
        client = begin().client(CountingTrial(0))
        with client.chat.completions.stream(**QUESTION, tools=[TOOL]) as stream:
            pieces = [e for e in stream if e.type == "tool_calls.function.arguments.delta"]
            (call,) = stream.get_final_completion().choices[0].message.tool_calls or ()

        assert len(pieces) == 4
        assert call.function.parsed_arguments == {"city": "Lima"}

    assert len(server.requests) == 1


# ---------------------------------------------------------------------- failures

NOT_DONE = CHUNKS[:-1]
ERROR = event({"error": {"message": "try later", "type": "server_error", "code": "server_error"}})
BROKEN = {
    "cut": (Scripted(chunks=CHUNKS, drop="midway"), "network: RemoteProtocolError"),
    "no end mark": (Scripted(chunks=NOT_DONE), "HTTP 502 (llmeval_stream_cut)"),
    "error event": (Scripted(chunks=[*NOT_DONE, ERROR]), "HTTP 500 (server_error)"),
    "damaged": (
        Scripted(chunks=[*NOT_DONE, b'data: {"id": \n\n', DONE]),
        "HTTP 502 (llmeval_stream_damaged)",
    ),
    "no stream": (Scripted(body={"id": "chatcmpl-1"}), "HTTP 502 (llmeval_stream_cut)"),
    "no chunk": (Scripted(chunks=[]), "HTTP 502 (llmeval_stream_cut)"),
}


@pytest.mark.parametrize("stream", [stream_chat, stream_chat_async])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_stream_is_a_failure_of_infrastructure_and_not_stored(
    begin: Callable[..., Session], server: OpenAIServer, stream: Ways, kind: str
) -> None:
    trial = CountingTrial(0)
    broken, reason = BROKEN[kind]
    server.then(*[broken] * 3)

    with pytest.raises((openai.APIConnectionError, openai.InternalServerError)):
        stream(begin(), trial)

    assert len(server.requests) == 3
    (call,) = trial.calls
    assert (call.draw, call.failure, call.reason) == (None, "infrastructure", reason)
    with pytest.raises(openai.APIStatusError, match="no reply is stored"):
        stream(begin(mode="replay"), CountingTrial(0))


@pytest.mark.parametrize("broken", [one for one, _ in BROKEN.values()], ids=BROKEN)
def test_a_broken_stream_is_asked_for_again(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial, broken: Scripted
) -> None:
    server.then(broken)
    session = begin()

    paid = stream_chat(session, trial)

    assert len(session.slept) == 1
    assert paid[1].choices[0].delta.content == "reply"
    assert stream_chat(begin(mode="replay"), CountingTrial(0)) == paid


def test_an_error_in_a_stream_is_told_in_the_vendors_words(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(chunks=[ERROR])] * 3)

    with pytest.raises(
        openai.InternalServerError, match=r"try later \(an error that ended"
    ) as caught:
        stream_chat(session, trial)

    assert caught.value.code == "server_error"


def test_a_refusal_in_a_stream_is_one_for_the_content_and_not_repeated(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    refusal = {"type": "error", "code": "context_length_exceeded", "message": "too long"}
    server.then(Scripted(chunks=[event(refusal, name="error")]))

    with pytest.raises(openai.BadRequestError, match="too long"):
        stream_response(session, trial)

    assert len(server.requests) == 1
    (call,) = trial.calls
    assert (call.failure, call.reason) == ("content", "HTTP 400 (context_length_exceeded)")


def test_a_provider_that_says_slow_down_in_a_stream_is_heard(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    error = {"type": "requests", "code": "rate_limit_exceeded", "message": "slow down"}
    server.then(Scripted(chunks=[event({"error": error})]))

    stream_chat(session, trial)

    (slowdown,) = session.throttle.take_slowdowns()
    assert slowdown.times == 1
    assert [call.failure for call in trial.calls] == [None]


def test_a_stream_that_stalls_is_a_timeout_of_the_client(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(chunks=CHUNKS[:2], pause=NEVER)] * 3)

    with pytest.raises(openai.APITimeoutError):
        session.client(trial).with_options(timeout=0.1).chat.completions.create(
            **QUESTION, stream=True
        )

    assert trial.calls[0].lost is Lost.OWN_TIMEOUT


def test_chunks_may_take_longer_than_the_timeout_between_two(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(chunks=CHUNKS, pause=0.4))

    client = session.client(trial).with_options(timeout=2)
    list(client.chat.completions.create(**QUESTION, stream=True))

    assert len(server.requests) == 1
    (call,) = trial.calls
    assert call.seconds is not None
    assert call.seconds > 2


def test_llm_ask_has_no_streams_and_says_who_has(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    with pytest.raises(SettingsError, match=r"stream=True.*openai_client"):
        session.model(NAME, trial).ask("Hello", stream=True)

    assert server.requests == []
