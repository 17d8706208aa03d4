"""Several functions and metrics in one session: who shares the error rate with whom."""

from __future__ import annotations

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Comparison, FunctionComparison
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from tests.gate.builders import CaseAndTrials, a_case, a_run, notes

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


def test_a_declared_order_gives_each_the_full_level_until_one_holds() -> None:
    p = raw()
    order = ("test_c", "test_a", "test_b")
    assert adjusted(judged(order=order)) == pytest.approx(
        {"test_c": p["test_c"], "test_a": p["test_a"], "test_b": p["test_a"]}
    )


def test_the_first_that_held_ends_the_order() -> None:
    baseline, current = three_functions()
    held = [a_case("x", "pppp", function="test_safe"), a_case("y", "pppp", function="test_safe")]
    moved = [a_case("x", "pppm", function="test_safe", request="v2"), held[1]]
    baseline, current = (
        a_run(*held, *_of(baseline)),
        a_run(*moved, *_of(current)),
    )
    found = compare(baseline, current, GateRules(order=("test_safe", "test_c")))
    by_name: dict[str, FunctionComparison] = {
        one.function.rpartition("::")[2]: one for one in found.functions
    }
    assert by_name["test_safe"].evidence.p == by_name["test_c"].evidence.p_adjusted
    assert not by_name["test_c"].fails


def _of(run: Run) -> list[CaseAndTrials]:
    return [
        CaseAndTrials(case, tuple(t for t in run.trials if t.case == case.id)) for case in run.cases
    ]


def test_what_is_not_named_comes_after_and_is_adjusted_together() -> None:
    p = raw()
    found = adjusted(judged(order=("test_a",)))
    assert found["test_a"] == p["test_a"]
    assert found["test_c"] == pytest.approx(max(p["test_a"], 2 * p["test_c"]))


@pytest.mark.parametrize(
    "name", ["test_a:pass", "test_suite.py::test_a", "test_suite.py::test_a:pass"]
)
def test_a_name_may_have_its_file_and_its_metric(name: str) -> None:
    found = judged(order=(name,))
    assert notes(found) == ()
    assert adjusted(found)["test_a"] == raw()["test_a"]


@pytest.mark.parametrize("name", ["test_A", "est_a", "test_a:score", "test_a:"])
def test_a_name_that_nothing_bears_is_noted(name: str) -> None:
    (note,) = notes(judged(order=(name,)))
    assert f"llm_gate_order names {name!r}" in note


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


def test_a_named_comparison_pays_no_penalty_for_the_others() -> None:
    gate = ("pass", "score")
    baseline = a_run(*(a_case(f"c{at}", scores=[1.0], gate=gate) for at in range(5)))
    current = a_run(
        *(a_case(f"c{at}", "p", scores=[0.9], gate=gate, request="v2") for at in range(5))
    )
    blunt = compare(baseline, current, GateRules()).functions[0]
    named = compare(baseline, current, GateRules(order=("test_f:pass",))).functions[0]
    assert (
        blunt.evidence.smallest_detectable_drop is None
    )  # the least p is .031, twice that too much
    assert named.evidence.smallest_detectable_drop is not None
