"""Connections that trials open past the cache: named, and refused in a replay of vendors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.anthropic_server import AnthropicServer
from tests.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.usefixtures("sdks")
OPTIONS = ("-p", "no:cacheprovider", "-W", "error")

# Names of the network that the machine need not know.
CONFTEST = """
import _socket as socket

plain = socket.getaddrinfo

def getaddrinfo(host, *args, **kwargs):
    is_ours = host.endswith((".example.com", ".openai.com"))
    return plain("127.0.0.1" if is_ours else host, *args, **kwargs)

socket.getaddrinfo = getaddrinfo
"""

# What a reporter, say, does around the trials.
HOOK = """
def pytest_runtest_logstart():
    import app
    app.get("reports.example.com")
"""

APP = """
import asyncio
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

PORT = urlsplit(os.environ["OPENAI_BASE_URL"]).port
REQUEST = b"GET /v1/models HTTP/1.0\\r\\nAuthorization: Bearer sk-test\\r\\n\\r\\n"
CREATED = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}


def get(host="api.example.com", port=PORT):
    return build_opener(ProxyHandler({})).open(f"http://{host}:{port}/v1/models").status


def in_thread(host="api.example.com"):
    thread = threading.Thread(target=get, args=[host])
    thread.start()
    thread.join()


def in_pool(host="api.example.com"):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(get, host).result()


async def await_get(host="api.example.com"):
    reader, writer = await asyncio.open_connection(host, PORT)
    writer.write(REQUEST)
    assert b" 200 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def await_aiohttp(host="api.example.com"):
    import aiohttp

    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://{host}:{PORT}/v1/models") as reply:
            assert reply.status == 200


def by_number():
    with socket.create_connection(("127.0.0.1", PORT)) as opened:
        opened.sendall(REQUEST)
        assert b" 200 " in opened.recv(99)


def not_to_the_network():
    for family, kind in [(socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX, socket.SOCK_STREAM)]:
        with socket.socket(family, kind) as opened:
            opened.connect_ex(("127.0.0.1", 9) if family == socket.AF_INET else "nothing.socket")
"""

EVALS = """
import asyncio
import app
from pytest_llmeval import llm_eval


@llm_eval(repeats=3)
def test_x(): assert app.get() == 200


@llm_eval(repeats=2)
async def test_awaiting(): await asyncio.gather(app.await_get(), app.await_aiohttp())


@llm_eval(repeats=1)
def test_threads():
    app.in_thread()
    app.in_pool()
    asyncio.run(app.await_get("eu.example.com"))


@llm_eval(repeats=1)
def test_by_number():
    app.by_number()
    app.not_to_the_network()


def test_ordinary(): app.get("ordinary.example.com")
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as server, AnthropicServer() as other:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", other.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        yield server


def port_of(server: OpenAIServer) -> str:
    return server.url.rpartition(":")[2].partition("/")[0]


def connections(pytester: pytest.Pytester) -> dict[tuple[str, str], int]:
    """How many the JSON report of the last session has, by host without port and function."""
    report: dict[str, Any] = json.loads((pytester.path / "report.json").read_text())
    return {
        (one["host"].partition(":")[0], one["function"].rpartition("::")[2]): one["count"]
        for one in report["connections"]
    }


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "workers"])
def test_connections_past_the_cache_are_counted_and_named(
    pytester: pytest.Pytester, server: OpenAIServer, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(conftest=CONFTEST + HOOK, app=APP, test_evals=EVALS)

    result = pytester.runpytest_subprocess(*OPTIONS, *arguments, "--llm-report=report.json")

    result.assert_outcomes(passed=5)
    port = port_of(server)
    result.stdout.fnmatch_lines(
        [
            f"note: 9 connections to api.example.com:{port} that the cache did not see "
            "(test_awaiting, test_threads, test_x)",
            f"note: 1 connection to 127.0.0.1:{port} that the cache did not see (test_by_number)",
            f"note: 1 connection to eu.example.com:{port} that the cache did not see "
            "(test_threads)",
        ]
    )
    lines = [line for line in result.outlines if line.startswith(("note: ", "4 cases"))]
    silent = "4 cases made no call that the cache saw (test_x, test_awaiting, test_threads, "
    assert [line for line in lines if silent in line]
    assert [line for line in lines if "0 calls made, 0 replayed · 11 connections not seen" in line]
    assert lines[1].startswith("note: if a model is at api.example.com:")  # by aiohttp
    assert lines[2].startswith("note: the cache does not see calls by socket, asyncio, urllib (")
    assert connections(pytester) == {
        ("api.example.com", "test_x"): 3,
        ("api.example.com", "test_awaiting"): 4,
        ("api.example.com", "test_threads"): 2,
        ("eu.example.com", "test_threads"): 1,
        ("127.0.0.1", "test_by_number"): 1,
    }


SEEN = """
import aiohttp
import app
import anthropic
import httpx
import openai
import pytest
from pytest_llmeval import llm_eval


@llm_eval(repeats=2)
def test_our_clients(llm, openai_client):
    llm.ask("Hello", model="openai/gpt")
    llm.ask("Hello", model="function/app:get_answer")
    openai_client.chat.completions.create(**app.CREATED)
    openai_client.models.list()


@llm_eval(repeats=2)
async def test_our_awaitable_clients(async_llm, async_openai_client):
    await async_llm.ask("Hello", model="openai/gpt")
    await async_openai_client.chat.completions.create(**app.CREATED)
    await async_openai_client.models.list()


@llm_eval(repeats=2, intercept=True)
def test_clients_of_the_application():
    openai.OpenAI().chat.completions.create(**app.CREATED)
    url = str(openai.OpenAI().base_url) + "chat/completions"
    assert httpx.post(url, json=app.CREATED).status_code == 200


@llm_eval(repeats=2, intercept=True)
async def test_awaitable_clients_of_the_application():
    async with openai.AsyncOpenAI() as client, anthropic.AsyncAnthropic() as other:
        url = str(client.base_url) + "chat/completions"
        await client.chat.completions.create(**app.CREATED)
        await other.messages.create(**app.CREATED, max_tokens=9)
    async with aiohttp.ClientSession() as session, session.post(url, json=app.CREATED) as reply:
        assert reply.status == 200
"""


def test_what_the_cache_sees_is_not_counted(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    model = """
    def get_answer(messages, *, draw, **params): return str(get())
    """
    pytester.makepyfile(conftest=CONFTEST, app=APP, test_seen=SEEN)
    with (pytester.path / "app.py").open("a") as file:
        file.write("\n" + model.strip())

    result = pytester.runpytest_subprocess(*OPTIONS, "--llm-report=report.json")

    result.assert_outcomes(passed=4)
    result.stdout.no_fnmatch_line("*did not see*")
    assert connections(pytester) == {}


REPLAYED = """
import app
import openai
from pytest_llmeval import llm_eval


@llm_eval(repeats=2)
def test_past_the_cache(): app.get("api.openai.com")


@llm_eval(repeats=2, intercept=False)
def test_unmarked(): openai.OpenAI(max_retries=0).chat.completions.create(**app.CREATED)


@llm_eval(repeats=2, intercept=True)
def test_of_the_ini_file(): app.get("gateway.example.com")


@llm_eval(repeats=2, intercept=True)
async def test_awaiting(): await app.await_get("gateway.example.com")


@llm_eval(repeats=2, intercept=True)
async def test_aiohttp(): await app.await_aiohttp("gateway.example.com")


@llm_eval(repeats=2)
def test_swallowing():
    try:
        app.get("gateway.example.com")
    except Exception:
        pass


@llm_eval(repeats=2)
def test_other_hosts(): app.get("tools.example.com", {port})


@llm_eval(repeats=2)
def test_this_machine(llm):
    assert llm.ask("Hello", model="openai/gpt").text
    app.get("localhost", {port})


@llm_eval(repeats=2)
def test_getting_over(llm):
    try:
        app.get("gateway.example.com")
    except Exception:
        pass  # an estimate will do
    assert llm.ask("Hello", model="openai/gpt").text


@llm_eval(repeats=2)
def test_missing(llm):
    try:
        app.get("gateway.example.com")
    except Exception:
        pass
    assert not llm.ask("Hello", model="openai/gpt").text


@llm_eval(repeats=2)
def test_not_getting_over(llm):
    assert llm.ask("Hello", model="openai/gpt").text
    try:
        app.get("gateway.example.com")
    except Exception:
        assert False


@llm_eval(repeats=2)
def test_asking_nothing(): pass


@llm_eval(repeats=2, intercept=False)
def test_said_to_ask_nothing(): pass
"""


def test_in_a_replay_nothing_is_let_out(pytester: pytest.Pytester, server: OpenAIServer) -> None:
    pytester.makeini("[pytest]\nllm_intercept_hosts = gateway.example.com")
    with OpenAIServer() as tools:
        evals = REPLAYED.replace("{port}", port_of(tools))
        pytester.makepyfile(conftest=CONFTEST, app=APP, test_evals=evals)
        pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=13)
        sent = len(server.requests)

        result = pytester.runpytest_subprocess(*OPTIONS, "--llm-cache=replay")
        allowing = (*OPTIONS, "--llm-cache=replay", "-o", "llm_replay_allow=tools.*:*")
        allowed = pytester.runpytest_subprocess(*allowing, "-k", "other_hosts")

    result.assert_outcomes(passed=4, errors=9)
    # localhost in both sessions, and the tool in the first and where it was allowed
    assert (len(server.requests), len(tools.requests)) == (sent, 2 + 2 + 2 + 2)
    port = port_of(server)
    refused = "*ReplayMiss: a connection to {} was refused: the cache does not see*"
    for host in ("api.openai.com", "127.0.0.1", "gateway.example.com"):
        result.stdout.fnmatch_lines([refused.format(f"{host}:{port}")])
    result.stdout.fnmatch_lines(["*@llm_eval(intercept=True)*pytest --llm-cache=auto"])
    result.stdout.fnmatch_lines(
        ["*to tools.example.com:*llm_intercept_hosts = tools.*llm_replay_allow = tools.*"]
    )
    result.stdout.fnmatch_lines(["*replay replayed nothing: no call of this eval was seen*"])
    # asked by nobody who was seen: the call was let out, and proves nothing
    allowed.assert_outcomes(errors=1)
    allowed.stdout.fnmatch_lines(["*replay replayed nothing: no call of this eval was seen*"])


def test_a_trial_that_got_over_a_refused_connection_stays_scored(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    pytester.makeini("[pytest]\nllm_intercept_hosts = gateway.example.com")
    pytester.makepyfile(conftest=CONFTEST, app=APP, test_evals=REPLAYED.replace("{port}", "1"))
    of_models = ("-k", "getting_over or missing", "--llm-report=report.json")
    pytester.runpytest_subprocess(*OPTIONS, *of_models)

    pytester.runpytest_subprocess(*OPTIONS, *of_models, "--llm-cache=replay")

    report = json.loads((pytester.path / "report.json").read_text())
    trials = {one["function"].rpartition("::")[2]: one["trials"] for one in report["functions"]}
    assert {name: (of["scored"], of["missed"], of["errored"]) for name, of in trials.items()} == {
        "test_getting_over": (2, 0, 0),
        "test_missing": (2, 2, 0),
        "test_not_getting_over": (0, 0, 2),
    }


COUNTS = """
import openai
from pytest_llmeval import llm_eval


def counted(client):
    try:
        return len(list(client.models.list()))
    except Exception:
        return 0  # an estimate will do


@llm_eval(repeats=2)
def test_application():
    client = openai.OpenAI(max_retries=0)
    counted(client)
    asked = [{"role": "user", "content": "Hello"}]
    assert client.chat.completions.create(model="gpt", messages=asked).choices


@llm_eval(repeats=2)
def test_our_client(openai_client, llm):
    counted(openai_client)
    assert llm.ask("Hello", model="openai/gpt").text
"""


def test_what_an_sdk_asks_besides_is_got_over_in_a_replay(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    pytester.makepyfile(test_evals=COUNTS)
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=2)
    sent = len(server.requests)

    pytester.runpytest_subprocess(*OPTIONS, "--llm-cache=replay").assert_outcomes(passed=2)

    assert len(server.requests) == sent
