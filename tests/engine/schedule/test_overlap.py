"""Trials overlap while they wait, and each still sees the process as if it were alone."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pytest_llmeval.runs.run_file import read_run
from tests.engine.noting import NOTE_ENDS, wait_for
from tests.forked import PATIENCE, ForkedSession, run_forked

MODEL = """
import threading
import time
from pathlib import Path

FLIGHT = threading.Semaphore(1000)
CALLS = Path(__file__).with_name("calls.log")


def answer(messages, *, draw, **params):
    with CALLS.open("a") as file:
        file.write("x\\n")
    time.sleep(0.02 + 0.01 * draw.rng.random())
    return messages[-1]["content"]
"""

SUITE = """
import contextlib
import io
import logging
import os
import threading
import warnings

import pytest
from pytest_llmeval import llm_eval

EVENTS = []
PARAMS = pytest.mark.parametrize("n", range(4))


@pytest.fixture
def fresh(request, llm):
    EVENTS.append(("up", request.node.nodeid))
    llm.ask("in a fixture")
    box = []
    yield box
    assert box == [1]
    EVENTS.append(("down", request.node.nodeid))


@pytest.fixture(scope="session")
def environment():
    os.environ["LLMEVAL_SESSION"] = "set"
    yield
    del os.environ["LLMEVAL_SESSION"]


@pytest.fixture(scope="module")
def shared():
    EVENTS.append("module up")
    yield object()
    EVENTS.append("module down")


@PARAMS
@llm_eval(repeats=5)
def test_fresh_fixtures(llm, fresh, n):
    assert fresh == []
    assert llm.ask(f"fresh {n}").text == f"fresh {n}"
    fresh.append(1)


def test_every_trial_had_its_own():
    assert len([e for e in EVENTS if e[0] == "up"]) == 20
    assert len([e for e in EVENTS if e[0] == "down"]) == 20


@PARAMS
@llm_eval(repeats=5)
def test_output(llm, n, capsys_off=None):
    print(f"before {n}")
    llm.ask(f"output {n}")
    print(f"after {n}")


@PARAMS
@llm_eval(repeats=5)
def test_environment_and_directory(llm, n, tmp_path, environment):
    assert os.environ["LLMEVAL_SESSION"] == "set"
    assert "LLMEVAL_TRIAL" not in os.environ
    os.environ["LLMEVAL_TRIAL"] = str(n)
    with contextlib.chdir(tmp_path):
        llm.ask(f"environment {n}")
        assert os.path.realpath(os.getcwd()) == os.path.realpath(tmp_path)
        assert os.environ["LLMEVAL_TRIAL"] == str(n)
        assert f"test_environment_and_directory[{n}]" in os.environ["PYTEST_CURRENT_TEST"]
    del os.environ["LLMEVAL_TRIAL"]


@PARAMS
@llm_eval(repeats=5)
def test_warnings_and_streams(llm, n):
    with pytest.warns(UserWarning, match=f"careful {n}"):
        warnings.warn(f"careful {n}", UserWarning)
        llm.ask(f"warnings {n}")
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print("a", end="")
        llm.ask(f"streams {n}")
        print("b", end="")
    assert text.getvalue() == "ab"


@PARAMS
@llm_eval(repeats=5)
def test_shared_fixture(llm, n, shared, request):
    llm.ask(f"shared {n}")
    assert request.getfixturevalue("shared") is shared


def test_module_fixture_is_still_up():
    assert EVENTS.count("module up") == 1
    assert "module down" not in EVENTS


class TestInClass:
    def setup_method(self):
        self.mine = []

    @llm_eval(repeats=5)
    def test_own_instance(self, llm):
        self.mine.append(1)
        llm.ask("class")
        assert self.mine == [1]


@llm_eval(repeats=5)
def test_monkeypatch(llm, monkeypatch):
    monkeypatch.setenv("LLMEVAL_PATCH", "1")
    llm.ask("patch")
    assert os.environ["LLMEVAL_PATCH"] == "1"


@llm_eval(repeats=5)
def test_capsys(llm, capsys):
    print("seen")
    llm.ask("capsys")
    assert capsys.readouterr().out == "seen\\n"


@llm_eval(repeats=5)
def test_from_a_thread_of_its_own(llm):
    replies = []
    thread = threading.Thread(target=lambda: replies.append(llm.ask("thread").text))
    thread.start()
    thread.join()
    assert replies == ["thread"]


def test_nothing_leaked():
    assert not [name for name in os.environ if name in ("LLMEVAL_TRIAL", "LLMEVAL_PATCH")]
"""

INI = "[pytest]\nllm_model = function/slow:answer\npythonpath = .\n"


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(slow=MODEL, test_suite=SUITE)
    pytester.makeini(INI)
    return pytester


# tests/correctness has the others.
MODES = {"overlapping": (), "inline": ("--llm-concurrency=1",), "maxfail": ("--maxfail=9",)}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_suite_passes_in_every_mode(suite: pytest.Pytester, mode: tuple[str, ...]) -> None:
    result = suite.runpytest("-p", "no:cacheprovider", "-v", *mode)

    result.assert_outcomes(passed=27)
    assert str(result.stdout).count("5/5 passed") == 24


def test_output_is_that_of_its_own_trial(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        slow=MODEL,
        test_it="""
        import logging
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(6))
        @llm_eval(repeats=3, min_score=1)
        def test_it(llm, n, request):
            print(f"before {n}")
            logging.getLogger().warning("log %s", n)
            llm.ask(f"{n}")
            print(f"after {n}")
            assert False, f"case {n}"
        """,
    )
    pytester.makeini(INI)

    result = pytester.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(failed=6)
    for n in range(6):
        part = str(result.stdout).partition(f"_ test_it[{n}] _")[2].partition("\n____")[0]
        part = part.partition("short test summary")[0]
        assert part.count(f"before {n}\nafter {n}") == 3
        assert part.count(f"log {n}") == 3
        others = [m for m in range(6) if m != n and (f"before {m}" in part or f"log {m}" in part)]
        assert others == []


def test_warnings_belong_to_their_item(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        slow=MODEL,
        test_it="""
        import warnings
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(3))
        @llm_eval(repeats=2)
        def test_it(llm, n):
            llm.ask(f"{n}")
            warnings.warn(f"warned by {n}", UserWarning)
        """,
    )
    pytester.makeini(INI + "filterwarnings = always\n")

    result = pytester.runpytest("-p", "no:cacheprovider")

    for n in range(3):
        result.stdout.fnmatch_lines([f"test_it.py::test_it?{n}?", f"*UserWarning: warned by {n}"])


def test_the_wait_of_all_trials_is_that_of_a_few(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        slow="""
        import threading
        ROUND = threading.Barrier(50)
        def answer(messages):
            ROUND.wait(300)  # all 100 trials wait twice as long as one, or for ever
            return "yes"
        """,
        test_it="""
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(20))
        @llm_eval(repeats=5)
        def test_it(llm, n):
            assert llm.ask(f"{n}").text == "yes"
        """,
    )
    pytester.makeini(INI)

    result = pytester.runpytest("-p", "no:cacheprovider", "--llm-concurrency=50")

    result.assert_outcomes(passed=20)
    result.stdout.no_fnmatch_line("*errored*")


def flight_of(pytester: pytest.Pytester, *arguments: str, expected: int) -> int:
    """The most trials that were in flight at once; each waits until there were so many."""
    pytester.makepyfile(
        slow=f"""
        import threading
        import time
        from pathlib import Path
        LOCK, NOW, MOST, FULL = threading.Lock(), 0, 0, threading.Event()
        def answer(messages):
            global NOW, MOST
            with LOCK:
                NOW += 1
                MOST = max(MOST, NOW)
                Path(__file__).with_name("most.txt").write_text(str(MOST))
                if MOST >= {expected}:
                    FULL.set()
            FULL.wait(300)
            time.sleep(0.05)  # in which there may be one too many
            with LOCK:
                NOW -= 1
            return "yes"
        """,
        test_it="""
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(8))
        @llm_eval(repeats=4)
        def test_it(llm, n):
            llm.ask(f"{n}")
        """,
    )
    pytester.makeini(INI)
    pytester.runpytest("-p", "no:cacheprovider", *arguments).assert_outcomes(passed=8)
    return int((Path(pytester.path) / "most.txt").read_text())


def test_the_limit_holds(pytester: pytest.Pytester) -> None:
    assert flight_of(pytester, "--llm-concurrency=6", expected=6) == 6


def test_under_x_only_the_case_in_turn_overlaps(pytester: pytest.Pytester) -> None:
    assert flight_of(pytester, "-x", expected=4) == 4


ORDER = """
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


@pytest.mark.parametrize("n", range(10))
@llm_eval(repeats=5)
def test_it(llm, narrow, n):
    llm.ask(f"{n}")
    if n == 3:
        {action}
"""


@pytest.mark.parametrize(
    ("action", "arguments", "status"),
    [
        ("raise RuntimeError('stop')", ("-x",), 1),
        ("raise RuntimeError('stop')", ("--maxfail=1",), 1),
        ("raise KeyboardInterrupt", (), 2),
        ("pytest.exit('enough', returncode=7)", (), 7),
        ("pass", (), 0),
    ],
    ids=["x", "maxfail", "ctrl-c", "exit", "end"],
)
def test_wide_fixtures_go_last_however_the_session_ends(
    pytester: pytest.Pytester, action: str, arguments: tuple[str, ...], status: int
) -> None:
    pytester.makepyfile(slow=MODEL, test_order=ORDER.replace("{action}", action))
    pytester.makeini(INI)

    result = run_forked(pytester, "-p", "no:cacheprovider", *arguments)

    assert result.ret == status
    log = (pytester.path / "order.log").read_text().splitlines()
    assert log.count("narrow up") == log.count("narrow down")
    assert (log[0], log[-1]) == ("wide up", "wide down")
    assert log.count("wide up") == 1


def test_a_lock_held_across_a_call_delays_but_does_not_hang(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        slow=MODEL,
        test_it="""
        import threading
        import pytest
        from pytest_llmeval import llm_eval

        LOCK = threading.Lock()

        @pytest.mark.parametrize("n", range(3))
        @llm_eval(repeats=3)
        def test_it(llm, n):
            with LOCK:
                assert llm.ask(f"{n}").text == f"{n}"
        """,
    )
    pytester.makeini(INI)

    result = run_forked(pytester, "-p", "no:cacheprovider")

    result.assert_outcomes(passed=3)


def test_asyncio_run_in_a_sync_body(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import asyncio
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=5)
        def test_it():
            asyncio.run(asyncio.sleep(0.2))
        """
    )

    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_waiting_lets_others_go_on(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import threading
        import pytest
        from pytest_llmeval import llm_eval, waiting

        ROUND = threading.Barrier(8)

        @pytest.mark.parametrize("n", range(10))
        @llm_eval(repeats=4)
        def test_it(n):
            assert waiting(pow, 2, 3) == 8
            waiting(ROUND.wait, 300)  # or broken, which crashes the trial
            with pytest.raises(KeyError):
                waiting({}.__getitem__, n)
        """
    )

    result = pytester.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(passed=10)
    result.stdout.no_fnmatch_line("*crashed*")
    result.stdout.no_fnmatch_line("*ran beside the others*")


def test_waiting_is_a_plain_call_elsewhere() -> None:
    from pytest_llmeval import waiting

    assert waiting(pow, 2, 3) == 8


@pytest.mark.parametrize(
    ("fixture", "asking"), [("llm", "def"), ("async_llm", "async def")], ids=["sync", "async"]
)
def test_nothing_runs_beside_a_serial_model(
    pytester: pytest.Pytester, fixture: str, asking: str
) -> None:
    ask = f"await {fixture}.ask" if "async" in asking else f"{fixture}.ask"
    pytester.makepyfile(
        slow="""
        import time

        busy = []

        def answer(messages):
            assert not busy
            busy.append(1)
            time.sleep(0.4)  # long enough to be taken for a trial that blocks
            busy.clear()
            return "yes"

        answer.llm_serial = True
        """,
        test_it=f"""
        import pytest
        import slow
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(3))
        @llm_eval(repeats=2)
        {asking} test_it({fixture}, n):
            assert not slow.busy
            assert ({ask}(f"{{n}}")).text == "yes"
            assert not slow.busy
        """,
    )
    pytester.makeini(INI)

    result = pytester.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["3 cases ran serially: llm_serial (3)"])
    result.stdout.no_fnmatch_line("*ran beside the others*")


def test_a_trial_that_failed_beside_others_is_run_again_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        slow=MODEL,
        test_it="""
        import os
        import time
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(4))
        @llm_eval(repeats=2)
        def test_it(llm, n):
            llm.ask(f"{n}")
            os.environ["LLMEVAL_MINE"] = str(n)
            time.sleep(0.5)
            assert os.environ.pop("LLMEVAL_MINE") == str(n)
        """,
    )
    pytester.makeini(INI)

    result = pytester.runpytest("-p", "no:cacheprovider", "-v")

    assert str(result.stdout).count("2/2 passed") == 4
    assert len((pytester.path / "calls.log").read_text().splitlines()) == 8
    result.stdout.fnmatch_lines(["*8 calls made, 0 replayed*"])


def test_ctrl_c_keeps_the_trials_that_had_ended_and_waits_for_no_call(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        slow="""
        import time
        from pathlib import Path

        def answer(messages):
            with Path(__file__).with_name("calls.log").open("a") as file:
                file.write("x\\n")
            if "fast" not in messages[-1]["content"]:
                time.sleep(3600)
            return "yes"
        """,
        test_it="""
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture
        def narrow():
            with open("order.log", "a") as log: log.write("up\\n")
            yield
            with open("order.log", "a") as log: log.write("down\\n")

        @pytest.mark.parametrize("kind", ["slow", "fast 1", "fast 2"])
        @llm_eval(repeats=4)
        def test_it(llm, narrow, kind):
            llm.ask(kind)
        """,
    )
    pytester.makeini(INI)

    pytester.makeconftest(NOTE_ENDS)
    options = ("-p", "no:cacheprovider")
    process = ForkedSession(pytester.path, *options, output=pytester.path / "output.txt")
    wait_for(process, pytester.path / "calls.log", 12)
    wait_for(process, pytester.path / "ended.log", 8)  # the fast ones
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(PATIENCE)  # the slow calls take an hour

    assert process.returncode == 2
    log = (pytester.path / "order.log").read_text().splitlines()
    assert log.count("up") == log.count("down") == 12
    (path,) = (pytester.path / ".llmeval" / "runs").rglob("*.jsonl.gz")
    run = read_run(path)
    assert not run.complete
    assert {trial.case.partition("[")[2] for trial in run.trials} >= {"fast 1]", "fast 2]"}
    assert "llm evals" in output


@pytest.mark.parametrize("package", ["gevent", "eventlet"])
def test_where_greenlets_stand_in_the_place_of_threads_everything_is_serial(
    pytester: pytest.Pytester, package: str
) -> None:
    pytester.makeconftest(
        f"""
        import threading

        def start(*arguments, plain=threading._start_new_thread):
            return plain(*arguments)

        start.__module__ = "{package}.thread"
        threading._start_new_thread = start
        """
    )
    pytester.makepyfile(
        """
        import threading
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, min_score=1)
        def test_it():
            assert threading.current_thread() is threading.main_thread()
        """
    )

    result = run_forked(pytester)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [f"1 case ran serially: {package} (1)", f"note: all cases ran serially: {package} puts *"]
    )


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("asyncio.get_event_loop().run_until_complete(asyncio.sleep(0))", "get_event_loop"),
        ("signal.signal(signal.SIGALRM, signal.SIG_DFL)", "SIGALRM"),
        ("app.within(1)", "SIGALRM"),
        ("limited()", "SIGALRM"),
    ],
)
def test_what_python_allows_in_its_main_thread_alone_runs_there(
    pytester: pytest.Pytester, body: str, named: str
) -> None:
    app = """
        import signal
        from contextlib import contextmanager

        @contextmanager
        def within(seconds):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            yield

        def limited():
            with within(1):
                limited  # which names itself
    """
    evals = f"""
        import app, asyncio, signal
        from app import limited
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, min_score=1)
        def test_it():
            {body}
    """
    pytester.makepyfile(app=app, test_it=evals)

    result = run_forked(pytester, "-p", "no:cacheprovider")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"1 case ran serially: {named} (1)"])
