"""Describe the functions of a single run."""

from __future__ import annotations

from dataclasses import replace

from pytest_llmeval.gate.counts import count_trials
from pytest_llmeval.gate.description import CaseDescription, FunctionDescription
from pytest_llmeval.gate.means import mean_of_cases
from pytest_llmeval.gate.scoring import Scores, gated_metrics, score
from pytest_llmeval.gate.sides import Side, sides_of
from pytest_llmeval.gate.verdict import never_recorded
from pytest_llmeval.records import PASS_METRIC, Better, Run
from pytest_llmeval.stats.intervals import wilson_interval
from pytest_llmeval.stats.multiplicity import holm
from pytest_llmeval.stats.planning.expected import expect_mean
from pytest_llmeval.stats.significance.repeats import DRIFT_LEVEL

MOST_WORST = 5


def describe_run(run: Run, *, alpha: float) -> tuple[FunctionDescription, ...]:
    """Describe every gated metric of a run; see ``pytest_llmeval.gate.describe``."""
    described = tuple(
        _describe(function, metric, side, alpha=alpha)
        for function, side in sides_of(run).items()
        for metric in gated_metrics(side)
    )
    # Of nine functions without drift one in eleven runs had one below the level.
    adjusted = iter(holm([one.drift_p for one in described if one.drift_p is not None]))
    return tuple(
        one if one.drift_p is None else replace(one, drifts=next(adjusted) < DRIFT_LEVEL)
        for one in described
    )


def _describe(function: str, metric: str, side: Side, *, alpha: float) -> FunctionDescription:
    better = side.better(metric)
    scores = score(side, metric, better=better)
    scored = sorted(id_ for id_, values in scores.items() if values)
    found = mean_of_cases(side, scores, scored, metric=metric, alpha=alpha)
    samples = [scores[id_].values for id_ in scored]
    later = expect_mean(samples, confidence=1 - 2 * alpha) if samples else None
    lacking = never_recorded([side], metric)
    return FunctionDescription(
        function=function,
        metric=metric,
        better=better,
        cases=len(side.cases),
        scored_cases=len(scored),
        units=found.units if found else 0,
        trials=count_trials(side, scores, cases=side.cases),
        mean=found.mean if found else None,
        interval=found.interval if found else None,
        interval_level=1 - 2 * alpha if found and found.interval else None,
        worst=_worst(scores, scored, metric=metric, better=better, alpha=alpha),
        prediction=later.interval if later else None,
        prediction_by_repeats=later.by_repeats if later else None,
        prediction_level=1 - 2 * alpha if later and later.interval else None,
        drift_p=later.drift_p if later else None,
        why=f"{function}: {lacking.why}" if lacking else "",
    )


def _worst(
    scores: Scores, scored: list[str], *, metric: str, better: Better, alpha: float
) -> tuple[CaseDescription, ...]:
    sign = 1 if better == "higher" else -1
    cases = [
        CaseDescription(case=id_, mean=scores[id_].mean, scores=scores[id_].values)
        for id_ in scored
    ]
    is_pass = metric == PASS_METRIC
    best = 1.0 if is_pass else max((sign * case.mean for case in cases), default=0.0)
    short = [case for case in cases if sign * case.mean < best]
    worst = sorted(short, key=lambda case: sign * case.mean)[:MOST_WORST]
    return tuple(_with_interval(case, alpha=alpha) if is_pass else case for case in worst)


def _with_interval(case: CaseDescription, *, alpha: float) -> CaseDescription:
    hits, trials = sum(case.scores), len(case.scores)
    return replace(case, interval=wilson_interval(hits, trials, alpha=alpha))
