"""How often a loop of tries shows an improvement by luck, and what to type then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.reports.tries import tries_line
from tests.reports.judgements import FORMS

IMPROVED = FORMS["improved"]()


@pytest.mark.parametrize(
    ("tries", "begins"),
    [
        (2, "2nd try against main@4f1c20a: after 2 tries up to 1 in 10 teams see an"),
        (3, "3rd try against main@4f1c20a: after 3 tries up to 1 in 7 teams"),
        (4, "4th try against main@4f1c20a: after 4 tries up to 1 in 5 teams"),
        (12, "12th try against main@4f1c20a: after 12 tries up to 5 in 10 teams"),
        (21, "21st try against main@4f1c20a: after 21 tries up to 7 in 10 teams"),
        (200, "200th try against main@4f1c20a: after 200 tries up to 9 in 10 teams"),
    ],
)
def test_the_share_grows_with_the_tries(tries: int, begins: str) -> None:
    assert tries_line(replace(IMPROVED, tries=tries)).startswith(begins)


@pytest.mark.parametrize("tries", [0, 1])
def test_a_first_try_says_nothing(tries: int) -> None:
    assert tries_line(replace(IMPROVED, tries=tries)) == ""


def test_what_to_type_makes_the_baseline_again_where_it_has_a_commit() -> None:
    line = tries_line(replace(IMPROVED, tries=2))
    assert line.endswith(
        "pytest --llm-baseline=main --llm-on-missing=rerun-always --llm-cache=refresh"
    )
    assert IMPROVED.baseline is not None
    last = replace(IMPROVED, tries=2, baseline=replace(IMPROVED.baseline, how="last"))
    assert tries_line(last).endswith("both with --llm-cache=refresh")


def test_the_best_try_is_judged_by_all_cases_not_by_those_that_missed_last() -> None:
    looped = replace(IMPROVED, tries=2, typed=("evals", "-k refund", "--llm-missed", "--lf"))
    assert (
        tries_line(looped)
        .partition(":  ")[2]
        .startswith("pytest evals '-k refund' --llm-baseline=main")
    )
