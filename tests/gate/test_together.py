"""Cases of several functions are compared together as the gate compares those of one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.gate.compare import TOGETHER, compare, compare_together
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from tests.gate.builders import a_case, a_run

BEFORE = ("ppp", "ppm", "pmm", "ppp", "mmm", "ppp", "ppm", "ppp")
AFTER = ("ppm", "ppp", "ppm", "pmm", "mmp", "ppp", "pmm", "ppp")


def of(outcomes: tuple[str, ...], *functions: str, request: str = "v1", **known: str) -> Run:
    """A run whose cases are dealt out to some functions in turn."""
    return a_run(
        *(
            a_case(
                f"c{at}",
                letters,
                function=functions[at % len(functions)],
                request=f"{request} {at}",
                **known,  # type: ignore[arg-type]
            )
            for at, letters in enumerate(outcomes)
        )
    )


def test_the_interval_is_the_one_of_a_function_with_all_of_these_cases() -> None:
    before, after = of(BEFORE, "test_f"), of(AFTER, "test_f", request="v2")
    (whole,) = compare(before, after, GateRules()).functions
    before, after = of(BEFORE, "test_f", "test_g"), of(AFTER, "test_f", "test_g", request="v2")
    cases = {case.id for case in after.cases}

    (together,) = compare_together(before, after, cases, "pass", GateRules()).functions

    assert together.function == TOGETHER
    assert together.effect == whole.effect
    assert together.evidence == whole.evidence


def test_of_a_function_that_stopped_early_what_it_ran_is_compared() -> None:
    functions = "test_f", "test_g"
    before, after = of(BEFORE, *functions), of(AFTER, *functions, request="v2")
    cases = {case.id for case in after.cases}
    planned = tuple(replace(case, repeats=5) for case in after.cases)
    stopped = replace(after, cases=planned, looks=dict.fromkeys(functions, 3))

    found = compare_together(before, stopped, cases, "pass", GateRules())

    assert found == compare_together(before, after, cases, "pass", GateRules())


def test_cases_that_are_not_named_do_not_count() -> None:
    before, after = of(BEFORE, "test_f", "test_g"), of(AFTER, "test_f", "test_g", request="v2")
    cases = {case.id for case in after.cases[:5]}

    (together,) = compare_together(before, after, cases, "pass", GateRules()).functions

    assert {case.case for case in together.compared} == cases


def test_a_label_that_two_functions_share_makes_their_cases_one_unit() -> None:
    functions = "test_f", "test_g"
    sides = [of(BEFORE, *functions), of(AFTER, *functions, request="v2")]
    tied = [of(BEFORE, *functions, cluster="x"), of(AFTER, *functions, request="v2", cluster="x")]
    cases = {case.id for case in sides[0].cases}

    units = [
        compare_together(*both, cases, "pass", GateRules()).functions[0].effect.units
        for both in (sides, tied)
    ]

    assert units == [8, 1]


@pytest.mark.parametrize("rules", [{"accept": ("test_f:pass >= 0.1",)}, {"edited": "leave_out"}])
def test_rules_that_name_functions_or_leave_cases_out_do_not_count(
    rules: dict[str, object],
) -> None:
    before, after = of(BEFORE, "test_f", "test_g"), of(AFTER, "test_f", "test_g", request="v2")
    cases = {case.id for case in after.cases}
    plain = compare_together(before, after, cases, "pass", GateRules())

    assert compare_together(before, after, cases, "pass", GateRules(**rules)) == plain  # type: ignore[arg-type]
