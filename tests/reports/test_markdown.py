"""The report as Markdown, in every form of a result."""

from __future__ import annotations

import json

import pytest

from pytest_llmeval.reports.json import document, json_text
from pytest_llmeval.reports.markdown.page import render
from tests.reports.judgements import FORMS


def markdown(form: str) -> str:
    """A form as Markdown, by way of the file that another job would read."""
    return render(json.loads(json_text(document(FORMS[form]()))))


@pytest.mark.parametrize(
    ("form", "title", "consequence"),
    [
        ("regressed", "REGRESSED", "This fails the build."),
        ("accepted", "regressed, accepted", "It does not fail the build: the ini file"),
        ("no_significant_change", "no significant change", "It does not fail the build."),
        ("inconclusive", "inconclusive", "It does not fail the build."),
        ("not_comparable", "NOT COMPARABLE", "This fails the build."),
        ("could_not_judge", "could not judge", "This fails the build."),
        ("gone", "NOT COMPARABLE", "This fails the build."),
        ("anchor", "REGRESSED against the anchor `v1.4`", "This fails the build."),
    ],
)
def test_a_form_begins_with_its_verdict_and_what_that_does(
    form: str, title: str, consequence: str
) -> None:
    lines = markdown(form).splitlines()
    assert lines[0] == f"## LLM evals: {title}"
    assert consequence in lines[2]


@pytest.mark.parametrize("form", ["unchanged", "partial"])
def test_unchanged_is_one_line(form: str) -> None:
    (line,) = markdown(form).splitlines()
    assert line.startswith("**LLM evals: unchanged** · ")


def test_the_cases_that_fell_are_in_the_first_25_lines() -> None:
    assert "`test_label[lost-parcel]`" in "\n".join(markdown("regressed").splitlines()[:25])
