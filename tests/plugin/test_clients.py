"""The vendors' clients as fixtures, in a session of their own."""

from __future__ import annotations

import gzip

import pytest

from tests.servers.anthropic_server import AnthropicServer
from tests.servers.ollama_server import OllamaServer

SECRET = "sk-test-8a2c1f"  # noqa: S105 - the test greps for it

EVALS = """
from pytest_llmeval import llm_eval

MESSAGES = [{"role": "user", "content": "Hello"}]


@llm_eval(repeats=2, min_score=1)
def test_blocking(anthropic_client, ollama_client, llm):
    message = anthropic_client.messages.create(model="claude", max_tokens=9, messages=MESSAGES)
    reply = ollama_client.chat("llama", messages=MESSAGES)
    assert message.content[0].text.startswith("reply")
    assert reply.message.content.startswith("reply")
    assert llm.ask("Hello", model="ollama/llama").text.startswith("reply")


@llm_eval(repeats=2, min_score=1)
async def test_awaitable(async_anthropic_client, async_ollama_client, async_llm):
    message = await async_anthropic_client.messages.create(
        model="claude", max_tokens=99, messages=MESSAGES
    )
    reply = await async_ollama_client.generate("llama", "Hello")
    assert message.content[0].text.startswith("reply")
    assert reply.response.startswith("reply")
    assert (await async_llm.ask("Bye")).text.startswith("reply")
"""


@pytest.mark.usefixtures("sdks")
def test_the_clients_of_the_vendors_are_paid_once_and_replayed_without_a_key(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(EVALS)
    options = ("-p", "no:cacheprovider", "-W", "error", "--llm-model=anthropic/claude")
    with AnthropicServer() as anthropic, OllamaServer() as ollama:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", anthropic.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
        monkeypatch.setenv("OLLAMA_HOST", ollama.url)
        monkeypatch.setenv("OLLAMA_API_KEY", SECRET)
        pytester.runpytest_subprocess(*options).assert_outcomes(passed=2)
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        result = pytester.runpytest_subprocess(*options, "--llm-cache=replay")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*0 calls made, 12 replayed*"])
    assert (len(anthropic.requests), len(ollama.requests)) == (6, 6)
    kept = [path for path in (pytester.path / ".llmeval").rglob("*") if path.is_file()]
    contents = [
        gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in kept
    ]
    assert any(path.suffix == ".gz" for path in kept)
    assert not any(SECRET.encode() in content for content in contents)
