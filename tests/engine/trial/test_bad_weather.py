"""Tests that hang, block, start threads; workers that die; sessions that must run inline."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from pytest_llmeval.records import Outcome
from pytest_llmeval.runs.run_file import read_run
from tests.engine.noting import NOTE_ENDS, wait_for
from tests.forked import PATIENCE, ForkedSession, run_forked
from tests.project import Project

MODEL = """
import time
from pathlib import Path

CALLS = Path(__file__).with_name("calls.log")


def answer(messages):
    with CALLS.open("a") as file:
        file.write("x\\n")
    time.sleep(0.01)
    return messages[-1]["content"]
"""
INI = "[pytest]\nllm_model = function/slow:answer\npythonpath = .\n"


def evals(pytester: pytest.Pytester, body: str) -> None:
    pytester.makepyfile(
        slow=MODEL,
        test_it=f"""
        import asyncio, os, threading, time
        import pytest
        from pytest_llmeval import llm_eval

        LOCK = threading.Lock()

        @pytest.mark.parametrize("n", range(3))
        @llm_eval(repeats=4)
        def test_it(llm, n):
            {body}
            assert llm.ask(f"{{n}}").text == f"{{n}}"

        def test_ordinary():
            assert threading.current_thread() is threading.main_thread()
        """,
    )
    pytester.makeini(INI)


@pytest.mark.parametrize(
    "body",
    [
        "with LOCK: llm.ask('held'); time.sleep(0.2)",
        "time.sleep(0.2)",
        "t = threading.Thread(target=llm.ask, args=('x',)); t.start(); t.join()",
        "ts = [threading.Thread(target=print) for _ in range(9)]; [t.start() for t in ts]",
        "asyncio.run(asyncio.sleep(0.15))",
        "asyncio.run(asyncio.to_thread(llm.ask, 'from a loop'))",
        "threading.Thread(target=time.sleep, args=(30,), daemon=True).start()",
        "pid = os.fork() or (llm.ask('child'), os._exit(0)); os.waitpid(pid, 0)",
    ],
    ids=["lock", "sleep", "asking-thread", "threads", "loop", "asking-loop", "daemon", "fork"],
)
def test_every_trial_passes_in_spite_of(pytester: pytest.Pytester, body: str) -> None:
    evals(pytester, body)

    result = run_forked(pytester, "-p", "no:cacheprovider", "-v")

    result.assert_outcomes(passed=4)
    assert str(result.stdout).count("4/4 passed") == 3


def test_what_hangs_with_a_lock_can_be_ended_by_ctrl_c(pytester: pytest.Pytester) -> None:
    # Never released: the second trial waits for ever.
    evals(pytester, "LOCK.acquire()")
    pytester.makeconftest(NOTE_ENDS)
    output_file = pytester.path / "output.txt"
    process = ForkedSession(pytester.path, "-p", "no:cacheprovider", output=output_file)
    wait_for(process, pytester.path / "ended.log", 1)  # the others hang, or will
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(PATIENCE)

    assert process.returncode == 2, output
    (path,) = (pytester.path / ".llmeval" / "runs").rglob("*.jsonl.gz")
    assert [trial.outcome for trial in read_run(path).trials] == [Outcome.PASSED]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(("--setup-show",), "--setup-show"), (("-s",), "-s"), (("--pdb",), "--pdb")],
    ids=["setup-show", "s", "pdb"],
)
def test_options_that_cannot_share_the_screen_run_inline(
    pytester: pytest.Pytester, arguments: tuple[str, ...], reason: str
) -> None:
    evals(pytester, "pass")

    result = run_forked(pytester, "-p", "no:cacheprovider", *arguments)

    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines([f"3 cases ran serially: {reason} (3)"])


def test_the_debugger_stops_in_the_failing_trial(pytester: pytest.Pytester) -> None:
    evals(pytester, "wanted = n; assert wanted != 1")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--pdb"],
        cwd=pytester.path, input="p ('here', wanted)\nc\n" * 9,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert "('here', 1)" in done.stdout
    assert "1 failed, 3 passed" in done.stdout  # it missed in every trial, and asked nothing
    assert done.returncode in (0, 1)


def kill_in_case(project: Project, number: int) -> None:
    project.write(
        conftest=f"""
        import os, pathlib, signal, pytest

        @pytest.fixture(autouse=True)
        def killer(request):
            mark = pathlib.Path("killed")
            if "[case-{number}]" in request.node.nodeid and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        """
    )


@pytest.mark.parametrize("restarts", ["0", "4"])
def test_a_killed_worker_loses_nothing_that_was_finished_and_does_not_pass(
    project: Project, restarts: str
) -> None:
    project.run("--llm-repeats=2").assert_outcomes(passed=20)
    project.calls()
    kill_in_case(project, 7)
    project.write(app='PROMPT = "Say yes to {case}, please. rate=0.8"\n')

    arguments = ["-n", "2", f"--max-worker-restart={restarts}", "--llm-repeats=2"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments,
         "--llm-baseline=main", "--llm-report=report.json"],
        cwd=project.path, env=dict(os.environ), capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip

    report = json.loads((project.path / "report.json").read_text())
    assert done.returncode == 1, done.stdout
    assert "INTERNALERROR" not in done.stdout
    assert report["run"]["complete"] is False
    assert report["verdict"] != "not_gated"
    assert {"test_evals.py::test_says_yes"} == {f["function"] for f in report["functions"]}
    made = project.calls()
    run = read_run(project.runs()[-1])
    assert not run.complete
    assert len(run.trials) >= 6
    assert stored(project) >= made - 4 + 40  # those of main, and all but what was on its way


def stored(project: Project) -> int:
    with sqlite3.connect(project.path / ".llmeval" / "cache" / "cache.db") as connection:
        (count,) = connection.execute("SELECT count(*) FROM Cache").fetchone()
    connection.close()
    return int(count)
