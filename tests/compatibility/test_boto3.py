"""boto3 under interception: Converse, a model's own language, and a stream of events."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.servers.bedrock_server import CONVERSE_STREAM, CONVERSED, FRAMED, INVOKED
from tests.servers.openai_server import OpenAIServer, Scripted

pytestmark = pytest.mark.skipif(
    find_spec("boto3") is None, reason="needs what make test-plugins installs"
)
OPTIONS = ("-p", "no:cacheprovider")
EVALS = """
import json

import boto3
from pytest_llmeval import llm_eval

ASKED = [{"role": "user", "content": [{"text": "Peru?"}]}]
client = boto3.client("bedrock-runtime")


@llm_eval(repeats=1)
def test_converse():
    reply = client.converse(modelId="m:0", messages=ASKED)
    assert reply["output"]["message"]["content"][0]["text"] == "Lima"


@llm_eval(repeats=1)
def test_converse_stream():
    events = list(client.converse_stream(modelId="m:0", messages=ASKED)["stream"])
    deltas = [event.get("contentBlockDelta", {}).get("delta", {}) for event in events]
    assert [delta["text"] for delta in deltas if delta] == ["Li", "ma"]


@llm_eval(repeats=1)
def test_invoke():
    reply = client.invoke_model(modelId="m:0", body=json.dumps({"max_tokens": 9, "messages": []}))
    assert json.loads(reply["body"].read())["content"][0]["text"] == "Lima"
"""


class Bedrock(OpenAIServer):
    """Answers by the end of the path."""

    def take(self, received: Any) -> Scripted:
        self.requests.append(received)
        if received.path.endswith("-stream"):
            return Scripted(chunks=CONVERSE_STREAM, headers=FRAMED)
        return Scripted(body=CONVERSED if received.path.endswith("converse") else INVOKED)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with Bedrock() as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", running.origin)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield running


def test_what_boto3_asks_is_kept_and_replayed(pytester: pytest.Pytester, server: Bedrock) -> None:
    pytester.makepyfile(test_evals=EVALS)
    first = pytester.runpytest_subprocess(*OPTIONS)
    second = pytester.runpytest_subprocess(*OPTIONS, "--llm-cache=replay")

    first.stdout.fnmatch_lines(["*bedrock/m:0 · 3 calls made, 0 replayed*"])
    second.stdout.fnmatch_lines(["*bedrock/m:0 · 0 calls made, 3 replayed*"])
    assert (first.ret, second.ret) == (0, 0)
    assert len(server.requests) == 3


def test_under_replay_nothing_is_sent(pytester: pytest.Pytester, server: Bedrock) -> None:
    pytester.makepyfile(test_evals=EVALS)

    result = pytester.runpytest_subprocess(*OPTIONS, "--llm-cache=replay")

    result.stdout.fnmatch_lines(["*no reply is stored for call 0/0*"])
    assert server.requests == []
