"""The mean over cases of one side, with its interval: for cases like these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_llmeval.gate.changes import draws_of
from pytest_llmeval.gate.pairing import Pair, Pairing
from pytest_llmeval.gate.samples import units_within
from pytest_llmeval.gate.scoring import Scored, Scores, off_scale
from pytest_llmeval.gate.sides import Side
from pytest_llmeval.gate.units import chained
from pytest_llmeval.records import PASS_METRIC
from pytest_llmeval.stats.intervals import MeanInterval, mean_interval, pass_rate_interval

Ends = tuple[float, float]


def interval_of_mean(
    means: Sequence[float], units: Sequence[int], *, trials: int, metric: str, alpha: float
) -> MeanInterval:
    """Estimate the mean over some cases of one run.

    Args:
        means: of each case, at least one.
        units: the unit of each case.
        trials: of all cases.
        metric: ``pass`` has an interval of its own.
        alpha: what may lie beyond each end, in (0, 0.5).
    """
    if metric == PASS_METRIC:
        return pass_rate_interval(means, units, trials=trials, alpha=alpha)
    return mean_interval(means, units, alpha=alpha)


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
    return interval_of_mean(
        [scores[id_].mean for id_ in scored],
        units_within(side, scores, scored),
        trials=sum(len(scores[id_]) for id_ in scored),
        metric=metric,
        alpha=alpha,
    )


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
    found = interval_of_mean(
        [each.mean for each in scored],
        _units(pairing.pairs, scored, shared=subject.calls.shared),
        trials=sum(map(len, scored)),
        metric=subject.metric,
        alpha=alpha,
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
