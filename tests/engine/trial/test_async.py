"""Async trials wait on one loop, overlap, and each still sees the process as if it were alone."""

from __future__ import annotations

import signal

import pytest

from tests.engine.noting import wait_for
from tests.forked import PATIENCE, ForkedSession, run_forked
from tests.servers.openai_server import OpenAIServer
from tests.warm_python import PYTHON

ALONE = ("-p", "no:cacheprovider", "-p", "no:asyncio")  # without pytest-asyncio

BOT = """
import asyncio
from pathlib import Path

CALLS = Path(__file__).with_name("calls.log")


async def answer(messages, *, draw):
    with CALLS.open("a") as file:
        file.write("x\\n")
    await asyncio.sleep(0.02 + 0.01 * draw.rng.random())
    return messages[-1]["content"]
"""

INI = "[pytest]\nllm_model = function/bot:answer\npythonpath = .\n"

SUITE = """
import asyncio
import contextlib
import io
import os
import warnings

import pytest
from pytest_llmeval import llm_eval

EVENTS = []
LOOPS = set()
PARAMS = pytest.mark.parametrize("n", range(3))


@pytest.fixture
def fresh(request, llm):
    EVENTS.append("up")
    llm.ask("in a fixture")
    box = []
    yield box
    assert box == [1]
    EVENTS.append("down")


@PARAMS
@llm_eval(repeats=4)
async def test_fresh_fixtures(async_llm, fresh, n):
    LOOPS.add(asyncio.get_running_loop())
    assert fresh == []
    assert (await async_llm.ask(f"fresh {n}")).text == f"fresh {n}"
    fresh.append(1)


def test_every_trial_had_its_own():
    assert EVENTS.count("up") == EVENTS.count("down") == 12


@PARAMS
@llm_eval(repeats=4)
async def test_environment_and_directory(async_llm, n, tmp_path):
    LOOPS.add(asyncio.get_running_loop())
    assert "LLMEVAL_TRIAL" not in os.environ
    os.environ["LLMEVAL_TRIAL"] = str(n)

    async def look():
        await asyncio.sleep(0)
        assert os.environ["LLMEVAL_TRIAL"] == str(n)
        assert os.path.realpath(os.getcwd()) == os.path.realpath(tmp_path)

    with contextlib.chdir(tmp_path):
        await asyncio.gather(look(), async_llm.ask(f"environment {n}"), look())
        await look()
        assert f"test_environment_and_directory[{n}]" in os.environ["PYTEST_CURRENT_TEST"]
    del os.environ["LLMEVAL_TRIAL"]


@PARAMS
@llm_eval(repeats=4)
async def test_warnings_and_streams(async_llm, n):
    with pytest.warns(UserWarning, match=f"careful {n}"):
        warnings.warn(f"careful {n}", UserWarning)
        await async_llm.ask(f"warnings {n}")
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print("a", end="")
        await async_llm.ask(f"streams {n}")
        print("b", end="")
    assert text.getvalue() == "ab"


@PARAMS
@llm_eval(repeats=4)
def test_a_sync_body_has_no_running_loop(llm, n):
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    llm.ask(f"sync {n}")
    assert asyncio.run(asyncio.sleep(0.001, n)) == n


@PARAMS
@llm_eval(repeats=4)
async def test_timeouts_and_groups(n):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(3600)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asyncio.sleep(0.001, k)) for k in range(3)]
    assert [task.result() for task in tasks] == [0, 1, 2]
    assert asyncio.current_task() is not None


@llm_eval(repeats=4)
async def test_the_blocking_model_works_too(llm):
    assert llm.ask("blocking").text == "blocking"


@llm_eval(repeats=4)
async def test_capsys(async_llm, capsys):
    print("seen")
    await async_llm.ask("capsys")
    assert capsys.readouterr().out == "seen\\n"


class TestInClass:
    @llm_eval(repeats=4)
    async def test_method(self, async_llm):
        await async_llm.ask("class")


def test_all_had_one_loop():
    assert len(LOOPS) == 1
    assert "LLMEVAL_TRIAL" not in os.environ
"""
MODES = {
    "overlapping": (),
    "inline": ("--llm-concurrency=1",),
    "no-capture": ("-s",),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_suite_passes_in_every_mode(pytester: pytest.Pytester, mode: tuple[str, ...]) -> None:
    pytester.makepyfile(bot=BOT, test_suite=SUITE)
    pytester.makeini(INI)

    result = pytester.runpytest(*ALONE, "-v", *mode)

    result.assert_outcomes(passed=20)
    assert str(result.stdout).count("4/4 passed") == 18


def test_output_is_that_of_its_own_trial_also_from_tasks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        bot=BOT,
        test_it="""
        import asyncio
        import logging
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(4))
        @llm_eval(repeats=3, min_score=1)
        async def test_it(async_llm, n):
            async def task():
                print(f"task {n}")
                await async_llm.ask(f"in a task {n}")
                print(f"task {n}")

            print(f"before {n}")
            logging.getLogger().warning("log %s", n)
            await asyncio.gather(task(), async_llm.ask(f"{n}"))
            print(f"after {n}")
            assert False, f"case {n}"
        """,
    )
    pytester.makeini(INI)

    result = pytester.runpytest(*ALONE)

    result.assert_outcomes(failed=4)
    for n in range(4):
        part = str(result.stdout).partition(f"_ test_it[{n}] _")[2].partition("\n____")[0]
        part = part.partition("short test summary")[0]
        assert part.count(f"before {n}\ntask {n}\ntask {n}\nafter {n}") == 3
        assert part.count(f"log {n}") == 3
        assert "async def test_it" in part
        assert not [m for m in range(4) if m != n and f"task {m}" in part]


def test_output_of_a_callback_is_not_lost(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, min_score=1)
        async def test_it():
            asyncio.get_running_loop().call_later(0.01, print, "from a callback")
            await asyncio.sleep(0.05)
            assert False
        """
    )

    result = pytester.runpytest(*ALONE)

    result.stdout.fnmatch_lines(["from a callback"] * 2)


def most_in_flight(pytester: pytest.Pytester, *arguments: str, expected: int) -> int:
    """The most trials that were in flight at once; each waits until there were so many."""
    pytester.makepyfile(
        test_it=f"""
        import asyncio
        import pytest
        from pathlib import Path
        from pytest_llmeval import llm_eval

        NOW, FULL = [], []

        @pytest.mark.parametrize("n", range(8))
        @llm_eval(repeats=4)
        async def test_it(n):
            NOW.append(n)
            with open("most.txt", "a") as file:
                file.write(f"{{len(NOW)}}\\n")
            if len(NOW) >= {expected}:
                FULL.append(n)
            while not FULL:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)  # in which there may be one too many
            NOW.remove(n)
        """
    )
    pytester.runpytest(*ALONE, *arguments).assert_outcomes(passed=8)
    return max(map(int, (pytester.path / "most.txt").read_text().split()))


def test_async_trials_overlap_up_to_the_limit(pytester: pytest.Pytester) -> None:
    assert most_in_flight(pytester, "--llm-concurrency=6", expected=6) == 6


def test_async_trials_can_be_told_not_to_overlap(pytester: pytest.Pytester) -> None:
    assert most_in_flight(pytester, "--llm-concurrency=1", expected=1) == 1


def test_async_and_sync_trials_overlap_one_another(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import threading
        from pytest_llmeval import llm_eval, waiting

        MET = threading.Barrier(2)

        @llm_eval(repeats=1)
        async def test_async():
            while not MET.n_waiting:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(MET.wait, 10)

        @llm_eval(repeats=1)
        def test_sync():
            waiting(MET.wait, 10)
        """
    )

    pytester.runpytest(*ALONE).assert_outcomes(passed=2)


def test_outcomes_are_those_of_any_trial(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        bot="async def answer(messages): raise ConnectionError",
        test_it="""
        import itertools, sys
        import pytest
        TRIALS = itertools.count()
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2)
        async def test_missed():
            assert next(TRIALS) == 2

        @llm_eval(repeats=2)
        async def test_crashed():
            sys.exit(3)

        @llm_eval(repeats=2)
        async def test_skipped():
            pytest.skip("not here")

        @llm_eval(repeats=2)
        async def test_errored(async_llm):
            await async_llm.ask("gone")

        @llm_eval(repeats=2)
        async def test_scored(llm_score):
            llm_score(0.5)

        @pytest.mark.xfail(raises=ValueError, strict=True)
        @llm_eval(repeats=2)
        async def test_expected():
            raise ValueError
        """,
    )
    pytester.makeini(INI)

    result = pytester.runpytest(*ALONE, "-v")

    result.assert_outcomes(passed=2, failed=1, skipped=1, errors=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*::test_missed 0/2 passed*",
            "*::test_crashed FAILED*",
            "*::test_skipped SKIPPED*",
            "*::test_errored ERROR*",
            "*::test_scored 2/2 passed, score 0.500*",
            "*::test_expected XFAIL*",
        ]
    )


def test_a_replay_makes_no_call(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        bot=BOT,
        test_it="""
        import asyncio
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(5))
        @llm_eval(repeats=3)
        async def test_it(async_llm, n):
            await asyncio.gather(*(async_llm.ask(f"{n}") for _ in range(2)))
        """,
    )
    pytester.makeini(INI)

    pytester.runpytest(*ALONE).assert_outcomes(passed=5)
    log = pytester.path / "calls.log"
    assert len(log.read_text().splitlines()) == 30
    pytester.runpytest(*ALONE, "--llm-cache=replay").assert_outcomes(passed=5)
    assert len(log.read_text().splitlines()) == 30


def test_the_session_says_nothing_about_loops_at_its_end(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        from pytest_llmeval import llm_eval

        LEFT = []

        @llm_eval(repeats=3)
        async def test_leaves_a_task(async_openai_client):
            async def for_ever():
                try:
                    await asyncio.sleep(1000)
                finally:
                    LEFT.append("ended")

            asyncio.create_task(for_ever())
            asyncio.create_task(asyncio.sleep(1000))
            await asyncio.sleep(0)

        def test_left_tasks_end_with_their_trial():
            assert LEFT == ["ended"] * 3
        """
    )

    result = run_forked(pytester, *ALONE, "-W", "error")

    result.assert_outcomes(passed=2)
    assert str(result.stderr) == ""
    for word in ("Warning", "never awaited", "destroyed", "closed"):
        result.stdout.no_fnmatch_line(f"*{word}*")


def test_the_awaitable_client_of_the_vendor(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(3))
        @llm_eval(repeats=3, min_score=1)
        async def test_it(async_openai_client, async_llm, n):
            completion, reply = await asyncio.gather(
                async_openai_client.chat.completions.create(
                    model="gpt-4o-mini", messages=[{"role": "user", "content": f"{n}"}]
                ),
                async_llm.ask(f"{n}", system="Be brief"),
            )
            assert completion.choices[0].message.content.startswith("reply")
            assert reply.text.startswith("reply")
        """
    )
    with OpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        for _ in range(2):
            result = run_forked(pytester, *ALONE, "-W", "error", "--llm-model=openai/gpt-4o-mini")
            result.assert_outcomes(passed=3)
            assert str(result.stderr) == ""
    assert len(server.requests) == 18


def test_a_body_that_blocks_delays_but_does_not_hang(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import time
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(3))
        @llm_eval(repeats=2)
        async def test_it(n):
            await asyncio.sleep(0)
            time.sleep(0.2)
            await asyncio.sleep(0)
        """
    )

    run_forked(pytester, *ALONE).assert_outcomes(passed=3)


INTERRUPTED = """
import asyncio
import pytest
from pytest_llmeval import llm_eval

LOG = open("order.log", "a", buffering=1)


@pytest.fixture(scope="module")
def wide():
    LOG.write("wide up\\n")
    yield
    LOG.write("wide down\\n")


@pytest.fixture
def narrow(wide):
    LOG.write("narrow up\\n")
    yield
    LOG.write("narrow down\\n")


@pytest.mark.parametrize("n", range(4))
@llm_eval(repeats=5)
async def test_it(narrow, n):
    LOG.write("waiting\\n")
    try:
        {action}
        await asyncio.sleep(1000)
    finally:
        await asyncio.sleep(0)
        LOG.write("cancelled\\n")
"""


def log_of(pytester: pytest.Pytester) -> list[str]:
    return (pytester.path / "order.log").read_text().splitlines()


@pytest.mark.parametrize("arguments", [(), ("--llm-concurrency=1",)], ids=["overlapping", "inline"])
def test_ctrl_c_cancels_bodies_and_tears_down_fixtures(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(INTERRUPTED.replace("{action}", "pass"))
    output_file = pytester.path / "output.txt"
    process = ForkedSession(pytester.path, *ALONE, *arguments, output=output_file)
    waiting = 1 if arguments else 20
    wait_for(process, pytester.path / "order.log", waiting, "waiting")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(PATIENCE)  # the bodies wait longer

    assert process.returncode == 2
    log = log_of(pytester)
    assert log.count("cancelled") == log.count("narrow up") == log.count("narrow down") == waiting
    assert (log[0], log[-1]) == ("wide up", "wide down")
    assert max(i for i, line in enumerate(log) if line == "cancelled") < log.index("wide down")
    for word in ("never awaited", "destroyed", "Traceback"):
        assert word not in output


@pytest.mark.parametrize(
    ("action", "arguments", "status"),
    [
        ("if n == 1: raise KeyboardInterrupt", (), 2),
        ("if n == 0: pytest.exit('enough', returncode=7)", (), 7),  # in turn: see test_interruption
        ("if n == 0: raise RuntimeError", ("-x",), 1),
    ],
    ids=["ctrl-c", "exit", "x"],
)
def test_wide_fixtures_go_last_however_the_session_ends(
    pytester: pytest.Pytester, action: str, arguments: tuple[str, ...], status: int
) -> None:
    pytester.makepyfile(INTERRUPTED.replace("{action}", action))

    result = run_forked(pytester, *ALONE, *arguments)

    assert result.ret == status
    log = log_of(pytester)
    assert log.count("narrow up") == log.count("narrow down")
    assert 0 < log.count("cancelled") <= log.count("waiting")  # it may come while one ends
    assert (log[0], log[-1]) == ("wide up", "wide down")


def test_sync_evals_import_no_asyncio(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, min_score=1)
        def test_it():
            assert "asyncio" not in sys.modules
        """
    )

    result = pytester.run(PYTHON, "-m", "pytest", *ALONE)

    result.assert_outcomes(passed=1)


def test_patches_hold_across_awaits_and_in_async_models(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        bot="""
        import asyncio
        import shutil

        async def answer(messages):
            await asyncio.sleep(0.01)
            return str(shutil.which("x"))
        """,
        plain="""
        import shutil

        def answer(messages):
            return str(shutil.which("x"))
        """,
        test_it="""
        import asyncio
        import shutil
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("model", ["bot", "plain"])
        @pytest.mark.parametrize("n", range(3))
        @llm_eval(repeats=2, min_score=1)
        async def test_it(async_llm, monkeypatch, n, model):
            monkeypatch.setattr(shutil, "which", lambda name: f"patched {n}")
            await asyncio.sleep(0.01)
            assert shutil.which("x") == f"patched {n}"
            reply = await async_llm.ask(f"{n}", model=f"function/{model}:answer")
            assert reply.text == f"patched {n}"
        """,
    )
    pytester.makeini(INI)

    pytester.runpytest(*ALONE).assert_outcomes(passed=6)


BOTH = pytest.mark.parametrize(
    "arguments", [(), ("--llm-concurrency=1",)], ids=["overlapping", "inline"]
)


FROZEN = """
import asyncio
import time

from pytest_llmeval import llm_eval


@llm_eval(repeats=2, min_score=1)
def test_blocking(llm, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    assert llm.ask("blocking").text == "blocking"


@llm_eval(repeats=2, min_score=1)
async def test_awaited(async_llm, monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    assert (await asyncio.wait_for(async_llm.ask("awaited"), 60)).text == "awaited"
"""


def test_a_frozen_clock_does_not_hang_what_waits_on_a_loop(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(bot=BOT, test_frozen=FROZEN)
    pytester.makefile(".ini", pytest=INI)

    run_forked(pytester, *ALONE).assert_outcomes(passed=2)


@BOTH
def test_an_exit_in_a_task_ends_its_own_trial_alone(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import sys
        from pytest_llmeval import llm_eval

        ENDED = []

        @llm_eval(repeats=2, min_score=1)
        async def test_in_turn():
            await asyncio.sleep(0.3)

        @llm_eval(repeats=2)
        async def test_leaves():
            async def leave():
                await asyncio.sleep(0.02)
                sys.exit(3)

            try:
                await asyncio.gather(leave(), asyncio.sleep(3600))
            finally:
                ENDED.append("body")

        def test_later():
            assert ENDED == ["body"] * 2
        """
    )

    result = run_forked(pytester, *ALONE, *arguments, "-v", "-W", "error")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*::test_leaves FAILED*", "E *SystemExit: 3"])
    for word in ("never awaited", "destroyed", "never retrieved"):
        assert word not in str(result.stdout) + str(result.stderr)


@BOTH
@pytest.mark.parametrize("how", ["raise KeyboardInterrupt", "pytest.exit('enough')"])
def test_a_task_can_end_the_session(
    pytester: pytest.Pytester, arguments: tuple[str, ...], how: str
) -> None:
    action = "async def end(): {how}\n        await asyncio.gather(end())".replace("{how}", how)
    pytester.makepyfile(INTERRUPTED.replace("{action}", action))

    result = run_forked(pytester, *ALONE, *arguments)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    log = log_of(pytester)
    assert log.count("narrow up") == log.count("narrow down")
    assert 0 < log.count("cancelled") <= log.count("waiting")  # it may come while one ends
    assert (log[0], log[-1]) == ("wide up", "wide down")


@BOTH
def test_an_exit_in_a_task_that_nobody_awaits_ends_the_trial(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import sys
        import pytest
        from pytest_llmeval import llm_eval

        async def leave():
            await asyncio.sleep(0)
            sys.exit(3)

        @llm_eval(repeats=2)
        async def test_while_the_body_waits():
            task = asyncio.create_task(leave())
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass  # as with asyncio.run, that does not keep the trial

        @llm_eval(repeats=2)
        async def test_beside_others():
            await asyncio.sleep(0.1)
        """
    )

    result = run_forked(pytester, *ALONE, *arguments, "-v")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *SystemExit: 3"])


@BOTH
def test_a_trial_sees_the_tasks_of_its_own_alone(
    pytester: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    pytester.makepyfile(
        """
        import asyncio
        import pytest
        from pytest_llmeval import llm_eval

        DONE = []

        @pytest.mark.parametrize("n", range(3))
        @llm_eval(repeats=2, min_score=1)
        async def test_waits_for_all(n):
            async def work():
                await asyncio.sleep(0.01 * n)
                DONE.append(n)

            own = {asyncio.create_task(work()) for _ in range(2)}
            current = asyncio.current_task()
            assert asyncio.all_tasks() == own | {current}
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
            assert asyncio.all_tasks() == {current}

        @pytest.mark.parametrize("n", range(3))
        @llm_eval(repeats=2, min_score=1)
        async def test_cancels_all(n):
            task = asyncio.create_task(asyncio.sleep(3600))
            await asyncio.sleep(0.01 * n)
            for other in asyncio.tasks.all_tasks(asyncio.get_running_loop()):
                if other is not asyncio.current_task():
                    other.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            await asyncio.sleep(0.01)

        @llm_eval(repeats=2, min_score=1)
        async def test_loops_of_its_own_are_left_alone():
            seen = []

            async def leaves_a_task():
                asyncio.create_task(asyncio.sleep(3600))
                seen.append(len(asyncio.all_tasks()))

            await asyncio.to_thread(asyncio.run, leaves_a_task())
            assert seen == [2]

        def test_nothing_is_left_behind():
            assert len(DONE) == 12
            assert asyncio.all_tasks.__module__ in ("asyncio.tasks", "_asyncio")
            assert asyncio.tasks.all_tasks is asyncio.all_tasks
        """
    )

    result = run_forked(pytester, *ALONE, *arguments, "-W", "error")

    result.assert_outcomes(passed=8)


MIX_UPS = """
import asyncio
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats=2)
async def test_it({fixture}):
    {body}
"""


@pytest.mark.parametrize(
    ("fixture", "body", "told"),
    [
        ("llm", "await llm.ask('x')", "llm answers without await: type llm.ask(...)"),
        ("async_llm", "async_llm.ask('x').text", "was not awaited, so it has no 'text' yet: type"),
    ],
    ids=["awaits llm", "does not await async_llm"],
)
def test_a_mix_up_of_blocking_and_awaited_replies_says_what_to_type(
    pytester: pytest.Pytester, fixture: str, body: str, told: str
) -> None:
    text = MIX_UPS.format(fixture=fixture, body=body)
    if fixture == "async_llm":
        text = text.replace("async def", "def")
    pytester.makepyfile(bot=BOT, test_it=text)
    pytester.makeini(INI + "filterwarnings = error\n")

    result = run_forked(pytester, *ALONE)

    assert result.ret == 1
    result.stdout.fnmatch_lines([f"E * *{told}*"])
    assert "never awaited" not in str(result.stdout)
    assert "pytest_llmeval/models" not in str(result.stdout)


@pytest.mark.parametrize(
    "awaits", ["{}", "await asyncio.gather({})", "await asyncio.create_task({})"]
)
def test_a_pending_reply_is_a_coroutine_like_any_other(
    pytester: pytest.Pytester, awaits: str
) -> None:
    body = awaits.format("async_llm.ask('x')")
    body = f"await asyncio.wait_for({body}, 9)" if awaits == "{}" else body
    pytester.makepyfile(bot=BOT, test_it=MIX_UPS.format(fixture="async_llm", body=body))
    pytester.makeini(INI + "filterwarnings = error\n")

    run_forked(pytester, *ALONE).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("body", "is_told"),
    [("llm.ask('x')", True), ("await asyncio.to_thread(llm.ask, 'x')", False)],
    ids=["on the loop", "in a thread"],
)
def test_llm_in_an_async_body_is_said_to_hold_up_the_others(
    pytester: pytest.Pytester, body: str, is_told: bool
) -> None:
    pytester.makepyfile(bot=BOT, test_it=MIX_UPS.format(fixture="llm", body=body))
    pytester.makeini(INI)

    result = run_forked(pytester, *ALONE)

    result.assert_outcomes(passed=1)
    told = (
        "ran serially: a call in async def that blocks: await async_llm.ask(...), or an awaitable"
    )
    assert (told in str(result.stdout)) is is_told
