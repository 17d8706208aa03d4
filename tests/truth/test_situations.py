"""Sessions that are selected, stopped, killed or beside others: outcomes are the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.forked import ForkedSession
from tests.truth.kinds import Kind
from tests.truth.sessions import RatedServer, Session, Sessions

ONE_ASK = Kind(
    name="one ask",
    source="""
from app import FOLDER
import signal

def is_time_to(what):
    calls = FOLDER / "calls.log"
    return (FOLDER / what).exists() and calls.exists() and calls.stat().st_size > 200

@evaluated(min_score=0.3)
def test_a(llm, i):
    body()
    if is_time_to("die"):
        os._exit(7)
    if is_time_to("interrupt"):
        (FOLDER / "interrupt").unlink(missing_ok=True)
        os.kill(os.getpid(), signal.SIGINT)
    assert llm.ask(f"q {i} rate=0.5").text == "yes"

@evaluated()
def test_b(llm, i):
    assert llm.ask(f"b {i} rate=0.5").text == "yes"
""",
)


@pytest.fixture
def sessions(pytester: pytest.Pytester, server: RatedServer) -> Sessions:
    return Sessions(ONE_ASK, pytester, server)


def differing(session: Session, whole: Session) -> list[str]:
    """List the trials that ended in another way than in the whole run."""
    return [
        f"{case} trial {index}: {whole.outcomes[case, index]} -> {outcome}"
        for (case, index), outcome in session.outcomes.items()
        if outcome != whole.outcomes[case, index]
    ]


@pytest.mark.parametrize(
    "options",
    [
        "-x",
        "--maxfail=3",
        "-k test_b",
        "-k 1",
        "--lf",
        "--ff",
        "--sw",
        "-n 2 -x",
        "-n 2 --dist loadfile",
        "-n 2 --dist each",
        "--llm-fail-on-miss",
        "-s",
        "--llm-concurrency=1",
    ],
)
def test_what_ran_of_a_selection_ends_as_in_the_whole_run(sessions: Sessions, options: str) -> None:
    whole = sessions.run()
    sessions.forget_replies()

    part = sessions.ended(sessions.start(*options.split()))

    assert part.run.trials
    assert differing(part, whole) == []


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_after_a_crash_the_same_outcomes_come(sessions: Sessions, workers: tuple[str, ...]) -> None:
    whole = sessions.run()
    sessions.forget_replies()
    (sessions.project.path / "die").touch()
    assert sessions.start(*workers).ret != 0
    (sessions.project.path / "die").unlink()

    again = sessions.run(*workers)

    assert again.outcomes == whole.outcomes
    assert again.asked < whole.asked, "what was paid for is replayed"


def test_after_ctrl_c_the_same_outcomes_come(sessions: Sessions) -> None:
    whole = sessions.run()
    sessions.forget_replies()
    (sessions.project.path / "interrupt").touch()
    assert sessions.start().ret == pytest.ExitCode.INTERRUPTED

    again = sessions.run()

    assert again.outcomes == whole.outcomes
    assert again.asked < whole.asked, "what was paid for is replayed"


def test_two_sessions_at_once_share_what_is_paid(sessions: Sessions) -> None:
    whole = sessions.run()
    sessions.forget_replies()
    folder: Path = sessions.project.path
    (folder / "calls.log").unlink()

    both = [ForkedSession(folder, output=folder / f"out-{number}") for number in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda session: session.communicate(timeout=240), both))

    assert (folder / "calls.log").read_text().count("\n") == whole.asked
    means = [Session.printed_in((folder / f"out-{number}").read_text()) for number in range(2)]
    assert means == [whole.means, whole.means]


def test_a_test_case_of_unittest_is_refused(pytester: pytest.Pytester, server: RatedServer) -> None:
    refused = Kind(
        name="unittest",
        source="""
import unittest

class TestA(unittest.TestCase):
    @llm_eval(repeats=5)
    def test_a(self):
        body()
""",
    )
    done = Sessions(refused, pytester, server).start()

    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "unittest" in str(done.stderr) + str(done.stdout)
