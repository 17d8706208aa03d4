"""Texts of replies stay out of the reports where the ini file says so."""

from __future__ import annotations

import pytest

from tests.project import Project

MODEL = """
def answer(messages, **params):
    return "a secret of the patient"
"""
EVALS = """
from pytest_llmeval import llm_eval


@llm_eval(repeats=2)
def test_says_yes(llm):
    assert llm.ask("Say yes").text == "yes"
"""
INI = """
[pytest]
llm_model = function/model:answer
pythonpath = .
"""


@pytest.mark.parametrize("shows", [True, False])
def test_the_first_failure_quotes_a_reply_unless_texts_are_kept_out(
    project: Project, shows: bool
) -> None:
    project.write(model=MODEL, test_evals=EVALS, pytest_ini=f"{INI}llm_show_texts = {shows}\n")

    result, report = project.gate()

    section = [line for line in result.outlines if line.startswith("worst")]
    assert len(section) == 1
    assert ("a secret of the patient" in section[0]) is shows
    assert ("AssertionError test_evals.py:" in section[0]) is not shows
    assert shows or "secret" not in str(report)


GUARDED = """
from pytest_llmeval import llm_eval
from app import PROMPT


@llm_eval(repeats=2)
def test_is_polite(llm):
    assert "please" in llm.ask(PROMPT).text
"""
ECHO = """
def answer(messages, **params):
    return messages[-1]["content"]
"""


@pytest.mark.parametrize("shows", [True, False])
def test_a_line_of_both_replies_of_a_case_that_fell_is_in_the_report(
    project: Project, shows: bool
) -> None:
    ini = f"{INI}llm_show_texts = {shows}\n"
    project.write(model=ECHO, test_evals=GUARDED, app='PROMPT = "wait, please"', pytest_ini=ini)
    project.commit()
    project.run()
    project.git("switch", "-c", "rude")
    project.write(app='PROMPT = "wait"')

    _, report = project.gate("--llm-baseline=main")

    moved = [case for one in report["functions"] for case in one["moved"]]
    assert [case["case"] for case in moved] == ["test_evals.py::test_is_polite"]
    if shows:
        assert moved[0]["excerpt"] == {"baseline": "wait, please", "here": "wait"}
    else:
        assert "wait" not in str(report)
