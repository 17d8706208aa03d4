"""Clients that the application builds itself, in sessions that intercept them."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.forked import run_forked
from tests.servers.anthropic_server import AnthropicServer
from tests.servers.ollama_server import OllamaServer
from tests.servers.openai_server import OpenAIServer
from tests.warm_python import PYTHON

pytestmark = pytest.mark.usefixtures("sdks")
OPTIONS = ("-p", "no:cacheprovider", "-W", "error")

# The clients of module level are built while tests are collected, before anything of ours is.
APP = """
import httpcore  # noqa: F401
import httpx
import ollama
import openai

try:
    import httpcore2  # noqa: F401 - httpx2 would meet the classes of another copy later
    import httpx2
except ImportError:  # beside older SDKs
    httpx2 = httpx

MESSAGES = [{"role": "user", "content": "Hello"}]
ASKED = {"model": "gpt", "messages": MESSAGES}
early = openai.OpenAI()
early_async = openai.AsyncOpenAI()


def text_of(completion):
    return completion.choices[0].message.content


def by_sdk():
    return text_of(early.chat.completions.create(**ASKED))


def by_stream():
    chunks = openai.OpenAI().chat.completions.create(**ASKED, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def by_anthropic():
    import anthropic  # a second, in workers that need it not

    client = anthropic.Anthropic()
    message = client.messages.create(model="claude", max_tokens=9, messages=MESSAGES)
    return message.content[0].text


def by_ollama():
    return ollama.chat("llama", messages=MESSAGES).message.content


def by_httpx(library=httpx):
    url = str(early.base_url) + "chat/completions"
    reply = library.post(url, json=ASKED)
    return reply.raise_for_status().json()["choices"][0]["message"]["content"]


def by_httpx2():
    return by_httpx(httpx2)


async def by_async_sdk():
    return text_of(await early_async.chat.completions.create(**ASKED))


async def by_async_stream():
    async with openai.AsyncOpenAI() as client:
        stream = await client.chat.completions.create(**ASKED, stream=True)
        return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])


async def by_async_anthropic():
    import anthropic

    async with anthropic.AsyncAnthropic() as client:
        message = await client.messages.create(model="claude", max_tokens=9, messages=MESSAGES)
    return message.content[0].text


async def by_async_ollama():
    return (await ollama.AsyncClient().generate("llama", "Hello")).response


async def by_async_httpx(library=httpx):
    async with library.AsyncClient() as client:
        url = str(early.base_url) + "chat/completions"
        reply = await client.post(url, json=ASKED)
    return reply.raise_for_status().json()["choices"][0]["message"]["content"]


async def by_async_httpx2():
    return await by_async_httpx(httpx2)


BLOCKING = [by_sdk, by_stream, by_anthropic, by_ollama, by_httpx, by_httpx2]
AWAITABLE = [
    by_async_sdk, by_async_stream, by_async_anthropic, by_async_ollama, by_async_httpx,
    by_async_httpx2,
]
"""

EVALS = """
import app
import pytest
from pytest_llmeval import llm_eval


@llm_eval(repeats=2, min_score=1, intercept=True)
@pytest.mark.parametrize("ask", app.BLOCKING)
def test_blocking(ask):
    assert ask().startswith("reply")


@llm_eval(repeats=2, min_score=1, intercept=True)
@pytest.mark.parametrize("ask", app.AWAITABLE)
async def test_awaitable(ask):
    assert (await ask()).startswith("reply")
"""


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[OpenAIServer]]:
    with OpenAIServer() as one, AnthropicServer() as two, OllamaServer() as three:
        monkeypatch.setenv("OPENAI_BASE_URL", one.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", two.url)
        monkeypatch.setenv("OLLAMA_HOST", three.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        yield [one, two, three]


def asked(servers: list[OpenAIServer]) -> int:
    return sum(len(server.requests) for server in servers)


def test_whatever_an_application_asks_with_is_paid_once_and_replayed(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(app=APP, test_evals=EVALS)
    # Not by warm processes: ollama's own client remembers the host with which it was imported.
    # One after the other: blocking ones never wait for the awaitable, and would pay beside them.
    run_forked(pytester, *OPTIONS, "--llm-concurrency=1").assert_outcomes(passed=12)
    paid = asked(servers)

    result = run_forked(pytester, *OPTIONS, "--llm-cache=replay")

    result.assert_outcomes(passed=12)
    result.stdout.fnmatch_lines(["*0 calls made, 24 replayed*"])
    # openai is asked the same by SDK and by hand; streams, and a chat of ollama's, are others
    assert paid == asked(servers) == 2 * (2 + 1 + 2)


def calls_of(pytester: pytest.Pytester) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The calls of each trial, by test and index, in the newest run."""
    *_, path = sorted((pytester.path / ".llmeval" / "runs").rglob("*.gz"), key=lambda p: p.name)
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    return {
        (line["case"].rpartition("::")[2], line["trial"]): line.get("calls", [])
        for line in lines
        if "trial" in line
    }


def slots(calls: list[dict[str, Any]]) -> list[str]:
    return sorted(call["slot"] for call in calls)


def test_nothing_else_in_the_session_is_intercepted(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(
        app=APP,
        test_evals="""
        import app
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, intercept=True)
        def test_intercepted(): assert app.by_httpx()

        @llm_eval(repeats=2, intercept=False)
        def test_not(): assert app.by_httpx()

        def test_ordinary(): assert app.by_httpx()
        """,
    )
    pytester.runpytest(*OPTIONS).assert_outcomes(passed=3)

    assert asked(servers) == 2 + 2 + 1
    assert [len(calls) for calls in calls_of(pytester).values()] == [1, 1, 0, 0]
    pytester.runpytest(*OPTIONS).assert_outcomes(passed=3)
    assert asked(servers) == 5 + 2 + 1


@pytest.mark.parametrize(
    ("ini", "seen"),
    [("", [1, 0, 1]), ("llm_intercept = true", [1, 0, 1]), ("llm_intercept = false", [0, 0, 1])],
    ids=["silent", "true", "false"],
)
def test_evals_are_intercepted_unless_the_ini_file_or_the_marker_says_no(
    pytester: pytest.Pytester, servers: list[OpenAIServer], ini: str, seen: list[int]
) -> None:
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makepyfile(
        app=APP,
        test_evals="""
        import app
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=1)
        def test_silent(): assert app.by_httpx2()

        @llm_eval(repeats=1, intercept=False)
        def test_not(): assert app.by_httpx2()

        @llm_eval(repeats=1, intercept=True)
        def test_marked(): assert app.by_httpx2()

        def test_ordinary(): assert app.by_httpx2()
        """,
    )
    pytester.runpytest(*OPTIONS)

    assert [len(calls) for calls in calls_of(pytester).values()] == seen
    sent = asked(servers)
    pytester.runpytest(*OPTIONS)
    assert asked(servers) == sent + 1 + seen.count(0)  # the ordinary test, and what is not seen


def test_a_library_that_an_eval_itself_imports_is_seen(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    evals = """
    from importlib.util import find_spec
    from pytest_llmeval import llm_eval

    @llm_eval(repeats=2)
    def test_it():
        assert find_spec("httpx2") is not None
        import app
        assert app.by_httpx()
        assert app.by_httpx2()

    @llm_eval(repeats=2)
    async def test_awaited():
        import app_of_aiohttp
        assert await app_of_aiohttp.by_session()
    """
    pytester.makepyfile(app=APP, app_of_aiohttp=AIOHTTP, test_evals=evals)
    for made in (4, 0):  # both evals ask the same by httpx and aiohttp
        result = pytester.run(PYTHON, "-m", "pytest", *OPTIONS)
        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines([f"* {made} calls made, {6 - made} replayed*"])

    assert asked(servers) == 4


THREADS = """
import threading
import app
from concurrent.futures import ThreadPoolExecutor
from pytest_llmeval import llm_eval

POOL = ThreadPoolExecutor(2)


@llm_eval(repeats=4, min_score=1, intercept=True)
def test_pool():
    replies = list(POOL.map(lambda _: app.by_sdk(), range(2)))
    assert len(set(replies)) == 2


@llm_eval(repeats=2, min_score=1, intercept=True)
def test_thread():
    replies = []
    thread = threading.Thread(target=lambda: replies.append(app.by_anthropic()))
    thread.start()
    thread.join()
    assert replies
"""


def test_a_call_belongs_to_the_trial_that_began_its_thread_or_gave_a_pool_the_work(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(app=APP, test_evals=THREADS)
    pytester.runpytest(*OPTIONS).assert_outcomes(passed=2)
    paid = calls_of(pytester)
    result = pytester.runpytest(*OPTIONS, "--llm-cache=replay")

    assert {at: slots(calls) for at, calls in paid.items()} == {
        **{("test_pool", index): [f"{index}/0", f"{index}/1"] for index in range(4)},
        **{("test_thread", index): [f"{index}/0"] for index in range(2)},
    }
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*0 calls made, 10 replayed*"])
    assert asked(servers) == 10


@pytest.mark.parametrize("ask", ["app.by_sdk()", "POOL.submit(app.by_sdk).result()"])
def test_trials_overlap_while_the_application_waits_for_its_model(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    together = threading.Barrier(3)

    def answer(_body: object, number: int) -> str:
        together.wait(timeout=300)  # breaks unless three are on their way at once
        return f"reply {number}"

    pytester.makepyfile(
        app=APP,
        test_evals=f"""
        import app
        from concurrent.futures import ThreadPoolExecutor
        from pytest_llmeval import llm_eval

        POOL = ThreadPoolExecutor(3)

        @llm_eval(repeats=3, min_score=1, intercept=True)
        def test_it(): assert {ask}
        """,
    )
    with OpenAIServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        pytester.runpytest(*OPTIONS).assert_outcomes(passed=1)


FIXTURES = """
import app
import pytest
from pytest_llmeval import llm_eval


@pytest.fixture(scope="session")
def summary():
    yield app.by_sdk()
    app.by_anthropic()


@pytest.fixture
def own():
    return app.by_sdk()


@llm_eval(repeats=2, min_score=1, intercept=True)
def test_both(summary, own): assert summary and own


@llm_eval(repeats=2, min_score=1, intercept=True)
def test_asks_for_it_by_name(request): assert request.getfixturevalue("summary")


@llm_eval(repeats=1, intercept=True)
def test_neither(): app.by_anthropic()
"""


def test_what_a_wider_fixture_asks_is_a_draw_of_every_case_that_uses_it(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(app=APP, test_evals=FIXTURES)
    result = pytester.runpytest(*OPTIONS)

    calls = calls_of(pytester)
    assert {at: slots(of_trial) for at, of_trial in calls.items()} == {
        ("test_both", 0): ["0/0", "shared/0"],
        ("test_both", 1): ["1/0", "shared/0"],
        ("test_asks_for_it_by_name", 0): ["shared/0"],
        ("test_asks_for_it_by_name", 1): ["shared/0"],
        ("test_neither", 0): ["0/0"],
    }
    draws = {c["draw"] for of in calls.values() for c in of if c["slot"] == "shared/0"}
    assert len(draws) == 1
    # the draw of the fixture was paid for once, however many trials use it
    result.stdout.fnmatch_lines(["*4 calls made, 3 replayed*"])


@pytest.mark.usefixtures("anyio_plugin")
def test_a_plugin_that_runs_all_in_one_context_does_not_mix_trials_up(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(
        app=APP,
        test_evals="""
        import app
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture(scope="module")
        def anyio_backend(): return "asyncio"

        @pytest.fixture(scope="module")
        async def summary():  # what begins the runner, and with it the context of all
            return await app.by_async_anthropic()

        @pytest.mark.anyio
        @llm_eval(repeats=2, intercept=True)
        async def test_it(summary): assert await app.by_async_httpx()

        @pytest.mark.anyio
        @llm_eval(repeats=1, intercept=False)
        async def test_not(summary): assert await app.by_async_httpx()
        """,
    )
    pytester.runpytest(*OPTIONS).assert_outcomes(passed=2)

    assert {at: slots(calls) for at, calls in calls_of(pytester).items()} == {
        ("test_it", 0): ["0/0", "shared/0"],
        ("test_it", 1): ["1/0", "shared/0"],
        ("test_not", 0): [],
    }


def test_what_nobody_asks_for_a_case_is_counted_apart(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    evals = """
    import app
    import pytest
    from pytest_llmeval import llm_eval

    @pytest.fixture(scope="module")
    def farewell():
        yield
        app.by_sdk()

    @llm_eval(repeats=1, intercept=True)
    def test_it(farewell): pass
    """
    pytester.makepyfile(app=APP, test_first=evals, test_second=evals)
    result = pytester.runpytest(*OPTIONS)

    result.stdout.fnmatch_lines(["*2 calls of no case*"])  # the other came after the last report
    assert not any(calls_of(pytester).values())
    assert asked(servers) == 2


def test_workers_pay_once_for_what_they_all_ask(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(
        app=APP,
        test_evals="""
        import app
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture(scope="session")
        def summary(): return app.by_anthropic()

        @llm_eval(repeats=2, min_score=1, intercept=True)
        @pytest.mark.parametrize("case", range(6))
        def test_it(summary, case): assert app.by_sdk().startswith("reply")
        """,
    )
    pytester.runpytest(*OPTIONS, "-n2").assert_outcomes(passed=6)

    assert [len(server.requests) for server in servers] == [2, 1, 0]


def test_a_call_that_is_not_seen_is_said(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    evals = """
    import json, pytest, urllib.request
    from pytest_llmeval import llm_eval

    @llm_eval(repeats=2, intercept=True)
    @pytest.mark.parametrize("case", "abcdefgh")
    def test_it(case):
        url, body = "{url}/chat/completions", json.dumps({{"model": "gpt", "messages": []}})
        urllib.request.urlopen(urllib.request.Request(url, body.encode())).read()
        assert {score}
    """
    pytester.makepyfile(test_evals=evals.format(url=servers[0].url, score=True))
    pytester.runpytest(*OPTIONS)
    result = pytester.runpytest(*OPTIONS, "--llm-baseline=last")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*8 cases made no call that the cache saw*"])


@pytest.mark.parametrize(
    ("argument", "ini", "complaint"),
    [
        ("'yes'", "", "*test_it: @llm_eval: intercept must be True or False, not 'yes'*"),
        ("True", "llm_intercept_hosts = https://gw", "*llm_intercept_hosts*is no host*"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_run(
    pytester: pytest.Pytester, argument: str, ini: str, complaint: str
) -> None:
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makepyfile(
        test_evals=f"""
        from pytest_llmeval import llm_eval
        @llm_eval(intercept={argument})
        def test_it(): pass
        """
    )
    result = pytester.runpytest(*OPTIONS)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {complaint}"])


def test_a_library_that_moved_is_named_and_its_calls_count_as_unseen(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(
        app=APP,
        conftest="""
        import httpx

        plain = httpx.AsyncHTTPTransport.handle_async_request
        del httpx.AsyncHTTPTransport.handle_async_request
        httpx.AsyncBaseTransport.handle_async_request = plain
        """,
        test_it="""
        import app
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, intercept=True)
        async def test_it():
            app.by_httpx()
            await app.by_async_httpx()
        """,
    )
    result = pytester.runpytest_subprocess(*OPTIONS)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*2 calls made, *",
            "note: what clients of httpx * ask is not kept, as AsyncHTTPTransport.handle_async_*",
            "note: 2 connections to 127.0.0.1:* that the cache did not see (test_it)",
        ],
        consecutive=False,
    )


def test_all_is_put_back_when_the_session_ends(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    def seams() -> tuple[object, ...]:
        return (
            httpx.HTTPTransport.handle_request,
            httpx.AsyncHTTPTransport.handle_async_request,
            threading.Thread.start,
            ThreadPoolExecutor.submit,
        )

    before = seams()
    pytester.makepyfile(app=APP, test_evals=EVALS)
    pytester.runpytest(*OPTIONS, "-k", "blocking")

    assert seams() == before


def test_a_stub_of_the_application_stays_a_stub(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(
        app=APP,
        test_evals="""
        import app, httpx
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, min_score=1, intercept=True)
        def test_it(monkeypatch):
            def stubbed(transport, request):
                return httpx.Response(200, json={"choices": [{"message": {"content": "stub"}}]})
            monkeypatch.setattr(httpx.HTTPTransport, "handle_request", stubbed)
            assert app.by_httpx() == "stub"
        """,
    )
    pytester.runpytest(*OPTIONS).assert_outcomes(passed=1)

    assert asked(servers) == 0


def test_an_awaitable_client_is_answered_where_a_trial_patches_what_all_calls_see(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(
        app=APP,
        test_evals="""
        import app, time
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, min_score=1, intercept=True)
        async def test_it(monkeypatch):
            monkeypatch.setattr(time, "ctime", lambda: "noon")
            assert await app.by_async_httpx() and time.ctime() == "noon"
        """,
    )
    pytester.runpytest(*OPTIONS, "--llm-timeout=20").assert_outcomes(passed=1)

    assert asked(servers) == 2


@pytest.mark.parametrize("concurrency", [1, 32])
def test_no_draw_vanishes_where_sync_evals_run_an_awaitable_client_of_the_module(
    pytester: pytest.Pytester, servers: list[OpenAIServer], concurrency: int
) -> None:
    pytester.makepyfile(
        app=APP,
        test_evals="""
        import app, asyncio
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=4, min_score=1, intercept=True)
        def test_it(): assert asyncio.run(app.by_async_sdk()).startswith("reply")
        """,
    )
    options = (*OPTIONS, f"--llm-concurrency={concurrency}")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)
    paid = calls_of(pytester)
    result = pytester.runpytest_subprocess(*options, "--llm-cache=replay")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*0 calls made, 4 replayed*"])
    assert {at: slots(calls) for at, calls in paid.items()} == {
        ("test_it", index): [f"{index}/0"] for index in range(4)
    }
    assert asked(servers) == 4


ASKS_AT_IMPORT = """
import asyncio
import app
from pytest_llmeval import llm_eval

PROMPT = app.by_sdk() + app.by_sdk()
OTHER = asyncio.run(app.by_async_sdk())

@llm_eval(repeats=2)
def test_it(llm):
    assert app.by_sdk().startswith("reply")
    with open("prompts.log", "a") as log: log.write(f"{PROMPT} {OTHER}\\n")

def test_ordinary(): pass
"""
INI = "[pytest]\nllm_intercept = true\n"
# The same questions without the SDK, whose import takes a second and whose client stays open.
LIGHT_APP = """
import os
import httpx

ASKED = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}
URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"


def text_of(reply):
    return reply.raise_for_status().json()["choices"][0]["message"]["content"]


def by_sdk():
    return text_of(httpx.post(URL, json=ASKED))


async def by_async_sdk():
    async with httpx.AsyncClient() as client:
        return text_of(await client.post(URL, json=ASKED))
"""


def test_what_a_module_asks_as_it_is_imported_is_a_draw_like_any_other(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(app=APP, test_first=ASKS_AT_IMPORT, test_second=ASKS_AT_IMPORT)
    pytester.makeini(INI)
    first = pytester.runpytest_subprocess(*OPTIONS)
    # Each worker imports both modules, and finds what was paid for.
    again = pytester.runpytest_subprocess(*OPTIONS, "-n", "2", "--llm-cache=replay")

    first.assert_outcomes(passed=4)
    again.assert_outcomes(passed=4)
    assert asked(servers) == 5  # three for both modules, and one for each trial index
    assert len({*(pytester.path / "prompts.log").read_text().splitlines()}) == 1
    again.stdout.fnmatch_lines(["*0 calls made, 4 replayed*calls of no case*"])


def test_workers_pay_once_for_what_their_modules_ask(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(app=LIGHT_APP, test_first=ASKS_AT_IMPORT, test_second=ASKS_AT_IMPORT)
    pytester.makeini(INI)

    pytester.runpytest_subprocess(*OPTIONS, "-n", "2").assert_outcomes(passed=4)

    assert asked(servers) == 5
    assert len({*(pytester.path / "prompts.log").read_text().splitlines()}) == 1


def test_what_a_module_asked_does_not_depend_on_which_others_are_collected(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(app=LIGHT_APP, test_first=ASKS_AT_IMPORT, test_second=ASKS_AT_IMPORT)
    pytester.makeini(INI)
    pytester.runpytest(*OPTIONS)
    before = asked(servers)
    assert before

    pytester.runpytest(*OPTIONS, "--collect-only")
    result = pytester.runpytest(*OPTIONS, "test_second.py", "--llm-max-calls=0")

    result.assert_outcomes(passed=2)
    assert asked(servers) == before
    result.stdout.fnmatch_lines(["* 3 calls of no case*"])


def test_a_cap_holds_for_what_modules_ask(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytester.makepyfile(app=APP, test_first=ASKS_AT_IMPORT)
    pytester.makeini(INI)

    result = pytester.runpytest_subprocess(*OPTIONS, "--llm-max-calls=1")

    assert asked(servers) == 1
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*--llm-max-calls=1 is reached*"])


def test_what_a_module_asks_is_left_alone_where_only_marks_want_interception(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    evals = ASKS_AT_IMPORT.replace("repeats=2", "repeats=2, intercept=True")
    pytester.makepyfile(app=LIGHT_APP, test_first=evals)
    for _ in range(2):
        pytester.runpytest(*OPTIONS).assert_outcomes(passed=2)

    assert asked(servers) == 2 * 3 + 2


AIOHTTP = """
import asyncio
import os

import aiohttp
import httpx_aiohttp
import openai
import pytest
from pytest_llmeval import llm_eval

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
ASKED = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}


async def by_session():
    async with aiohttp.ClientSession() as client, client.post(URL, json=ASKED) as reply:
        return (await reply.json())["choices"][0]["message"]["content"]


async def by_stream():
    async with openai.AsyncOpenAI(http_client=httpx_aiohttp.HttpxAiohttpClient()) as client:
        stream = await client.chat.completions.create(**ASKED, stream=True)
        return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])


@llm_eval(repeats=3, min_score=1, intercept=True)
@pytest.mark.parametrize("ask", [by_session, by_stream])
async def test_awaited(ask):
    replies = await asyncio.gather(ask(), ask())
    assert all(reply.startswith("reply") for reply in replies)


@llm_eval(repeats=3, min_score=1, intercept=True)
@pytest.mark.parametrize("ask", [by_session, by_stream])
def test_run(ask):
    assert asyncio.run(ask()).startswith("reply")


def test_ordinary():
    assert asyncio.run(by_session()).startswith("reply")
"""


def test_what_is_asked_by_aiohttp_is_paid_once_and_replayed(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    pytest.importorskip("httpx_aiohttp")
    pytester.makepyfile(AIOHTTP)
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=5)
    paid = asked(servers)

    result = pytester.runpytest_subprocess(*OPTIONS, "--llm-cache=replay")

    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*0 calls made, 18 replayed*"])
    assert paid == 2 * 3 * 2 + 1  # each case is asked the same by both tests
    assert asked(servers) == paid + 1
