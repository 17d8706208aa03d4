"""Ctrl-C and -x: fixtures end in order, finished trials are kept, no call is waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.runs.run_file import read_run
from tests.engine.noting import NOTE_ENDS, lines, wait_for
from tests.forked import PATIENCE, ForkedSession, run_forked

MODEL = """
import time
from pathlib import Path

CALLS = Path(__file__).with_name("calls.log")


def answer(messages):
    with CALLS.open("a") as file:
        file.write("x\\n")
    if messages[-1]["content"].startswith("slow"):
        time.sleep(3600)  # a session that waited for it would be given up
    return "yes"
"""

# "fast" ends, "slow" is in flight when the signal comes, and the rest never begins.
EVALS = """
import time
import pytest
from pytest_llmeval import llm_eval

def note(line):
    with open("order.log", "a") as log: log.write(line + "\\n")

@pytest.fixture(scope="session")
def session():
    note("up session"); yield; note("down session")

@pytest.fixture(scope="module")
def module(session):
    note("up module"); yield; note("down module")

@pytest.fixture
def narrow(module, llm):
    note("up narrow"); yield; note("down narrow")
    {at_the_end}

@pytest.mark.parametrize("kind", ["fast", "slow", "slow too", "never"])
@llm_eval(repeats=4)
def test_it(llm, narrow, kind):
    llm.ask(kind)
"""

Session = Callable[..., ForkedSession]


def begin(
    folder: Path, *arguments: str, evals: str = EVALS, at_the_end: str = "", calls: int = 12
) -> ForkedSession:
    """Start a session, and return when its slow calls are on their way."""
    (folder / "slow.py").write_text(MODEL)
    (folder / "test_it.py").write_text(evals.replace("{at_the_end}", at_the_end))
    ini = "[pytest]\nllm_model = function/slow:answer\npythonpath = .\n"
    (folder / "pytest.ini").write_text(ini)
    options = ["-p", "no:cacheprovider", "--llm-concurrency=8", *arguments]
    process = ForkedSession(folder, *options, output=folder / "output.txt")
    wait_for(process, folder / "calls.log", calls)
    return process


@pytest.fixture
def start(pytester: pytest.Pytester) -> Iterator[Session]:
    """Start sessions, and end those that still run."""
    started: list[ForkedSession] = []

    def run(*arguments: str, **more: Any) -> ForkedSession:
        started.append(begin(pytester.path, *arguments, **more))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def ended(process: ForkedSession) -> str:
    """Wait for the end, which comes although calls take an hour; return the output."""
    output, _ = process.communicate(timeout=PATIENCE)
    return output


def interrupt(process: ForkedSession, whom: str) -> None:
    """Send Ctrl-C to a session and its workers, as a terminal does, or to the session alone."""
    if whom == "group":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)


def recorded(folder: Path) -> Run:
    (path,) = (folder / ".llmeval" / "runs").rglob("*.jsonl.gz")
    return read_run(path)


@dataclass(frozen=True)
class Stopped:
    """A session that Ctrl-C ended."""

    folder: Path
    status: int
    output: str


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    folder = tmp_path_factory.mktemp("stopped")
    process = begin(folder)
    process.send_signal(signal.SIGINT)
    output = ended(process)
    return Stopped(folder, process.returncode, output)


def test_ctrl_c_ends_the_session_in_order(stopped: Stopped) -> None:
    assert stopped.status == 2, stopped.output
    assert "Traceback" not in stopped.output
    log = lines(stopped.folder / "order.log")
    assert log.count("up narrow") == log.count("down narrow") == 12
    assert log.count("up module") == log.count("up session") == 1
    assert log[-2:] == ["down module", "down session"]


def test_finished_trials_are_kept_and_the_run_is_incomplete(stopped: Stopped) -> None:
    run = recorded(stopped.folder)
    assert not run.complete
    assert [trial.case for trial in run.trials] == ["test_it.py::test_it[fast]"] * 4


def test_the_account_has_the_calls_of_trials_that_did_not_end(stopped: Stopped) -> None:
    assert "4 calls made, 0 replayed · 12 attempts sent" in stopped.output
    made = lines(stopped.folder / "calls.log")
    assert recorded(stopped.folder).attempts == len(made) == 12


def test_ctrl_c_twice_skips_what_still_runs(pytester: pytest.Pytester, start: Session) -> None:
    process = start(at_the_end="while 'burning' in open('calls.log').read(): pass")
    order = pytester.path / "order.log"
    with (pytester.path / "calls.log").open("a") as log:
        log.write("burning\n")
    process.send_signal(signal.SIGINT)
    wait_for(process, order, 5, "down narrow")  # of the fast ones there were four
    process.send_signal(signal.SIGINT)
    output = ended(process)

    assert process.returncode == 2, output
    assert len(recorded(pytester.path).trials) == 4


def test_a_teardown_that_blocks_does_not_hold_up_the_end(
    pytester: pytest.Pytester, start: Session
) -> None:
    process = start(at_the_end="import os; os.path.exists('blocks') and time.sleep(3600)")
    (pytester.path / "blocks").touch()
    process.send_signal(signal.SIGINT)
    output = ended(process)

    assert process.returncode == 2, output
    assert len(recorded(pytester.path).trials) == 4


ASKING_TEARDOWN = """
import pytest
from pytest_llmeval import llm_eval

def note(line):
    with open("order.log", "a") as log: log.write(line + "\\n")

@pytest.fixture(scope="module")
def module():
    note("up module"); yield; note("down module")

@pytest.fixture
def below():
    note("up below"); yield; note("down below")

@pytest.fixture
def narrow(module, below, request, llm):
    question = f"slow {request.node.callspec.id}"
    yield
    {asks}

@pytest.mark.parametrize("n", range(2))
@llm_eval(repeats=4)
def test_it(narrow, n): pass
"""
ASYNC_TEARDOWN = ASKING_TEARDOWN.replace("llm):", "async_llm, _llm_runner):")


@pytest.mark.parametrize(
    "evals",
    [
        ASKING_TEARDOWN.replace("{asks}", "llm.ask(question)"),
        ASYNC_TEARDOWN.replace("{asks}", "_llm_runner.run(async_llm.ask(question))"),
        ASYNC_TEARDOWN.replace("{asks}", "_llm_runner.run(async_llm.ask(question))").replace(
            "def test_it(narrow, n): pass", "async def test_it(narrow, async_llm, n):"
        )
        + "    await async_llm.ask(f'slow {n}')",
    ],
    ids=["sync", "async", "async, and the body as well"],
)
def test_a_teardown_that_asks_a_model_keeps_no_other_from_its_end(
    pytester: pytest.Pytester, start: Session, evals: str
) -> None:
    process = start(evals=evals, calls=8)
    process.send_signal(signal.SIGINT)
    output = ended(process)

    assert process.returncode == 2, output
    log = lines(pytester.path / "order.log")
    assert log.count("up below") == log.count("down below") == 8
    assert log[-1] == "down module"


def test_a_worker_passes_ctrl_c_on(pytester: pytest.Pytester, start: Session) -> None:
    process = start("-n", "1")
    process.send_signal(signal.SIGINT)
    output = ended(process)

    assert process.returncode == 2, output


@pytest.mark.parametrize("whom", ["group", "controller"])
def test_one_ctrl_c_under_xdist_records_also_the_ended_trials_of_a_case_that_goes_on(
    pytester: pytest.Pytester, start: Session, whom: str
) -> None:
    # Slow are the second case after its first two trials, and the third.
    waits = "llm.ask(f'slow {kind}' if kind != 'fast' and next(WAITS) else f'quick {kind}')"
    half = EVALS.replace("llm.ask(kind)", waits) + "\nWAITS = iter([0, 0] + [1] * 99)\n"
    pytester.makeconftest(NOTE_ENDS)
    process = start("-n", "2", "--dist=loadfile", evals=half, calls=10)
    wait_for(process, pytester.path / "ended.log", 6)
    interrupt(process, whom)
    output = ended(process)

    assert process.returncode == 2, output
    assert len(recorded(pytester.path).trials) == 6
    log = lines(pytester.path / "order.log")
    assert log.count("up narrow") == log.count("down narrow")
    assert log[-1] == "down session"


INTERRUPTING = """
@pytest.hookimpl({moment}=True)
def pytest_runtest_logreport(report):
    if hasattr(report, "llm_eval"):
        os.kill(os.getpid(), signal.SIGINT)
"""
MANY = """
import pytest, time
from pytest_llmeval import llm_eval

@pytest.mark.parametrize("n", range(60))
@llm_eval(repeats=4)
def test_it(llm, n):
    time.sleep(0.005)
    llm.ask(f"fast {n}" if n < 59 else "slow")  # so no signal comes too late
"""


def trials_recorded(folder: Path) -> set[str]:
    return {f"{trial.case} {trial.index}" for trial in recorded(folder).trials}


@pytest.mark.parametrize(
    ("moment", "workers"), [("tryfirst", "0"), ("trylast", "0"), ("trylast", "2")]
)
def test_ctrl_c_while_a_case_is_reported_loses_none_of_its_trials(
    pytester: pytest.Pytester, start: Session, moment: str, workers: str
) -> None:
    pytester.makeconftest(NOTE_ENDS + INTERRUPTING.replace("{moment}", moment))
    process = start("-n", workers, evals=MANY, calls=1)
    output = ended(process)

    assert process.returncode == 2, output
    assert trials_recorded(pytester.path) >= set(lines(pytester.path / "ended.log"))


@pytest.mark.parametrize(
    ("whom", "seconds"), [("single process", 0.7), ("group", 0.15), ("controller", 0.7)]
)
def test_every_trial_that_had_ended_is_recorded_whenever_ctrl_c_comes(
    pytester: pytest.Pytester, start: Session, whom: str, seconds: float
) -> None:
    pytester.makeconftest(NOTE_ENDS)
    workers = "0" if whom == "single process" else "2"
    process = start("-n", workers, evals=MANY, calls=1)
    time.sleep(seconds)
    interrupt(process, whom)
    output = ended(process)

    assert process.returncode in (2, -signal.SIGINT), output
    assert trials_recorded(pytester.path) >= set(lines(pytester.path / "ended.log"))


@pytest.mark.parametrize("whom", ["group", "controller"])
def test_a_second_ctrl_c_under_xdist_ends_the_session_at_once(
    pytester: pytest.Pytester, start: Session, whom: str
) -> None:
    blocks = "import os; os.path.exists('blocks') and time.sleep(3600)"
    process = start("-n", "2", at_the_end=blocks, calls=8)
    (pytester.path / "blocks").touch()
    order = pytester.path / "order.log"
    torn_down = lines(order).count("down narrow")
    interrupt(process, whom)
    wait_for(process, order, torn_down + 1, "down narrow")  # the first one has come
    interrupt(process, whom)

    assert process.wait(timeout=PATIENCE) in (2, -signal.SIGINT)


EXITING = """
import pytest
from pytest_llmeval import llm_eval

@pytest.fixture
def narrow():
    with open("order.log", "a") as log: log.write("up\\n")
    yield
    with open("order.log", "a") as log: log.write("down\\n")

@pytest.mark.parametrize("kind", ["first", "exit", "never"])
@llm_eval(repeats=2)
def test_it(llm, narrow, kind):
    if kind == "exit":
        pytest.exit("enough")
    llm.ask(kind)
"""


@pytest.mark.parametrize("concurrency", ["1", "32"])
def test_pytest_exit_ends_the_session_when_its_case_is_in_turn(
    pytester: pytest.Pytester, concurrency: str
) -> None:
    pytester.makepyfile(slow=MODEL, test_it=EXITING)
    pytester.makeini("[pytest]\nllm_model = function/slow:answer\npythonpath = .\n")

    result = pytester.runpytest("-p", "no:cacheprovider", f"--llm-concurrency={concurrency}")

    assert result.ret == 2
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["=* llm evals =*", "*2 calls made*", "!* *Exit: enough !*"])
    run = recorded(pytester.path)
    assert not run.complete
    assert [trial.case for trial in run.trials] == ["test_it.py::test_it[first]"] * 2
    log = lines(pytester.path / "order.log")
    assert log.count("up") == log.count("down")


def test_what_leaves_the_teardown_of_a_trial_that_exits_is_not_taken_for_another_case(
    pytester: pytest.Pytester,
) -> None:
    evals = EXITING.replace(
        "    yield\n", "    yield\n    assert request.node.name != 'test_it[exit]'\n"
    )
    pytester.makepyfile(slow=MODEL, test_it=evals.replace("narrow():", "narrow(request):"))
    pytester.makeini("[pytest]\nllm_model = function/slow:answer\npythonpath = .\n")

    result = pytester.runpytest("-p", "no:cacheprovider")

    assert result.ret == 2
    result.assert_outcomes(passed=1)


def test_x_ends_what_is_in_flight_before_wider_fixtures(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        slow=MODEL,
        test_it=EVALS.replace("{at_the_end}", "")
        .replace("llm.ask(kind)", "llm.ask(kind if kind == 'slow' else 'fast'); raise OSError")
        .replace('["fast", "slow", "slow too", "never"]', '["fast", "slow", "never"]'),
    )
    pytester.makeini("[pytest]\nllm_model = function/slow:answer\npythonpath = .\n")

    result = run_forked(pytester, "-p", "no:cacheprovider", "-x")

    assert result.ret == 1
    log = lines(pytester.path / "order.log")
    assert log.count("up narrow") == log.count("down narrow") == 4
    assert log[-2:] == ["down module", "down session"]
    assert len(recorded(pytester.path).trials) == 4


@pytest.mark.parametrize("swallows", [False, True])
def test_an_async_body_that_had_ended_when_ctrl_c_came_is_recorded(
    pytester: pytest.Pytester, swallows: bool
) -> None:
    """One that was broken off is not, also if it got over that."""
    waits = "await asyncio.Event().wait()" if swallows else "pass"
    evals = f"""
import asyncio
import os
import pytest
from pytest_llmeval import llm_eval

ENDED = []

@pytest.fixture(scope="module")
def together(): return asyncio.Barrier(4)

@pytest.fixture
def narrow():
    yield
    with open("closed.log", "a") as log: log.write("x\\n")

@llm_eval(repeats=4)
async def test_it(together, narrow):
    await together.wait()
    ENDED.append(1)
    if len(ENDED) == 4:  # none had its turn since
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), 2)  # Ctrl-C
    elif len(ENDED) == 1:
        try:
            {waits}
        except asyncio.CancelledError:
            pass
"""
    pytester.makepyfile(test_it=evals)

    result = run_forked(pytester)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert len(lines(pytester.path / "closed.log")) == 4
    passed = [trial.outcome for trial in recorded(pytester.path).trials]
    assert passed == [Outcome.PASSED] * (3 if swallows else 4)


def test_an_async_fixture_that_is_up_when_ctrl_c_comes_is_torn_down(
    pytester: pytest.Pytester,
) -> None:
    evals = """
import asyncio
import os
import pytest
from pytest_llmeval import llm_eval

OPENED = []

@pytest.fixture(scope="module")
def together(): return asyncio.Barrier(4)

@pytest.fixture
def connection(together, _llm_runner):  # as pytest-asyncio does it
    async def open_it():
        await together.wait()
        OPENED.append(1)
        if len(OPENED) == 4:  # they are up together, and none had its turn since
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), 2)  # Ctrl-C
        return len(OPENED)

    number = _llm_runner.run(open_it())
    yield number
    with open("closed.log", "a") as log: log.write(f"{number}\\n")

@llm_eval(repeats=4)
async def test_it(connection): assert False, "it began"
"""
    pytester.makepyfile(test_it=evals)

    result = run_forked(pytester)

    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert sorted(lines(pytester.path / "closed.log")) == ["1", "2", "3", "4"]
