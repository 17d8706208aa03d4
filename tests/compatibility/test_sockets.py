"""Beside pytest-socket: replays need no socket, and what it blocks is no miss."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.skipif(
    find_spec("pytest_socket") is None, reason="needs what make test-plugins installs"
)
OPTIONS = ("-p", "pytest_llmeval.plugin", "-p", "pytest_socket", "-p", "no:cacheprovider")

EVALS = """
import os
import urllib.request

import openai
import pytest
from pytest_llmeval import llm_eval

ASKED = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}


@llm_eval(repeats=3)
def test_model(llm):
    llm.ask("Hello")


@llm_eval(repeats=3)
async def test_awaiting(async_llm):
    await async_llm.ask("Hello again")


@llm_eval(repeats=3, intercept=True)
async def test_application():
    openai.OpenAI().chat.completions.create(**ASKED)
    async with openai.AsyncOpenAI() as client:
        await client.chat.completions.create(**ASKED)
"""
TOOLS = """
import os
import urllib.request

import pytest
from pytest_llmeval import llm_eval


def get():
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(os.environ["OPENAI_BASE_URL"] + "/models").status


@llm_eval(repeats=3)
def test_blocked(llm):
    llm.ask("Is it there?")
    assert get() == 200


@pytest.mark.enable_socket
@llm_eval(repeats=3, min_score=1)
def test_enabled(llm):
    llm.ask("Is it there?")
    assert get() == 200


@llm_eval(repeats=3)
def test_blocked_again(llm):
    llm.ask("Is it there?")
    get()


def test_ordinary():
    get()
"""


@pytest.fixture
def server(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    pytester.makeini("[pytest]\nllm_model = openai/gpt")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield server


def test_replays_need_no_socket(pytester: pytest.Pytester, server: OpenAIServer) -> None:
    pytester.makepyfile(EVALS)
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=3)
    paid = len(server.requests)

    result = pytester.runpytest_subprocess(*OPTIONS, "-W", "error", "--disable-socket")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*0 calls made, 12 replayed*"])
    assert len(server.requests) == paid


@pytest.mark.parametrize("arguments", [(), ("-p", "xdist", "-n2")], ids=["alone", "workers"])
def test_a_blocked_connection_is_an_errored_trial(
    pytester: pytest.Pytester, server: OpenAIServer, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(TOOLS)
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=4)
    options = (*OPTIONS, *arguments, "--disable-socket", "--llm-report=report.json")

    result = pytester.runpytest_subprocess(*options)

    result.assert_outcomes(passed=1, errors=2, failed=1)
    report = json.loads((pytester.path / "report.json").read_text())
    errored = {
        one["function"].rpartition("::")[2]: one["trials"]["errored"] for one in report["functions"]
    }
    assert errored == {"test_blocked": 3, "test_enabled": 0, "test_blocked_again": 3}


def test_hosts_that_are_allowed_can_be_asked_while_trials_overlap(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    pytester.makepyfile(EVALS + TOOLS)
    other = server.url.replace("127.0.0.1", "127.0.0.2")
    pytester.makepyfile(
        test_other=f"""
        import socket
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=3)
        def test_other(llm):
            llm.ask("Hello")
            socket.create_connection({("127.0.0.2", urllib.parse.urlsplit(other).port)})
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS, "--allow-hosts=127.0.0.1")

    result.assert_outcomes(passed=7, errors=1)
    result.stdout.no_fnmatch_line("*ran serially*")
    result.stdout.fnmatch_lines(["*SocketConnectBlockedError*"])
