"""What a trial is worth, and which metrics are gated."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.describe import describe, missed_throughout, oddities
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.gate.scoring import FunctionScores, pass_hat, sides_of
from pytest_llmeval.records import Better, Call
from pytest_llmeval.reports.reasons import unjudgeable, worded
from pytest_llmeval.settings import GateRules
from tests.gate.builders import CaseAndTrials, a_call, a_case, a_run, compared, notes


def values(
    *cases: CaseAndTrials, metric: str = "score", better: Better = "higher"
) -> Mapping[int, float]:
    """The values of the trials of the first case, by index."""
    (side,) = sides_of(a_run(*cases)).values()
    scored = FunctionScores(side, metric, better=better).of_case[cases[0].case.id]
    return dict(zip(scored.indices, scored.values, strict=True))


def metrics(*sides: list[CaseAndTrials]) -> list[str]:
    baseline, run = (a_run(*cases) for cases in sides)
    return [one.metric for one in compare(baseline, run, GateRules()).functions]


def test_every_scored_trial_has_a_pass_value() -> None:
    assert values(a_case("a", "pmces"), metric="pass") == {0: 1.0, 1: 0.0, 2: 0.0}


def test_recorded_values_count_as_they_are() -> None:
    assert values(a_case("a", "pm", scores=[0.7, 0.2])) == {0: 0.7, 1: 0.2}


def test_crashed_trial_is_worth_nothing_whatever_it_recorded() -> None:
    assert values(a_case("a", "pc", scores=[0.7, 0.9])) == {0: 0.7, 1: 0.0}


def test_crashed_trial_has_no_value_where_lower_is_better() -> None:
    assert values(a_case("a", "pc", scores=[0.7, 0.9]), better="lower") == {0: 0.7}


def test_where_a_value_is_below_zero_a_crashed_trial_has_none() -> None:
    one = a_case("a", "pc", scores=[-0.7, 0.9])
    assert values(one) == {0: -0.7}
    assert values(a_case("a", "mp", scores=[None, -0.7])) == {1: -0.7}
    assert values(a_case("a", "pc", scores=[0.7, -0.9])) == {0: 0.7}
    # of any case
    assert values(a_case("a", "pc", scores=[0.7, 0.9]), a_case("b", "p", scores=[-1])) == {0: 0.7}
    assert values(a_case("a", "pc", scores=[0.0, 0.9])) == {0: 0.0, 1: 0.0}


@pytest.mark.parametrize("below_zero", ["baseline", "run", "both"])
def test_crashes_are_never_the_best_scores(below_zero: str) -> None:
    # T4: -3.000 -> -2.040 was "improved", as 3 of 10 trials crashed
    low = [-3.0] * 5
    old = low if below_zero != "run" else [0.0] * 5
    new = low if below_zero != "baseline" else [0.0] * 5
    baseline = a_run(*(a_case(f"c{at}", "p" * 5, scores=old) for at in range(20)))
    run = a_run(*(a_case(f"c{at}", "pppcc", scores=new, request="v2") for at in range(20)))

    found = compared(baseline, run, GateRules())

    assert (found.verdict, found.row, found.fails) == ("not_comparable", 4, True)
    assert worded(found.why).startswith("40 of 100 scored trials here have no value for score")
    assert "trials that crashed have none" in worded(found.why)


def test_a_run_that_crashed_throughout_is_not_compared_where_values_are_below_zero() -> None:
    baseline = a_run(*(a_case(f"c{at}", "ppp", scores=[-3.0] * 3) for at in range(9)))
    run = a_run(*(a_case(f"c{at}", "ccc", request="v2") for at in range(9)))

    found = compare(baseline, run, GateRules())

    assert [(one.metric, one.row) for one in found.functions] == [("pass", 1), ("score", 3)]
    assert found.fails


def test_passes_have_a_direction_of_their_own() -> None:
    # S4 of the release's findings: a fall of 65 points read "improved"
    gate = ("edits", "pass")
    marks = {"metric": "edits", "gate": gate, "better": "lower"}
    baseline = a_run(*(a_case(f"c{at}", "p" * 5, scores=[3.0] * 5, **marks) for at in range(20)))
    after = ["ppmmm", "pmmmm"] * 10
    run = a_run(
        *(
            a_case(f"c{at}", one, scores=[3.0] * 5, request="v2", **marks)
            for at, one in enumerate(after)
        )
    )
    edits, passes = compare(baseline, run, GateRules()).functions
    assert (edits.better, passes.better) == ("lower", "higher")
    assert (passes.verdict, passes.fails) == ("regressed", True)
    assert passes.effect.difference == pytest.approx(-0.7)


def test_a_crashed_trial_is_a_miss_whatever_the_direction_of_other_metrics() -> None:
    one = a_case("a", "pc", gate=("pass",), better="lower")
    assert compared(a_run(one), a_run(one)).effect.baseline_mean == 0.5


def test_better_that_turns_nothing_is_told() -> None:
    # without a score the gate falls back to passes, which it does not turn
    (note,) = map(worded, oddities(a_run(a_case("a", "pm", better="lower"))))
    assert note.startswith('test_suite.py::test_f: better="lower" has no effect')
    assert oddities(a_run(a_case("a", "pm", scores=[1.0, 2.0], better="lower"))) == ()
    assert oddities(a_run(a_case("a", "pm"), a_case("b", better="lower", function="g"))) == ()


def test_cases_that_asked_and_missed_in_each_of_several_trials_are_named() -> None:
    asked = [a_case("a", "mmm"), a_case("b", "mmp"), a_case("c", "m"), a_case("d", "mc")]
    silent = a_case("e", "mm", calls=lambda _: ())

    (note,) = map(worded, missed_throughout(a_run(*asked, silent)))

    assert note == "cases that missed in every trial: 1 (test_f[a])"
    assert missed_throughout(a_run(*asked[1:], silent)) == ()


def test_missed_trial_without_what_others_recorded_is_worth_nothing() -> None:
    assert values(a_case("a", "mp", scores=[None, 0.7])) == {0: 0.0, 1: 0.7}


def test_missed_trial_without_what_another_case_recorded_is_worth_nothing() -> None:
    assert values(a_case("a", "m"), a_case("b", "m", scores=[0.7])) == {0: 0.0}


def test_missed_trial_without_the_metric_has_no_value_where_lower_is_better() -> None:
    assert values(a_case("a", "mp", scores=[None, 0.7]), better="lower") == {1: 0.7}


def test_missed_trials_are_worth_nothing_where_none_passed() -> None:
    assert values(a_case("a", "mm")) == {0: 0.0, 1: 0.0}
    assert values(a_case("a", "mm"), better="lower") == {}


def test_missed_trial_has_no_value_where_others_passed_and_none_recorded() -> None:
    assert values(a_case("a", "mp")) == {}


def test_what_an_errored_trial_recorded_does_not_count() -> None:
    one = a_case("a", "pe")
    errored = dataclasses.replace(one.trials[1], scores={"score": 0.5})
    recorded = CaseAndTrials(one.case, (one.trials[0], errored))
    assert values(recorded) == {}
    assert metrics([one], [recorded]) == ["pass"]


def test_passed_trial_without_the_metric_has_no_value() -> None:
    assert values(a_case("a", "pp", scores=[None, 0.7])) == {1: 0.7}


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_number_that_is_not_finite_is_no_value(score: float) -> None:
    assert values(a_case("a", "pp", scores=[score, 0.7])) == {1: 0.7}


def test_pass_is_gated_where_no_run_records_a_score() -> None:
    assert metrics([a_case("a", "p")], [a_case("a", "p")]) == ["pass"]


def test_score_is_gated_where_either_run_records_it_beside_what_the_other_gates() -> None:
    plain, recorded = [a_case("a", "pp")], [a_case("a", "pp", scores=[0.5, 0.6])]
    assert metrics(recorded, recorded) == ["score"]
    assert metrics(recorded, plain) == ["pass", "score"]
    assert metrics(plain, recorded) == ["score", "pass"]


def test_metric_of_another_name_is_gated_only_where_the_marker_names_it() -> None:
    tone = {"scores": [0.5], "metric": "tone"}
    assert metrics([a_case("a", **tone)], [a_case("a", **tone)]) == ["pass"]
    named = a_case("a", **tone, gate=("tone", "pass"))
    assert metrics([named], [named]) == ["tone", "pass"]


def test_what_the_baseline_gates_stays_gated() -> None:
    # S4: with gate="seconds" on the branch a fall of passes was "not gated"
    baseline = a_run(*(a_case(f"c{at}", "ppppp") for at in range(9)))
    run = a_run(
        *(
            a_case(f"c{at}", scores=[1.0] * 5, metric="tone", gate=("tone",), request="v2")
            for at in range(9)
        )
    )
    missing = a_run(*(a_case(f"c{at}", "mmmmm", request="v2", gate=("tone",)) for at in range(9)))
    tone, passes = compare(baseline, run, GateRules()).functions
    assert (passes.metric, passes.effect.cases) == ("pass", 9)
    assert (tone.metric, tone.verdict) == ("tone", "new")
    tone, passes = compare(baseline, missing, GateRules()).functions
    assert (passes.verdict, tone.verdict) == ("regressed", "not_comparable")


def test_what_stays_gated_is_told_with_what_gives_it_up() -> None:
    tone: dict[str, Any] = {"scores": [0.5], "metric": "tone"}
    baseline = a_run(a_case("a", **tone, gate=("tone", "pass")))
    run = a_run(a_case("a", **tone, gate=("pass",)))
    found = compare(baseline, run, GateRules())
    assert [one.metric for one in found.functions] == ["pass", "tone"]
    (note,) = notes(found)
    assert note.startswith("test_suite.py::test_f:tone is gated in the baseline and not here")
    assert "llm_accept_gone = test_suite.py::test_f:tone" in note


@pytest.mark.parametrize(
    "entry", ["test_f:tone", "test_suite.py::test_f:tone", "test_*:to*", "test_suite.py:tone"]
)
def test_a_metric_is_given_up_by_name_or_pattern(entry: str) -> None:
    tone: dict[str, Any] = {"scores": [0.5], "metric": "tone"}
    baseline = a_run(a_case("a", **tone, gate=("tone", "pass")))
    run = a_run(a_case("a", **tone, gate=("pass",)))
    found = compare(baseline, run, GateRules(accept_gone=(entry,)))
    assert [one.metric for one in found.functions] == ["pass"]
    assert [one.metric for one in found.ungated] == ["tone"]
    assert notes(found) == ("test_suite.py::test_f:tone is gated no more, as llm_accept_gone says",)


@pytest.mark.parametrize("entry", ["test_f", "test_g:tone", "test_f:tune", "f:tone", "suite.py"])
def test_an_entry_that_gives_nothing_up_is_told(entry: str) -> None:
    tone: dict[str, Any] = {"scores": [0.5], "metric": "tone"}
    both = a_case("a", **tone, gate=("tone",))
    found = compare(a_run(both), a_run(both), GateRules(accept_gone=(entry,)))
    assert [one.metric for one in found.functions] == ["tone"]
    assert notes(found) == (
        f"llm_accept_gone names '{entry}', and nothing of that name is gone: remove the line",
    )


def test_an_entry_drops_no_metric_that_is_still_gated_here() -> None:
    both = a_case("a", scores=[0.5], metric="tone", gate=("tone",))
    rules = GateRules(accept_gone=("test_f:tone",))
    assert [one.metric for one in compare(a_run(both), a_run(both), rules).functions] == ["tone"]


def test_a_metric_that_is_gated_here_alone_is_new() -> None:
    tone: dict[str, Any] = {"scores": [0.5], "metric": "tone"}
    plain, own = a_case("a", **tone), a_case("a", **tone, gate=("tone", "pass"))
    found = compare(a_run(plain), a_run(own), GateRules())
    verdicts = [(one.metric, one.verdict) for one in found.functions]
    assert verdicts == [("tone", "new"), ("pass", "unchanged")]
    assert notes(found) == ()

    # main gates it since the anchor, so that it is in no way this branch's own
    anchored = compare(a_run(plain), a_run(own), GateRules(), main=a_run(own))
    assert {one.verdict for one in anchored.functions} == {"unchanged"}


def test_a_metric_takes_the_place_of_one_that_is_given_up() -> None:
    def calls(index: int) -> list[Call]:
        return [dataclasses.replace(a_call("A", f"d{index}", trial=index), seconds=0.5)]

    tone: dict[str, Any] = {"scores": [0.5], "metric": "tone", "calls": calls}
    own = a_case("a", **tone, gate=("tone", "seconds"), better="lower")
    found = compare(a_run(a_case("a", **tone)), a_run(own), GateRules(accept_gone=("test_f:pass",)))
    verdicts = [(one.metric, one.verdict) for one in found.functions]
    assert verdicts == [("tone", "unchanged"), ("seconds", "new")]
    # in the direction of this run: the baseline's was of no account
    assert found.functions[0].better == "lower"


def test_a_score_that_only_this_run_records_is_new_beside_the_passes() -> None:
    found = compare(a_run(a_case("a", "pp")), a_run(a_case("a", scores=[0.5, 0.6])), GateRules())
    assert [(one.metric, one.verdict) for one in found.functions] == [
        ("score", "new"),
        ("pass", "unchanged"),
    ]
    assert found.functions[0].trials["scored"] == 2


@pytest.mark.parametrize("outcomes", ["pp", "mm", "pm"])
def test_a_gated_metric_that_was_never_recorded_cannot_be_judged(outcomes: str) -> None:
    one = a_case("a", outcomes, gate=("f1",))
    compared_one = compared(a_run(one), a_run(one))
    new = compared(a_run(), a_run(one))
    for found in (compared_one, new):
        assert (found.verdict, found.row, found.fails) == ("not_comparable", 3, True)
        assert worded(found.why).startswith(
            "f1 is gated, but the trials recorded only pass: record it in"
        )
        assert 'llm_score(value, "f1")' in worded(found.why)


@pytest.mark.parametrize("outcomes", ["ss", "ee"])
def test_without_a_scored_trial_nothing_is_held_against_a_metric(outcomes: str) -> None:
    (described,) = describe(a_run(a_case("a", outcomes, gate=("f1",))))
    assert described.why is None


def test_without_a_baseline_a_metric_that_was_never_recorded_is_told_too() -> None:
    (described,) = describe(a_run(a_case("a", "pp", gate=("f1",))))
    assert unjudgeable(described.why).startswith(
        "test_suite.py::test_f: f1 is gated, but the trials recorded only"
    )


def test_each_gated_metric_is_a_comparison_of_its_own() -> None:
    gate = ("score", "pass")
    baseline = a_run(a_case("a", "pp", scores=[0.9, 0.8], gate=gate))
    run = a_run(a_case("a", "mp", scores=[0.9, 0.8], gate=gate, request="v2"))
    by_metric = {one.metric: one for one in compare(baseline, run, GateRules()).functions}
    assert by_metric["score"].effect.difference == 0.0
    assert by_metric["pass"].effect.difference == -0.5


def test_a_metric_is_judged_in_the_baselines_direction() -> None:
    # S4: better="lower" on the branch made a fall of 76 points an improvement
    baseline = a_run(a_case("a", scores=[0.2, 0.2]))
    run = a_run(a_case("a", scores=[0.5, 0.5], better="lower", request="v2"))
    found = compare(baseline, run, GateRules())
    assert found.functions[0].better == "higher"
    assert found.functions[0].effect.difference == pytest.approx(0.3)
    assert notes(found) == (
        "test_suite.py::test_f:score is judged as in the baseline, higher is better; "
        'here the marker says better="lower"',
    )


def test_function_has_one_direction_that_of_its_first_id() -> None:
    cases = [a_case("a", scores=[0.5], better="lower"), a_case("b", scores=[0.5])]
    for one in (cases, cases[::-1]):
        assert compared(a_run(*one), a_run(*one)).better == "lower"


def test_a_score_that_is_recorded_no_longer_leaves_nothing_in_common() -> None:
    baseline, run = a_run(a_case("a", scores=[0.5, 0.6])), a_run(a_case("a", "pp"))
    passes, found = compare(baseline, run, GateRules()).functions
    assert (passes.metric, passes.verdict) == ("pass", "new")
    assert (found.metric, found.row) == ("score", 3)
    assert worded(found.why) == (
        "score is gated in the baseline and no trial recorded it here: record it, or take it out "
        "of gate= and give it up by  llm_accept_gone = test_suite.py::test_f:score  in the ini file"
    )


@given(st.lists(st.lists(st.booleans(), min_size=2, max_size=6), min_size=1, max_size=5))
def test_pass_hat_is_the_share_of_all_sets_of_trials_that_pass_throughout(
    samples: list[list[bool]],
) -> None:
    found = pass_hat(samples)

    assert found is not None
    k = min(map(len, samples))
    shares = [[all(some) for some in combinations(one, k)] for one in samples]
    expected = sum(sum(each) / len(each) for each in shares) / len(samples)
    assert found == (k, None, pytest.approx(expected))


def test_pass_hat_has_one_k_for_both_sides() -> None:
    assert pass_hat([[1, 1, 0]], [[1, 1, 1, 1, 0]]) == (3, pytest.approx(0.4), 0.0)
    assert pass_hat([[1, 1]], [[1]]) is None
    assert pass_hat([]) is None


def test_pass_hat_of_a_comparison_is_over_its_common_cases() -> None:
    baseline = a_run(a_case("a", "pp"), a_case("b", "pp"), a_case("gone", "mm"))
    run = a_run(a_case("a", "pp"), a_case("b", "pm"))
    scored = a_run(a_case("a", scores=[0.5, 0.7])), a_run(a_case("a", scores=[0.5, 0.6]))

    assert compared(baseline, run).pass_hat == (2, 1.0, 0.5)
    assert compared(*scored).pass_hat is None


def test_pass_hat_does_not_move_where_all_was_replayed() -> None:
    baseline = a_run(a_case("a", "ppmp"), a_case("b", "pmpp"))
    run = a_run(a_case("a", "pp"), a_case("b", "pm"))

    unchanged = compared(baseline, run)

    assert unchanged.verdict is Verdict.UNCHANGED
    assert unchanged.pass_hat == (2, 0.5, 0.5)


def test_each_metric_of_a_case_may_have_a_direction_of_its_own() -> None:
    case = dataclasses.replace(a_case("x", scores=[1.0]).case, lower=("latency_ms",))
    ways = {name: case.direction(name) for name in ("latency_ms", "tone", "seconds")}
    assert ways == {"latency_ms": "lower", "tone": "higher", "seconds": "lower"}
