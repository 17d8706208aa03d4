"""What evals raise and print reaches no terminal, log or file as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_llmeval.runs.run_file import read_run
from tests.project import INI, Project

MODEL = r"""
EVIL = "\x1b[31mred\x1b]0;title\x07\n::error::broken\n##[error]no\u202eevil\r\x9b2J\ttab"

def answer(messages, **params):
    return EVIL
"""
EVALS = """
import logging
import pytest
from pytest_llmeval import llm_eval


@llm_eval(repeats=2)
def test_misses(llm):
    text = llm.ask("a").text
    print(text)
    logging.warning(text)
    assert text == "right", text


@llm_eval(repeats=2)
def test_crashes(llm):
    raise ValueError(llm.ask("b").text) from KeyError(llm.ask("c").text)


@llm_eval(repeats=2)
def test_skips(llm):
    pytest.skip(llm.ask("d").text)
"""
# A terminal obeys these, and GitHub a line that begins with ::.
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|^\s*::|##\[", re.M)


@pytest.mark.parametrize("style", ["long", "short", "line", "native", "auto"])
def test_a_reply_in_a_failure_or_in_output_steers_no_terminal(project: Project, style: str) -> None:
    project.write(model=MODEL, test_evals=EVALS, pytest_ini=INI)

    result = project.run("-rA", "-v", "--color=no", f"--tb={style}", "--junitxml=junit.xml")

    printed = str(result.stdout)
    assert result.ret == 1
    assert not STEERING.search(printed)
    assert not STEERING.search(Path("junit.xml").read_text(encoding="utf-8"))
    assert r"ValueError: \x1b[31mred\x1b]0;title\x07" in printed
    if style == "long":
        assert r"E       \x23#[error]no\u202eevil\r\x9b2J tab" in printed
        assert "\nred\\x1b]0;title\\x07\n\\x3a:error::broken\n" in printed  # captured


def test_the_place_of_a_failure_is_told_as_ever(project: Project) -> None:
    project.write(model=MODEL, test_evals=EVALS, pytest_ini=INI)

    result = project.run("-k", "crashes", "--color=yes")

    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(result.stdout))
    assert not STEERING.search(plain)
    assert '>       raise ValueError(llm.ask("b").text) from KeyError(llm.ask("c").text)' in plain
    assert "The above exception was the direct cause of the following exception:" in plain
    assert "test_evals.py:17: ValueError" in plain


def test_a_failure_that_python_cannot_parse_is_told_in_a_line_and_counts(project: Project) -> None:
    conftest = """
import pytest

plain = pytest.Function.repr_failure

def fails_once(self, excinfo):
    pytest.Function.repr_failure = plain
    raise SystemError("AST constructor recursion depth mismatch")

def pytest_collection_finish():
    pytest.Function.repr_failure = fails_once
"""
    project.write(
        conftest=conftest,
        test_evals="""
from pytest_llmeval import llm_eval

@llm_eval(repeats=2)
def test_it(llm):
    assert llm.ask("rate=0").text == "right"
""",
    )

    result = project.run("--llm-fail-on-miss")

    (run,) = map(read_run, project.runs())
    assert [trial.outcome for trial in run.trials] == ["missed"] * 2
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*AssertionError*"])
    result.stdout.no_fnmatch_line("*SystemError*")
