from __future__ import annotations

import math
from dataclasses import replace

from pytest_llmeval.gate.compare import changed_cases
from pytest_llmeval.gate.scoring import FunctionScores, scores_of
from pytest_llmeval.stats.sample import CaseScores
from tests.gate.builders import CallsOfTrial, CaseAndTrials, a_call, a_case, a_run


def only(*cases: CaseAndTrials) -> FunctionScores:
    [found] = scores_of(a_run(*cases))
    return found


def test_scores_are_those_of_the_gated_metric_case_by_case() -> None:
    found = only(a_case("a", "pmp"), a_case("b", "pp"))
    assert (found.function, found.metric) == ("test_suite.py::test_f", "pass")
    assert found.samples == ((1.0, 0.0, 1.0), (1.0, 1.0))
    assert found.are_hits


def test_errored_trials_and_cases_without_any_score_are_left_out() -> None:
    found = only(a_case("a", "pem"), a_case("b", "ee"))
    assert (len(found.side.cases), found.samples) == (2, ((1.0, 0.0),))


def test_run_without_a_score_has_no_samples() -> None:
    found = only(a_case("a", "ee"))
    assert (found.samples, found.repeats, found.calls, found.units) == ((), 0, 0.0, ())


def test_every_gated_metric_is_one_of_its_own() -> None:
    run = a_run(a_case("a", scores=[0.5, 0.7], gate=("score", "pass")), a_case("b", "p", gate=()))
    found = scores_of(run)
    assert [each.metric for each in found] == ["score", "pass"]
    assert not found[0].are_hits


def test_repeats_are_the_usual_number() -> None:
    assert only(a_case("a", "ppp"), a_case("b", "ppp"), a_case("c", "p")).repeats == 2


def test_calls_are_counted_by_the_trial() -> None:
    assert only(a_case("a", "pp"), a_case("b", "p", calls=lambda _: ())).calls == 2 / 3


def test_cases_of_one_cluster_are_one_unit() -> None:
    found = only(*(a_case(name, "pp", cluster=name[0]) for name in ("a1", "a2", "b1")))
    assert found.units == (0, 0, 2)
    assert found.independent == 2


def test_gains_turn_scores_so_that_more_is_better() -> None:
    assert only(a_case("a", "pm")).gains == ((1.0, 0.0),)
    assert only(a_case("a", "pm", better="lower")).gains == ((1.0, 0.0),)
    lower = only(a_case("a", scores=[0.5, 2.0], better="lower"))
    assert lower.gains == ((-0.5, -2.0),)


def test_what_calls_took_is_a_metric_like_others() -> None:
    def calls(seconds: float) -> CallsOfTrial:
        return lambda index: [replace(a_call("A", f"d{index}"), seconds=seconds * (index + 1))]

    gate = ("pass", "seconds")
    found = scores_of(
        a_run(a_case("a", "pp", calls=calls(0.5), gate=gate), a_case("b", "pp", calls=calls(1.0)))
    )
    _, seconds = found
    assert (seconds.metric, seconds.better, seconds.compares_ratios) == ("seconds", "lower", True)
    assert seconds.samples == ((0.5, 1.0), (1.0, 2.0))
    assert seconds.gains == tuple(
        tuple(-math.log(value) for value in sample) for sample in seconds.samples
    )


def test_changed_cases_have_their_scores_on_both_sides() -> None:
    before = a_run(a_case("a", "pmp"), a_case("b", "ppp"), a_case("gone", "p"))
    after = a_run(a_case("a", "mm", request="v2"), a_case("b", "ppp"), a_case("new", "p"))
    assert changed_cases(before, after) == {
        ("test_suite.py::test_f", "pass"): (CaseScores(baseline=(1, 0, 1), current=(0, 0)),)
    }


def test_changed_cases_of_what_calls_took_are_logarithms() -> None:
    def calls(seconds: float, draw: str) -> CallsOfTrial:
        return lambda index: [replace(a_call("A", f"{draw}{index}"), seconds=seconds)]

    before, after = (
        a_run(a_case("a", "p", calls=calls(seconds, str(seconds)), gate=("seconds",)))
        for seconds in (0.5, 2.0)
    )
    [[found]] = changed_cases(before, after).values()
    assert found == CaseScores(baseline=(math.log(0.5),), current=(math.log(2.0),))
