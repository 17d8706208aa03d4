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
