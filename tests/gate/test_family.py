"""Several functions and metrics in one session: who shares the error rate with whom."""

from __future__ import annotations

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Comparison
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from tests.gate.builders import CaseAndTrials, a_case, a_run

FELL = {"test_a": 5, "test_b": 6, "test_c": 7}


def cases(function: str, outcomes: list[str], request: str) -> list[CaseAndTrials]:
    return [
        a_case(f"c{at}", one, function=function, request=request) for at, one in enumerate(outcomes)
    ]


def three_functions() -> tuple[Run, Run]:
    """Of ten cases of one trial each, some fell: p of .031, .016 and .008."""
    baseline: list[CaseAndTrials] = []
    current: list[CaseAndTrials] = []
    for function, fell in FELL.items():
        baseline += cases(function, ["p"] * 10, "v1")
        current += cases(function, ["m"] * fell, "v2")
        current += [a_case(f"c{at}", "p", function=function) for at in range(fell, 10)]
    return a_run(*baseline), a_run(*current)


def judged(**rules: object) -> Comparison:
    return compare(*three_functions(), GateRules(**rules))  # type: ignore[arg-type]


def adjusted(found: Comparison) -> dict[str, float | None]:
    return {one.function.rpartition("::")[2]: one.evidence.p_adjusted for one in found.functions}


def raw() -> dict[str, float]:
    by_name = {one.function.rpartition("::")[2]: one for one in judged().functions}
    ps = {name: one.evidence.p for name, one in by_name.items()}
    return {name: p for name, p in ps.items() if p is not None}


def test_holm_is_the_default() -> None:
    p = raw()
    assert p["test_a"] > p["test_b"] > p["test_c"]
    expected = {"test_c": 3 * p["test_c"], "test_b": 2 * p["test_b"], "test_a": p["test_a"]}
    highest = max(expected.values())
    assert adjusted(judged()) == pytest.approx(
        {
            "test_a": highest,
            "test_b": max(expected["test_b"], expected["test_c"]),
            "test_c": expected["test_c"],
        }
    )


def test_benjamini_hochberg_can_be_chosen() -> None:
    p = raw()
    last = p["test_a"]
    middle = min(last, 3 * p["test_b"] / 2)
    expected = {"test_a": last, "test_b": middle, "test_c": min(middle, 3 * p["test_c"])}
    assert adjusted(judged(multiplicity="bh")) == pytest.approx(expected)


def test_metrics_of_one_function_are_members_each() -> None:
    gate = ("pass", "score")
    baseline = a_run(*(a_case(f"c{at}", scores=[1.0], gate=gate) for at in range(5)))
    current = a_run(
        *(a_case(f"c{at}", "m", scores=[0.2], gate=gate, request="v2") for at in range(5))
    )
    one, other = compare(baseline, current, GateRules()).functions
    assert (one.metric, other.metric) == ("pass", "score")
    assert (one.evidence.family_size, other.evidence.family_size) == (2, 2)
    assert one.evidence.p_adjusted == pytest.approx(2 * 0.5**5)


def test_functions_of_one_name_are_called_by_as_much_of_their_ids_as_it_takes() -> None:
    twins = [a_case("c", "p", function=f"Test{letter}::test_x") for letter in "AB"]
    found = compare(a_run(*twins), a_run(*twins), GateRules())
    assert [one.name for one in found.functions] == ["TestA::test_x", "TestB::test_x"]
    assert list(found.names.values()) == ["TestA::test_x", "TestB::test_x"]
