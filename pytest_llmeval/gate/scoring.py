"""What a trial is worth on a metric, and which metrics of a function are gated."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from pytest_llmeval.gate.comparison import Scale
from pytest_llmeval.gate.sides import Side
from pytest_llmeval.records import (
    MEASURED_METRICS,
    PASS_METRIC,
    SCORE_METRIC,
    Better,
    Outcome,
    Trial,
)


class Scored(NamedTuple):
    """A scored trial with its value for the metric in question, on the scale of comparison."""

    trial: Trial
    value: float


Scores = Mapping[str, tuple[Scored, ...]]


def gated_metrics(sides: Sequence[Side], named_by: Side) -> tuple[str, ...]:
    """Return the metrics to gate: those that the marker names, else the default one.

    The default is ``score`` where the function records it on any of the sides, else
    ``pass``.

    Args:
        sides: the function in every run that is looked at.
        named_by: the side whose markers count.
    """
    trials = [trial for side in sides for trial in side.every_trial()]
    default = SCORE_METRIC if _records(trials, SCORE_METRIC) else PASS_METRIC
    named = (metric for case in named_by.cases.values() for metric in case.gate or (default,))
    return tuple(dict.fromkeys(named))


def ungated_metrics(sides: Sequence[Side], gated: Collection[str]) -> tuple[str, ...]:
    """Return the metrics that the function has besides: recorded ones, then measured ones."""
    trials = [trial for side in sides for trial in side.every_trial()]
    recorded = {metric for trial in trials for metric in trial.scores}
    own = sorted(recorded.difference(MEASURED_METRICS, {PASS_METRIC}))
    measured = (metric for metric in MEASURED_METRICS if metric in recorded)
    return tuple(name for name in (PASS_METRIC, *own, *measured) if name not in gated)


def score(side: Side, metric: str, *, better: Better, scale: Scale = "linear") -> Scores:
    """Return the trials that have a value, by case, index ascending.

    A crashed trial is worth nothing, whatever it recorded before. So is a missed one that
    ended before it could record the metric, if others of its run did, or if none passed.
    Where lower is better 0 would be praise: there such a trial has no value instead.

    Args:
        side: the function in one run; what others of the run recorded matters.
        metric: ``pass`` or what the tests record.
        better: which direction is good.
        scale: ``log`` for the logarithm of each value; one that is not above 0 has none.
    """
    trials = side.every_trial()
    worthless = 0.0 if better == "higher" else None
    passed = any(trial.outcome is Outcome.PASSED for trial in trials)
    unrecorded = worthless if _records(trials, metric) or not passed else None
    scored: dict[str, tuple[Scored, ...]] = {}
    for case, of_case in side.trials.items():
        values = [_value(trial, metric, crashed=worthless, missed=unrecorded) for trial in of_case]
        if scale == "log":
            values = [math.log(value) if value and value > 0 else None for value in values]
        scored[case] = tuple(
            Scored(trial, value)
            for trial, value in zip(of_case, values, strict=True)
            if value is not None and math.isfinite(value)
        )
    return scored


def values_of(scored: Iterable[Scored]) -> tuple[float, ...]:
    """Return the values alone."""
    return tuple([value for _, value in scored])


def off_scale(value: float, scale: Scale) -> float:
    """Return a value as it was before its logarithm was taken, to 12 digits."""
    return float(f"{math.exp(value):.12g}") if scale == "log" else value


def mean_of(scored: Sequence[Scored]) -> float:
    """Return the mean value of some trials, at least one."""
    return math.fsum(values_of(scored)) / len(scored)


def _value(
    trial: Trial, metric: str, *, crashed: float | None, missed: float | None
) -> float | None:
    outcome = trial.outcome
    if outcome is Outcome.PASSED:
        return 1.0 if metric == PASS_METRIC else trial.scores.get(metric)
    if outcome is Outcome.MISSED:
        return 0.0 if metric == PASS_METRIC else trial.scores.get(metric, missed)
    return crashed if outcome is Outcome.CRASHED else None


def _records(trials: Iterable[Trial], metric: str) -> bool:
    return any(metric in trial.scores and trial.outcome.is_scored for trial in trials)
