"""Seconds, tokens and cost of a trial's calls, compared by their ratio."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from pytest_llmeval.errors import Lost
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Comparison, FunctionComparison, Verdict
from pytest_llmeval.gate.scoring import measured, measured_if_gated
from pytest_llmeval.records import Call, Outcome, Run, Slot, Trial, Usage
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.settings import GateRules
from tests.gate.builders import a_case, a_run

SEEN = [1.0, 1.2, 0.8, 1.1, 0.9, 1.3, 0.7, 1.4]


def took(seconds: float | None, *, request: str = "v1", trial: int = 0, tokens: int = 10) -> Call:
    return Call(
        key=request,
        slot=Slot(trial, 0),
        draw=f"{request}/{trial}/{seconds}",
        seconds=seconds,
        usage=Usage(input_tokens=tokens, output_tokens=tokens),
    )


def timed(
    by_case: Sequence[Sequence[float | None]],
    *,
    request: str = "v1",
    gate: tuple[str, ...] = ("seconds",),
    outcome: str = "p",
) -> Run:
    """A run whose trials make one call each, of so many seconds."""
    return a_run(
        *(
            a_case(
                f"c{at}",
                outcome * len(seconds),
                gate=gate,
                calls=lambda i, seconds=seconds: [took(seconds[i], request=request, trial=i)],
            )
            for at, seconds in enumerate(by_case)
        )
    )


def slower(factor: float, spread: float = 0.1) -> list[list[float]]:
    return [[one * factor * (1 + spread * (-1) ** at)] * 2 for at, one in enumerate(SEEN)]


BEFORE = [[one, one] for one in SEEN]


def judged(baseline: Run, current: Run, rules: GateRules | None = None) -> FunctionComparison:
    (function,) = compare(baseline, current, rules or GateRules()).functions
    return function


@pytest.mark.parametrize("gates", [(), ("pass", "seconds")])
def test_both_runs_are_measured_if_one_of_them_gates_what_calls_took(gates: tuple[str, ...]):
    both = timed(BEFORE, gate=gates), timed(BEFORE, gate=())
    expected = tuple(measured(run, cost_of=None) for run in both) if gates else both
    assert tuple(measured_if_gated(*both, cost_of=None)) == expected


def test_what_only_the_baseline_could_measure_is_in_no_case_of_both() -> None:
    unseen = [[None, None] for _ in SEEN]
    found = judged(timed(BEFORE), timed(unseen, request="v2"))
    assert (found.verdict, found.row) == ("not_comparable", 3)
    assert worded(found.why).startswith(
        "no case has seconds on both sides: it is that of calls which"
    )
    never = judged(timed(unseen), timed(unseen, request="v2"))
    assert worded(never.why).startswith(
        "seconds is gated, but the trials recorded only pass: it is that"
    )


def test_a_slower_function_regresses_and_the_ratio_says_by_how_much() -> None:
    found = judged(timed(BEFORE), timed(slower(1.3), request="v2"))

    assert (found.verdict, found.effect.method, found.scale) == (
        Verdict.REGRESSED,
        "log-ratio",
        "log",
    )
    assert found.better == "lower"
    assert found.evidence.ratio == pytest.approx(1.3 * math.sqrt(0.9 * 1.1))
    assert found.effect.mean is not None
    assert found.effect.baseline_mean is not None
    assert found.effect.mean / found.effect.baseline_mean == pytest.approx(found.evidence.ratio)
    assert found.effect.difference == pytest.approx(-math.log(found.evidence.ratio))


def test_the_figures_are_those_of_the_log_ratio_test() -> None:
    after = slower(1.07)
    found = judged(timed(BEFORE), timed(after, request="v2"))
    logs = [
        np.mean(np.log(other)) - np.mean(np.log(one))
        for one, other in zip(BEFORE, after, strict=True)
    ]
    expected = stats.ttest_1samp(logs, 0, alternative="greater")
    ends = stats.ttest_1samp(logs, 0).confidence_interval(0.9)

    assert (found.evidence.t, found.evidence.p) == pytest.approx(
        (-expected.statistic, expected.pvalue)
    )
    assert found.evidence.ratio == pytest.approx(np.exp(np.mean(logs)))
    assert found.evidence.ratio_interval == pytest.approx((np.exp(ends.low), np.exp(ends.high)))


def test_a_faster_function_is_improved() -> None:
    assert judged(timed(BEFORE), timed(slower(0.7), request="v2")).verdict is Verdict.IMPROVED


def test_margin_and_target_are_factors() -> None:
    allowed = GateRules(margin=0.35, target=0.5)
    found = judged(timed(BEFORE), timed(slower(1.3), request="v2"), allowed)
    assert found.verdict is Verdict.NO_SIGNIFICANT_CHANGE
    stricter = GateRules(margin=0.1, target=0.5)
    assert judged(timed(BEFORE), timed(slower(1.3), request="v2"), stricter).fails


def test_a_replay_differs_by_nothing_and_reads_as_it_was_measured() -> None:
    found = judged(timed(BEFORE), timed(BEFORE))
    assert (found.verdict, found.evidence.ratio, found.evidence.ratio_interval) == (
        Verdict.UNCHANGED,
        1.0,
        (1.0, 1.0),
    )
    assert found.compared[1].baseline_scores == (1.2, 1.2)
    assert found.compared[1].mean == 1.2


def with_one_reply(run: Run) -> Run:
    return dataclasses.replace(
        run,
        trials=tuple(
            dataclasses.replace(
                trial,
                calls=tuple(dataclasses.replace(c, reply_sha256="0" * 64) for c in trial.calls),
            )
            for trial in run.trials
        ),
    )


def test_a_reply_that_is_the_same_again_took_time_of_its_own() -> None:
    baseline, current = (
        with_one_reply(timed(one, request=request, gate=("pass", "seconds")))
        for one, request in ((BEFORE, "v1"), (slower(1.1), "v2"))
    )
    passes, seconds = compare(baseline, current, GateRules()).functions
    assert passes.evidence.identical_repeats
    assert not seconds.evidence.identical_repeats


def test_the_target_is_a_factor_where_nothing_is_found() -> None:
    baseline, current = timed(BEFORE), timed(slower(1.2, spread=0.6), request="v2")
    found = judged(baseline, current, GateRules(target=0.5))
    assert found.evidence.interval is not None
    assert -0.5 < found.evidence.interval[0] < -math.log(1.5)
    assert found.verdict is Verdict.INCONCLUSIVE


def test_missing_seconds_leave_the_trial_without_value() -> None:
    unseen = [[None, None], *BEFORE[1:]]
    found = judged(timed(unseen), timed(slower(1.0), request="v2"))
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert "2 of 16 scored trials in the baseline have no value for seconds" in worded(found.why)
    assert "calls which the plugin sees" in worded(found.why)


def test_a_metric_that_no_trial_has_says_what_it_takes() -> None:
    baseline, current = timed(BEFORE, gate=("cost",)), timed(BEFORE, request="v2", gate=("cost",))
    found = judged(baseline, current)
    assert (found.row, found.verdict) == (3, Verdict.NOT_COMPARABLE)
    assert "a price above 0" in worded(found.why)


def test_cost_is_what_the_calls_cost() -> None:
    baseline, current = (
        timed(BEFORE, gate=("cost",)),
        timed(slower(2.0), request="v2", gate=("cost",)),
    )
    (found,) = compare(baseline, current, GateRules(), cost_of=lambda call: call.seconds).functions
    assert found.evidence.ratio == pytest.approx(2 * math.sqrt(0.99))
    assert found.effect.baseline_mean == pytest.approx(math.exp(sum(map(math.log, SEEN)) / 8))


def a_trial(*calls: Call, outcome: Outcome = Outcome.PASSED) -> Run:
    case = a_case("a", "p").case
    return dataclasses.replace(
        a_run(),
        cases=(case,),
        trials=(Trial(case=case.id, index=0, outcome=outcome, calls=calls),),
    )


def scores(run: Run) -> dict[str, float]:
    (trial,) = measured(run, cost_of=None).trials
    return dict(trial.scores)


def test_calls_of_a_trial_add_up_and_failed_ones_do_not_count() -> None:
    failed = Call(key="k", slot=Slot(0, 1), draw=None, lost=Lost.STATUS, seconds=9.0)
    run = a_trial(took(1.5, tokens=3), took(0.25, tokens=4), failed)
    assert scores(run) == {"seconds": 1.75, "tokens": 14}


@pytest.mark.parametrize(
    "run",
    [a_trial(), a_trial(took(1.0), outcome=Outcome.ERRORED), a_trial(took(0.0, tokens=0))],
    ids=["no call", "errored", "nothing"],
)
def test_where_nothing_was_measured_there_is_no_score(run: Run) -> None:
    assert scores(run) == {}


def test_tokens_that_were_not_counted_are_not_0() -> None:
    call = dataclasses.replace(took(1.0), usage=Usage(input_tokens=10))
    assert scores(a_trial(took(1.0), call)) == {"seconds": 2.0}


# what is not gated is described


def described(baseline: Run, current: Run) -> Comparison:
    return compare(baseline, current, GateRules())


def test_what_is_not_gated_is_described_without_a_verdict() -> None:
    gate = ("pass",)
    found = described(timed(BEFORE, gate=gate), timed(slower(1.3), request="v2", gate=gate))
    assert [one.metric for one in found.functions] == ["pass"]
    assert not found.fails
    seconds, tokens = found.ungated
    assert (seconds.metric, seconds.scale, seconds.effect.changed) == ("seconds", "log", 8)
    assert seconds.evidence.ratio == pytest.approx(1.3 * math.sqrt(0.99))
    assert seconds.evidence.ratio_interval is not None
    assert (
        seconds.evidence.ratio_interval[0]
        < seconds.evidence.ratio
        < seconds.evidence.ratio_interval[1]
    )
    assert (tokens.metric, tokens.evidence.ratio, tokens.evidence.interval) == ("tokens", 1.0, None)


def test_other_scores_are_described_and_those_on_one_side_are_not() -> None:
    baseline = a_run(
        *(a_case(f"c{at}", scores=[0.5], metric="tone", gate=("pass",)) for at in "ab")
    )
    current = a_run(
        *(
            a_case(f"c{at}", scores=[0.7], metric="tone", gate=("pass",), request="v2")
            for at in "ab"
        )
    )
    (tone,) = described(baseline, current).ungated
    assert (tone.metric, tone.effect.cases, tone.effect.changed) == ("tone", 2, 2)
    assert tone.effect.difference == pytest.approx(0.2)
    assert (tone.evidence.ratio, tone.evidence.interval, tone.evidence.interval_level) == (
        None,
        None,
        None,
    )
    silent = a_run(*(a_case(f"c{at}", "p", gate=("pass",), request="v2") for at in "ab"))
    assert described(baseline, silent).ungated == ()


def test_replays_thin_out_what_is_described() -> None:
    gate = ("pass",)
    half = slower(1.3)[:6]
    baseline = timed([*BEFORE[:6], *[[2.0 + at, 2.0 + at] for at in range(6)]], gate=gate)
    moved = timed(half, request="v2", gate=gate)
    kept = dataclasses.replace(
        baseline,
        trials=(*moved.trials, *baseline.trials[12:]),
    )
    seconds = described(baseline, kept).ungated[0]
    alone = described(timed(BEFORE[:6], gate=gate), moved).ungated[0]
    assert (seconds.effect.cases, seconds.effect.changed) == (12, 6)
    assert seconds.evidence.interval is not None
    assert alone.evidence.interval is not None
    assert seconds.evidence.interval == pytest.approx([end / 2 for end in alone.evidence.interval])


def test_functions_of_one_run_have_nothing_to_be_described() -> None:
    assert described(a_run(), timed(BEFORE)).ungated == ()
