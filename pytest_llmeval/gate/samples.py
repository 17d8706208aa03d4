"""The scores of a run, function by function, as the statistics take them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmeval.gate.changes import draws_of
from pytest_llmeval.gate.comparison import Scale
from pytest_llmeval.gate.measuring import CostOf, measured
from pytest_llmeval.gate.scoring import Scores, gated_metrics, score
from pytest_llmeval.gate.sides import Side, sides_of
from pytest_llmeval.gate.units import chained
from pytest_llmeval.records import MEASURED_METRICS, PASS_METRIC, Better, Run
from pytest_llmeval.settings import GateRules

if TYPE_CHECKING:
    from pytest_llmeval.stats.significance.sample import CaseScores

# by function and metric
ChangedCases = Mapping[tuple[str, str], "tuple[CaseScores, ...]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSamples:
    """One test function on one gated metric.

    Attributes:
        cases: how many were collected.
        samples: the values of each case that has any, by trial index.
        units: the unit of each of these cases: equal numbers share their chance.
        calls: that a trial made on average, replays included.
    """

    function: str
    metric: str
    better: Better
    cases: int
    samples: tuple[tuple[float, ...], ...]
    units: tuple[int, ...]
    calls: float

    @property
    def is_pass(self) -> bool:
        """Whether the scores are hits and misses."""
        return self.metric == PASS_METRIC

    @property
    def scale(self) -> Scale:
        """Whether the gate compares the values or their logarithms."""
        return "log" if self.metric in MEASURED_METRICS else "linear"

    @property
    def independent(self) -> int:
        """How many independent units the cases form."""
        return len(set(self.units))

    @property
    def repeats(self) -> int:
        """The usual number of scored trials of a case, rounded; 0 without any."""
        sizes = [len(sample) for sample in self.samples]
        return round(sum(sizes) / len(sizes)) if sizes else 0

    @property
    def gains(self) -> tuple[tuple[float, ...], ...]:
        """The values on the scale of comparison, turned so that more is better."""
        if self.scale == "log":
            return tuple(tuple(-math.log(value) for value in sample) for sample in self.samples)
        if self.better == "higher":
            return self.samples
        return tuple(tuple(0.0 - value for value in sample) for sample in self.samples)


def samples_of(run: Run, *, cost_of: CostOf | None = None) -> tuple[FunctionSamples, ...]:
    """Return the scores of every function and gated metric, in order of collection.

    Args:
        run: the run.
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.
    """
    run = measured(run, cost_of=cost_of)
    return tuple(
        _samples(function, metric, side)
        for function, side in sides_of(run).items()
        for metric in gated_metrics(side)
    )


def changed_cases(baseline: Run, run: Run, *, cost_of: CostOf | None = None) -> ChangedCases:
    """Return the scores of every changed case on both sides, on the scale of comparison.

    Args:
        baseline: what is compared with.
        run: what changed.
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.
    """
    from pytest_llmeval.gate.judge import judge
    from pytest_llmeval.stats.significance.sample import CaseScores

    functions = judge(baseline, run, GateRules(), cost_of=cost_of).functions
    return {
        (one.function, one.metric): tuple(
            CaseScores(
                baseline=_on_scale(case.baseline_scores, one.scale),
                current=_on_scale(case.scores, one.scale),
            )
            for case in one.compared
            if case.kind is not None
        )
        for one in functions
    }


def _on_scale(values: tuple[float, ...], scale: Scale) -> tuple[float, ...]:
    return tuple(map(math.log, values)) if scale == "log" else values


def _samples(function: str, metric: str, side: Side) -> FunctionSamples:
    better = side.better(metric)
    scores = score(side, metric, better=better)
    scored = sorted(id_ for id_, values in scores.items() if values)
    trials = [trial for trial in side.every_trial() if trial.outcome.is_scored]
    calls = sum(len(trial.calls) for trial in trials)
    return FunctionSamples(
        function=function,
        metric=metric,
        better=better,
        cases=len(side.cases),
        samples=tuple(scores[id_].values for id_ in scored),
        units=units_within(side, scores, scored),
        calls=calls / len(trials) if trials else 0.0,
    )


def units_within(side: Side, scores: Scores, cases: list[str]) -> tuple[int, ...]:
    """Number the units of some cases of one run: those with one label, topic or draw are one."""
    found = [(side.cases[id_], draws_of(scores[id_])) for id_ in cases]
    return chained([(case.cluster, case.topic, draws) for case, draws in found])
