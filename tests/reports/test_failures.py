"""What fails a session, as lists of tests have it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import GateFailure
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.report_files import failures, github_annotations
from tests.reports.judgements import FORMS

WORDS = {
    "regressed": ["regressed"],
    "not_comparable": ["not comparable"] * 2,
    "could_not_judge": ["not judged"],
    "anchor": ["regressed"],
}


def failures_of(judgement: Judgement) -> list[GateFailure]:
    return failures(make_report(judgement), judgement)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_its_failures(form: str) -> None:
    judgement = FORMS[form]()

    found = failures_of(judgement)

    assert bool(found) is judgement.fails
    assert [one.word for one in found] == WORDS.get(form, [one.word for one in found])
    assert all(one.lines and one.name.startswith("llmeval::") for one in found)
    assert len({one.name for one in found}) == len(found)


def test_a_fall_since_the_anchor_says_so() -> None:
    (found,) = failures_of(FORMS["anchor"]())

    assert found.lines[0].startswith("against the anchor: ")
    assert ("llm_anchor_pass_verdict", "regressed") in found.properties


def test_an_inconclusive_comparison_fails_a_strict_session() -> None:
    judgement = FORMS["inconclusive"]()
    assert judgement.comparison is not None
    functions = tuple(
        replace(one, fails=one.verdict == "inconclusive") for one in judgement.comparison.functions
    )
    strict = replace(judgement.comparison, fails=True, functions=functions)

    (found,) = failures_of(replace(judgement, comparison=strict))

    assert found.word == "inconclusive"


def test_a_run_that_was_not_saved_is_told_beside_a_regression() -> None:
    judgement = replace(FORMS["regressed"](), unsaved=Fact(Why.NOT_SAVED, ("disk full",)))

    regressed, unsaved = failures_of(judgement)

    assert regressed.word == "regressed"
    assert (unsaved.name, unsaved.word) == ("llmeval::gate", "not judged")


HOSTILE = GateFailure(
    name="llmeval::a::b",
    word="regressed",
    title="a, b: 100%\n::error::x",
    lines=("100% lost\r", "::error::forged", "\x1b[31mred"),
    file="a,b:c%/test.py",
    line=3,
)


def test_no_text_escapes_from_a_command_of_github() -> None:
    (line,) = github_annotations([HOSTILE])

    assert "\n" not in line
    assert "\x1b" not in line
    place, _, message = line.removeprefix("::error ").partition("::")
    assert place.startswith("file=a%2Cb%3Ac%25/test.py,line=3,title=a%2C b%3A 100%25")
    assert "," not in place.partition("title=")[2]
    assert ":" not in place
    assert message.startswith("100%25 lost")
    assert "%0A" in message


def test_github_is_given_no_more_than_it_shows() -> None:
    many = [replace(HOSTILE, name=f"llmeval::test_{i}.py::test") for i in range(12)]

    lines = github_annotations(many)

    assert len(lines) == 10
    assert lines[-1] == (
        "::error title=llm evals%3A 3 more::test_9.py::test, test_10.py::test, test_11.py::test"
    )
