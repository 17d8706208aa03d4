"""What is known of every call, however it was asked: who answered, what it took, whence it came."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from pytest_llmeval.cache.reply import paid_reply, sensible
from pytest_llmeval.models.calls import CachedCalls, Request
from pytest_llmeval.models.vendors import anthropic, gemini, ollama, openai
from tests.models.conftest import CountingTrial, Session
from tests.models.vendors import ANTHROPIC, MESSAGES, OLLAMA, OPENAI, Vendor
from tests.servers.openai_server import Scripted
from tests.servers.openai_streams import event

MESSAGE_EVENTS: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-20260101",
            "content": [],
            "usage": {"input_tokens": 7, "output_tokens": 1},
        },
    },
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
MESSAGE = [event(one, name=one["type"]) for one in MESSAGE_EVENTS]
LINES = [
    b'{"model": "llama", "message": {"role": "assistant", "content": "Hi"}, "done": false}\n',
    b'{"model": "llama", "message": {"role": "assistant", "content": ""}, "done": true, '
    b'"prompt_eval_count": 7, "eval_count": 2}\n',
]
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-2026-01-01",
    "output": [],
    "usage": {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9},
}
KEY = "ab" * 32
NDJSON = {"content-type": "application/x-ndjson"}


@dataclass(frozen=True, kw_only=True)
class RequestFacts:
    """One way to ask, and what is to be known of the call.

    Attributes:
        reply: what the server sends, None for its usual reply.
        tokens: of the request and of the reply.
        sampling: parameters named in the request.
    """

    vendor: Vendor
    ask: Callable[[Any], object]
    reply: Scripted | None = None
    served: str | None
    fingerprint: str | None = None
    tokens: tuple[int | None, int | None] = (7, 2)
    sampling: dict[str, float] | None = None


def openai_chat(client: Any, **more: Any) -> Any:
    return client.chat.completions.create(model="gpt", messages=MESSAGES, **more)


def anthropic_message(messages: Any, **more: Any) -> Any:
    return messages.create(model="claude", max_tokens=9, messages=MESSAGES, **more)


def stream_of_anthropic(client: Any) -> Sequence[object]:
    question = {"model": "claude", "max_tokens": 9, "messages": MESSAGES}
    with client.messages.stream(**question) as stream:
        return list(stream)


GPT, CLAUDE = "gpt-2026-01-01", "claude-20260101"
WITH_USAGE = {"stream": True, "stream_options": {"include_usage": True}}
ASKED = {
    "openai chat": RequestFacts(
        vendor=OPENAI,
        ask=lambda c: openai_chat(c, temperature=0.5, seed=7),
        served=GPT,
        fingerprint="fp_1",
        sampling={"temperature": 0.5, "seed": 7},
    ),
    "openai raw": RequestFacts(
        vendor=OPENAI,
        ask=lambda c: openai_chat(c.with_raw_response).parse(),
        served=GPT,
        fingerprint="fp_1",
    ),
    "openai stream": RequestFacts(
        vendor=OPENAI,
        ask=lambda c: list(openai_chat(c, **WITH_USAGE)),
        served=GPT,
        fingerprint="fp_1",
    ),
    "openai stream without usage": RequestFacts(
        vendor=OPENAI,
        ask=lambda c: list(openai_chat(c, stream=True)),
        served=GPT,
        fingerprint="fp_1",
        tokens=(None, None),
    ),
    "openai embeddings": RequestFacts(
        vendor=OPENAI,
        ask=lambda c: c.embeddings.create(model="embed", input="Hello"),
        served="embed",
        tokens=(3, None),
    ),
    "openai response": RequestFacts(
        vendor=OPENAI,
        ask=lambda c: c.responses.create(model="gpt", input="Hello", top_p=0.9),
        reply=Scripted(body=RESPONSE),
        served=GPT,
        sampling={"top_p": 0.9},
    ),
    "openai response stream": RequestFacts(
        vendor=OPENAI,
        ask=lambda c: list(c.responses.create(model="gpt", input="Hello", stream=True)),
        served=GPT,
    ),
    "anthropic message": RequestFacts(
        vendor=ANTHROPIC, ask=lambda c: anthropic_message(c.messages), served=CLAUDE
    ),
    "anthropic raw": RequestFacts(
        vendor=ANTHROPIC,
        ask=lambda c: anthropic_message(c.messages.with_raw_response).parse(),
        served=CLAUDE,
    ),
    "anthropic stream": RequestFacts(
        vendor=ANTHROPIC,
        ask=lambda c: list(anthropic_message(c.messages, stream=True)),
        reply=Scripted(chunks=MESSAGE),
        served=CLAUDE,
    ),
    "anthropic helper": RequestFacts(
        vendor=ANTHROPIC,
        ask=stream_of_anthropic,
        reply=Scripted(chunks=MESSAGE),
        served=CLAUDE,
    ),
    "ollama chat": RequestFacts(
        vendor=OLLAMA,
        ask=lambda c: c.chat("llama", messages=MESSAGES, options={"temperature": 0.5, "seed": 7}),
        served="llama",
        sampling={"temperature": 0.5, "seed": 7},
    ),
    "ollama stream": RequestFacts(
        vendor=OLLAMA,
        ask=lambda c: list(c.chat("llama", messages=MESSAGES, stream=True)),
        reply=Scripted(chunks=LINES, headers=NDJSON),
        served="llama",
    ),
    "ollama generate": RequestFacts(
        vendor=OLLAMA, ask=lambda c: c.generate("llama", "Hello"), served="llama"
    ),
    "ollama embed": RequestFacts(
        vendor=OLLAMA,
        ask=lambda c: c.embed("llama", "Hello"),
        served="llama",
        tokens=(3, None),
    ),
    "ollama embeddings": RequestFacts(
        vendor=OLLAMA,
        ask=lambda c: c.embeddings("llama", "Hello"),
        served=None,
        tokens=(None, None),
    ),
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_every_call_tells_who_answered_and_what_it_took(
    begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch, asked: RequestFacts
) -> None:
    paid, again = CountingTrial(0), CountingTrial(0)
    with asked.vendor.server() as server:
        for name, value in asked.vendor.environment(server.url).items():
            monkeypatch.setenv(name, value)
        if asked.reply is not None:
            server.then(asked.reply)
        asked.ask(asked.vendor.client(begin(), paid, is_async=False))
        asked.ask(asked.vendor.client(begin(mode="replay"), again, is_async=False))
        sent = json.loads(server.requests[0].body)

    (call,), (replayed,) = paid.calls, again.calls
    assert (call.model, call.host) == (f"{asked.vendor.name}/{sent['model']}", server.origin)
    assert (call.served, call.fingerprint) == (asked.served, asked.fingerprint)
    assert (call.usage.input_tokens, call.usage.output_tokens) == asked.tokens
    assert call.parameters == (asked.sampling or {})
    assert call.seconds is not None
    assert call.was_paid
    assert replayed == replace(call, replayed=True)


SENSELESS_COUNTS = [-1, True, 2**53, 2**63, 10**400, 7.0, "7", [7]]


@pytest.mark.parametrize("said", SENSELESS_COUNTS, ids=lambda said: repr(said)[:12])
def test_a_count_that_makes_no_sense_is_none(said: object) -> None:
    usage = {"input_tokens": said, "output_tokens": 2}
    told = {"usage": usage, "prompt_eval_count": said, "eval_count": 2}

    for vendor in (openai, anthropic, ollama):
        assert sensible(vendor.VENDOR.read_facts(told)) == {"output_tokens": 2}


TIERS = [("flex", "flex"), ("batch", "batch"), ("default", None), ("standard", None), (7, None)]


@pytest.mark.parametrize("said", [4, 0, None, "4", -1])
def test_tokens_that_the_provider_had_in_its_cache_are_told(said: object) -> None:
    expected = {"cached_input_tokens": 4} if said == 4 else {}
    counted = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": said}}
    read = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": said}}
    gemini_read = {"promptTokenCount": 9, "cachedContentTokenCount": said}

    for usage in (counted, read):
        facts = sensible(openai.VENDOR.read_facts({"usage": usage}))
        assert facts == {"input_tokens": 9, **expected}
    facts = sensible(gemini.VENDOR.read_facts({"usageMetadata": gemini_read}))
    assert facts == {"input_tokens": 9, "output_tokens": 0, **expected}


@pytest.mark.parametrize(("said", "tier"), TIERS)
def test_a_tier_is_told_where_it_is_not_the_usual_one(said: object, tier: str | None) -> None:
    expected = {} if tier is None else {"tier": tier}

    assert sensible(openai.VENDOR.read_facts({"service_tier": said})) == expected
    assert sensible(anthropic.VENDOR.read_facts({"usage": {"service_tier": said}})) == expected


@pytest.mark.parametrize("said", [0, 2**53 - 1])
def test_every_other_count_is_taken(said: int) -> None:
    assert sensible(openai.VENDOR.read_facts({"usage": {"prompt_tokens": said}})) == {
        "input_tokens": said
    }


@pytest.mark.parametrize("said", [7, True, ["gpt"], "g" * 501])
def test_a_name_that_makes_no_sense_is_none(said: object) -> None:
    assert sensible(openai.VENDOR.read_facts({"model": said, "system_fingerprint": said})) == {}


@pytest.mark.parametrize("mode", ["auto", "replay"])
@pytest.mark.parametrize("said", [-1, True, 2**63, 10**400, "7", None])
def test_a_stored_reply_that_tells_nonsense_is_a_reply(
    begin: Callable[..., Session], said: Any, mode: str
) -> None:
    names = ("input_tokens", "output_tokens", "seconds")
    facts = {**dict.fromkeys(names, said), "model": 7, "fingerprint": "f" * 501}
    answer = paid_reply(body=b"{}", facts=facts)
    CachedCalls(CountingTrial(0), begin().replies).call(
        Request(key=KEY, perform=lambda _slot: answer)
    )
    trial = CountingTrial(0)

    CachedCalls(trial, begin(mode=mode).replies).call(
        Request(key=KEY, perform=lambda _slot: answer)
    )

    (call,) = trial.calls
    assert (call.usage.input_tokens, call.usage.output_tokens, call.seconds) == (None, None, None)
    assert (call.served, call.fingerprint) == (None, None)
    assert call.replayed
