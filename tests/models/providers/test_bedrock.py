"""What clients ask Bedrock: Converse, the models' own languages, and binary streams of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_llmeval.cache.reply import StoredReply, usage_of
from pytest_llmeval.models.http.answers import NoAnswer, read_stream
from pytest_llmeval.models.vendors.bedrock import VENDOR
from pytest_llmeval.transcripts.messages import read_reply
from tests.models.conftest import SECRET, CountingTrial, Session
from tests.models.providers.test_services import AnyModelServer, Place, lead_to
from tests.models.test_interception import LIBRARIES, post
from tests.servers.bedrock_server import (
    CONVERSE_STREAM,
    CONVERSED,
    FRAMED,
    INVOKE_STREAM,
    INVOKED,
    NOVA_STREAM,
    frame,
)
from tests.servers.openai_server import OpenAIServer, Scripted

MODEL = "anthropic.claude-haiku-4-5-v1:0"
URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-haiku-4-5-v1%3A0"
ASKED = {"messages": [{"role": "user", "content": [{"text": "Capital of Peru?"}]}]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """Bedrock, as far as clients of httpx can tell."""
    with AnyModelServer() as running:
        for library in LIBRARIES:
            lead_to(running.origin, library, monkeypatch)
        yield running


@pytest.mark.parametrize(
    ("method", "body", "chunks"),
    [
        ("converse", CONVERSED, None),
        ("invoke", INVOKED, None),
        ("invoke", {"embedding": [0.5]}, None),
        ("converse-stream", None, CONVERSE_STREAM),
        ("invoke-with-response-stream", None, INVOKE_STREAM),
        ("invoke-with-response-stream", None, NOVA_STREAM),
    ],
)
def test_what_a_client_asks_is_kept_byte_for_byte_whoever_signed_it(
    session: Session, server: OpenAIServer, method: str, body: Any, chunks: Any
) -> None:
    server.then(Scripted(body=body, chunks=chunks, headers=FRAMED if chunks else {}))
    place, replies, calls = Place(session), [], []
    for signature in ("a", "b"):
        headers = {"authorization": f"AWS4-HMAC-SHA256 Signature={SECRET}{signature}"}
        with place.trial() as trial:
            reply = post(httpx, f"{URL}/{method}", json=ASKED, headers=headers)
        replies.append((reply.content, reply.headers["content-type"]))
        calls += trial.calls

    assert replies[0] == replies[1]
    assert {call.model for call in calls} == {f"bedrock/{MODEL}"}
    assert [call.replayed for call in calls] == [False, True]
    if body != {"embedding": [0.5]}:
        assert (calls[0].usage.input_tokens, calls[0].usage.output_tokens) == (7, 2)
    assert len(server.requests) == 1


@pytest.mark.parametrize("chunks", [CONVERSE_STREAM, INVOKE_STREAM])
@pytest.mark.parametrize("lost", [1, 30])
def test_a_stream_that_was_cut_is_no_answer(chunks: list[bytes], lost: int) -> None:
    with pytest.raises(NoAnswer):
        read_stream(b"".join(chunks)[:-lost], VENDOR)


def test_a_stream_that_was_cut_between_its_events_is_no_answer() -> None:
    with pytest.raises(NoAnswer, match="not complete"):
        read_stream(b"".join(CONVERSE_STREAM[:-2]), VENDOR)


@pytest.mark.parametrize(
    "damaged",
    [
        CONVERSE_STREAM[0][:-1] + b"?",
        b"\0" * 16,
        b"\0" * 64,
        frame([1]),
        frame({})[:8] + frame({})[:12],
    ],
)
def test_a_damaged_stream_is_no_answer(damaged: bytes) -> None:
    with pytest.raises(NoAnswer):
        read_stream(damaged + CONVERSE_STREAM[-2], VENDOR)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (
            frame(
                {"message": "slow"}, message_type="exception", exception_type="throttlingException"
            ),
            429,
        ),
        (
            frame(
                {"message": "bad"}, message_type="exception", exception_type="validationException"
            ),
            400,
        ),
        (frame({}, message_type="error", error_code="InternalFailure", error_message="no"), 500),
    ],
)
def test_a_failure_in_a_stream_is_that_of_a_plain_request(event: bytes, status: int) -> None:
    with pytest.raises(NoAnswer) as failed:
        read_stream(CONVERSE_STREAM[0] + event, VENDOR)

    assert failed.value.status == status


@pytest.mark.parametrize(
    "body", [json.dumps(CONVERSED).encode(), b"".join(CONVERSE_STREAM), b"".join(INVOKE_STREAM)]
)
def test_a_transcript_has_what_was_said(body: bytes) -> None:
    reply = StoredReply(
        draw="d", sha256="", body=body, status=200, headers={}, facts={}, session="", created="",
        replayed=True, usage=usage_of({}),
    )  # fmt: skip

    assert [message.text for message in read_reply(reply, VENDOR)] == ["Lima"]


def test_a_reply_without_an_answer_is_none(session: Session, server: OpenAIServer) -> None:
    server.then(*[Scripted(body={"output": {}, "usage": {}})] * 3)
    with Place(session).trial() as trial:
        reply = post(httpx, f"{URL}/converse", json=ASKED)

    assert reply.status_code == 502
    assert [call.failure for call in trial.calls] == ["infrastructure"]


def test_llm_asks_by_converse(
    session: Session, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.origin)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", SECRET)
    server.then(Scripted(body=CONVERSED))
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Peru?"}]
    reply = session.model("bedrock/amazon.nova-lite-v1:0", CountingTrial(0)).chat(
        messages, temperature=0, max_tokens=9
    )

    (request,) = server.requests
    assert reply.text == "Lima"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 2)
    assert request.path == "/model/amazon.nova-lite-v1%3A0/converse"
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert request.json == {
        "messages": [{"role": "user", "content": [{"text": "Peru?"}]}],
        "system": [{"text": "Be short."}],
        "inferenceConfig": {"temperature": 0, "maxTokens": 9},
    }
