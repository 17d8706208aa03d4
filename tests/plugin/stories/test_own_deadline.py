"""An application that waits no longer: its deadline is its own, wherever it is asserted."""

from __future__ import annotations

import pytest

from pytest_llmeval.runs.run_file import read_run
from tests.project import Project
from tests.servers.openai_server import OpenAIServer, Scripted

# It answers the first question of a trial, and never another one.
MODEL = """
import asyncio, threading

NEVER = threading.Event()

async def answer(messages):
    if messages[-1]["content"] == "late":
        await asyncio.Event().wait()
    return "yes"

def blocks(messages):
    NEVER.wait(5)
    return "yes"
"""
pytestmark = pytest.mark.usefixtures("sdks")
INI = "[pytest]\nllm_model = function/model:answer\npythonpath = .\n"
EVALS = """
import asyncio, concurrent.futures, pytest
from pytest_llmeval import llm_eval, waiting

@llm_eval(repeats=2)
async def test_not_caught(async_llm):
    async with asyncio.timeout(0.05):
        await async_llm.ask("late")

@llm_eval(repeats=2)
async def test_asserted_where_it_is_caught(async_llm):
    await async_llm.ask("first")
    try:
        await asyncio.wait_for(async_llm.ask("late"), 0.05)
    except TimeoutError:
        assert False

@llm_eval(repeats=2)
async def test_asserted_afterwards(async_llm):
    late = False
    try:
        await asyncio.wait_for(async_llm.ask("late"), 0.05)
    except TimeoutError:
        late = True
    assert not late

@llm_eval(repeats=2)
async def test_scored_afterwards(async_llm, llm_score):
    try:
        await asyncio.wait_for(async_llm.ask("late"), 0.05)
    except TimeoutError:
        llm_score(0)

@llm_eval(repeats=2)
def test_from_a_thread(llm):
    pool = concurrent.futures.ThreadPoolExecutor()
    asked = pool.submit(llm.ask, "x", model="function/model:blocks")
    pool.shutdown(wait=False)
    waiting(asked.result, 0.05)
"""


def outcomes(project: Project) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for trial in read_run(project.runs()[-1]).trials:
        found.setdefault(trial.case.partition("::")[2], []).append(trial.outcome)
    return found


def test_the_deadline_of_an_application_is_its_own_wherever_the_assert_stands(
    project: Project,
) -> None:
    project.write(test_evals=EVALS, model=MODEL, pytest_ini=INI)

    project.pytester.runpytest_subprocess("-p", "no:cacheprovider")

    assert outcomes(project) == {
        "test_not_caught": ["crashed"] * 2,
        "test_asserted_where_it_is_caught": ["missed"] * 2,
        "test_asserted_afterwards": ["missed"] * 2,
        "test_scored_afterwards": ["passed"] * 2,
        "test_from_a_thread": ["crashed"] * 2,
    }


CLIENTS = """
import asyncio, openai, pytest
from pytest_llmeval import llm_eval

ASKED = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}

@llm_eval(repeats=1, intercept=True)
def test_client():
    with openai.OpenAI(timeout=0.3, max_retries=0) as client:
        client.chat.completions.create(**ASKED)

@llm_eval(repeats=1, intercept=True)
def test_caught():
    try:
        with openai.OpenAI(timeout=0.3, max_retries=0) as client:
            client.chat.completions.create(**ASKED)
    except openai.APITimeoutError:
        assert False

@llm_eval(repeats=1)
def test_fixture(openai_client):
    openai_client.with_options(timeout=0.3, max_retries=0).chat.completions.create(**ASKED)

@llm_eval(repeats=1, intercept=True)
async def test_awaits():
    async with openai.AsyncOpenAI(timeout=0.3, max_retries=0) as client:
        await client.chat.completions.create(**ASKED)

@llm_eval(repeats=1, intercept=True)
async def test_cancels():
    async with openai.AsyncOpenAI(max_retries=0) as client:
        async with asyncio.timeout(0.3):
            await client.chat.completions.create(**ASKED)
"""
LATE = Scripted(delay=0.9)


def run_clients(
    project: Project, monkeypatch: pytest.MonkeyPatch, *script: Scripted, seconds: float = 0.3
) -> None:
    evals = CLIENTS.replace("timeout=0.3", f"timeout={seconds}")
    evals = evals.replace("timeout(0.3)", f"timeout({seconds})")
    project.write(test_evals=evals, pytest_ini="[pytest]\n")
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        server.then(*script)
        project.pytester.runpytest_subprocess("-p", "no:cacheprovider", "--llm-concurrency=1")


def test_so_is_the_timeout_that_it_gives_its_client(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_clients(project, monkeypatch, *[LATE] * 5)

    assert outcomes(project) == {
        "test_client": ["crashed"],
        "test_caught": ["missed"],
        "test_fixture": ["crashed"],
        "test_awaits": ["crashed"],
        "test_cancels": ["crashed"],
    }


def test_a_provider_that_failed_before_is_no_result_of_the_application(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    # it fails until the application gives up: whatever a slow machine has sent by then
    run_clients(project, monkeypatch, *[Scripted(status=500)] * 99, seconds=1.5)

    assert {str(one) for ended in outcomes(project).values() for one in ended} == {"errored"}


def test_nor_is_one_that_wants_fewer_calls(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower = Scripted(status=429, headers={"retry-after": "1"})
    run_clients(project, monkeypatch, *[slower, LATE] * 5)

    assert outcomes(project)["test_cancels"] == ["errored"]


def test_a_timeout_of_ours_is_no_result(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    evals = CLIENTS.replace("timeout=0.3", "timeout=9").replace("timeout(0.3)", "timeout(9)")
    monkeypatch.setattr("tests.plugin.stories.test_own_deadline.CLIENTS", evals)
    project.write(test_evals=evals, pytest_ini="[pytest]\nllm_timeout = 0.3\n")
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        server.then(*[LATE] * 5)
        project.pytester.runpytest_subprocess("-p", "no:cacheprovider", "--llm-concurrency=1")

    assert {str(one) for ended in outcomes(project).values() for one in ended} == {"errored"}
