"""What a trial does to the process harms no other trial, and no part of the state gets lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.forked import ForkedSession, run_forked

MODEL = """
import time

def answer(messages):
    time.sleep(0.05)
    return "yes"
"""

SUITE = """
import asyncio
import logging
import os
import shutil
import sys
import time
from unittest import mock

import pytest
from pytest_llmeval import llm_eval, waiting

BEFORE = os.getcwd()


def check_all():
    assert os.getcwd() == BEFORE
    assert "LLMEVAL_MINE" not in os.environ


@pytest.fixture(scope="module")
def wide():
    yield
    with open("order.log", "a") as log:
        log.write("down wide\\n")


@pytest.fixture
def narrow(wide):
    yield
    with open(os.path.join(BEFORE, "order.log"), "a") as log:
        log.write("down narrow\\n")


{trial}


@pytest.mark.parametrize("n", range(3))
@llm_eval(repeats=2, min_score=1)
def test_neighbour(llm, narrow, tmp_path, n):
    check_all()
    os.chdir(tmp_path)
    os.environ["LLMEVAL_MINE"] = str(n)
    llm.ask(f"{n}")
    assert os.path.samefile(os.getcwd(), tmp_path)
    assert os.environ.pop("LLMEVAL_MINE") == str(n)
    os.chdir(BEFORE)


def test_nothing_is_left():
    check_all()
"""

SYNC = """
@llm_eval(repeats=3, min_score=1)
def test_it(llm, narrow, tmp_path):
    {body}
"""

ASYNC = """
@llm_eval(repeats=3, min_score=1)
async def test_it(async_llm, narrow, tmp_path):
    {body}
"""

BODIES = {
    "environ, in a call": SYNC.replace(
        "{body}", "with mock.patch('os.environ', {'A': 'b'}): llm.ask('q'); assert os.environ['A']"
    ),
    "environ, in an await": ASYNC.replace(
        "{body}", "with mock.patch('os.environ', {'A': 'b'}): await asyncio.sleep(0)"
    ),
    "environ, blocking": SYNC.replace("{body}", "with mock.patch('os.environ'): time.sleep(0.5)"),
    "getcwd that raises": ASYNC.replace(
        "{body}", "with mock.patch('os.getcwd', side_effect=ValueError): await asyncio.sleep(0)"
    ),
    "chdir": ASYNC.replace(
        "{body}", "with mock.patch('os.chdir', side_effect=ValueError): await asyncio.sleep(0)"
    ),
    "getLogger": ASYNC.replace(
        "{body}", "with mock.patch('logging.getLogger', return_value=1): await asyncio.sleep(0)"
    ),
    "no stdout": SYNC.replace(
        "{body}", "out = sys.stdout; del sys.stdout; llm.ask('q'); sys.stdout = out"
    ),
    "a folder that it removed": SYNC.replace(
        "{body}",
        """os.chdir(tmp_path)
    os.rmdir(tmp_path)
    llm.ask('q')
    with pytest.raises(FileNotFoundError):
        os.getcwd()
    with pytest.raises(FileNotFoundError):
        open('file', 'w')
    os.chdir(BEFORE)""",
    ),
    "a folder that was removed while it waited": SYNC.replace(
        "{body}",
        """os.chdir(tmp_path)
    waiting(shutil.rmtree, tmp_path)
    with pytest.raises(FileNotFoundError):
        os.getcwd()
    os.chdir(BEFORE)""",
    ),
}


@pytest.fixture(scope="module")
def bodies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session with a file for each of the bodies; what it printed is in output.log."""
    folder = tmp_path_factory.mktemp("bodies")
    (folder / "bot.py").write_text(MODEL)
    (folder / "pytest.ini").write_text(
        "[pytest]\nllm_model = function/bot:answer\npythonpath = .\n"
    )
    for number, trial in enumerate(BODIES.values()):
        suite = SUITE.replace("{trial}", trial).replace("order.log", f"order{number}.log")
        # Each asks anew: a replay would not let the others go on.
        suite = suite.replace("ask('q')", f"ask('q{number}')")
        suite = suite.replace('f"{n}"', f'f"{number} {{n}}"')
        (folder / f"test_{number}.py").write_text(suite)
    output = folder / "output.log"
    ForkedSession(folder, "-v", "-p", "no:cacheprovider", output=output).wait(timeout=300)
    return folder


@pytest.mark.parametrize("body", BODIES)
def test_what_a_trial_does_to_the_process_reaches_no_other(bodies: Path, body: str) -> None:
    number = [*BODIES].index(body)

    output = (bodies / "output.log").read_text()
    ended = re.findall(rf"^test_{number}\.py::(\S+) (?:PASSED|3/3 passed|2/2 passed)", output, re.M)
    assert len({*ended}) == 5, output
    log = (bodies / f"order{number}.log").read_text().splitlines()
    assert log.count("down narrow") in (9, 12)  # 3 more of a case that was run again
    assert log[-1] == "down wide"


def test_a_state_that_cannot_be_taken_off_is_the_error_of_its_trial_alone(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(bot=MODEL, test_it=SUITE.replace("{trial}", ""))
    pytester.makeini("[pytest]\nllm_model = function/bot:answer\npythonpath = .\n")
    pytester.makeconftest(
        """
        from pytest_llmeval.engine.isolation.environment import Environment
        from pytest_llmeval.engine.isolation.process_state import ProcessState

        TAKE_OFF, OF_ENVIRONMENT, TAKEN = ProcessState.take_off, Environment.take_off, []

        def fail(environment):
            raise RuntimeError("it cannot be taken off")

        def take_off(process, state):
            TAKEN.append(bool(state))  # that of the session is yet empty
            Environment.take_off = fail if TAKEN.count(True) == 2 and state else OF_ENVIRONMENT
            TAKE_OFF(process, state)

        ProcessState.take_off = take_off
        """
    )

    result = run_forked(pytester, "-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(["*RuntimeError: it cannot be taken off*"])
    outcomes = result.parseoutcomes()
    assert outcomes.pop("passed") == 3
    assert outcomes in ({"failed": 1}, {"errors": 1})  # it may end the setup of the first case
    assert (pytester.path / "order.log").read_text().splitlines()[-1] == "down wide"


SEEING = """
import os
import sys
import threading
import time

ALL_WAIT = threading.Barrier(3)

def answer(messages):
    ALL_WAIT.wait(300)
    time.sleep(0.05)  # until the last of them has handed its turn back
    seen = f"{os.environ.get('LLMEVAL_MINE')} {os.getcwd()} {type(sys.stdout).__name__}"
    ALL_WAIT.wait(300)
    return seen
"""
SEEN = """
import asyncio
import io
import os
import sys
from pytest_llmeval import llm_eval

HERE = os.getcwd()

def check(text):
    environ, directory, stdout = text.split()
    assert (environ, directory) == ("None", HERE)
    assert stdout != "StringIO"
"""


def assert_passes_where_calls_look(pytester: pytest.Pytester, test: str) -> None:
    """Run three trials that overlap, while whose calls the state of the process is looked at."""
    pytester.makepyfile(bot=SEEING, test_it=f"{SEEN}\n{test}")
    pytester.makeini("[pytest]\nllm_model = function/bot:answer\npythonpath = .\n")

    result = run_forked(pytester, "-p", "no:cacheprovider", "--llm-concurrency=3")

    result.assert_outcomes(passed=1)


def test_calls_do_not_see_what_the_trial_before_them_changed(pytester: pytest.Pytester) -> None:
    assert_passes_where_calls_look(
        pytester,
        """
@llm_eval(repeats=3, min_score=1)
def test_patching(llm, monkeypatch, tmp_path):
    monkeypatch.setenv("LLMEVAL_MINE", "1")
    monkeypatch.chdir(tmp_path)
    check(llm.ask("Where?").text)
    assert os.environ["LLMEVAL_MINE"] == "1"
    assert os.getcwd() == str(tmp_path)
""",
    )


# What a step of a coroutine changes, whether it is so in the next one, and how it is undone.
STEPS = {
    "environ": (
        "os.environ['LLMEVAL_MINE'] = '1'",
        "os.environ['LLMEVAL_MINE'] == '1'",
        "del os.environ['LLMEVAL_MINE']",
    ),
    "directory": ("os.chdir(tmp_path)", "os.getcwd() == str(tmp_path)", "os.chdir(HERE)"),
    "stdout": (
        "plain, sys.stdout = sys.stdout, io.StringIO()",
        "isinstance(sys.stdout, io.StringIO)",
        "sys.stdout = plain",
    ),
    "patched environ": (
        "monkeypatch.setenv('LLMEVAL_MINE', '1')",
        "os.environ['LLMEVAL_MINE'] == '1'",
        "monkeypatch.undo()",
    ),
}


@pytest.mark.parametrize("change", STEPS)
def test_calls_do_not_see_what_a_step_on_the_loop_changed(
    pytester: pytest.Pytester, change: str
) -> None:
    do, holds, undo = STEPS[change]
    assert_passes_where_calls_look(
        pytester,
        f"""
@llm_eval(repeats=3, min_score=1)
async def test_steps(async_llm, monkeypatch, tmp_path):
    for _ in range(3):  # of the same trial, one after the other
        await asyncio.sleep(0)
    {do}
    for _ in range(3):
        await asyncio.sleep(0)
        assert {holds}
    check((await async_llm.ask("Where?")).text)
    assert {holds}
    {undo}
""",
    )


def test_calls_of_others_do_not_see_what_a_step_on_the_loop_patched(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        bot="""
        import threading
        import time

        PATCHED = threading.Event()

        def answer(messages):
            assert PATCHED.wait(300)
            time.sleep(0.05)  # until the trial waits
            return time.ctime()
        """,
        test_it="""
        import asyncio
        import time
        import bot
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=1, min_score=1)
        async def test_other(async_llm):
            assert (await async_llm.ask("When?")).text != "noon"

        @llm_eval(repeats=1, min_score=1)
        async def test_patching(monkeypatch):
            monkeypatch.setattr(time, "ctime", lambda: "noon")
            for _ in range(3):
                await asyncio.sleep(0)
            bot.PATCHED.set()
            await asyncio.sleep(0.2)
            assert time.ctime() == "noon"
        """,
    )
    pytester.makeini("[pytest]\nllm_model = function/bot:answer\npythonpath = .\n")

    result = run_forked(pytester, "-p", "no:cacheprovider")

    result.assert_outcomes(passed=2)


def test_the_state_of_a_trial_is_saved_once_where_its_steps_follow_one_another(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import asyncio
        from pytest_llmeval import llm_eval
        from pytest_llmeval.engine.isolation.process_state import ProcessState

        TAKE_OFF, TAKEN = ProcessState.take_off, []

        def take_off(process, state):
            TAKEN.append(1)
            TAKE_OFF(process, state)

        ProcessState.take_off = take_off

        @llm_eval(repeats=1, min_score=1)
        async def test_alone():
            before = len(TAKEN)
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(TAKEN) - before < 10
        """
    )

    result = run_forked(pytester, "-p", "no:cacheprovider")

    result.assert_outcomes(passed=1)


def test_what_a_call_prints_and_warns_of_is_shown_without_capture(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        bot="""
        import warnings

        def answer(messages):
            print("the model prints")
            warnings.warn("the model warns")
            return "yes"
        """,
        test_it="""
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2)
        def test_it(llm):
            assert llm.ask("?").text == "yes"
        """,
    )
    pytester.makeini("[pytest]\nllm_model = function/bot:answer\npythonpath = .\n")

    result = run_forked(pytester, "-p", "no:cacheprovider", "-p", "no:capture")

    result.assert_outcomes(passed=1, warnings=2)
    assert result.stdout.str().count("the model prints") == 2
