"""A model that hangs: its trial is errored, the session goes on and ends."""

from __future__ import annotations

import os
import signal
import time

import pytest

from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.runs.run_file import read_run
from tests.forked import run_forked
from tests.warm_python import PYTHON

MODEL = """
import asyncio
import time


def answer(messages, *, draw):
    if draw.trial == 1:
        time.sleep(600)
    return "yes"


async def answer_async(messages, *, draw):
    if draw.trial == 1:
        await asyncio.sleep(600)
    return "yes"
"""

EVALS = {
    "llm": """
from pytest_llmeval import llm_eval

@llm_eval(repeats=3)
def test_it(llm):
    assert llm.ask("Hello").text == "yes"
""",
    "async_llm": """
from pytest_llmeval import llm_eval

@llm_eval(repeats=3)
async def test_it(async_llm):
    assert (await async_llm.ask("Hello")).text == "yes"
""",
    "serial": """
from pytest_llmeval import llm_eval

@llm_eval(repeats=3, concurrency="serial")
def test_it(llm):
    assert llm.ask("Hello").text == "yes"
""",
}


def recorded(pytester: pytest.Pytester) -> Run:
    (path,) = (pytester.path / ".llmeval" / "runs").rglob("*.jsonl.gz")
    return read_run(path)


@pytest.mark.parametrize("function", ["answer", "answer_async"])
def test_a_function_that_hangs_errs_its_trial_and_no_other(
    pytester: pytest.Pytester, function: str
) -> None:
    files = {f"test_{kind}": evals.replace("Hello", kind) for kind, evals in EVALS.items()}
    pytester.makepyfile(model=MODEL, **files)
    pytester.makeini(f"[pytest]\nllm_model = function/model:{function}\npythonpath = .\n")

    run_forked(pytester, "-p", "no:cacheprovider", "--llm-timeout=3")

    run = recorded(pytester)
    assert len(run.cases) == len(EVALS)
    for case in run.cases:
        trials = [trial for trial in run.trials if trial.case == case.id]
        outcomes = [trial.outcome for trial in trials]
        assert outcomes == [Outcome.PASSED, Outcome.ERRORED, Outcome.PASSED], case.id
        (call,) = trials[1].calls
        assert call.failure == "infrastructure"
        reason = f"function/model:{function} gave no reply within 3 s (--llm-timeout)"
        assert call.reason == reason


def test_what_a_model_logs_stays_with_its_trial(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        model="""
        import logging
        import time

        def answer(messages, *, draw):
            time.sleep(0.01)
            logging.getLogger("app").warning("trial %d", draw.trial)
            return "yes"
        """,
        test_it="""
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=8, min_score=1.0)
        def test_it(llm, caplog):
            llm.ask("Hello")
            assert len(caplog.messages) == 1
        """,
    )
    pytester.makeini("[pytest]\nllm_model = function/model:answer\npythonpath = .\n")
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_cases_that_ask_for_one_draw_at_once_pay_for_it_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        model="""
        import time
        from pathlib import Path

        def answer(messages):
            with Path(__file__).with_name("calls.log").open("a") as file:
                file.write("x")
            time.sleep(0.05)
            return "yes"
        """,
        test_it="""
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("case", range(8))
        @llm_eval(repeats=2)
        def test_it(llm, case):
            llm.ask("Hello")
        """,
    )
    pytester.makeini("[pytest]\nllm_model = function/model:answer\npythonpath = .\n")
    result = run_forked(pytester, "-p", "no:cacheprovider", "-n", "2")
    result.stdout.fnmatch_lines(["*2 calls made, 14 replayed*"])
    assert (pytester.path / "calls.log").read_text() == "xx"


STOPPED = """
import os, pathlib, time

def answer(messages):
    if "SLOW" in os.environ:
        with open("asked.log", "a") as log: log.write("x")
        time.sleep(600)
    return "yes"
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no such signal")
def test_a_session_that_is_stopped_holds_no_other_up_for_longer_than_one_call_may_take(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(model=STOPPED, test_it=EVALS["llm"])
    pytester.makeini("[pytest]\nllm_model = function/model:answer\npythonpath = .\n")
    options = ("-p", "no:cacheprovider", "--llm-timeout=3")
    monkeypatch.setenv("SLOW", "1")
    other = pytester.popen([PYTHON, "-m", "pytest", *options[:2]])
    try:
        asked = pytester.path / "asked.log"
        while not asked.exists() or asked.stat().st_size < 3:  # of the three trials
            assert other.poll() is None
            time.sleep(0.02)
        os.kill(other.pid, signal.SIGSTOP)
        monkeypatch.delenv("SLOW")
        result = run_forked(pytester, *options)
    finally:
        with other:  # its pipes are closed at the end
            other.kill()

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*3 calls made, 0 replayed*", f"note: process {other.pid} waits for a reply *"]
    )
