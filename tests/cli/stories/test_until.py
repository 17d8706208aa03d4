"""`llmeval until`, with real pytest sessions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.cli.until_command import _next
from pytest_llmeval.runs.run_file import read_run
from pytest_llmeval.stats.expected import expect_mean
from tests.forked import ForkedSession
from tests.project import Project
from tests.warm_python import PYTHON

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _here(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(autouse=True)
def _forked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the sessions; those of a command in a process of its own are started afresh."""

    def forked(command: Sequence[str], **_output: object) -> AbstractContextManager[ForkedSession]:
        assert command[:3] == [sys.executable, "-m", "pytest"]
        output = project.path / "output.txt"
        output.unlink(missing_ok=True)
        return nullcontext(ForkedSession(Path.cwd(), *command[3:], output=output))

    started = SimpleNamespace(Popen=forked, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT)
    monkeypatch.setattr(import_module("pytest_llmeval.cli.until_command"), "subprocess", started)


def until(*arguments: object) -> Result:
    usual = ["-q", "-p", "no:cacheprovider"]
    options = [str(each) for each in arguments]
    at = options.index("--") + 1 if "--" in options else len(options)
    separator = [] if "--" in options else ["--"]
    return CliRunner().invoke(
        main, ["until", *options[:at], *separator, *usual, *options[at:]], catch_exceptions=False
    )


def looks(result: Result) -> list[tuple[int, int]]:
    """Repeats and calls paid of each look."""
    rows = re.findall(r"^ +(\d+) +(\d+) +[01]\.\d{3} ", result.stdout, re.MULTILINE)
    return [(int(repeats), int(paid)) for repeats, paid in rows]


def assert_refused(result: Result, *parts: str) -> None:
    assert result.exit_code == 4
    [line] = result.stderr.splitlines()
    assert line.startswith("ERROR: ")
    for part in parts:
        assert part in line


def test_repeats_grow_until_it_is_narrow_and_only_new_draws_are_paid_for(project: Project) -> None:
    result = until("--width=0.2")

    assert result.exit_code == 0
    found = looks(result)
    assert found[0] == (3, 60)
    assert len(found) > 1
    before = 0
    for repeats, paid in found:
        assert paid == 20 * (repeats - before)
        before = repeats
    assert project.calls() == 20 * before
    assert f"narrow enough with {before} repeats" in result.stdout
    assert "looking again does not spoil a range" in result.stdout
    # the last session's own output, and no other's
    assert result.stdout.count("llm evals =") == 1
    assert f"20 cases x {before} repeats" in result.stdout


def test_a_width_that_three_repeats_reach_takes_one_look() -> None:
    result = until("--width=0.9")

    assert result.exit_code == 0
    assert looks(result) == [(3, 60)]


def test_without_a_width_it_is_the_drop_that_the_gate_looks_for() -> None:
    assert "wide, not 0.1, at --max-repeats=3" in until("--max-repeats=3").stdout


def test_too_wide_at_the_most_repeats_exits_1_and_says_how_many_would_do() -> None:
    result = until("--width=0.02", "--max-repeats=4")

    assert result.exit_code == 1
    assert [repeats for repeats, _ in looks(result)] == [3, 4]
    assert re.search(
        r"wide, not 0.02, at --max-repeats=4. About (\d+) would be enough", result.stdout
    )


def test_the_looks_are_drawn(project: Project) -> None:
    result = until("--width=0.2", "--report=looks.html", "--report=looks.json", "--html=old")

    page = (project.path / "looks.html").read_text()
    assert page == (project.path / "old").read_text()  # the option's name before 1.0
    (function,) = json.loads((project.path / "looks.json").read_text())
    assert function["function"] == "test_says_yes"
    assert [one["repeats"] for one in function["looks"]] == [each for each, _ in looks(result)]
    assert page.count("<circle") == len(looks(result))
    for repeats, _ in looks(result):
        assert f"<td>{repeats}</td>" in page


def test_failing_tests_are_no_obstacle(project: Project) -> None:
    project.write(app='PROMPT = "Say yes to {case}. rate=0.05"\n')
    project.write(test_plain="def test_plain(): assert False")

    assert until("--width=0.9").exit_code == 0


def test_workers_of_xdist_are_no_obstacle() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_llmeval", "until", "--width=0.5", "--", "-n2", "-q"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "      3          60  " in done.stdout


TWO = """
from pytest_llmeval import llm_eval
import pytest

@llm_eval
@pytest.mark.parametrize("case", range(30))
def test_sure(llm, case):
    assert llm.ask(f"Say yes to {case}. rate=1").text == "yes"

@llm_eval
@pytest.mark.parametrize("case", range(10))
def test_shaky(llm, case):
    assert llm.ask(f"Say yes to {case}. rate=0.5").text == "yes"
"""


def test_all_functions_must_be_narrow_enough(project: Project) -> None:
    project.write(test_evals=TWO)

    result = until("--width=0.2", "--max-repeats=3")

    assert result.exit_code == 1
    assert "test_sure: narrow enough" in result.stdout
    assert re.search(r"test_shaky: 0\.\d+ wide", result.stdout)


def test_one_function_may_be_named(project: Project) -> None:
    project.write(test_evals=TWO)

    result = until("--width=0.2", "--max-repeats=3", "--function=test_sure")

    assert result.exit_code == 0
    assert "test_shaky:" not in result.stdout


def test_a_function_that_is_not_there_is_refused() -> None:
    result = until("--width=0.2", "--function=test_says_no")

    assert_refused(result, "--function=test_says_no", "has test_says_yes")


def test_scores_that_never_vary_are_unknown_up_to_the_end(project: Project) -> None:
    project.write(
        test_evals="""
        from pytest_llmeval import llm_eval
        import pytest

        @llm_eval
        @pytest.mark.parametrize("case", range(4))
        def test_scores(llm_score, case):
            llm_score(case / 4)
        """
    )
    result = until("--width=0.2", "--max-repeats=5")

    assert result.exit_code == 1
    assert result.stdout.count("unknown") == 5
    assert "no two repeats of a case differ" in result.stdout


TIMED = """
from pytest_llmeval import llm_eval

@llm_eval(gate=GATE)
def test_timed(llm):
    assert llm.ask("rate=1")
"""


def test_what_calls_took_has_no_width(project: Project) -> None:
    project.write(test_evals=TIMED.replace("GATE", '("pass", "seconds")'))

    result = until("--width=1", "--max-repeats=3")

    assert result.exit_code == 0
    assert "test_timed: narrow enough" in result.stdout
    assert "test_timed (seconds):" not in result.stdout


def test_what_calls_took_alone_is_refused(project: Project) -> None:
    project.write(test_evals=TIMED.replace("GATE", '"seconds"'))

    assert_refused(until("--width=0.9"), "what calls took", "gate=('pass', 'seconds')")


def test_without_a_single_score_it_ends_at_once(project: Project) -> None:
    project.write(test_evals=TWO.replace("rate=1", "rate=x").replace("rate=0.5", "rate=x"))

    result = until("--width=0.2")

    assert result.exit_code == 1
    assert result.stdout.count("test_sure: no trial has a score") == 2


def test_repeats_that_drift_are_told(project: Project) -> None:
    project.write(
        model="""
        def answer(messages, *, draw, **params):
            return "yes" if draw.trial % 2 else "no"
        """
    )
    result = until("--width=0.001", "--max-repeats=4")

    assert "test_says_yes: its repeats drift" in result.stdout


def test_another_directory_is_named_once_for_both(project: Project) -> None:
    assert until("--width=0.9", "--dir=elsewhere").exit_code == 0
    assert (project.path / "elsewhere" / "runs").is_dir()
    assert not (project.path / ".llmeval").exists()


def test_the_directory_may_lie_above(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.path / "below").mkdir()
    monkeypatch.chdir(project.path / "below")

    assert until("--width=0.9", "--", "..").exit_code == 0


def test_what_pytest_cannot_run_ends_with_its_own_exit_code() -> None:
    result = until("--width=0.2", "--", "--no-such-option")
    assert result.exit_code == 4
    assert "--no-such-option" in result.stdout

    assert until("--width=0.2", "--", "-k", "nothing_of_that_name").exit_code == 5


def test_a_session_without_a_run_is_told_and_an_older_run_is_not_taken_for_it(
    project: Project,
) -> None:
    project.run()
    project.write(test_evals="def test_plain(): pass")

    assert_refused(until("--width=0.2"), "recorded no run", "--dir")


SLOW = """
import os
import time


def answer(messages, **params):
    with open("calls.log", "a") as file:
        file.write("x\\n")
    if os.stat("calls.log").st_size > 12:
        time.sleep(3600)
    return "yes"
"""


def test_an_interrupted_session_still_records_its_run(project: Project) -> None:
    project.write(model=SLOW)
    arguments = ["until", "--width=0.9", "--", "-q", "--llm-concurrency=1"]
    with subprocess.Popen(
        [PYTHON, "-m", "pytest_llmeval", *arguments],  # a group, of which both get the signal
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        log = project.path / "calls.log"
        # some trials have ended by then, and the last of these does not
        while process.poll() is None and not (log.exists() and log.stat().st_size > 12):
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate()

    assert process.returncode == 2, output
    (path,) = project.runs()
    assert not read_run(path).complete


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--width=0"], ["--width=0: must be above 0"]),
        (["--width=x"], ["--width=x: must be a number"]),
        (["--width=0.1", "--confidence=1"], ["--confidence=1: must lie above 0 and below 1"]),
        (["--width=0.1", "--max-repeats=2"], ["max-repeats", "2"]),
        (["--width=0.1", "--", "--llm-repeats=7"], ["--llm-repeats", "--max-repeats"]),
        (["--width=0.1", "--", "--llm-baseline=main"], ["--llm-baseline", "measure first"]),
        (["--width=0.1", "--", "--llm-dir", "x"], ["--llm-dir", "--dir"]),
        (["--width=0.1", "--", "--llm-cache=refresh"], ["--llm-cache=refresh", "leave it out"]),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_run(
    project: Project, arguments: list[str], parts: list[str]
) -> None:
    assert_refused(until(*arguments), *parts)
    assert project.calls() == 0


def test_the_next_look_goes_by_the_prediction_and_at_most_doubles() -> None:
    expected = expect_mean([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]] * 10)

    assert _next(3, [expected], width=0.01, most=30) == 6
    assert _next(3, [expected], width=0.01, most=5) == 5
    nearly = 0.95 * (expected.width or 0)
    assert _next(3, [expected], width=nearly, most=30) == 4
