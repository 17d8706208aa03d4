"""What with status 200 is an answer of a model, and what is a failure; through the real SDKs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_llmeval.cache.reply import paid_reply
from pytest_llmeval.errors import ProviderFailed, ReplayMiss
from pytest_llmeval.models.http.dialect import AnswerCheck
from pytest_llmeval.models.vendors.anthropic import VENDOR as ANTHROPIC_DIALECT
from pytest_llmeval.models.vendors.ollama import VENDOR as OLLAMA_DIALECT
from pytest_llmeval.models.vendors.openai import VENDOR as OPENAI_DIALECT
from tests.cache.calls import wanted
from tests.models.conftest import CountingTrial, Session
from tests.models.vendors import ANTHROPIC, MESSAGES, OLLAMA, OPENAI, Vendor, done, every_chunk
from tests.servers.anthropic_server import message, message_stream
from tests.servers.ollama_server import chat_lines
from tests.servers.openai_server import OpenAIServer, Scripted, chat_completion
from tests.servers.openai_streams import DONE, chat_chunks, event, response_stream

BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
NDJSON = {"content-type": "application/x-ndjson"}


@dataclass(frozen=True, kw_only=True)
class Api:
    """One API of a vendor, asked plainly and for a stream."""

    vendor: Vendor
    ask: Callable[[Any], Any]
    stream: Callable[[Any], Any]


CHAT = Api(
    vendor=OPENAI,
    ask=lambda c: c.chat.completions.create(model="gpt", messages=MESSAGES),
    stream=lambda c: every_chunk(
        c.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)
    ),
)
COMPLETIONS = Api(
    vendor=OPENAI,
    ask=lambda c: c.completions.create(model="gpt", prompt="Hello"),
    stream=lambda c: every_chunk(c.completions.create(model="gpt", prompt="Hello", stream=True)),
)
RESPONSES = Api(
    vendor=OPENAI,
    ask=lambda c: c.responses.create(model="gpt", input="Hello"),
    stream=lambda c: every_chunk(c.responses.create(model="gpt", input="Hello", stream=True)),
)
CLAUDE = Api(
    vendor=ANTHROPIC,
    ask=lambda c: c.messages.create(model="claude", max_tokens=9, messages=MESSAGES),
    stream=lambda c: every_chunk(
        c.messages.create(model="claude", max_tokens=9, messages=MESSAGES, stream=True)
    ),
)
LLAMA = Api(
    vendor=OLLAMA,
    ask=lambda c: c.chat("llama", messages=MESSAGES),
    stream=lambda c: every_chunk(c.chat("llama", messages=MESSAGES, stream=True)),
)
EMBEDDINGS = Api(
    vendor=OPENAI,
    ask=lambda c: c.embeddings.create(model="e", input="Hello", encoding_format="float"),
    stream=lambda c: NotImplemented,
)
EMBED = Api(
    vendor=OLLAMA, ask=lambda c: c.embed("e", input="Hello"), stream=lambda c: NotImplemented
)
GENERATE = Api(
    vendor=OLLAMA,
    ask=lambda c: c.generate("llama", "Hello"),
    stream=lambda c: every_chunk(c.generate("llama", "Hello", stream=True)),
)


def chose(**choice: object) -> dict[str, Any]:
    return {**chat_completion("", "gpt"), "choices": [{"index": 0, **choice}]}


def said(content: object, **more: object) -> dict[str, Any]:
    return chose(message={"role": "assistant", "content": content, **more})


def responded(**fields: object) -> dict[str, Any]:
    return {"id": "r", "object": "response", "created_at": 1, "model": "gpt", **fields}


def blocks(content: object, **fields: object) -> dict[str, Any]:
    return {**message([], "claude"), "content": content, **fields}


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL_USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
ITEM = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": []}
ENDED = {"done": True, "done_reason": "stop"}

ANSWERS: dict[str, tuple[Api, object]] = {
    "text without a reason": (CHAT, said("Hi")),
    "refusal": (CHAT, said(None, refusal="I can't.")),
    "tool call": (CHAT, said(None, tool_calls=[CALL])),
    "function call": (CHAT, said(None, function_call={"name": "f", "arguments": "{}"})),
    "filter": (CHAT, chose(message={"content": None}, finish_reason="content_filter")),
    "filter without message": (CHAT, chose(finish_reason="content_filter")),
    "length": (CHAT, chose(message={"content": None}, finish_reason="length")),
    "empty text": (CHAT, chose(message={"content": ""}, finish_reason="stop")),
    "no content": (CHAT, chose(message={"role": "assistant"}, finish_reason="stop")),
    "parts": (CHAT, said([{"type": "text", "text": "Hi"}])),
    "completion": (COMPLETIONS, chose(text="Hi")),
    "empty completion": (COMPLETIONS, chose(text="", finish_reason="stop")),
    "null completion": (COMPLETIONS, chose(text=None, finish_reason="stop")),
    "completion without text": (COMPLETIONS, chose(finish_reason="stop")),
    "reasoning": (CHAT, said("", reasoning="Hm")),
    "reasoning of a server": (CHAT, said("", reasoning_content="Hm")),
    "images": (CHAT, said(None, images=[{"type": "image_url", "image_url": {"url": "data:"}}])),
    "annotations": (CHAT, said(None, annotations=[{"type": "url_citation"}])),
    "audio": (CHAT, said(None, audio={"id": "a", "data": "", "transcript": "", "expires_at": 1})),
    "safety": (CHAT, chose(finish_reason="SAFETY")),
    "message null but ended": (CHAT, chose(message=None, finish_reason="max_tokens")),
    "message missing but ended": (CHAT, chose(finish_reason="tool_calls")),
    "embedding": (EMBEDDINGS, {"object": "list", "data": [{"index": 0, "embedding": [0.1]}]}),
    "no embeddings": (EMBEDDINGS, {"object": "list", "data": []}),
    "embedded": (EMBED, {"model": "e", "embeddings": [[0.1]]}),
    "no output": (RESPONSES, responded(status="completed", output=[])),
    "output": (RESPONSES, responded(output=[ITEM])),
    "incomplete": (RESPONSES, responded(status="incomplete", output=[])),
    "background": (RESPONSES, responded(status="queued", background=True, output=[])),
    "no blocks": (CLAUDE, blocks([], stop_reason="end_turn")),
    "refused": (CLAUDE, blocks([], stop_reason="refusal")),
    "block": (CLAUDE, blocks([{"type": "text", "text": "Hi"}], stop_reason=None)),
    "tool use": (CLAUDE, blocks([TOOL_USE], stop_reason=None)),
    "no words": (LLAMA, {"message": {"role": "assistant", "content": ""}, **ENDED}),
    "words": (LLAMA, {"message": {"role": "assistant", "content": "Hi"}}),
    "generated": (GENERATE, {"response": "Hi"}),
    "generated nothing": (GENERATE, {"response": "", **ENDED}),
}
FAILURES: dict[str, tuple[Api, object]] = {
    "empty choice": (CHAT, chose()),
    "choice null": (CHAT, {"choices": [None]}),
    "choice a number": (CHAT, {"choices": [1]}),
    "message null": (CHAT, chose(message=None)),
    "message a text": (CHAT, chose(message="x")),
    "empty message": (CHAT, said("")),
    "ended in an error": (CHAT, chose(message={"content": "Hi"}, finish_reason="error")),
    "aborted": (CHAT, chose(message={"content": ""}, finish_reason="abort")),
    "no room at the provider": (
        CHAT,
        chose(message={"content": ""}, finish_reason="insufficient_system_resource"),
    ),
    "message a text but ended": (CHAT, chose(message="x", finish_reason="stop")),
    "data null": (EMBEDDINGS, {"object": "list", "data": [None]}),
    "embedding null": (EMBEDDINGS, {"object": "list", "data": [{"embedding": None}]}),
    "embedded null": (EMBED, {"model": "e", "embeddings": [None]}),
    "error in a choice": (
        CHAT,
        chose(message={"content": ""}, finish_reason="stop", error={"code": 502}),
    ),
    "second choice empty": (
        CHAT,
        {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}, {}]},
    ),
    "no completion": (COMPLETIONS, chose(text=None)),
    "no text of a completion": (COMPLETIONS, chose(text="")),
    "output null": (RESPONSES, responded(status="completed", output=[None])),
    "no status": (RESPONSES, responded(output=[])),
    "in progress": (RESPONSES, responded(status="in_progress", output=[])),
    "output of another api": (RESPONSES, said("Hi")),
    "content of another vendor": (CLAUDE, said("Hi")),
    "block null": (CLAUDE, blocks([None])),
    "block of no type": (CLAUDE, blocks([{}])),
    "no blocks, no reason": (CLAUDE, blocks([], stop_reason=None)),
    "empty block, no reason": (CLAUDE, blocks([{"type": "text", "text": ""}], stop_reason=None)),
    "content null": (CLAUDE, blocks(None)),
    "message of ollama null": (LLAMA, {"message": None, **ENDED}),
    "no words, not done": (LLAMA, {"message": {"content": ""}, "done": False}),
    "response null": (GENERATE, {"response": None, **ENDED}),
    "nothing generated, not done": (GENERATE, {"response": ""}),
}


def rows(table: Mapping[str, tuple[Api, object]]) -> Any:
    return pytest.mark.parametrize(("api", "body"), table.values(), ids=table)


@pytest.fixture
def api_server(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with api.vendor.server() as server:
        for name, value in api.vendor.environment(server.url).items():
            monkeypatch.setenv(name, value)
        yield server


@BOTH
@rows(ANSWERS)
def test_an_answer_is_kept_though_it_has_no_text(
    *,
    begin: Callable[..., Session],
    api_server: OpenAIServer,
    api: Api,
    body: object,
    is_async: bool,
) -> None:
    first, second = CountingTrial(0), CountingTrial(0)
    api_server.then(Scripted(body=body))
    paid = done(api.ask(api.vendor.client(begin(), first, is_async=is_async)))

    again = done(api.ask(api.vendor.client(begin(mode="replay"), second, is_async=is_async)))

    assert again == paid
    assert len(api_server.requests) == 1
    assert [call.failure for call in (*first.calls, *second.calls)] == [None, None]


@BOTH
@rows(FAILURES)
def test_what_answers_nothing_is_asked_again_errored_and_not_stored(
    *,
    begin: Callable[..., Session],
    api_server: OpenAIServer,
    api: Api,
    body: object,
    is_async: bool,
) -> None:
    trial = CountingTrial(0)
    api_server.then(*[Scripted(body=body)] * 3)

    with pytest.raises(api.vendor.errors[502], match="nothing was stored"):
        done(api.ask(api.vendor.client(begin(), trial, is_async=is_async)))

    assert len(api_server.requests) == 3
    assert [(call.failure, call.reason) for call in trial.calls] == [
        ("infrastructure", "HTTP 502 (llmeval_no_answer)")
    ]
    with pytest.raises(Exception, match="no reply is stored"):
        done(api.ask(api.vendor.client(begin(mode="replay"), CountingTrial(0), is_async=is_async)))


# ------------------------------------------------------------------------------ streams

BEGUN = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}


def chat_events(*choices: object) -> list[bytes]:
    return [event({"id": "c", "model": "gpt", "choices": list(choices)}), DONE]


def claude_events(*, reason: str | None) -> list[bytes]:
    whole = message_stream("", "claude")
    told = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}
    return [whole[0], event(told, name="message_delta"), whole[-1]]


def response_events(**fields: object) -> list[bytes]:
    last = {"type": "response.completed", "response": responded(**fields), "sequence_number": 8}
    return [*response_stream("", "gpt")[:1], event(last, name="response.completed")]


def lines(*said: object) -> list[bytes]:
    return [json.dumps(one).encode() + b"\n" for one in said]


ANSWERING_STREAMS: dict[str, tuple[Api, list[bytes]]] = {
    "refusal": (CHAT, chat_chunks([{"refusal": "No."}], "gpt")),
    "filter": (CHAT, chat_chunks([], "gpt", finish="content_filter")),
    "length": (CHAT, chat_chunks([], "gpt", finish="length")),
    "reasoning": (CHAT, chat_events({"index": 0, "delta": {"reasoning_content": "H"}})),
    "nothing, then its usage": (CHAT, chat_chunks([], "gpt", with_usage=True)),
    "text without a reason": (CHAT, chat_events(BEGUN, {"index": 0, "delta": {"content": "H"}})),
    "two choices": (
        CHAT,
        chat_events(*({"index": i, "delta": {"content": "H"}} for i in range(2))),
    ),
    "no output": (RESPONSES, response_events(status="completed", output=[])),
    "no blocks": (CLAUDE, claude_events(reason="end_turn")),
    "refused": (CLAUDE, claude_events(reason="refusal")),
    "no words": (LLAMA, chat_lines("")),
    "generated nothing": (GENERATE, lines({"response": ""}, {"response": "", **ENDED})),
}
FAILING_STREAMS: dict[str, tuple[Api, list[bytes]]] = {
    "no choices": (CHAT, chat_events()),
    "choice null": (CHAT, chat_events(None)),
    "no text, no reason": (CHAT, chat_events(BEGUN)),
    "ended in an error": (CHAT, chat_chunks([{"content": "Hi"}], "gpt", finish="error")),
    "aborted": (CHAT, chat_chunks([{"content": "Hi"}], "gpt", finish="abort")),
    "second choice empty": (
        CHAT,
        chat_events({"index": 0, "delta": {"content": "H"}}, {"index": 1, "delta": {}}),
    ),
    "not completed": (RESPONSES, [*response_stream("", "gpt")[:1], DONE]),
    "no reason": (CLAUDE, claude_events(reason=None)),
    "message null": (LLAMA, lines({"message": None, **ENDED})),
    "response null": (GENERATE, lines({"response": None, **ENDED})),
}


def streamed(api: Api, chunks: list[bytes]) -> Scripted:
    return Scripted(chunks=chunks, headers=NDJSON if api.vendor is OLLAMA else {})


@BOTH
@pytest.mark.parametrize(
    ("api", "chunks"), ANSWERING_STREAMS.values(), ids=ANSWERING_STREAMS.keys()
)
def test_a_stream_that_answers_is_kept_though_it_has_no_text(
    *,
    begin: Callable[..., Session],
    api_server: OpenAIServer,
    api: Api,
    chunks: list[bytes],
    is_async: bool,
) -> None:
    api_server.then(streamed(api, chunks))
    paid = done(api.stream(api.vendor.client(begin(), CountingTrial(0), is_async=is_async)))

    trial = CountingTrial(0)
    again = done(api.stream(api.vendor.client(begin(mode="replay"), trial, is_async=is_async)))

    assert again == paid
    assert len(api_server.requests) == 1
    assert [call.failure for call in trial.calls] == [None]


@BOTH
@pytest.mark.parametrize(("api", "chunks"), FAILING_STREAMS.values(), ids=FAILING_STREAMS.keys())
def test_a_stream_that_answers_nothing_is_asked_for_again_and_not_stored(
    *,
    begin: Callable[..., Session],
    api_server: OpenAIServer,
    api: Api,
    chunks: list[bytes],
    is_async: bool,
) -> None:
    trial = CountingTrial(0)
    api_server.then(*[streamed(api, chunks)] * 3)

    with pytest.raises(api.vendor.errors[502], match="nothing was stored"):
        done(api.stream(api.vendor.client(begin(), trial, is_async=is_async)))

    assert len(api_server.requests) == 3
    assert trial.calls[0].reason == "HTTP 502 (llmeval_no_answer)"


# ------------------------------------------------------------------- what lies in the cache


def store(session: Session, trial: CountingTrial, body: object, *, draw: int = 0) -> str:
    """Put a reply where an earlier version had put it; return the id of its draw."""
    call = trial.calls[0]
    slot = replace(call.slot, occurrence=draw)
    answer = paid_reply(body=json.dumps(body).encode())
    reply = session.replies.pay(wanted(call.key, lambda: answer), slot)
    return reply.draw


def key_of_hello(begin: Callable[..., Session]) -> CountingTrial:
    trial = CountingTrial(0)
    with pytest.raises(ReplayMiss):
        begin(mode="replay").model("openai/gpt", trial).ask("Hello")
    return trial


@pytest.mark.parametrize("body", [chose(), chose(message=None), {"choices": [None]}])
def test_a_stored_reply_that_is_no_answer_is_drawn_anew_once(
    begin: Callable[..., Session], server: OpenAIServer, body: object
) -> None:
    old = store(begin(), key_of_hello(begin), body)
    first, second = CountingTrial(0), CountingTrial(0)

    assert begin().model("openai/gpt", first).ask("Hello").text == "reply 0"
    assert begin().model("openai/gpt", second).ask("Hello").text == "reply 0"

    assert len(server.requests) == 1
    assert first.calls[0].draw == second.calls[0].draw != old
    assert [first.calls[0].replayed, second.calls[0].replayed] == [False, True]


@pytest.mark.usefixtures("server")
def test_a_stored_reply_that_is_no_answer_is_a_miss_in_a_replay(
    begin: Callable[..., Session],
) -> None:
    store(begin(), key_of_hello(begin), chose())

    with pytest.raises(ReplayMiss, match="an earlier version stored there is no answer"):
        begin(mode="replay").model("openai/gpt", CountingTrial(0)).ask("Hello")


@pytest.mark.usefixtures("server")
def test_an_older_answer_is_replayed_where_a_newer_one_is_none(
    begin: Callable[..., Session],
) -> None:
    begin().model("openai/gpt", CountingTrial(0)).ask("Hello")
    store(begin(mode="refresh"), key_of_known(begin), chose())

    again = begin(mode="replay").model("openai/gpt", CountingTrial(0)).ask("Hello")

    assert again.text == "reply 0"


def key_of_known(begin: Callable[..., Session]) -> CountingTrial:
    trial = CountingTrial(0)
    begin(mode="replay").model("openai/gpt", trial).ask("Hello")
    return trial


# ------------------------------------------------------------------- what is no chat, texts

NO_CHATS = [
    (OPENAI_DIALECT, "/v1/moderations"),
    (OLLAMA_DIALECT, "/api/embeddings"),
    (ANTHROPIC_DIALECT, "/v1/messages/count_tokens"),
]


@pytest.mark.parametrize(("dialect", "path"), NO_CHATS)
def test_what_has_no_answer_of_a_known_form_is_not_judged(dialect: Any, path: str) -> None:
    assert dialect.check_of(path) is None


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/openai/deployments/d/chat/completions"]
)
def test_a_chat_is_known_by_its_path(path: str) -> None:
    check: AnswerCheck | None = OPENAI_DIALECT.check_of(path)

    assert check is not None
    assert not check({"choices": [{}], "output": [{}]})


def test_moderations_and_embeddings_are_kept(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    client = begin().client(trial)
    server.then(Scripted(body={"id": "m", "model": "m", "results": []}))
    client.moderations.create(input="Hello")
    server.then(Scripted(body={"object": "list", "model": "m", "data": []}))
    client.embeddings.create(model="m", input="Hello", encoding_format="float")

    assert [call.failure for call in trial.calls] == [None, None]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("Hi", "Hi"),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "Li"}, "m", {"type": "image"}, {"text": 7}, 7], "Lim"),
        ({"city": "Líma"}, '{"city": "Líma"}'),
        (42, "42"),
    ],
)
def test_the_text_of_a_reply_is_a_text(
    session: Session, server: OpenAIServer, trial: CountingTrial, content: object, text: str
) -> None:
    server.then(Scripted(body=chose(message={"content": content}, finish_reason="stop")))

    reply = session.model("openai/gpt", trial).ask("Hello")

    assert reply.text == text


@pytest.mark.parametrize("api", [CHAT, CLAUDE, LLAMA], ids=["openai", "anthropic", "ollama"])
@pytest.mark.parametrize("body", [b"<html>", b'{"id": "1', b""], ids=["html", "cut", "empty"])
def test_a_success_that_is_no_json_is_asked_again(
    session: Session, api_server: OpenAIServer, api: Api, body: bytes
) -> None:
    api_server.then(Scripted(body=body))

    reply = session.model(f"{api.vendor.name}/m", CountingTrial(0)).ask("Hello")

    assert reply.text == "reply 1"
    assert len(api_server.requests) == 2


def test_a_filter_verdict_without_message_has_no_text(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(body=chose(finish_reason="content_filter")))

    assert session.model("openai/gpt", trial).ask("Hello").text == ""


@pytest.mark.parametrize("status", [405, 407, 410, 418, 421, 424, 425, 431, 498, 499])
def test_a_status_that_is_not_about_the_content_is_never_scored(
    session: Session, server: OpenAIServer, trial: CountingTrial, status: int
) -> None:
    server.then(Scripted(status=status))

    with pytest.raises(ProviderFailed) as caught:
        session.model("openai/gpt", trial).ask("Hello")

    assert caught.value.failure == "infrastructure"
