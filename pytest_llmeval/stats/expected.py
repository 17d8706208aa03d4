"""The mean that a later run is expected to have, and the repeats for a narrow interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from pytest_llmeval.stats.detection import fewest
from pytest_llmeval.stats.distributions import chi_square_tail, student_quantile
from pytest_llmeval.stats.intervals import negligible, within_share
from pytest_llmeval.stats.sample import HITS, in_step

# below it repeats count as drifting
DRIFT_LEVEL = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionInterval:
    """The interval in which the mean over the cases of a later run is expected.

    Attributes:
        mean: of this run.
        half_width: >= 0.
        dof: of the standard deviation, > 0.
        standard_deviation: of the mean of one repeat over all cases.
    """

    mean: float
    half_width: float
    dof: float
    standard_deviation: float

    @property
    def interval(self) -> tuple[float, float]:
        """The two ends."""
        return self.mean - self.half_width, self.mean + self.half_width


def repeat_prediction(
    means: Sequence[float], *, future: int | None = None, confidence: float = 0.95
) -> PredictionInterval | None:
    """Predict from the means of whole repeats.

    Args:
        means: of each repeat over all cases, finite.
        future: repeats of the later run, >= 1; as many if not given.
        confidence: two-sided, in (0, 1).

    Returns:
        The interval; None with fewer than two repeats. Without any spread the interval has no
        width, and such a point is no certainty.

    Source:
        Blackwell et al., equation 3: x +- t_{alpha/2, n-1} s sqrt(1/n + 1/n').
    """
    repeats = len(means)
    if repeats < 2:  # noqa: PLR2004 - a spread needs two
        return None
    deviation = math.sqrt(_variance(means))
    quantile = student_quantile(repeats - 1, (1 - confidence) / 2)
    return PredictionInterval(
        mean=_mean(means),
        half_width=quantile * deviation * math.sqrt(1 / repeats + 1 / (future or repeats)),
        dof=float(repeats - 1),
        standard_deviation=deviation,
    )


def pooled_prediction(
    samples: Sequence[Sequence[float]], *, future: int | None = None, confidence: float = 0.95
) -> PredictionInterval | None:
    """Predict from the spread within cases, pooled: far narrower with few repeats.

    Args:
        samples: the scores of each case, at least one case; numbers may differ.
        future: repeats of the later run, >= 1; the fewest of a case if not given.
        confidence: two-sided, in (0, 1).

    Returns:
        The interval; None if a case has fewer than two scores, or no case any spread.

    Source:
        s2 = sum v_i / m^2 with Satterthwaite's degrees of freedom, (n-1) (sum v_i)^2 /
        sum v_i^2 with equal repeats; derived here, coverage in docs/statistics.md.
    """
    repeats = min(map(len, samples))
    if repeats < 2:  # noqa: PLR2004 - a spread needs two
        return None
    variances = [_variance(sample) for sample in samples]
    if math.sqrt(max(variances)) <= negligible(chain.from_iterable(samples)):
        return None
    parts = [
        variance * (1 / len(sample) + 1 / (future or repeats))
        for variance, sample in zip(variances, samples, strict=True)
    ]
    shares = [part / max(parts) for part in parts]  # fourth powers of large scores overflow
    of_errors = math.fsum(
        share**2 / (len(sample) - 1) for share, sample in zip(shares, samples, strict=True)
    )
    # rounding may put the degrees of freedom of a single spread below those of its sample
    dof = max(math.fsum(shares) ** 2 / of_errors, repeats - 1.0)
    quantile = student_quantile(dof, (1 - confidence) / 2)
    return PredictionInterval(
        mean=_mean(list(map(_mean, samples))),
        half_width=quantile * math.sqrt(math.fsum(parts)) / len(samples),
        dof=dof,
        standard_deviation=math.sqrt(math.fsum(variances)) / len(samples),
    )


def drift_p(scores: Sequence[Sequence[float]]) -> float | None:
    """Return the chance that the repeats of a steady provider differ as much as these repeats.

    The statistic is (n - 1) s^2 / s2: the variance of the repeats' means over the variance that the
    spread within cases explains. It is a chi-square with n - 1 degrees of freedom.

    Args:
        scores: of each case, as many of every case, finite, repeats in the order they were made.

    Returns:
        The p-value, in [0, 1]; None with fewer than two repeats, or without any spread within
        cases.

    Source:
        A chi-square check of the repeats' means, derived and calibrated here
        (docs/statistics.md); no paper is claimed for it.
    """
    dof = len(scores[0]) - 1
    if not dof:  # a spread needs two
        return None
    explained = math.fsum(map(_variance, scores)) / len(scores) ** 2
    if math.sqrt(explained) <= negligible(chain.from_iterable(scores)):
        return None
    return chi_square_tail(dof, dof * _variance(_means_of_repeats(scores)) / explained)


def shift_p(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> float | None:
    """Return the chance that two runs of a steady provider differ as much in their means.

    The same check as ``drift_p``, of two runs and not of repeats, which may be unlike in number.

    Args:
        one: scores of each case in a run, at least one case with at least one score each.
        other: of the same cases in another run, likewise.

    Returns:
        The p-value, in [0, 1], 0 where nothing varies but the means; None where nothing varies at
        all, or where no case has two scores in a run.
    """
    parts, dofs = [], 0
    for sample, another in zip(one, other, strict=True):
        dof = len(sample) + len(another) - 2
        spread = sum(_variance(each) * (len(each) - 1) for each in (sample, another) if each[1:])
        parts.append(spread / max(1, dof) * (1 / len(sample) + 1 / len(another)))
        dofs += dof
    error, zero = math.sqrt(math.fsum(parts)), negligible(chain.from_iterable((*one, *other)))
    shift = math.fsum(map(_mean, one)) - math.fsum(map(_mean, other))
    if not dofs or max(error, abs(shift)) <= zero:
        return None
    return chi_square_tail(1, (shift / error) ** 2) if error > zero else 0.0


def _means_of_repeats(scores: Sequence[Sequence[float]]) -> list[float]:
    return list(map(_mean, zip(*scores, strict=True)))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    """Return the sample variance of two values or more."""
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedMean:
    """The mean of a run, and the interval in which the mean of a later run is expected.

    Attributes:
        mean: over the cases of their means.
        interval: of the mean of a later run with as many repeats. It rests on the spread within
            cases. Where repeats drift, or a case has one score, it rests on the spread of the
            repeats' means (equation 3 of Blackwell et al.). Where the pass scores of each case
            agree, it rests on this agreement. None where nothing can be said; never a single point.
        by_repeats: equation 3 alone, to be shown beside it; None without any spread.
        drifts: the repeats differ by more than chance; then equation 3 gives the interval.
        drift_p: chance that the repeats differ as much without drift; None if nobody can tell.
        repeats: the fewest scored trials of a case.
        confidence: of the intervals, two-sided.
        spread: the spread that the interval rests on; None if it rests on none.
    """

    mean: float
    interval: tuple[float, float] | None
    by_repeats: tuple[float, float] | None
    drifts: bool
    drift_p: float | None
    repeats: int
    confidence: float
    spread: PredictionInterval | None

    @property
    def width(self) -> float | None:
        """The width of the interval, None without one."""
        return None if self.interval is None else self.interval[1] - self.interval[0]

    def width_at(self, repeats: int) -> float | None:
        """Return what the width would be with another number of repeats, None if unknown.

        Args:
            repeats: of each case, >= 2, in this run and in the later one.
        """
        if self.spread is None:
            return None if self.width is None else self.width * self.repeats / repeats
        dof = self.spread.dof * (repeats - 1) / (self.repeats - 1)
        quantile = student_quantile(dof, (1 - self.confidence) / 2)
        return 2 * quantile * self.spread.standard_deviation * math.sqrt(2 / repeats)


def expect_mean(samples: Sequence[Sequence[float]], *, confidence: float = 0.95) -> ExpectedMean:
    """Predict the mean of a later run of the same cases, with as many repeats.

    Args:
        samples: the scores of each case by trial index, at least one case with at least
            one score each, finite.
        confidence: two-sided, in (0, 1).

    Source:
        ``pooled_prediction``, else ``repeat_prediction``. For pass scores that agree throughout:
        if two runs are alike, a miss of both falls into the later one with a chance of one half at
        most. So all of y misses do with a chance of 2^-y at most (derived here).
    """
    whole = in_step(samples)
    drift = drift_p(whole)
    drifts = drift is not None and drift < DRIFT_LEVEL
    pooled = pooled_prediction(samples, confidence=confidence)
    by_repeats = repeat_prediction(_means_of_repeats(whole), confidence=confidence)
    spread = pooled if pooled and not drifts else _with_width(by_repeats)
    if spread is None:
        interval = _unanimous(samples, confidence=confidence)
    else:
        interval = within_share(spread.interval, samples)
    varies = by_repeats is not None and by_repeats.standard_deviation > 0
    return ExpectedMean(
        mean=_mean(list(map(_mean, samples))),
        interval=interval,
        by_repeats=within_share(by_repeats.interval, samples) if by_repeats and varies else None,
        drifts=drifts,
        drift_p=drift,
        repeats=min(map(len, samples)),
        confidence=confidence,
        spread=spread,
    )


def _with_width(found: PredictionInterval | None) -> PredictionInterval | None:
    return found if found and found.half_width > negligible([found.mean]) else None


def _unanimous(
    samples: Sequence[Sequence[float]], *, confidence: float
) -> tuple[float, float] | None:
    """Predict from scores that agree: some of these may turn the other way in a later run.

    Returns:
        The interval; None unless all scores are 0 or 1, each case has two of them at least, and
        all of a case agree.
    """
    repeats = min(map(len, samples))
    agree = all(min(sample) == max(sample) for sample in samples)
    if repeats < 2 or not agree or not HITS.issuperset(sample[0] for sample in samples):  # noqa: PLR2004
        return None
    turned = math.ceil(math.log2(2 / (1 - confidence))) - 1
    shift = turned / (len(samples) * repeats)
    mean = _mean([sample[0] for sample in samples])
    return max(0.0, mean - shift), min(1.0, mean + shift)


def repeats_for_width(expected: ExpectedMean, *, width: float, limit: int) -> int | None:
    """Return how many repeats would make the interval as narrow as wanted.

    Args:
        expected: of the run at hand.
        width: > 0, in units of the score.
        limit: the most repeats that are worth naming.

    Returns:
        The smallest number above the repeats at hand; None if the limit would not do, if the
        repeats at hand do, or if nothing is known.
    """

    def is_enough(repeats: int) -> bool:
        found = expected.width_at(repeats)
        return found is not None and found <= width

    return fewest(is_enough, above=expected.repeats, limit=limit)
