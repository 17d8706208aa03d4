"""What sessions asked through every client, and were answered, can be read."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.project import Project
from tests.servers.anthropic_server import AnthropicServer
from tests.servers.ollama_server import OllamaServer
from tests.servers.openai_server import OpenAIServer

EVALS = """
from pytest_llmeval import llm_eval

ASKED = [{"role": "user", "content": "Capital of Peru?"}]


@llm_eval(repeats=2)
def test_chat(openai_client):
    openai_client.chat.completions.create(model="gpt", messages=ASKED)


@llm_eval(repeats=2)
def test_chat_stream(openai_client):
    list(openai_client.chat.completions.create(model="gpt", messages=ASKED, stream=True))


@llm_eval(repeats=2)
def test_responses_stream(openai_client):
    list(openai_client.responses.create(model="gpt", input="Capital of Peru?", stream=True))


@llm_eval(repeats=2)
def test_raw(openai_client):
    openai_client.chat.completions.with_raw_response.create(model="gpt", messages=ASKED).parse()


@llm_eval(repeats=2)
async def test_embeddings(async_openai_client):
    await async_openai_client.embeddings.create(model="gpt", input=["Peru", "Lima"])


@llm_eval(repeats=2)
def test_anthropic(anthropic_client):
    anthropic_client.messages.create(
        model="claude", max_tokens=9, system="Be brief.", messages=ASKED
    )


@llm_eval(repeats=2)
def test_ollama(ollama_client):
    ollama_client.chat(model="llama", messages=ASKED)


@llm_eval(repeats=2)
def test_own_question(llm):
    llm.ask("Capital of Peru?")
"""


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with OpenAIServer() as openai, AnthropicServer() as anthropic, OllamaServer() as ollama:
        monkeypatch.setenv("OPENAI_BASE_URL", openai.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", anthropic.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        monkeypatch.setenv("OLLAMA_HOST", ollama.url)
        yield


def read(project: Project, *arguments: str) -> list[str]:
    before = os.getcwd()  # noqa: PTH109
    os.chdir(project.path)
    try:
        result = CliRunner().invoke(main, arguments, env={"COLUMNS": "80", "PY_COLORS": "0"})
    finally:
        os.chdir(before)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


@pytest.mark.usefixtures("servers")
def test_requests_and_replies_of_every_client_can_be_read(project: Project) -> None:
    ini = "[pytest]\nllm_model = openai/gpt\n"
    project.write(test_evals=EVALS, pytest_ini=ini)
    project.commit()

    assert project.run().ret == 0

    for name in ("chat", "chat_stream", "responses_stream", "raw", "anthropic", "ollama"):
        lines = read(project, "show", "last", f"test_{name}")
        assert "  user      Capital of Peru?" in lines, name
        assert any(line.startswith("  reply") for line in lines), (name, lines)
    assert "  system    Be brief." in read(project, "show", "last", "test_anthropic")
    lines = read(project, "show", "last", "test_own_question")
    assert "  user      Capital of Peru?" in lines
    lines = read(project, "show", "last", "test_embeddings")
    assert {"  user      Peru", "  user      Lima"} <= set(lines)
    assert any("an embedding of " in line for line in lines)


def test_the_last_run_and_its_baseline_are_read_unless_others_are_named(project: Project) -> None:
    project.run()
    project.git("switch", "-qc", "branch")
    project.write(app='PROMPT = "Say yes to {case}. rate=0.1"\n')
    project.commit()
    project.run("--llm-baseline=main")

    lines = read(project, "diff")

    baseline, here = ([path.name for path in project.runs()][n].split(".")[0] for n in (0, 1))
    assert lines[1].startswith(f"baseline  run {baseline}  main@")
    assert lines[2].startswith(f"here      run {here}  branch@")
    assert "[-rate=0.8-] {+rate=0.1+}" in " ".join(lines)
    told = "the same words changed in all 19 other cases of test_says_yes that were checked"
    assert told in " ".join(" ".join(lines).split())
    assert {"reply A", "reply B"} == {line[:7] for line in lines if line.startswith("reply")}
    assert read(project, "diff", "main", "branch")[0] == lines[0]
