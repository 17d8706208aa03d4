"""Scores of trials: the value of each trial of a test function on a metric."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from pytest_llmeval.gate.units import chained, draws_of
from pytest_llmeval.records import (
    COST_METRIC,
    MEASURED_METRICS,
    PASS_METRIC,
    SCORE_METRIC,
    SECONDS_METRIC,
    TOKENS_METRIC,
    Better,
    Call,
    Case,
    Outcome,
    Run,
    Trial,
    distinct_names,
    trials_by_case,
)
from pytest_llmeval.stats.sample import HITS

CostOf = Callable[[Call], float | None]
Scale = Literal["linear", "log"]
# ``scored`` are all scored trials: ``missed`` and ``crashed`` are among them, and those
# ``without_value``, which are scored and have no value for the metric
Counted = Literal["scored", "missed", "crashed", "errored", "skipped", "without_value"]
TrialCounts = Mapping[Counted, int]

# the recorded value counts where a trial ended so; a crashed trial is worth 0
RECORDING = (Outcome.PASSED, Outcome.MISSED)
NO_TRIALS: TrialCounts = MappingProxyType(dict.fromkeys(get_args(Counted), 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One test function in one run.

    Attributes:
        cases: its collected cases by id, in order of collection.
        trials: its trials by case id, for every collected case, index ascending.
        name: as much of the end of ``function`` as no other function of the run has.
    """

    function: str
    cases: Mapping[str, Case]
    trials: Mapping[str, tuple[Trial, ...]]
    name: str = ""

    def better(self, metric: str) -> Better:
        """Return which direction of a metric is good, by the metric itself or by ``better=``.

        If the cases of the function disagree, the first id decides.
        """
        return self.cases[min(self.cases)].direction(metric)

    def every_trial(self) -> list[Trial]:
        """Return the trials of all cases."""
        return [trial for trials in self.trials.values() for trial in trials]

    @property
    def ran_in_full(self) -> bool:
        """Whether the session came to every case that it had collected."""
        return all(self.trials.values())

    def as_far_as_run(self) -> Side:
        """Return the side without the cases that a stopped session never came to."""
        ran = {name: trials for name, trials in self.trials.items() if trials}
        cases = {name: case for name, case in self.cases.items() if name in ran}
        return replace(self, cases=cases, trials=ran)


@dataclass(frozen=True, slots=True)
class Scored:
    """The trials of a case that have a value for a metric, index ascending.

    Attributes:
        values: of these trials, on the scale of comparison.
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

    def only(self, indices: Collection[int]) -> Scored:
        """Return the trials of these indices."""
        kept = [trial.index in indices for trial in self.trials]
        return Scored(
            tuple(itertools.compress(self.trials, kept)),
            tuple(itertools.compress(self.values, kept)),
        )


class FunctionScores:
    """The scores of one test function on one metric, in one run.

    Attributes:
        better: which direction is good.
        scale: of the values.
        of_case: the trials of each case that have a value, for every collected case.
    """

    def __init__(
        self,
        side: Side,
        metric: str,
        *,
        better: Better | None = None,
        scale: Scale = "linear",
        beside: Side | None = None,
    ) -> None:
        """Look up the trials that have a value, by case, index ascending.

        A crashed trial is worth 0, whatever it recorded before. A missed trial that ended before it
        could record the metric is worth 0, too, if other trials of its run recorded it, or if none
        passed. Where lower is better, or some value is below 0, a 0 would be praise: there such a
        trial has no value.

        Args:
            side: the function in one run, of which all trials matter.
            metric: ``pass`` or what the tests record.
            better: which direction is good, of ``pass`` always higher; None for the direction of
                ``side``.
            scale: ``log`` for the logarithm of each value; a value that is not above 0 has none.
            beside: the function in the other run of a comparison, whose values matter too.
        """
        self.side, self.metric, self.scale = side, metric, scale
        self.better = better or side.better(metric)
        worth = self._worth(beside)
        recording = () if metric == PASS_METRIC else RECORDING
        self.of_case: dict[str, Scored] = {}
        for case, of_this in side.trials.items():
            values = [
                trial.scores[metric]
                if trial.outcome in recording and metric in trial.scores
                else worth.get(trial.outcome)
                for trial in of_this
            ]
            if scale == "log" or self.compares_ratios:
                values = [value if value and value > 0 else None for value in values]
            if scale == "log":
                values = [value and math.log(value) for value in values]
            known = [
                (trial, value)
                for trial, value in zip(of_this, values, strict=True)
                if value is not None and math.isfinite(value)
            ]
            self.of_case[case] = Scored(
                tuple(trial for trial, _ in known), tuple(value for _, value in known)
            )

    def _worth(self, beside: Side | None) -> Mapping[Outcome, float | None]:
        """Tell what a trial is worth that recorded no value, by its outcome."""
        if self.metric == PASS_METRIC:
            return {Outcome.PASSED: 1.0, Outcome.MISSED: 0.0, Outcome.CRASHED: 0.0}
        trials = self.side.every_trial()
        every = [*trials, *(beside.every_trial() if beside else ())]
        falls_below_zero = any(trial.scores.get(self.metric, 0.0) < 0 for trial in every)
        worthless = None if self.better == "lower" or falls_below_zero else 0.0
        passed = any(trial.outcome is Outcome.PASSED for trial in trials)
        unrecorded = worthless if records(trials, self.metric) or not passed else None
        return {Outcome.MISSED: unrecorded, Outcome.CRASHED: worthless}

    @property
    def function(self) -> str:
        """The name of the function."""
        return self.side.function

    @property
    def name(self) -> str:
        """As much of the end of ``function`` as no other function of the run has."""
        return self.side.name

    @cached_property
    def are_hits(self) -> bool:
        """Whether every score is a hit or a miss, whatever the metric is called."""
        if self.scale != "linear" or self.compares_ratios:
            return False
        return all(HITS.issuperset(scored.values) for scored in self.of_case.values())

    @property
    def compares_ratios(self) -> bool:
        """Whether the gate compares logarithms of the values by default."""
        return self.metric in MEASURED_METRICS

    @property
    def scored_cases(self) -> list[str]:
        """The ids of the cases that have a value, in their order."""
        return sorted(name for name, scored in self.of_case.items() if scored)

    @property
    def samples(self) -> tuple[tuple[float, ...], ...]:
        """The values of each scored case, by trial index."""
        return tuple(self.of_case[name].values for name in self.scored_cases)

    @property
    def gains(self) -> tuple[tuple[float, ...], ...]:
        """The samples on the scale that the gate compares, turned so that more is better."""
        if self.compares_ratios:
            return tuple(tuple(-math.log(value) for value in sample) for sample in self.samples)
        if self.better == "higher":
            return self.samples
        best = 1.0 if self.are_hits else 0.0  # a miss is the hit where lower is better
        return tuple(tuple(best - value for value in sample) for sample in self.samples)

    @property
    def units(self) -> tuple[int, ...]:
        """The unit of each scored case: equal numbers share their chance."""
        return self.units_of(self.scored_cases)

    @property
    def independent(self) -> int:
        """How many independent units the scored cases form."""
        return len(set(self.units))

    @property
    def repeats(self) -> int:
        """The usual number of scored trials of a case, rounded; 0 without any."""
        sizes = [len(sample) for sample in self.samples]
        return round(sum(sizes) / len(sizes)) if sizes else 0

    @property
    def planned(self) -> int:
        """The usual number of planned repeats of a scored case: more than ran if it stopped."""
        sizes = [self.side.cases[name].repeats for name in self.scored_cases]
        return round(sum(sizes) / len(sizes)) if sizes else 0

    @property
    def calls(self) -> float:
        """How many calls a scored trial made on average, replays included."""
        calls = [len(one.calls) for one in self.side.every_trial() if one.outcome.is_scored]
        return sum(calls) / len(calls) if calls else 0.0

    def units_of(self, cases: Iterable[str]) -> tuple[int, ...]:
        """Number the units of some cases: cases with one label, topic or draw are one unit."""
        found = [(self.side.cases[name], draws_of(self.of_case[name].trials)) for name in cases]
        return chained([(case.cluster, case.topic, draws) for case, draws in found])

    def counts(self, cases: Collection[str] | None = None) -> TrialCounts:
        """Count how the trials of some cases ended, or of all; other ids are passed over."""
        names = [name for name in self.side.cases if cases is None or name in cases]
        ended = Counter(trial.outcome for name in names for trial in self.side.trials[name])
        scored = sum(number for outcome, number in ended.items() if outcome.is_scored)
        return {
            "scored": scored,
            "missed": ended[Outcome.MISSED],
            "crashed": ended[Outcome.CRASHED],
            "errored": ended[Outcome.ERRORED],
            "skipped": ended[Outcome.SKIPPED],
            "without_value": scored - sum(len(self.of_case[name]) for name in names),
        }


class PassHat(NamedTuple):
    """The chance that all of ``k`` trials of a case pass, over cases: pass^k.

    Attributes:
        k: as many as every case has, at least 2.
        baseline: None for a run that is compared with nothing.
        here: of the run that is judged.
    """

    k: int
    baseline: float | None
    here: float


def pass_hat(
    here: Sequence[Sequence[float]], baseline: Sequence[Sequence[float]] = ()
) -> PassHat | None:
    """Estimate pass^k without bias.

    If c of n trials of a case passed, C(c, k) / C(n, k) of all sets of k trials passed throughout.
    This share is averaged over cases. The k-th power of the pass rate of a case would be too high
    on average.

    Args:
        here: pass scores of each case, by trial.
        baseline: likewise; empty where there is none.

    Returns:
        None without cases, or where one of them has a single trial.
    """
    k = min(map(len, (*here, *baseline)), default=0)
    if k < 2 or not here:  # noqa: PLR2004 - all of one trial is the mean
        return None
    return PassHat(k, _pass_hat(baseline, k) if baseline else None, _pass_hat(here, k))


def _pass_hat(samples: Sequence[Sequence[float]], k: int) -> float:
    chances = [math.comb(round(sum(one)), k) / math.comb(len(one), k) for one in samples]
    return math.fsum(chances) / len(chances)


def sides_of(run: Run) -> Mapping[str, Side]:
    """Return every function of a run, in order of collection."""
    cases: dict[str, dict[str, Case]] = {}
    for case in run.cases:
        cases.setdefault(case.function, {})[case.id] = case
    trials = trials_by_case(run)
    for of_case in trials.values():
        of_case.sort(key=lambda trial: trial.index)
    names = distinct_names(cases)
    return {
        function: Side(
            function=function,
            cases=found,
            trials={name: tuple(trials[name]) for name in found},
            name=names[function],
        )
        for function, found in cases.items()
    }


def scores_of(run: Run, *, cost_of: CostOf | None = None) -> tuple[FunctionScores, ...]:
    """Return the scores of every function and gated metric, in order of collection.

    Args:
        run: the run.
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.
    """
    (run,) = measured_if_gated(run, cost_of=cost_of)
    return tuple(
        FunctionScores(side, metric)
        for side in sides_of(run).values()
        for metric in gated_metrics(side)
    )


def gated_metrics(side: Side) -> tuple[str, ...]:
    """Return the metrics that a run gates: the metrics that the marker names, else the default one.

    The default is ``score`` where the function records it, else ``pass``.
    """
    default = SCORE_METRIC if records(side.every_trial(), SCORE_METRIC) else PASS_METRIC
    named = (metric for case in side.cases.values() for metric in case.gate or (default,))
    return tuple(dict.fromkeys(named))


def ungated_metrics(trials: Iterable[Trial], gated: Collection[str]) -> tuple[str, ...]:
    """Return the other metrics of some trials: recorded ones, then measured ones."""
    recorded = set().union(*[trial.scores for trial in trials])
    own = sorted(recorded.difference(MEASURED_METRICS, {PASS_METRIC}))
    every = (PASS_METRIC, *own, *MEASURED_METRICS)
    return tuple(name for name in every if name in recorded and name not in gated)


def records(trials: Iterable[Trial], metric: str) -> bool:
    """Tell whether some scored trial has a value for a metric."""
    return any(metric in trial.scores and trial.outcome.is_scored for trial in trials)


def cases_not_run(run: Run) -> dict[str, int]:
    """Count the collected cases of each function that have no trial, where there are any."""
    counts = {name: list(side.trials.values()).count(()) for name, side in sides_of(run).items()}
    return {function: count for function, count in counts.items() if count}


def measured(run: Run, *, cost_of: CostOf | None) -> Run:
    """Return a run whose scored trials have scores for what their calls took.

    Each score is the sum over the calls that brought a reply. A trial has no score where a call has
    no figure, where no call was made, and where the sum is 0, which has no ratio. A replay carries
    the figures of the call that it repeats, so an unchanged case differs by exactly 0.

    Args:
        run: the run as it was recorded.
        cost_of: dollars of a call, None where the price is not known; None for no prices.
    """
    return replace(run, trials=tuple(_with_measures(trial, cost_of) for trial in run.trials))


def measured_if_gated(*runs: Run, cost_of: CostOf | None) -> Iterator[Run]:
    """Return runs ``measured`` if one of them gates such a metric, else as they are."""
    cases = (case for run in runs for case in run.cases)
    if any(set(case.gate).intersection(MEASURED_METRICS) for case in cases):
        return (measured(run, cost_of=cost_of) for run in runs)
    return iter(runs)


def _with_measures(trial: Trial, cost_of: CostOf | None) -> Trial:
    answered = [call for call in trial.calls if call.failure is None]
    if not answered or not trial.outcome.is_scored:
        return trial
    sums = {
        SECONDS_METRIC: _sum([call.seconds for call in answered]),
        TOKENS_METRIC: _sum(list(map(_tokens, answered))),
        COST_METRIC: _sum(list(map(cost_of, answered))) if cost_of else None,
    }
    scores = {metric: total for metric, total in sums.items() if total and total > 0}
    return replace(trial, scores={**trial.scores, **scores}) if scores else trial


def _sum(figures: list[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return math.fsum(known) if len(known) == len(figures) else None


def _tokens(call: Call) -> float | None:
    read, written = call.usage.input_tokens, call.usage.output_tokens
    return None if read is None or written is None else read + written
