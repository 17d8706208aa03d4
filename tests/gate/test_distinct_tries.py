"""A run that adds cases or repeats to an earlier try is not counted as a new try."""

from __future__ import annotations

from pytest_llmeval.gate.distinct_tries import distinct_tries
from pytest_llmeval.records import Run
from tests.gate.builders import a_case, a_run


def tried(*cases: str, repeats: int = 2, draws: str = "one") -> Run:
    return a_run(*(a_case(case, "p" * repeats, draws=draws) for case in cases))


def test_more_cases_or_repeats_of_a_try_are_no_further_one() -> None:
    first, other = tried("a"), tried("c", draws="two")
    more = [tried("a", "b"), tried("a", "b", repeats=5), tried("b", repeats=3)]
    assert distinct_tries([first, *more, other]) == [first, other]


def test_new_replies_are_a_further_try() -> None:
    first, again = tried("a", "b"), tried("a", draws="two")
    half = a_run(a_case("a", "pp", draws="one"), a_case("b", "pp", draws="two"))
    assert distinct_tries([first, again, half]) == [first, again, half]


def test_a_case_that_both_prompts_leave_alone_does_not_make_them_one_try() -> None:
    alone = tried("a")
    one, other = (
        a_run(a_case("a", "pp", draws="one"), a_case("b", "pp", draws=draws))
        for draws in ("one", "two")
    )
    assert distinct_tries([alone, one, other]) == [alone, other]
    assert distinct_tries([other, one, alone]) == [other, one]
