"""Which cases are independent of each other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import FunctionComparison, Verdict
from pytest_llmeval.gate.units import chained
from pytest_llmeval.records import Call, Run
from pytest_llmeval.settings import GateRules
from tests.gate.builders import CallsOfTrial, a_call, a_case, a_run, compared, notes


def drawing(*draws: str) -> CallsOfTrial:
    """Trial i makes one call, with the i-th of these draws."""

    def calls(index: int) -> tuple[Call, ...]:
        return (a_call("key", draws[index], trial=index),)

    return calls


def side(trials: Mapping[str, Sequence[str]], outcomes: str | None = None) -> Run:
    """Cases by name, with a draw a trial."""
    return a_run(
        *(
            a_case(name, outcomes or "p" * len(draws), calls=drawing(*draws))
            for name, draws in trials.items()
        )
    )


def units(baseline: Mapping[str, Sequence[str]], current: Mapping[str, Sequence[str]]) -> int:
    return compared(side(baseline), side(current)).effect.units


def with_clusters(**clusters: str | None) -> FunctionComparison:
    baseline = a_run(*(a_case(name, "pp", cluster=label) for name, label in clusters.items()))
    run = a_run(
        *(a_case(name, "pp", request="v2", cluster=label) for name, label in clusters.items())
    )
    return compared(baseline, run)


def test_cases_with_draws_of_their_own_are_units_of_their_own() -> None:
    assert units({"a": ["1"], "b": ["2"]}, {"a": ["3"], "b": ["4"]}) == 2


def test_cases_that_share_a_draw_here_are_one_unit() -> None:
    assert units({"a": ["1"], "b": ["2"]}, {"a": ["3"], "b": ["3"]}) == 1


def test_cases_that_share_a_draw_in_the_baseline_are_one_unit() -> None:
    assert units({"a": ["1"], "b": ["1"]}, {"a": ["3"], "b": ["4"]}) == 1


def test_draw_that_cases_hold_on_unlike_sides_makes_them_one_unit() -> None:
    assert units({"a": ["1"], "b": ["2"]}, {"a": ["2"], "b": ["3"]}) == 1


def test_draw_that_a_case_has_on_both_sides_does_not_tie_it() -> None:
    baseline = {"a": ["1", "2"], "b": ["1", "3"]}
    assert units(baseline, {"a": ["1", "4"], "b": ["1", "5"]}) == 2


def test_both_cases_must_have_the_draw_on_one_side_only() -> None:
    baseline = {"a": ["1", "2"], "b": ["1", "3"]}
    assert units(baseline, {"a": ["1", "4"], "b": ["6", "5"]}) == 2


def test_units_are_chained() -> None:
    baseline = {"a": ["1"], "b": ["2"], "c": ["3"], "d": ["4"]}
    current = {"a": ["5"], "b": ["5"], "c": ["2"], "d": ["3"]}
    assert units(baseline, current) == 1


def test_a_draw_of_repeats_that_only_this_run_has_ties_too() -> None:
    baseline = {"a": ["1"], "b": ["2"]}
    current = {"a": ["3", "9"], "b": ["4", "9"]}
    assert units(baseline, current) == 1


def test_trials_of_the_baseline_beyond_those_of_a_replay_tie_nothing() -> None:
    baseline = {"a": ["1", "8", "9"], "b": ["2", "8"], "c": ["3", "9"]}
    found = compared(side(baseline), side({"a": ["1"], "b": ["4"], "c": ["5"]}))
    assert (found.effect.changed, found.effect.units) == (2, 2)


def test_requests_without_a_reply_tie_nothing() -> None:
    def failing(index: int) -> tuple[Call, ...]:
        return (a_call("key", None, trial=index),)

    names = "ab"
    baseline = a_run(*(a_case(name, "pp", calls=failing) for name in names))
    run = a_run(*(a_case(name, "pp", calls=failing) for name in names))
    assert compared(baseline, run).effect.units == 2


def test_cases_of_one_cluster_are_one_unit() -> None:
    assert with_clusters(a="x", b="x", c="y", d=None, e=None).effect.units == 4


@pytest.mark.parametrize(("before", "after", "units"), [("x", None, 1), (None, "x", 2)])
def test_cases_are_tied_as_in_the_baseline(before: str | None, after: str, units: int) -> None:
    baseline = a_run(*(a_case(name, "pp", cluster=before) for name in "ab"))
    run = a_run(*(a_case(name, "pp", request="v2", cluster=after) for name in "ab"))
    assert compared(baseline, run).effect.units == units
    (note,) = notes(compare(baseline, run, GateRules()))
    assert note.startswith("test_suite.py::test_f: cases are tied as in the baseline; here")


def test_markers_that_tie_alike_are_no_news() -> None:
    baseline = a_run(*(a_case(name, "pp", cluster="x") for name in "abc"))
    run = a_run(*(a_case(name, "pp", request="v2", cluster="x") for name in "abd"))
    assert notes(compare(baseline, run, GateRules())) == ()


def test_cluster_that_the_branch_adds_hides_no_drop() -> None:
    baseline = a_run(*(a_case(str(at), "ppppp") for at in range(10)))
    run = a_run(*(a_case(str(at), "pmmmm", request="v2", cluster="all") for at in range(10)))
    assert compared(baseline, run).verdict is Verdict.REGRESSED


def test_wording_that_the_branch_adds_ties_nothing() -> None:
    baseline = a_run(*(a_case(name, "pp") for name in "ab"))
    plain = a_run(*(a_case(name, "pp", request="v2") for name in "ab"))
    named = tuple(dataclasses.replace(one, wording=one.id, topic="t") for one in plain.cases)
    found = compared(baseline, dataclasses.replace(plain, cases=named))
    assert (found.effect.units, found.evidence.wordings) == (2, 0)


def test_only_units_that_hold_changed_cases_are_counted() -> None:
    baseline = a_run(*(a_case(name, "pp", cluster=name) for name in "abc"))
    run = a_run(
        a_case("a", "pp", cluster="a"),
        a_case("b", "pp", cluster="b", request="v2"),
        a_case("c", "pp", cluster="c", request="v2"),
    )
    assert compared(baseline, run).effect.units == 2


def test_effective_units_are_the_squared_cases_over_the_summed_squares() -> None:
    found = with_clusters(a="x", b="x", c="x", d="y", e=None, f=None)
    assert found.effect.effective_units == pytest.approx(36 / (9 + 1 + 1 + 1))


def test_unchanged_cases_of_a_unit_do_not_count_towards_its_size() -> None:
    baseline = a_run(*(a_case(n, "pp", cluster=None if n == "c" else "x") for n in "abc"))
    run = a_run(
        a_case("a", "pp", cluster="x"),
        a_case("b", "pp", cluster="x", request="v2"),
        a_case("c", "pp", request="v2"),
    )
    assert compared(baseline, run).effect.effective_units == 2.0


def test_label_and_draw_of_one_name_are_not_confused() -> None:
    assert chained([("x", None, []), (None, None, ["x"])]) == (0, 1)


def test_labels_and_draws_chain_with_each_other() -> None:
    ties = [
        ("x", None, []),
        ("y", None, ["1"]),
        (None, None, ["1", "2"]),
        ("x", None, ["2"]),
        (None, "t", ["2"]),
        (None, "t", []),
        ("t", "u", []),
    ]
    assert chained(ties) == (0, 0, 0, 0, 0, 0, 6)


def test_shared_call_that_was_redrawn_ties_all_its_cases() -> None:
    def calls(draw: str) -> CallsOfTrial:
        return lambda _: (a_call("S", draw, trial=None),)

    baseline = a_run(*(a_case(name, "pp", calls=calls("s0")) for name in "abc"))
    run = a_run(*(a_case(name, "pp", calls=calls("s1")) for name in "abc"))
    assert compared(baseline, run).effect.units == 1
