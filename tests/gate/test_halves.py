from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.gate.compare import compare_halves
from tests.gate.builders import a_case, a_run


def test_first_repeats_are_held_against_the_last() -> None:
    run = a_run(*(a_case(f"c{at}", "ppmm" if at else "pppp") for at in range(8)))
    [found] = compare_halves(run, alpha=0.05)
    assert (found.effect.cases, found.effect.changed) == (8, 8)
    assert found.effect.difference == pytest.approx(-7 / 8)
    assert found.verdict == "regressed"


def test_middle_of_an_odd_number_takes_no_part() -> None:
    [found] = compare_halves(a_run(*(a_case(f"c{at}", "ppmpp") for at in range(8))), alpha=0.05)
    assert found.effect.difference == 0.0
    assert found.compared[0].scores == (1.0, 1.0)


def test_of_a_function_that_stopped_early_what_it_ran_has_halves() -> None:
    whole = a_run(*(a_case(f"c{at}", "ppmm") for at in range(8)))
    planned = tuple(replace(case, repeats=10) for case in whole.cases)
    stopped = replace(whole, cases=planned, looks={whole.cases[0].function: 4})

    assert compare_halves(stopped, alpha=0.05) == compare_halves(whole, alpha=0.05)


def test_cases_with_a_single_repeat_take_no_part() -> None:
    [found] = compare_halves(a_run(a_case("a", "pppp"), a_case("b", "p")), alpha=0.05)
    assert found.effect.cases == 1


def test_run_without_repeats_has_no_halves() -> None:
    assert compare_halves(a_run(a_case("a", "p"), a_case("b", "m")), alpha=0.05) == ()
