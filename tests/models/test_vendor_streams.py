"""Streams of other vendors through the same transport: anthropic's events, ollama's lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import pytest

from pytest_llmeval.models.http.dialect import Dialect, as_it_is
from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.sender import newest
from pytest_llmeval.models.http.trial_transport import TrialTransport
from pytest_llmeval.models.vendors.anthropic import part_of_message
from pytest_llmeval.models.vendors.openai import VENDOR
from tests.models.conftest import CountingTrial, Session
from tests.servers.openai_server import OpenAIServer, Scripted
from tests.servers.openai_streams import event

EVENTS: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-1",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 7, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
]
MESSAGE = [event(one, name=one["type"]) for one in EVENTS]
OVERLOADED = event(
    {"type": "error", "error": {"type": "overloaded_error", "message": "too much"}}, name="error"
)
LINES = [
    json.dumps({"model": "llama", "message": {"content": text}, "done": not text}).encode() + b"\n"
    for text in ("Hi", " you", "")
]


def transport(
    session: Session, trial: CountingTrial, part_of: Callable[[Any], Any] = as_it_is
) -> TrialTransport:
    dialect = Dialect(
        provider="test",
        paths=("/v1/messages", "/api/chat"),
        key_variable="TEST_KEY",
        beta_header="test-beta",
        read_facts=VENDOR.read_facts,
        part_of=part_of,
    )
    exchange = Exchange(dialect=dialect, calls=session.calls(trial))
    return TrialTransport(session.models.sender(), exchange)


def stream_message(session: Session, trial: CountingTrial, server: OpenAIServer) -> list[Any]:
    client = anthropic.Anthropic(
        api_key="key",
        base_url=server.origin,
        http_client=anthropic.DefaultHttpxClient(
            transport=transport(session, trial, part_of_message)
        ),
        max_retries=0,
    )
    with client.messages.stream(
        model="claude", max_tokens=9, messages=[{"role": "user", "content": "Hello"}]
    ) as stream:
        return [*stream, stream.get_final_message()]


def stream_lines(session: Session, trial: CountingTrial, server: OpenAIServer) -> list[str]:
    question = {"model": "llama", "messages": []}  # ollama streams unless it is told not to
    with (
        newest().Client(transport=transport(session, trial)) as client,
        client.stream("POST", f"{server.origin}/api/chat", json=question) as response,
    ):
        return list(response.raise_for_status().iter_lines())


def test_events_of_anthropic_are_replayed_one_by_one(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(chunks=MESSAGE))

    paid = stream_message(begin(), trial, server)
    replayed = stream_message(begin(mode="replay"), CountingTrial(0), server)

    assert replayed == paid
    assert paid[-1].content[0].text == "Hi"
    (call,) = trial.calls
    assert (call.served, call.usage.input_tokens, call.usage.output_tokens) == ("claude-1", 7, 2)


def test_an_overloaded_anthropic_is_waited_for(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(chunks=[MESSAGE[0], OVERLOADED]), Scripted(chunks=MESSAGE))

    assert stream_message(session, trial, server)[-1].content[0].text == "Hi"
    assert session.throttle.take_slowdowns()[0].times == 1


def test_lines_of_ollama_are_replayed_one_by_one(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(chunks=LINES, headers={"content-type": "application/x-ndjson"}))

    paid = stream_lines(begin(), trial, server)
    replayed = stream_lines(begin(mode="replay"), CountingTrial(0), server)

    assert [json.loads(line)["message"]["content"] for line in paid] == ["Hi", " you", ""]
    assert replayed == paid
    assert trial.calls[0].served == "llama"


@pytest.mark.parametrize("last", [b"\n", b'{"error": "out of memory"}\n', b'{"model": "lla'])
def test_lines_that_do_not_end_are_lost(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial, last: bytes
) -> None:
    kind = {"content-type": "application/x-ndjson"}
    server.then(*[Scripted(chunks=[*LINES[:2], last], headers=kind)] * 3)

    with pytest.raises(newest().HTTPStatusError):
        stream_lines(begin(), trial, server)

    assert trial.calls[0].failure == "infrastructure"
    with pytest.raises(newest().HTTPStatusError, match="424"):
        stream_lines(begin(mode="replay"), CountingTrial(0), server)
