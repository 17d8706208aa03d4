"""Context variables and threads: what trials see of fixtures, one another and the session."""

from __future__ import annotations

import pytest

from tests.forked import run_forked

MODES = pytest.mark.parametrize(
    "mode", [(), ("--llm-concurrency=1",)], ids=["overlapping", "inline"]
)
BOT = """
import time
from contextvars import ContextVar

TENANT = ContextVar("tenant", default="nobody")

def answer(messages):
    time.sleep(0.01)
    return TENANT.get()
"""
PRELUDE = """
import signal
import sqlite3
import threading
import pytest
from bot import TENANT
from pytest_llmeval import llm_eval, waiting

MANY = pytest.mark.parametrize("n", range(4))
"""


def run(pytester: pytest.Pytester, suite: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(bot=BOT, test_it=PRELUDE + suite)
    pytester.makeini("[pytest]\nllm_model = function/bot:answer\npythonpath = .\n")
    return run_forked(pytester, "-p", "no:cacheprovider", *arguments)


@MODES
def test_what_a_wider_fixture_sets_is_seen_by_all_that_comes_after(
    pytester: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    result = run(
        pytester,
        """
@pytest.fixture(scope="module")
def tenant():
    token = TENANT.set("module")
    yield
    TENANT.reset(token)

@MANY
@llm_eval(repeats=3, min_score=1)
def test_body(llm, tenant, n):
    assert TENANT.get() == "module"
    assert llm.ask(f"{n}").text == "module"
    assert TENANT.get() == "module"

def test_ordinary(tenant):
    assert TENANT.get() == "module"
""",
        *mode,
    )

    result.assert_outcomes(passed=5)


def test_what_a_trial_sets_is_seen_by_that_trial_alone(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.fixture
def tenant(n):
    assert TENANT.get() == "nobody"
    TENANT.set(f"tenant {n}")

@MANY
@llm_eval(repeats=3, min_score=1)
def test_body(llm, tenant, n):
    assert TENANT.get() == f"tenant {n}"
    assert llm.ask(f"{n}").text == f"tenant {n}"
    assert waiting(TENANT.get) == f"tenant {n}"
    TENANT.set("left behind")

@MANY
@llm_eval(repeats=3, min_score=1)
def test_later(llm, n):
    assert TENANT.get() == "nobody"
    assert llm.ask(f"later {n}").text == "nobody"

def test_ordinary():
    assert TENANT.get() == "nobody"
""",
    )

    result.assert_outcomes(passed=9)


def test_a_value_of_an_ordinary_test_before_is_seen(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def test_ordinary():
    TENANT.set("ordinary")

@llm_eval(repeats=3, min_score=1)
def test_body(llm):
    assert TENANT.get() == "ordinary"
""",
    )

    result.assert_outcomes(passed=2)


@MODES
def test_wider_fixtures_live_in_the_thread_of_the_session(
    pytester: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    result = run(
        pytester,
        """
def assert_here():
    assert threading.current_thread() is threading.main_thread()

@pytest.fixture(scope="session")
def handler():
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)

@pytest.fixture(scope="module", params="ab")
def letter(request, handler):
    assert_here()
    yield request.param
    assert_here()

class TestIt:
    @pytest.fixture(scope="class", autouse=True)
    def connection(self, letter):
        connection = sqlite3.connect(":memory:")
        yield
        connection.close()

    @classmethod
    def setup_class(cls):
        assert_here()
        cls.made_in = threading.current_thread()

    @MANY
    @llm_eval(repeats=3, min_score=1)
    def test_body(self, llm, letter, n):
        llm.ask(f"{n}")
        assert self.made_in is threading.main_thread()

""",
        *mode,
    )

    result.assert_outcomes(passed=8)


@MODES
def test_a_wider_fixture_that_is_asked_for_late_is_made_once_in_the_thread_that_asks(
    pytester: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    result = run(
        pytester,
        """
MADE = []

@pytest.fixture(scope="session")
def late():
    MADE.append(threading.current_thread())
    yield "late"
    MADE.clear()

@MANY
@llm_eval(repeats=3, min_score=1)
def test_asks_late(request, llm, n):
    llm.ask(f"{n}")
    before, here = list(MADE), threading.current_thread()
    assert request.getfixturevalue("late") == "late"
    assert MADE == (before or [here])
""",
        *mode,
    )

    result.assert_outcomes(passed=4)


@MODES
def test_a_wider_fixture_that_fails_is_shown_like_any(
    pytester: pytest.Pytester, mode: tuple[str, ...]
) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="module")
        def broken():
            raise RuntimeError("no database")
        """
    )
    result = run(
        pytester,
        """
@llm_eval(repeats=2)
def test_body(llm, broken):
    pass
""",
        *mode,
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*def broken():*", "E *RuntimeError: no database"])
    for name in ("fiber.py", "wide.py", "result.py", "hooks.py", "fixtures.py"):
        result.stdout.no_fnmatch_line(f"*{name}*")


def test_a_serial_case_may_use_what_is_bound_to_the_thread(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.fixture(scope="module")
def connection():
    connection = sqlite3.connect(":memory:")
    yield connection
    connection.close()

@MANY
@llm_eval(repeats=2, min_score=1, concurrency="serial")
def test_serial(llm, connection, n):
    llm.ask(f"{n}")
    assert connection.execute("select 1").fetchone() == (1,)

@llm_eval(repeats=2, min_score=1)
def test_overlapping(llm, connection):
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("select 1")
""",
    )

    result.assert_outcomes(passed=5)


def test_ctrl_c_in_a_wider_fixture_ends_the_session_in_order(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import os

LOG = open("order.log", "a", buffering=1)

@pytest.fixture(scope="session")
def wide():
    yield
    LOG.write("wide down\\n")

@pytest.fixture(scope="module")
def interrupted(wide):
    os.kill(os.getpid(), signal.SIGINT)
    LOG.write("not reached\\n")

@MANY
@llm_eval(repeats=3)
def test_body(llm, interrupted, n):
    llm.ask(f"{n}")
""",
    )

    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert (pytester.path / "order.log").read_text() == "wide down\n"
