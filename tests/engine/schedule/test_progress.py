"""What is shown of a session while it runs, and that nothing of it stays."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from pytest_llmeval.engine.schedule.progress import Estimate, ProgressDisplay, WorkersProgress
from pytest_llmeval.errors import Lost
from pytest_llmeval.records import Call, CaseResult, Outcome, Progress, Slot, Trial
from tests.engine.schedule.screen import run_on_terminal, screen
from tests.forked import run_forked

MODEL = """
import time


def answer(messages):
    time.sleep(0.1)
    return messages[-1]["content"]
"""
EVALS = """
import pytest
from pytest_llmeval import llm_eval


@pytest.mark.parametrize("n", range(12))
@llm_eval(repeats=4, min_score=1)
def test_it(llm, n):
    print("captured")
    llm.ask(f"{n}")
    assert n != 7, "seven"


def test_ordinary():
    print("captured as well")
"""
INI = "[pytest]\nllm_model = function/slow:answer\npythonpath = .\n"
LIVE = re.compile(r"llm evals: (\d+)/48 trials")

on_terminals = pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo terminals")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(slow=MODEL, test_it=EVALS)
    pytester.makeini(INI)
    return pytester


def without_times(text: str) -> str:
    """Blank what differs from run to run."""
    text = re.sub(r"recorded \S+", "recorded", text)
    return re.sub(r"=*( in)? \d+\.\d+ ?s\b.*", "", re.sub(r"0x[0-9a-f]+", "0x", text))


@on_terminals
@pytest.mark.parametrize(
    "arguments",
    [(), ("-q",), ("-v", "--no-header"), ("--capture=sys",)],
    ids=["plain", "q", "v", "sys"],
)
def test_the_line_lives_and_leaves_the_screen_as_it_is_without(
    suite: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    arguments = ("--llm-cache=off", "--llm-concurrency=8", *arguments)
    # A directory each: what the second would know of the first is said before its tests.
    seen = run_on_terminal(suite.path, "--llm-dir=one", *arguments)
    without = run_on_terminal(suite.path, "--llm-dir=two", *arguments, term="dumb")

    shown = [int(done) for done in LIVE.findall(seen.raw)]
    assert len(set(shown)) > 1
    assert shown == sorted(shown)
    assert " under way · " in seen.raw
    assert "trials ·" not in without.raw + seen.text
    assert without_times(seen.text) == without_times(without.text.replace("/two", "/one"))
    assert "1 failed, 12 passed" in seen.text


@on_terminals
@pytest.mark.parametrize(
    "arguments",
    [("-qq",), ("-s",), ("--capture=tee-sys",), ("-p", "no:terminal"), ("-k", "ordinary")],
    ids=["qq", "s", "tee", "no-terminal", "no-evals"],
)
def test_no_line_where_it_would_be_in_the_way(
    suite: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    seen = run_on_terminal(suite.path, "--llm-repeats=1", *arguments)

    assert "under way" not in seen.raw
    assert "\x1b[A" not in seen.raw


@on_terminals
def test_it_is_redrawn_while_all_wait_and_erased_at_ctrl_c(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        slow=MODEL.replace("0.1", "2"),
        test_it="""
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=4)
        def test_it(llm):
            llm.ask("wait")
            raise KeyboardInterrupt
        """,
    )
    pytester.makeini(INI)

    seen = run_on_terminal(pytester.path)

    assert seen.raw.count("0/4 trials · 4 under way") > 1
    assert "KeyboardInterrupt" in seen.text
    assert "trials ·" not in seen.text


@on_terminals
def test_a_narrow_terminal_gets_a_short_line(suite: pytest.Pytester) -> None:
    seen = run_on_terminal(suite.path, columns=40)

    lines = re.findall(r"llm evals: \d+/48[^\x1b]*", seen.raw)
    assert lines
    assert max(map(len, lines)) < 40


@on_terminals
def test_a_terminal_without_our_dot_gets_another(suite: pytest.Pytester) -> None:
    seen = run_on_terminal(suite.path, encoding="ascii")

    assert "/48 trials ? " in seen.raw
    assert "trials ?" not in seen.text
    assert "x1b" not in seen.text


@on_terminals
def test_the_controller_of_workers_shows_what_they_reported(suite: pytest.Pytester) -> None:
    seen = run_on_terminal(suite.path, "-n", "2")

    shown = [int(done) for done in LIVE.findall(seen.raw)]
    assert len(set(shown)) > 1
    assert shown == sorted(shown)
    assert "under way · " not in seen.raw
    assert "trials ·" not in seen.text


def test_a_log_gets_plain_lines(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        """
        from pytest_llmeval.engine.schedule.progress import PlainLines
        PlainLines.period = 0.05
        """
    )

    result = run_forked(suite, "-p", "no:cacheprovider", "--llm-concurrency=8")

    lines = [line for line in result.outlines if "/48 trials" in line]
    assert len(lines) > 2
    assert all(line.startswith("llm evals: ") for line in lines)
    assert "\x1b" not in str(result.stdout)
    result.assert_outcomes(failed=1, passed=12)


@pytest.mark.parametrize("arguments", [(), ("-q",)], ids=["", "q"])
def test_a_short_session_gets_none_in_a_log(
    suite: pytest.Pytester, arguments: tuple[str, ...]
) -> None:
    result = run_forked(suite, "-p", "no:cacheprovider", *arguments)

    result.stdout.no_fnmatch_line("*/48 trials*")


class Recorder:
    """A surface that keeps what it is shown, and a clock."""

    width = 120

    def __init__(self, period: float) -> None:
        self.period = period
        self.now = 0.0
        self.shown: list[tuple[float, str]] = []

    def show(self, text: str) -> None:
        self.shown.append((self.now, text))

    def close(self) -> None:
        """Do nothing."""


def test_a_line_every_period_at_most() -> None:
    surface = Recorder(30)
    display = ProgressDisplay(
        surface,
        look=lambda: Progress(done=1, total=2),
        wording=lambda progress, width: f"{progress.done}/{progress.total} in {width}",
        clock=lambda: surface.now,
    )
    for surface.now in (0, 29, 30, 31, 59, 61, 200):
        display.show_if_due()

    assert surface.shown == [(30, "1/2 in 120"), (61, "1/2 in 120"), (200, "1/2 in 120")]


def test_nothing_is_shown_before_anything_is_known() -> None:
    surface = Recorder(0)
    display = ProgressDisplay(
        surface, look=lambda: None, wording=lambda progress, width: "", clock=lambda: surface.now
    )
    display.show_if_due()

    assert surface.shown == []


def test_what_is_left_follows_the_rate_of_the_last_while() -> None:
    estimate = Estimate()
    for second in range(101):
        estimate.seconds_left(second, done=10 * second, total=2000)
    for second in range(101, 141):
        left = estimate.seconds_left(second, done=900 + second, total=2000)

    assert left == pytest.approx(2000 - 1040)


@pytest.mark.parametrize(
    ("seconds", "trials"), [(1.0, 500), (60.0, 4), (60.0, 0)], ids=["short", "few", "none"]
)
def test_a_guess_is_not_told(seconds: float, trials: int) -> None:
    estimate = Estimate()
    estimate.seconds_left(0, done=0, total=1000)

    assert estimate.seconds_left(seconds, done=trials, total=1000) is None


def report(result: CaseResult | None = None) -> pytest.TestReport:
    made = pytest.TestReport("test_it.py", ("", 0, ""), {}, "passed", None, "call")
    if result is not None:
        made.llm_eval = result  # type: ignore[attr-defined]  # rides along
    return made


def test_what_workers_report_adds_up_and_a_rerun_replaces() -> None:
    workers = WorkersProgress()
    paid = Call(key="k", slot=Slot(0, 0), draw="1")
    replayed, failed = replace(paid, replayed=True), replace(paid, lost=Lost.CONTENT)

    def trial(*calls: Call) -> Trial:
        return Trial(case="a", index=0, outcome=Outcome.PASSED, calls=calls)

    workers.take(report())
    assert workers.look() is None
    for result in (
        CaseResult(id="1", case="a", trials=(trial(paid, replayed), trial()), total=5),
        CaseResult(id="2", case="b", trials=(trial(failed),)),
        CaseResult(id="3", case="b", trials=(trial(paid), trial())),
    ):
        workers.take(report(result))

    assert workers.look() == Progress(done=4, total=5, made=2, replayed=1)


def test_the_emulated_screen_is_one() -> None:
    assert screen("ab\n\rcd\x1b[A\r\x1b[2Cx\x1b[Jy", columns=9) == "abxy"
    assert screen("abcdef", columns=4) == "abcd\nef"
