"""Means of one run with their intervals, and the description of a run compared with nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_llmeval.errors import listed_names
from pytest_llmeval.gate.changes import all_repeats_identical
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import (
    MOST_NAMED,
    CaseDescription,
    Fact,
    FunctionDescription,
    Interval,
    Why,
    ends_off_scale,
)
from pytest_llmeval.gate.scoring import (
    CostOf,
    FunctionScores,
    Scored,
    Side,
    gated_metrics,
    pass_hat,
    records,
    scores_of,
    sides_of,
)
from pytest_llmeval.gate.units import chained, draws_of
from pytest_llmeval.records import MEASURED_METRICS, OWN_DIRECTIONS, Outcome, Run
from pytest_llmeval.stats.expected import DRIFT_LEVEL, expect_mean
from pytest_llmeval.stats.intervals import (
    UnitMean,
    mean_interval,
    pass_rate_interval,
    wilson_interval,
    within_share,
)
from pytest_llmeval.stats.multiplicity import holm


@dataclass(frozen=True, slots=True)
class MeanOfRun:
    """The mean of a function in one of several runs.

    Attributes:
        run: the run.
        described: the function in it, with its mean and intervals.
    """

    run: Run
    described: FunctionDescription

    @property
    def mean(self) -> float:
        """The mean over the cases that have a value."""
        assert self.described.mean is not None  # noqa: S101 - else it is left out
        return self.described.mean


History = dict[tuple[str, str], list[MeanOfRun]]  # by function and metric, oldest first


def describe(
    run: Run, *, alpha: float = 0.05, cost_of: CostOf | None = None
) -> tuple[FunctionDescription, ...]:
    """Describe a run that is compared with nothing.

    Args:
        run: the run.
        alpha: what may lie beyond each end of an interval, in (0, 0.5).
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.

    Returns:
        A description for each test function and gated metric, in order of collection.
    """
    described = [_describe(scores, alpha=alpha) for scores in scores_of(run, cost_of=cost_of)]
    # Nine functions without drift had one below the level in one of eleven runs.
    adjusted = iter(holm([one.drift_p for one in described if one.drift_p is not None]))
    return tuple(
        one if one.drift_p is None else replace(one, drifts=next(adjusted) < DRIFT_LEVEL)
        for one in described
    )


def history_of(runs: Iterable[Run], *, alpha: float, cost_of: CostOf | None = None) -> History:
    """Describe each function in each of some runs.

    Args:
        runs: oldest first.
        alpha: what may lie beyond each end of an interval, in (0, 0.5).
        cost_of: as ``describe`` takes it.

    Returns:
        The means of a function; runs that have no mean of it are left out.
    """
    found: History = {}
    for run in runs:
        for one in describe(run, alpha=alpha, cost_of=cost_of):
            if one.mean is not None:
                found.setdefault((one.function, one.metric), []).append(MeanOfRun(run, one))
    return found


def oddities(run: Run) -> tuple[Fact, ...]:
    """Tell where ``better="lower"`` concerns no gated metric, as no score was recorded."""
    return tuple(
        Fact(Why.TURNS_NOTHING, (function,))
        for function, side in sides_of(run).items()
        if side.every_trial()
        and any(case.better == "lower" for case in side.cases.values())
        and OWN_DIRECTIONS.keys() >= set(gated_metrics(side))
    )


def missed_throughout(run: Run) -> tuple[Fact, ...]:
    """Name the cases that asked a model and missed in each of several trials."""
    names = [
        side.name + name.removeprefix(function)
        for function, side in sides_of(run).items()
        for name, trials in side.trials.items()
        if len(trials) > 1
        and all(trial.outcome is Outcome.MISSED for trial in trials)
        and any(trial.calls for trial in trials)
    ]
    figures = len(names), listed_names(names, MOST_NAMED)
    return (Fact(Why.MISSED_THROUGHOUT, figures),) if names else ()


def never_recorded(sides: Sequence[Side], metric: str) -> Fact | None:
    """Return the reason of row 3 if no trial has a value for a gated metric, else None."""
    trials = [trial for side in sides for trial in side.every_trial()]
    if records(trials, metric) or not any(trial.outcome.is_scored for trial in trials):
        return None
    recorded = {name for trial in trials for name in trial.scores}
    known = ", ".join(sorted(recorded.difference(MEASURED_METRICS)))
    return Fact(Why.NEVER_RECORDED, (metric, known, sides[0].function))


def _describe(scores: FunctionScores, *, alpha: float) -> FunctionDescription:
    found = mean_of_cases(scores, scores.scored_cases, alpha=alpha)
    later = expect_mean(scores.samples, confidence=1 - 2 * alpha) if scores.samples else None
    return FunctionDescription(
        function=scores.function,
        name=scores.name,
        metric=scores.metric,
        better=scores.better,
        cases=len(scores.side.cases),
        scored_cases=len(scores.scored_cases),
        units=found.units if found else 0,
        trials=scores.counts(),
        mean=found.mean if found else None,
        interval=found.interval if found else None,
        interval_level=1 - 2 * alpha if found and found.interval else None,
        worst=_worst(scores, alpha=alpha),
        prediction=later.interval if later else None,
        prediction_by_repeats=later.by_repeats if later else None,
        prediction_level=1 - 2 * alpha if later and later.interval else None,
        drift_p=later.drift_p if later else None,
        identical_repeats=all_repeats_identical(scores.of_case.values(), scores.metric),
        why=never_recorded([scores.side], scores.metric),
        pass_hat=pass_hat(scores.gains) if scores.are_hits else None,
    )


def _worst(scores: FunctionScores, *, alpha: float) -> tuple[CaseDescription, ...]:
    sign = 1 if scores.better == "higher" else -1
    means = {case: scores.of_case[case].mean for case in scores.scored_cases}
    best = max((sign * mean for mean in means.values()), default=0.0)
    if scores.are_hits:
        best = float(sign > 0)
    short = [case for case in means if sign * means[case] < best]
    found = []
    for case in sorted(short, key=lambda case: sign * means[case]):
        values = scores.of_case[case].values
        ends = wilson_interval(sum(values), len(values), alpha=alpha) if scores.are_hits else None
        found.append(CaseDescription(case=case, mean=means[case], scores=values, interval=ends))
    return tuple(found)


def mean_of_cases(scores: FunctionScores, cases: Iterable[str], *, alpha: float) -> UnitMean | None:
    """Estimate the mean over some cases of one run, None if none of them has a value.

    Args:
        scores: of the function in the run.
        cases: ids of which the mean is wanted.
        alpha: what may lie beyond each end, in (0, 0.5).
    """
    names = sorted(case for case in cases if scores.of_case[case])
    if not names:
        return None
    values = [scores.of_case[name] for name in names]
    units, hits = scores.units_of(names), scores.are_hits
    return _interval_of_mean(values, units, scores=scores, hits=hits, alpha=alpha)


def interval_of_side(pairing: Pairing, scored: Sequence[Scored]) -> Interval | None:
    """Estimate the mean of the baseline, or of this run, by itself.

    It says nothing of the difference: cases are paired, so its spread is another one.

    Args:
        pairing: with at least one common case.
        scored: the trials of each common case on this side.

    Returns:
        The ends, two-sided; None where nothing can be said about chance.
    """
    # within one side every shared draw ties cases, as no other side cancels it
    draws = [draws_of(one.trials) if pairing.calls.shared else () for one in scored]
    cases = map(pairing.case, pairing.pairs)
    units = chained([(c.cluster, c.topic, own) for c, own in zip(cases, draws, strict=True)])
    scores, hits, alpha = pairing.baseline, pairing.are_hits, pairing.rules.alpha
    found = _interval_of_mean(scored, units, scores=scores, hits=hits, alpha=alpha)
    return ends_off_scale(found.interval, pairing.scale)


def _interval_of_mean(
    scored: Sequence[Scored],
    units: Sequence[int],
    *,
    scores: FunctionScores,
    hits: bool,
    alpha: float,
) -> UnitMean:
    """Estimate the mean over some cases of one run, on the scale of their values."""
    means = [each.mean for each in scored]
    if hits:
        return pass_rate_interval(means, units, trials=sum(map(len, scored)), alpha=alpha)
    found = mean_interval(means, units, alpha=alpha)
    if found.interval is None or scores.scale != "linear":
        return found
    low, high = within_share(found.interval, [one.values for one in scored])
    least = 0.0 if scores.metric in MEASURED_METRICS else low  # no time or price is below 0
    return replace(found, interval=(max(low, least), high))
