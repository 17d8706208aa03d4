"""What anyio runs is left to it, one trial after the other; it comes with the openai SDK."""

from __future__ import annotations

import pytest


@pytest.mark.usefixtures("anyio_plugin")
def test_anyio_runs_its_own_serially(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        bot="async def answer(messages): return 'yes'",
        test_it="""
        import anyio
        import pytest
        from pytest_llmeval import llm_eval

        pytestmark = pytest.mark.anyio
        NOW = []

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.fixture
        async def stream():
            send, receive = anyio.create_memory_object_stream(1)
            async with send, receive:
                await send.send(1)
                yield receive

        @llm_eval(repeats=3, min_score=1)
        async def test_anyio(stream, async_llm):
            NOW.append(1)
            assert await stream.receive() == 1
            await async_llm.ask("Hello")
            await anyio.sleep(0.01)
            assert len(NOW) == 1
            NOW.clear()
        """,
    )
    pytester.makeini("[pytest]\nllm_model = function/bot:answer\npythonpath = .\n")

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=300)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*case ran serially: anyio (1)"])
