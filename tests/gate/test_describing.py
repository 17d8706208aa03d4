"""A run that is held against nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from scipy import stats

from pytest_llmeval.gate.describe import describe, history_of
from pytest_llmeval.gate.results import FunctionDescription
from pytest_llmeval.records import Call
from pytest_llmeval.stats.expected import expect_mean
from pytest_llmeval.stats.intervals import wilson_interval
from tests.gate.builders import CallsOfTrial, CaseAndTrials, a_call, a_case, a_run


def described(*cases: CaseAndTrials, alpha: float = 0.05) -> FunctionDescription:
    (found,) = describe(a_run(*cases), alpha=alpha)
    return found


def test_mean_is_over_the_cases_of_their_means() -> None:
    found = described(a_case("a", "pm"), a_case("b", "pppp"))
    assert (found.mean, found.cases, found.scored_cases, found.units) == (0.75, 2, 2, 2)


def test_interval_is_the_t_interval_over_case_means() -> None:
    cases = [a_case("a", scores=[0.5]), a_case("b", scores=[1.0, 1.0]), a_case("c", scores=[0.75])]
    found = described(*cases, alpha=0.1)
    expected = stats.ttest_1samp([0.5, 1.0, 0.75], 0).confidence_interval(0.8)
    assert found.interval == pytest.approx((expected.low, min(expected.high, 1.0)))
    assert found.interval_level == pytest.approx(0.8)


def test_interval_reaches_from_5_to_95_percent_unless_told_otherwise() -> None:
    assert describe(a_run(a_case("a", "pm"), a_case("b", "pp")))[0].interval_level == 0.9


@pytest.mark.parametrize(
    "cases", [[a_case("a", "pm")], [a_case("a", scores=[0.5]), a_case("b", scores=[0.5, 0.5])]]
)
def test_point_is_never_shown_as_certainty(cases: list[CaseAndTrials]) -> None:
    found = described(*cases)
    assert (found.interval, found.interval_level) == (None, None)
    assert found.mean is not None


@pytest.mark.parametrize(("outcome", "mean"), [("p", 1.0), ("m", 0.0)])
def test_pass_rate_without_a_miss_or_a_hit_still_has_an_interval(outcome: str, mean: float) -> None:
    found = described(*(a_case(f"c{at}", outcome * 3) for at in range(4)))
    assert found.interval is not None
    low, high = found.interval
    assert 0.0 <= low <= mean <= high <= 1.0
    assert high - low > 0.2


def test_next_run_is_expected_by_the_spread_within_cases() -> None:
    samples = [[1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
    outcomes = ["".join("p" if score else "m" for score in sample) for sample in samples]
    found = described(*(a_case(f"c{at}", one) for at, one in enumerate(outcomes)), alpha=0.1)
    expected = expect_mean(samples, confidence=0.8)
    assert (found.prediction, found.prediction_by_repeats) == (
        expected.interval,
        expected.by_repeats,
    )
    assert found.prediction_level == pytest.approx(0.8)
    assert not found.drifts


def test_repeats_that_differ_beyond_chance_drift() -> None:
    found = described(*(a_case(f"c{at}", "pm" * 2 + "m") for at in range(8)))
    assert found.drifts


def test_drift_is_judged_by_all_functions_of_a_run() -> None:
    drifting = [a_case(f"c{at}", "pm" * 2 + "m") for at in range(4)]
    assert described(*drifting).drifts
    others = [a_case(f"d{at}", "pmmpp"[at:] + "pmmpp"[:at], function=f"f{at}") for at in range(5)]
    found = describe(a_run(*drifting, *others), alpha=0.05)
    assert not any(one.drifts for one in found)


def test_next_run_after_a_single_repeat_is_unknown() -> None:
    found = described(a_case("a", "p"), a_case("b", "m"))
    assert (found.prediction, found.prediction_by_repeats, found.prediction_level) == (None,) * 3


def test_worst_cases_have_an_interval_of_their_own_where_they_are_rates() -> None:
    [worst] = described(a_case("a", "pmm"), a_case("b", "ppp")).worst
    assert worst.interval == wilson_interval(1, 3, alpha=0.05)
    [worst] = described(a_case("a", scores=[0.2, 0.3]), a_case("b", scores=[0.9, 0.9])).worst
    assert worst.interval is None


def test_cases_of_one_cluster_are_one_unit() -> None:
    cases = [a_case(f"c{at}", "pm" * at + "pp", cluster="x") for at in range(4)]
    found = described(*cases)
    assert (found.units, found.interval) == (1, None)


def test_cases_that_share_a_draw_are_one_unit() -> None:
    def sharing(draw: str) -> CallsOfTrial:
        def calls(index: int) -> tuple[Call, ...]:
            return (a_call("key", f"{draw}/{index}", trial=index),)

        return calls

    found = described(
        a_case("a", "pm", calls=sharing("x")),
        a_case("b", "pp", calls=sharing("x")),
        a_case("c", "mm", calls=sharing("y")),
    )
    assert found.units == 2


def test_trials_are_counted_and_errors_shrink_no_denominator_silently() -> None:
    found = described(a_case("a", "pmces"), a_case("b", "ee"))
    assert (found.trials["scored"], found.trials["missed"], found.trials["crashed"]) == (3, 1, 1)
    assert (found.trials["errored"], found.trials["skipped"]) == (3, 1)
    assert (found.cases, found.scored_cases) == (2, 1)
    assert found.mean == pytest.approx(1 / 3)


def test_without_a_scored_trial_nothing_is_known() -> None:
    found = described(a_case("a", "ee"))
    assert (found.mean, found.interval, found.units, found.worst) == (None, None, 0, ())


def test_scores_follow_the_same_rule_as_in_the_gate() -> None:
    found = described(a_case("a", "pmc", scores=[0.9, None, 0.8]))
    assert (found.metric, found.mean) == ("score", pytest.approx(0.3))


def test_every_gated_metric_is_described() -> None:
    run = a_run(a_case("a", scores=[0.9], gate=("pass", "score")))
    assert [one.metric for one in describe(run)] == ["pass", "score"]


def test_no_time_is_below_zero() -> None:
    run = a_run(*(a_case(name, "p", gate=("seconds",)) for name in "abc"))
    times = zip(run.trials, (0.1, 0.1, 60.0), strict=True)
    trials = tuple(
        replace(one, calls=(replace(a_call(one.case, one.case), seconds=each),))
        for one, each in times
    )

    (found,) = describe(replace(run, trials=trials))

    assert found.mean == pytest.approx(20.067, abs=0.001)
    assert found.interval is not None
    assert found.interval[0] == 0


def test_functions_stand_in_order_of_collection() -> None:
    run = a_run(*(a_case("a", "p", function=name) for name in ("test_z", "test_a")))
    assert [one.function[-1] for one in describe(run)] == ["z", "a"]


def names(found: FunctionDescription) -> str:
    return "".join(one.case.partition("[")[2][0] for one in found.worst)


def test_worst_cases_are_those_that_did_not_always_pass_worst_first() -> None:
    found = described(a_case("a", "pppm"), a_case("b", "pppp"), a_case("c", "pmmm"))
    assert names(found) == "ca"
    assert (found.worst[0].mean, found.worst[0].scores) == (0.25, (1.0, 0.0, 0.0, 0.0))


def test_worst_of_other_scores_are_those_below_the_best() -> None:
    scores = {"a": [0.7], "b": [0.9], "c": [0.2]}
    assert names(described(*(a_case(n, scores=s) for n, s in scores.items()))) == "ca"


def test_worst_are_the_highest_where_lower_is_better() -> None:
    scores = {"a": [0.7], "b": [0.9], "c": [0.2]}
    cases = [a_case(n, scores=s, better="lower") for n, s in scores.items()]
    assert names(described(*cases)) == "ba"
    passes = [a_case(n, one, better="lower", gate=("pass",)) for n, one in ("ap", "bm")]
    assert names(described(*passes)) == "b"


def test_every_case_that_fell_short_is_told() -> None:
    assert len(described(*(a_case(f"c{at}", "m") for at in range(9))).worst) == 9


def test_order_of_cases_and_trials_changes_nothing_but_the_order() -> None:
    cases = [a_case(f"c{at}", "pm" * at + "ppm") for at in range(5)]
    turned = [CaseAndTrials(one.case, one.trials[::-1]) for one in cases[::-1]]
    assert described(*turned) == described(*cases)


def test_a_history_has_the_means_of_each_run_that_has_one() -> None:
    runs = [a_run(a_case("a", outcomes)) for outcomes in ("pp", "ee", "pm")]

    history = history_of(runs, alpha=0.05)

    ((name, means),) = history.items()
    assert name[1] == "pass"
    assert [each.mean for each in means] == [1.0, 0.5]
    assert [each.run for each in means] == [runs[0], runs[2]]
