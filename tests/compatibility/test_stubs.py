"""Stubs of a vendor's replies under interception: honoured, and never kept as draws."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("respx", "pytest_httpx"))),
    reason="needs what make test-plugins installs",
)
OPTIONS = ("-p", "pytest_llmeval.plugin", "-p", "no:cacheprovider", "-W", "error")

APP = """
import os

import httpx

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
ASKED = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}
STUB = {"choices": [{"message": {"role": "assistant", "content": "stub"}, "finish_reason": "stop"}]}


def text_of(reply):
    return reply.raise_for_status().json()["choices"][0]["message"]["content"]


def post():
    return httpx.post(URL, json=ASKED, trust_env=False)


def ask():
    return text_of(post())


async def ask_async():
    async with httpx.AsyncClient(trust_env=False) as client:
        return text_of(await client.post(URL, json=ASKED))
"""
RESPX = """
import app
import httpx
import respx
from pytest_llmeval import llm_eval


@llm_eval(repeats=3, min_score=1, intercept=True)
@respx.mock
async def test_stub():
    respx.post(app.URL).respond(json=app.STUB)
    assert await app.ask_async() == app.ask() == "stub"


@llm_eval(repeats=3, min_score=1, intercept=True)
async def test_awaited_stub(respx_mock):
    respx_mock.post(app.URL).respond(json=app.STUB)
    assert await app.ask_async() == "stub"


@llm_eval(repeats=3, min_score=1, intercept=True)
def test_stub_of_the_client():
    with respx.mock(using="httpx") as router:
        router.post(app.URL).respond(json=app.STUB)
        assert app.ask() == "stub"


@llm_eval(repeats=3, min_score=1, intercept=True)
def test_stub_that_fails_or_is_no_answer(respx_mock):
    respx_mock.post(app.URL).mock(side_effect=[httpx.Response(500), httpx.Response(200, json={})])
    assert app.post().status_code == 500
    assert app.post().json() == {}


@llm_eval(repeats=3, min_score=1, intercept=True)
async def test_asked():
    assert app.ask().startswith("reply")
    assert (await app.ask_async()).startswith("reply")
"""
# The stub of a conftest, beside evals that stub nothing.
FIXTURES = """
import app
import pytest
import respx


@pytest.fixture
def stub():
    with respx.mock:
        respx.post(app.URL).respond(json=app.STUB)
        yield
"""
WITH_FIXTURES = """
import app
import pytest
from pytest_llmeval import llm_eval


@llm_eval(repeats=3, min_score=1, intercept=True)
async def test_asked():
    assert app.ask().startswith("reply")
    assert (await app.ask_async()).startswith("reply")


@pytest.mark.usefixtures("stub")
@llm_eval(repeats=3, min_score=1, intercept=True)
async def test_stub():
    assert await app.ask_async() == app.ask() == "stub"
"""
PYTEST_HTTPX = """
import app
import pytest
from pytest_llmeval import llm_eval


@llm_eval(repeats=3, min_score=1, intercept=True)
def test_stub(httpx_mock):
    httpx_mock.add_response(url=app.URL, json=app.STUB)
    assert app.ask() == "stub"


@llm_eval(repeats=3, min_score=1, intercept=True)
async def test_awaited_stub(httpx_mock):
    httpx_mock.add_response(url=app.URL, json=app.STUB)
    assert await app.ask_async() == "stub"


@llm_eval(repeats=3, min_score=1, intercept=True)
def test_stub_that_fails_or_is_no_answer(httpx_mock):
    httpx_mock.add_response(status_code=500)
    httpx_mock.add_response(json={})
    with pytest.raises(app.httpx.HTTPStatusError):
        app.ask()
    with pytest.raises(KeyError):
        app.ask()


@pytest.mark.httpx_mock(should_mock=lambda request: False)
@llm_eval(repeats=3, min_score=1, intercept=True)
async def test_asked(httpx_mock):
    assert app.ask().startswith("reply")
    assert (await app.ask_async()).startswith("reply")
"""


@pytest.fixture
def server(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


@pytest.mark.parametrize(
    ("plugin", "evals", "cases"),
    [
        ("respx.plugin", RESPX, 5),
        ("respx.plugin", WITH_FIXTURES, 2),
        ("pytest_httpx", PYTEST_HTTPX, 4),
    ],
    ids=["respx", "respx in a fixture", "pytest-httpx"],
)
def test_a_stub_is_honoured_and_never_kept(
    pytester: pytest.Pytester, server: OpenAIServer, plugin: str, evals: str, cases: int
) -> None:
    pytester.makepyfile(app=APP, test_evals=evals)
    if evals == WITH_FIXTURES:
        pytester.makeconftest(FIXTURES)

    for made, replayed in ((6, 0), (0, 6)):
        options = () if made else ("--llm-cache=replay",)
        result = pytester.runpytest_subprocess(*OPTIONS, "-p", plugin, *options)

        result.assert_outcomes(passed=cases)
        result.stdout.fnmatch_lines([f"*{made} calls made, {replayed} replayed*"])
    assert len(server.requests) == 6
