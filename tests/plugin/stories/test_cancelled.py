"""Requests that the application gives up itself, as soon as another one was quicker, or late."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_llmeval.errors import Lost
from pytest_llmeval.runs.run_file import read_run
from tests.project import Project
from tests.servers.openai_server import NEVER, OpenAIServer, Scripted

APP = """
import asyncio
import openai

CLIENT = openai.AsyncOpenAI(api_key="sk-test", max_retries=0)

async def ask(url, prompt="Hello"):
    asked = {"model": "gpt", "messages": [{"role": "user", "content": prompt}]}
    reply = await CLIENT.with_options(base_url=url).chat.completions.create(**asked)
    return reply.choices[0].message.content

async def first(*questions):
    tasks = [asyncio.create_task(question) for question in questions]
    quick, slow = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    return quick.pop().result()
"""
INI = "[pytest]\npythonpath = .\n"
pytestmark = pytest.mark.usefixtures("sdks")


def run(project: Project, *options: str) -> pytest.RunResult:
    """Run in a process of its own: connections that are given up are closed by the collector."""
    return project.pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)


@pytest.fixture
def quick() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def slow() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        server.then(*[Scripted(delay=NEVER)] * 100)
        yield server


HEDGED = """
import asyncio, app, pytest
from pytest_llmeval import llm_eval

QUICK, SLOW = "{quick}", "{slow}"

def hedged():
    return app.first(app.ask(QUICK), app.ask(SLOW))

@llm_eval(repeats=2, intercept=True)
def test_passes(): assert asyncio.run(hedged())

@llm_eval(repeats=2, intercept=True)
def test_misses(): assert not asyncio.run(hedged())

@llm_eval(repeats=2, intercept=True)
def test_crashes(): raise RuntimeError(asyncio.run(hedged()))

@llm_eval(repeats=2, intercept=True)
def test_scores(llm_score):
    asyncio.run(hedged())
    llm_score(0.5)

@llm_eval(repeats=2, intercept=True)
async def test_awaits(): assert not await hedged()

@llm_eval(repeats=2)
async def test_by_fixture(async_openai_client):
    async def ask(url):
        client = async_openai_client.with_options(base_url=url)
        return await client.chat.completions.create(model="gpt", messages=[])
    assert not await app.first(ask(QUICK), ask(SLOW))

@pytest.fixture(scope="module")
def shared(): return asyncio.run(hedged())

@llm_eval(repeats=2, intercept=True)
def test_uses_what_others_share(shared): assert not shared

@llm_eval(repeats=2, intercept=True)
def test_asks_in_vain_beside_what_others_share(shared):
    async def ask():
        async with asyncio.timeout(0.1):
            await app.ask(SLOW)
    try:
        asyncio.run(ask())
    except TimeoutError:
        assert not shared

@llm_eval(repeats=2, intercept=True)
def test_loses_to_its_own_deadline():
    async def ask():
        await app.ask(QUICK)
        async with asyncio.timeout(0.1):
            await app.ask(SLOW)
    try:
        asyncio.run(ask())
    except TimeoutError as exc:
        raise RuntimeError("too slow") from exc

@llm_eval(repeats=2, intercept=True)
def test_gets_no_answer_at_all():
    async def ask():
        async with asyncio.timeout(0.1):
            await app.ask(SLOW)
    try:
        asyncio.run(ask())
    except TimeoutError:
        pass
"""


def test_a_request_that_is_cancelled_once_another_was_answered_is_no_loss(
    project: Project, quick: OpenAIServer, slow: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    quick.then(*[Scripted(delay=0.1)] * 100)  # so that the slow one has been asked by then
    evals = HEDGED.format(quick=quick.url, slow=slow.url)
    project.write(test_evals=evals, app=APP, pytest_ini=INI)

    run(project)

    trials = read_run(project.runs()[-1]).trials
    outcomes = {trial.case.partition("::")[2]: trial.outcome for trial in trials}
    assert len(trials) == 2 * len(outcomes)
    assert outcomes == {
        "test_passes": "passed",
        "test_misses": "missed",
        "test_crashes": "crashed",
        "test_scores": "passed",
        "test_awaits": "missed",
        "test_by_fixture": "missed",
        "test_uses_what_others_share": "missed",
        "test_asks_in_vain_beside_what_others_share": "missed",
        "test_loses_to_its_own_deadline": "crashed",
        "test_gets_no_answer_at_all": "passed",
    }
    # Of those that pay: a replay can be there before the other request has left the SDK.
    hedged = [trial.calls for trial in trials if trial.case.endswith("test_passes")]
    lost = [{call.lost for call in calls} for calls in hedged]  # in the order of their keys
    assert lost == [{None, Lost.CANCELLED}] * 2


def test_a_reply_that_is_heard_by_the_second_try_alone_was_made_here(project: Project) -> None:
    project.write(
        app="""
        import threading

        IS_ASKED, MAY_ANSWER = threading.Event(), threading.Event()

        def answer(messages):
            IS_ASKED.set()
            assert MAY_ANSWER.wait(300)
            return "yes"
        """,
        test_evals="""
        import asyncio, app
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=1)
        async def test_it(async_llm):
            first = asyncio.create_task(async_llm.ask("q"))
            while not app.IS_ASKED.is_set():
                await asyncio.sleep(0.001)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            app.MAY_ANSWER.set()
            assert (await async_llm.ask("q")).text == "yes"
        """,
        pytest_ini="[pytest]\nllm_model = function/app:answer\npythonpath = .\n",
    )

    run(project).stdout.fnmatch_lines(["* 1 calls made, 0 replayed*"])
