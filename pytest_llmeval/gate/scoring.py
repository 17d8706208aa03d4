"""What a trial is worth on a metric, and which metrics of a function are gated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.comparison import Scale
from pytest_llmeval.gate.sides import Side
from pytest_llmeval.records import (
    MEASURED_METRICS,
    OWN_DIRECTIONS,
    PASS_METRIC,
    SCORE_METRIC,
    Better,
    Outcome,
    Trial,
)

# what a trial recorded counts where it ended so; a crashed one is worth nothing
RECORDING = (Outcome.PASSED, Outcome.MISSED)


@dataclass(frozen=True, slots=True)
class Scored:
    """The trials of a case that have a value for a metric, index ascending.

    Attributes:
        values: theirs, on the scale of comparison.
    """

    trials: tuple[Trial, ...]
    values: tuple[float, ...]

    def __len__(self) -> int:
        """Count the trials."""
        return len(self.values)

    @property
    def indices(self) -> list[int]:
        """The indices of the trials."""
        return [trial.index for trial in self.trials]

    @property
    def mean(self) -> float:
        """The mean value of the trials, of which there must be one."""
        return math.fsum(self.values) / len(self.values)

    def first(self, count: int) -> Scored:
        """Return so many trials, or all where there are fewer."""
        return Scored(self.trials[:count], self.values[:count])

    def only(self, indices: Collection[int]) -> Scored:
        """Return the trials of these indices."""
        kept = [at for at, trial in enumerate(self.trials) if trial.index in indices]
        return Scored(
            tuple([self.trials[at] for at in kept]), tuple([self.values[at] for at in kept])
        )


Scores = Mapping[str, Scored]


def gated_metrics(side: Side) -> tuple[str, ...]:
    """Return the metrics that a run gates: those that the marker names, else the default one.

    The default is ``score`` where the function records it, else ``pass``.
    """
    default = SCORE_METRIC if records(side, SCORE_METRIC) else PASS_METRIC
    named = (metric for case in side.cases.values() for metric in case.gate or (default,))
    return tuple(dict.fromkeys(named))


def records(side: Side, metric: str) -> bool:
    """Tell whether some scored trial has a value for a metric."""
    return _records(side.every_trial(), metric)


def lacks(sides: Iterable[Side], metric: str) -> bool:
    """Tell whether trials were scored and none of them has a value for a metric."""
    trials = [trial for side in sides for trial in side.every_trial() if trial.outcome.is_scored]
    return bool(trials) and not _records(trials, metric)


def turns_nothing(side: Side) -> bool:
    """Tell whether ``better="lower"`` concerns no gated metric: no score was recorded."""
    turned = any(case.better == "lower" for case in side.cases.values())
    return turned and OWN_DIRECTIONS.keys() >= set(gated_metrics(side))


def ungated_metrics(sides: Sequence[Side], gated: Collection[str]) -> tuple[str, ...]:
    """Return the metrics that the function has besides: recorded ones, then measured ones."""
    trials = [trial for side in sides for trial in side.every_trial()]
    recorded = set().union(*[trial.scores for trial in trials])
    own = sorted(recorded.difference(MEASURED_METRICS, {PASS_METRIC}))
    every = (PASS_METRIC, *own, *MEASURED_METRICS)
    return tuple(name for name in every if name in recorded and name not in gated)


def score(side: Side, metric: str, *, better: Better, scale: Scale = "linear") -> Scores:
    """Return the trials that have a value, by case, index ascending.

    A crashed trial is worth nothing, whatever it recorded before. So is a missed one that
    ended before it could record the metric, if others of its run did, or if none passed.
    Where lower is better 0 would be praise: there such a trial has no value instead.

    Args:
        side: the function in one run; what others of the run recorded matters.
        metric: ``pass`` or what the tests record.
        better: which direction is good; of ``pass`` that is always higher.
        scale: ``log`` for the logarithm of each value; one that is not above 0 has none.
    """
    trials = side.every_trial()
    worthless = 0.0 if better == "higher" else None
    passed = any(trial.outcome is Outcome.PASSED for trial in trials)
    unrecorded = worthless if _records(trials, metric) or not passed else None
    worth = {Outcome.MISSED: unrecorded, Outcome.CRASHED: worthless}
    if metric == PASS_METRIC:
        worth = {Outcome.PASSED: 1.0, Outcome.MISSED: 0.0, Outcome.CRASHED: 0.0}
    scored: dict[str, Scored] = {}
    for case, of_case in side.trials.items():
        values = _values(of_case, metric, worth)
        if scale == "log":
            values = [math.log(value) if value and value > 0 else None for value in values]
        scored[case] = _with_value(of_case, values)
    return scored


def off_scale(value: float, scale: Scale) -> float:
    """Return a value as it was before its logarithm was taken, to 12 digits."""
    return float(f"{math.exp(value):.12g}") if scale == "log" else value


def _values(
    trials: Iterable[Trial], metric: str, worth: Mapping[Outcome, float | None]
) -> list[float | None]:
    """Look the values of some trials up, else what their outcome is worth."""
    if metric == PASS_METRIC:
        return [worth.get(trial.outcome) for trial in trials]
    return [
        trial.scores.get(metric, worth.get(trial.outcome))
        if trial.outcome in RECORDING
        else worth.get(trial.outcome)
        for trial in trials
    ]


def _with_value(trials: tuple[Trial, ...], values: Sequence[float | None]) -> Scored:
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) == len(trials):
        return Scored(trials, tuple(known))
    having = [value is not None and math.isfinite(value) for value in values]
    return Scored(tuple(itertools.compress(trials, having)), tuple(known))


def _records(trials: Iterable[Trial], metric: str) -> bool:
    return any(metric in trial.scores and trial.outcome.is_scored for trial in trials)
