"""pytest-asyncio's fixtures share the loop of async evals: `make test-plugins`."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("pytest_asyncio") is None, reason="needs the plugins that make test-plugins installs"
)

PLAIN = ("-p", "no:cacheprovider", "-p", "no:randomly")

ASYNCIO = """
import asyncio
import os

import pytest
import pytest_asyncio
from pytest_llmeval import llm_eval

EVENTS = []


@pytest_asyncio.fixture
async def queue():
    EVENTS.append("up")
    queue = asyncio.Queue()
    await asyncio.sleep(0.01)
    await queue.put(1)
    yield queue
    await asyncio.sleep(0.01)
    EVENTS.append("down")


@pytest_asyncio.fixture(scope="module")
async def lock():
    EVENTS.append("lock up")
    await asyncio.sleep(0.01)
    yield asyncio.Lock()
    await asyncio.sleep(0.01)
    EVENTS.append("lock down")


@pytest_asyncio.fixture(scope="session")
async def loop_of_session():
    await asyncio.sleep(0.01)
    return asyncio.get_running_loop()


@pytest.mark.asyncio
async def test_ordinary_before(queue):
    assert await queue.get() == 1


@MARK
@pytest.mark.parametrize("n", range(4))
@llm_eval(repeats=3)
async def test_shares_the_loop(queue, lock, loop_of_session, async_llm, n):
    assert asyncio.get_running_loop() is loop_of_session
    waiting = asyncio.create_task(queue.join())
    async with lock:
        assert await queue.get() == 1
        await async_llm.ask(f"{n}")
    queue.task_done()
    async with asyncio.timeout(10):
        await waiting


@llm_eval(repeats=3)
def test_sync_body_with_an_async_fixture(queue):
    assert queue.get_nowait() == 1
    asyncio.run(asyncio.sleep(0))


@pytest.mark.asyncio(loop_scope="module")
@llm_eval(repeats=2)
async def test_pinned(queue):
    await asyncio.sleep(0)


@pytest.mark.asyncio
async def test_ordinary_after():
    assert (EVENTS.count("up"), EVENTS.count("down")) == (18, 18)
    assert EVENTS.count("lock up") == 1
    assert EVENTS.count("lock down") == 0
"""

INI = """
[pytest]
asyncio_default_fixture_loop_scope = fixture-scope
"""
MODEL = "llm_model = function/bot:answer\npythonpath = .\n"
BOT = "async def answer(messages): return 'yes'"


@pytest.fixture
def asyncio_suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(bot=BOT, test_suite=ASYNCIO.replace("@MARK", "@pytest.mark.asyncio"))
    pytester.makeini(INI + MODEL)
    return pytester


MODES = {
    "strict": ("--asyncio-mode=strict",),
    "auto": ("--asyncio-mode=auto",),
    "inline": ("--llm-concurrency=1",),
    "worker": ("-n", "1"),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_pytest_asyncio(asyncio_suite: pytest.Pytester, mode: tuple[str, ...]) -> None:
    result = asyncio_suite.runpytest_subprocess(*PLAIN, "-v", "-W", "error", *mode, timeout=300)

    result.assert_outcomes(passed=8)
    assert str(result.stdout).count("3/3 passed") == 5
    assert str(result.stderr) == ""


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_the_mark_is_not_needed(asyncio_suite: pytest.Pytester, mode: str) -> None:
    asyncio_suite.makepyfile(test_suite=ASYNCIO.replace("@MARK", ""))

    result = asyncio_suite.runpytest(*PLAIN, f"--asyncio-mode={mode}")

    result.assert_outcomes(passed=8)


def test_only_what_is_pinned_to_a_loop_runs_serially(asyncio_suite: pytest.Pytester) -> None:
    result = asyncio_suite.runpytest(*PLAIN)

    result.stdout.fnmatch_lines(['1 case ran serially: asyncio loop_scope="module" (1)'])


@pytest.mark.parametrize("scope", ["function", "session"])
def test_a_scope_that_our_loop_fulfils_pins_nothing(pytester: pytest.Pytester, scope: str) -> None:
    pytester.makepyfile(
        f"""
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.asyncio(loop_scope="{scope}")
        @llm_eval(repeats=2)
        async def test_it(): pass
        """
    )
    pytester.makeini(INI)

    result = pytester.runpytest(*PLAIN, "-v")

    result.stdout.fnmatch_lines(["*::test_it 2/2 passed*"])
    result.stdout.no_fnmatch_line("*ran serially*")


def test_async_fixtures_overlap_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import pytest
        import pytest_asyncio
        from pytest_llmeval import llm_eval

        MET = []

        async def meet(count):
            MET.append(1)
            while len(MET) < count:
                await asyncio.sleep(0.01)

        @pytest_asyncio.fixture
        async def together():
            await asyncio.wait_for(meet(4), 10)
            yield
            await asyncio.wait_for(meet(8), 10)

        @llm_eval(repeats=4, min_score=1)
        async def test_async(together): pass
        """
    )
    pytester.makeini(INI)

    pytester.runpytest(*PLAIN).assert_outcomes(passed=1)


def test_a_version_without_session_runner_runs_its_tests_itself(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import pytest
        from pytest_llmeval import llm_eval

        LOOPS = set()

        @pytest.mark.asyncio
        @llm_eval(repeats=3, min_score=1)
        async def test_it():
            LOOPS.add(id(asyncio.get_running_loop()))
        """
    )
    pytester.makeini(INI)
    pytester.makeconftest(
        """
        import pytest_llmeval.engine.trial.other_loops as plugins

        plugins.SESSION_RUNNER = "_renamed_scoped_runner"
        """
    )

    result = pytester.runpytest_subprocess(*PLAIN, timeout=300)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*serially: pytest-asyncio without session runner (1)"])


def test_an_async_fixture_asked_for_while_the_body_awaits_says_what_to_do(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import pytest_asyncio
        from pytest_llmeval import llm_eval

        @pytest_asyncio.fixture
        async def late(): return 1

        @llm_eval(repeats=2)
        async def test_it(request):
            request.getfixturevalue("late")
        """
    )
    pytester.makeini(INI)

    result = pytester.runpytest(*PLAIN)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RuntimeError: an async fixture was asked for*Name it as*"])


def test_ordinary_async_tests_are_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import pytest
        from pytest_llmeval import llm_eval

        LOOPS = []

        @pytest.mark.asyncio
        @pytest.mark.parametrize("n", range(2))
        async def test_ordinary(n):
            LOOPS.append(asyncio.get_running_loop())
            assert asyncio.get_running_loop().get_task_factory() is None

        @llm_eval(repeats=2, min_score=1)
        async def test_eval(): pass

        @pytest.mark.asyncio
        async def test_after():
            assert asyncio.get_running_loop().get_task_factory() is None
            assert LOOPS[0] is not LOOPS[1]
        """
    )
    pytester.makeini(INI)

    pytester.runpytest(*PLAIN).assert_outcomes(passed=4)


@pytest.mark.parametrize("arguments", [(), ("--llm-concurrency=1",)], ids=["overlapping", "inline"])
def test_what_wider_fixtures_set_is_seen_by_async_trials(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        """
        import asyncio
        from contextvars import ContextVar
        import pytest
        import pytest_asyncio
        from pytest_llmeval import llm_eval

        WIDE = ContextVar("wide", default="")
        BUILT_ON_IT = ContextVar("built_on_it", default="")

        @pytest_asyncio.fixture(scope="module", loop_scope="session")
        async def wide():
            WIDE.set("async")
            await asyncio.sleep(0)
            yield

        @pytest.fixture(scope="module")
        def built_on_it(wide):
            token = BUILT_ON_IT.set(WIDE.get())
            yield
            BUILT_ON_IT.reset(token)

        @pytest.mark.parametrize("n", range(2))
        @llm_eval(repeats=3, min_score=1)
        async def test_async(built_on_it, n):
            await asyncio.sleep(0.01)
            assert (WIDE.get(), BUILT_ON_IT.get()) == ("async", "async")
        """
    )
    pytester.makeini(INI)

    pytester.runpytest(*PLAIN, *arguments).assert_outcomes(passed=2)
