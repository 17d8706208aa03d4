"""Streams in evals: overlapped, replayed, and lost as other replies are."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.servers.openai_server import OpenAIServer, Received, Scripted, serving
from tests.servers.openai_streams import chat_stream

EVALS = """
import pytest
from pytest_llmeval import llm_eval

QUESTION = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}], "stream": True}

@llm_eval(repeats=3)
def test_blocking(openai_client):
    chunks = list(openai_client.chat.completions.create(**QUESTION))
    assert "reply" in [chunk.choices[0].delta.content for chunk in chunks]

@llm_eval(repeats=3)
async def test_awaiting(async_openai_client):
    stream = await async_openai_client.chat.completions.create(**QUESTION, n=1)
    assert "reply" in [chunk.choices[0].delta.content async for chunk in stream]
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    yield from serving(OpenAIServer(), monkeypatch)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(EVALS)
    return pytester.runpytest("-p", "no:cacheprovider", "-v", *arguments)


def test_streams_are_paid_for_once(pytester: pytest.Pytester, server: OpenAIServer) -> None:
    paid = run(pytester)
    replayed = run(pytester, "--llm-cache=replay")

    paid.stdout.fnmatch_lines(["*test_blocking 3/3 passed*", "*test_awaiting 3/3 passed*"])
    paid.stdout.fnmatch_lines(["*6 calls made, 0 replayed*"])
    replayed.stdout.fnmatch_lines(["*test_blocking 3/3 passed*", "*test_awaiting 3/3 passed*"])
    assert len(server.requests) == 6


def test_the_chunks_of_other_trials_come_in_meanwhile(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(3)

    class Meeting(OpenAIServer):
        def take(self, received: Received) -> Scripted:
            together.wait(300)  # broken, and no reply, unless all three trials ask at once
            return super().take(received)

    with Meeting() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        result = run(pytester, "-k", "blocking")

    result.stdout.fnmatch_lines(["*test_blocking 3/3 passed*"])


def test_a_trial_whose_stream_was_cut_each_time_is_errored(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    chunks = chat_stream("never seen", {"model": "gpt"})
    server.then(*[Scripted(chunks=chunks, drop="midway")] * 3)

    result = run(pytester, "-k", "blocking", "--llm-concurrency=1")
    again = run(pytester, "-k", "blocking")

    result.stdout.fnmatch_lines(["*test_blocking 2/2 passed*", "*1 errored*"])
    again.stdout.fnmatch_lines(["*test_blocking 3/3 passed*", "* 1 calls made, 2 replayed*"])
