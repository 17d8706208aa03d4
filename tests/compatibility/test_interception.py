"""The real LangChain and pydantic-ai under interception: `make test-plugins`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.servers.anthropic_server import AnthropicServer
from tests.servers.openai_server import OpenAIServer

needs = {
    name: pytest.mark.skipif(
        find_spec(name) is None, reason="needs what make test-plugins installs"
    )
    for name in ("langchain_openai", "pydantic_ai")
}
PLAIN = ("-p", "no:cacheprovider", "-p", "no:randomly")

LANGCHAIN = """
import pytest
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pytest_llmeval import llm_eval

model = ChatOpenAI(model="gpt")


def invoke(): return model.invoke("Hello").content
def stream(): return "".join(chunk.content for chunk in model.stream("Hello"))
def batch(): return "".join(reply.content for reply in model.batch(["Hello", "Bye"]))
def embed():
    embeddings = OpenAIEmbeddings(model="embed", check_embedding_ctx_length=False)
    return "reply" if embeddings.embed_query("Hello") == [0.25, -0.5] else ""
async def ainvoke(): return (await model.ainvoke("Hello")).content
async def astream(): return "".join([chunk.content async for chunk in model.astream("Hello")])
async def abatch(): return "".join(r.content for r in await model.abatch(["Hello", "Bye"]))


@llm_eval(repeats=3, min_score=1, intercept=True)
@pytest.mark.parametrize("ask", [invoke, stream, batch, embed])
def test_blocking(ask):
    assert ask().startswith("reply")


@llm_eval(repeats=3, min_score=1, intercept=True)
@pytest.mark.parametrize("ask", [ainvoke, astream, abatch])
async def test_awaitable(ask):
    assert (await ask()).startswith("reply")
"""

PYDANTIC_AI = """
import pytest
from pydantic_ai import Agent
from pytest_llmeval import llm_eval

MODELS = ["openai-chat:gpt", "anthropic:claude"]


@llm_eval(repeats=3, min_score=1, intercept=True)
@pytest.mark.parametrize("model", MODELS)
def test_blocking(model):
    assert Agent(model).run_sync("Hello").output.startswith("reply")


@llm_eval(repeats=3, min_score=1, intercept=True)
@pytest.mark.parametrize("model", MODELS)
async def test_awaitable(model):
    assert (await Agent(model).run("Hello")).output.startswith("reply")
"""


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[OpenAIServer]]:
    with OpenAIServer() as one, AnthropicServer() as two:
        monkeypatch.setenv("OPENAI_BASE_URL", one.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", two.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        yield [one, two]


@pytest.mark.parametrize(
    ("evals", "cases"),
    [
        pytest.param(LANGCHAIN, 7, marks=needs["langchain_openai"], id="langchain"),
        pytest.param(PYDANTIC_AI, 4, marks=needs["pydantic_ai"], id="pydantic-ai"),
    ],
)
def test_what_a_framework_asks_is_paid_once_and_replayed(
    pytester: pytest.Pytester, servers: list[OpenAIServer], evals: str, cases: int
) -> None:
    pytester.makepyfile(evals)
    pytester.runpytest_subprocess(*PLAIN, timeout=300).assert_outcomes(passed=cases)
    paid = sum(len(server.requests) for server in servers)
    result = pytester.runpytest_subprocess(*PLAIN, "--llm-cache=replay", timeout=300)

    result.assert_outcomes(passed=cases)
    result.stdout.fnmatch_lines(["*0 calls made, *"])
    assert sum(len(server.requests) for server in servers) == paid > 0
