"""The real google-genai under interception: `make test-clients`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.servers.gemini_server import GeminiServer

pytestmark = pytest.mark.skipif(
    find_spec("google") is None or find_spec("google.genai") is None,
    reason="needs what make test-clients installs",
)
PLAIN = ("-p", "no:cacheprovider", "-p", "no:randomly")
KEY = "AIza-test-8c2e"

EVALS = """
import pytest
from google import genai
from google.genai import types
from pydantic import BaseModel
from pytest_llmeval import llm_eval

client = genai.Client()
MODEL = "gemini-2.5-flash"


class Capital(BaseModel):
    city: str


def locate(city: str) -> str:
    '''Locates a city.'''
    return city


def config(**options):
    return types.GenerateContentConfig(temperature=0, system_instruction="Be brief.", **options)


def ask(**options):
    return client.models.generate_content(model=MODEL, contents="Hello", **options)


def plain(): return ask(config=config()).text
def chat(): return client.chats.create(model=MODEL).send_message("Hello").text
def tools():
    off = types.AutomaticFunctionCallingConfig(disable=True)
    (call,) = ask(config=config(tools=[locate], automatic_function_calling=off)).function_calls
    return f"reply {call.args['city']}"
def structured():
    form = {"response_mime_type": "application/json", "response_schema": Capital}
    return f"reply {ask(config=config(**form)).parsed.city}"
def stream():
    chunks = client.models.generate_content_stream(model=MODEL, contents="Hello")
    return "".join(chunk.text or "" for chunk in chunks)
def embed():
    reply = client.models.embed_content(model="gemini-embedding-001", contents=["Hello", "Bye"])
    return "reply" if [e.values for e in reply.embeddings] == [[0.25, -0.5]] * 2 else ""


@llm_eval(repeats=3, min_score=1, intercept=True)
@pytest.mark.parametrize("ask", [plain, chat, tools, structured, stream, embed])
def test_blocking(ask):
    assert ask().startswith("reply")


async def aplain():
    return (await client.aio.models.generate_content(model=MODEL, contents="Ciao")).text
async def astream():
    stream = await client.aio.models.generate_content_stream(model=MODEL, contents="Bye")
    return "".join([chunk.text or "" async for chunk in stream])


@llm_eval(repeats=3, min_score=1, intercept=True)
@pytest.mark.parametrize("ask", [aplain, astream])
async def test_awaitable(ask):
    assert (await ask()).startswith("reply")
"""

# Without aiohttp it sends by httpx.
ROAD = """
from google.genai import _api_client
assert _api_client.has_aiohttp
_api_client.has_aiohttp = {}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiServer]:
    with GeminiServer() as running:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", running.url)
        monkeypatch.setenv("GEMINI_API_KEY", KEY)
        yield running


@pytest.mark.parametrize("has_aiohttp", [True, False])
def test_what_it_asks_is_paid_once_and_replayed(
    pytester: pytest.Pytester, server: GeminiServer, has_aiohttp: bool
) -> None:
    pytester.makepyfile(f"{EVALS}\n{ROAD.format(has_aiohttp)}")
    pytester.runpytest_subprocess(*PLAIN, timeout=300).assert_outcomes(passed=8)
    paid = len(server.requests)
    result = pytester.runpytest_subprocess(*PLAIN, "--llm-cache=replay", timeout=300)

    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["*0 calls made, 24 replayed*"])
    assert len(server.requests) == paid == 24
    assert {request.headers["x-goog-api-key"] for request in server.requests} == {KEY}


def test_under_replay_it_sends_nothing(pytester: pytest.Pytester, server: GeminiServer) -> None:
    pytester.makepyfile(EVALS)
    result = pytester.runpytest_subprocess(
        *PLAIN, "--llm-cache=replay", "-k", "plain or stream", timeout=300
    )

    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(["*ReplayMiss: no reply is stored for call 0/0*"])
    assert not server.requests
