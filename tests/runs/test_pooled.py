"""Which cases of two runs asked the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.records import Run
from pytest_llmeval.runs.pooled import draws_again, unchanged_cases
from tests.gate.builders import a_case, a_run

NAME = "test_suite.py::test_f"
ID = f"{NAME}[a]"


def told(run: Run, *, test: str = "t", fixture: str = "f") -> Run:
    return replace(run, tests={NAME: test}, fixtures={NAME: {"model": fixture}})


def test_a_case_with_the_same_test_fixtures_and_parameters_is_unchanged() -> None:
    run = told(a_run(a_case("a", "p", parameters="1" * 64), a_case("new", "p")))
    earlier = told(a_run(a_case("a", "m", parameters="1" * 64), a_case("old", "p")))
    assert unchanged_cases(run, earlier) == {ID}


@pytest.mark.parametrize(
    "earlier",
    [
        told(a_run(a_case("a", "p", parameters="2" * 64))),
        told(a_run(a_case("a", "p", parameters="1" * 64)), test="u"),
        told(a_run(a_case("a", "p", parameters="1" * 64)), fixture="g"),
        a_run(a_case("a", "p", parameters="1" * 64)),
    ],
)
def test_a_case_of_which_one_of_these_differs_is_changed(earlier: Run) -> None:
    assert unchanged_cases(told(a_run(a_case("a", "p", parameters="1" * 64))), earlier) == set()


def test_what_neither_run_tells_is_no_difference() -> None:
    assert unchanged_cases(a_run(a_case("a", "p")), a_run(a_case("a", "p"))) == {ID}


def test_other_draws_of_a_request_are_told_from_replays_and_from_other_requests() -> None:
    run = a_run(a_case("a", "pp"))
    assert not draws_again(run, run)
    assert not draws_again(run, a_run(a_case("a", "pp", request="v2")))
    assert draws_again(run, a_run(a_case("a", "pp", draws="other")))
