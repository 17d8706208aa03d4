"""A run, function by function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pytest_llmeval.gate.calls import CallsOfBoth
from pytest_llmeval.gate.comparison import Scale
from pytest_llmeval.ranges import AnyTest
from pytest_llmeval.records import OWN_DIRECTIONS, Better, Case, Run, Trial
from pytest_llmeval.settings import GateRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One test function in one run.

    Attributes:
        cases: its collected cases by id, in order of collection.
        trials: its trials by case id, for every collected case, index ascending.
    """

    cases: Mapping[str, Case]
    trials: Mapping[str, tuple[Trial, ...]]

    def better(self, metric: str) -> Better:
        """Return which direction of a metric is good: its own, or that of ``better=``.

        Where the cases of the function disagree the first id decides.
        """
        return OWN_DIRECTIONS.get(metric) or self.cases[min(self.cases)].better

    def every_trial(self) -> list[Trial]:
        """Return the trials of all cases."""
        return [trial for trials in self.trials.values() for trial in trials]

    @property
    def ran_in_full(self) -> bool:
        """Whether the session came to every case that it had collected."""
        return all(self.trials.values())

    def as_far_as_run(self) -> Side:
        """Return the side without the cases that a stopped session never came to."""
        ran = {id_: trials for id_, trials in self.trials.items() if trials}
        return Side(cases={id_: case for id_, case in self.cases.items() if id_ in ran}, trials=ran)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A test function that both runs have, and one of its gated metrics.

    Attributes:
        there: the function in the baseline.
        here: the function in this run, every case that was collected.
        collected_in_full: nothing of the function was left out of this run on purpose.
        calls: of both sides; all metrics of the function have the same.
        better: the direction that is good.
        test: that the metric is given to with 6 independent changed cases or more.
    """

    function: str
    metric: str
    there: Side
    here: Side
    collected_in_full: bool
    calls: CallsOfBoth
    better: Better
    test: AnyTest = "paired-t"

    @property
    def partial(self) -> bool:
        """Whether this run does not hold the whole function, by choice or by a stop."""
        return not (self.collected_in_full and self.here.ran_in_full)

    @property
    def scale(self) -> Scale:
        """Whether values or their logarithms are compared."""
        return "log" if self.test == "log-ratio" else "linear"

    def on_scale(self, rules: GateRules) -> GateRules:
        """Return the rules with margin and target on the scale of comparison."""
        if self.scale == "linear":
            return rules
        return replace(rules, margin=math.log1p(rules.margin), target=math.log1p(rules.target))

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is."""
        return 1 if self.better == "higher" else -1


def sides_of(run: Run) -> Mapping[str, Side]:
    """Return every function of a run, in order of collection."""
    cases: dict[str, dict[str, Case]] = {}
    for case in run.cases:
        cases.setdefault(case.function, {})[case.id] = case
    trials: dict[str, list[Trial]] = {case.id: [] for case in run.cases}
    for trial in run.trials:
        trials[trial.case].append(trial)
    return {
        function: Side(
            cases=of_function,
            trials={id_: tuple(sorted(trials[id_], key=_by_index)) for id_ in of_function},
        )
        for function, of_function in cases.items()
    }


def bare(function: str) -> str:
    """Return the name of a function without its file and its class."""
    return function.rpartition("::")[2]


def _by_index(trial: Trial) -> int:
    return trial.index
