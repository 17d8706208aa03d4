"""The mean over cases of one side, with its interval: for cases like these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pytest_llmeval.gate.changes import draws_of
from pytest_llmeval.gate.comparison import Scale
from pytest_llmeval.gate.pairing import Pair, Pairing
from pytest_llmeval.gate.samples import units_within
from pytest_llmeval.gate.scoring import Scored, Scores, off_scale
from pytest_llmeval.gate.sides import Side
from pytest_llmeval.gate.units import chained
from pytest_llmeval.records import PASS_METRIC
from pytest_llmeval.stats.intervals import (
    MeanInterval,
    mean_interval,
    pass_rate_interval,
    within_share,
)

Ends = tuple[float, float]


def _interval_of_mean(
    scored: Sequence[Scored], units: Sequence[int], *, metric: str, alpha: float, scale: Scale
) -> MeanInterval:
    """Estimate the mean over some cases of one run, on the scale of their values."""
    means = [each.mean for each in scored]
    if metric == PASS_METRIC:
        return pass_rate_interval(means, units, trials=sum(map(len, scored)), alpha=alpha)
    found = mean_interval(means, units, alpha=alpha)
    if found.interval is None or scale != "linear":
        return found
    return replace(found, interval=within_share(found.interval, [each.values for each in scored]))


def mean_of_cases(
    side: Side, scores: Scores, cases: Iterable[str], *, metric: str, alpha: float
) -> MeanInterval | None:
    """Estimate the mean over some cases of one run, None if none of them has a value.

    Args:
        side: the function in the run.
        scores: its trials with a value.
        cases: ids of which the mean is wanted.
        metric: what is scored.
        alpha: what may lie beyond each end, in (0, 0.5).
    """
    scored = sorted(id_ for id_ in cases if scores[id_])
    if not scored:
        return None
    units = units_within(side, scores, scored)
    values = [scores[id_] for id_ in scored]
    return _interval_of_mean(values, units, metric=metric, alpha=alpha, scale="linear")


def intervals_of_sides(pairing: Pairing, *, alpha: float) -> tuple[Ends | None, Ends | None]:
    """Estimate the mean of the baseline and that of this run, each by itself.

    They say nothing of the difference, whose spread is another: cases are paired.

    Args:
        pairing: with at least one common case.
        alpha: what may lie beyond each end, in (0, 0.5).

    Returns:
        The ends, two-sided; None where nothing can be said about chance.
    """
    there = [pair.all_there if pair.kind is None else pair.there for pair in pairing.pairs]
    # a replay stands for all that the baseline has of it, so that the means add up
    here = [pair.all_there if pair.kind is None else pair.here for pair in pairing.pairs]
    baseline = _interval(pairing, there, alpha=alpha)
    return baseline, _interval(pairing, here, alpha=alpha)


def _interval(pairing: Pairing, scored: Sequence[Scored], *, alpha: float) -> Ends | None:
    subject = pairing.subject
    units = _units(pairing.pairs, scored, shared=subject.calls.shared)
    found = _interval_of_mean(
        scored, units, metric=subject.metric, alpha=alpha, scale=subject.scale
    )
    if found.interval is None:
        return None
    low, high = (off_scale(end, subject.scale) for end in found.interval)
    return low, high


def _units(
    pairs: Sequence[Pair], scored: Sequence[Scored], *, shared: frozenset[str]
) -> tuple[int, ...]:
    """Number the units of one side: there every shared draw ties, as nothing cancels it."""
    draws = [draws_of(each) if shared else () for each in scored]
    return chained([(p.cluster, p.topic, own) for p, own in zip(pairs, draws, strict=True)])
