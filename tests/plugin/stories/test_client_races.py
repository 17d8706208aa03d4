"""Races of clients that the application builds, and their own timeouts: as they were recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_llmeval.runs.run_file import read_run
from tests.project import Project
from tests.servers.openai_server import NEVER, OpenAIServer, Scripted

EVALS = """
import asyncio
from concurrent.futures import ThreadPoolExecutor, as_completed
import aiohttp, openai, pytest
from pytest_llmeval import llm_eval

QUICK, SLOW, NEVER = "{quick}", "{slow}", "{never}"

def asked(case):
    return {{"model": "gpt", "messages": [{{"role": "user", "content": case}}]}}

def client(kind, url, **more):
    return kind(api_key="sk-test", base_url=url, **more)

@llm_eval(repeats=2, intercept=True)
async def test_openai():
    async def ask(url):
        await client(openai.AsyncOpenAI, url).chat.completions.create(**asked("openai"))
        return url
    tasks = [asyncio.create_task(ask(url)) for url in (SLOW, QUICK)]
    first = await next(asyncio.as_completed(tasks))
    await asyncio.wait(tasks)
    assert first == QUICK

@llm_eval(repeats=2, intercept=True)
def test_threads():
    def ask(url):
        client(openai.OpenAI, url).chat.completions.create(**asked("threads"))
        return url
    with ThreadPoolExecutor() as pool:
        works = [pool.submit(ask, url) for url in (SLOW, QUICK)]
        assert next(as_completed(works)).result() == QUICK

@llm_eval(repeats=2, intercept=True)
async def test_aiohttp_cancels():
    async with aiohttp.ClientSession() as session:
        async def ask(url):
            async with session.post(url + "/chat/completions", json=asked("aiohttp")) as reply:
                await reply.json()
            return url
        tasks = [asyncio.create_task(ask(url)) for url in (SLOW, QUICK)]
        done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in late:
            one.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        assert done.pop().result() == QUICK

@llm_eval(repeats=2, intercept=True)
def test_timeout_of_a_client():
    impatient = client(openai.OpenAI, NEVER, timeout=1, max_retries=1)
    with pytest.raises(openai.APITimeoutError):
        impatient.chat.completions.create(**asked("sync"))

@llm_eval(repeats=2, intercept=True)
async def test_timeout_of_an_async_client():
    impatient = client(openai.AsyncOpenAI, NEVER, timeout=1, max_retries=0)
    with pytest.raises(openai.APITimeoutError):
        await impatient.chat.completions.create(**asked("async"))
"""


@pytest.fixture
def quick() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def slow() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        server.then(*[Scripted(delay=1.0)] * 100)
        yield server


@pytest.fixture
def never() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        server.then(*[Scripted(delay=NEVER)] * 100)
        yield server


@pytest.mark.usefixtures("sdks")
def test_a_second_session_sends_nothing_and_ends_alike(
    project: Project, quick: OpenAIServer, slow: OpenAIServer, never: OpenAIServer
) -> None:
    evals = EVALS.format(quick=quick.url, slow=slow.url, never=never.url)
    project.write(test_evals=evals, pytest_ini="[pytest]\n")

    def outcomes() -> list[tuple[str, int, str, list[str | None]]]:
        project.pytester.runpytest_subprocess("-p", "no:cacheprovider")
        trials = read_run(project.runs()[-1]).trials
        return [
            (one.case, one.index, one.outcome, sorted(str(call.draw) for call in one.calls))
            for one in trials
        ]

    recorded = outcomes()
    sent = [len(server.requests) for server in (quick, slow, never)]

    assert {outcome for _, _, outcome, _ in recorded} == {"passed"}
    assert outcomes() == recorded
    assert [len(server.requests) for server in (quick, slow, never)] == sent
