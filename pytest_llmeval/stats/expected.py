"""The mean that a later run is expected to have, and how many repeats make that narrow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pytest_llmeval.stats.detection import fewest
from pytest_llmeval.stats.intervals import within_share
from pytest_llmeval.stats.repeats import DRIFT_LEVEL, drift_p, in_step
from pytest_llmeval.stats.sample import HITS
from pytest_llmeval.stats.t_tests import negligible


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
    means: ArrayLike, *, future: int | None = None, confidence: float = 0.95
) -> PredictionInterval | None:
    """Predict from the means of whole repeats.

    Args:
        means: shape (n_repeats,), the mean of each repeat over all cases, finite.
        future: repeats of the later run, >= 1; as many if not given.
        confidence: two-sided, in (0, 1).

    Returns:
        The interval; None with fewer than two repeats. Without any spread it has no width,
        and such a point is no certainty.

    Source:
        Blackwell et al., equation 3: x +- t_{alpha/2, n-1} s sqrt(1/n + 1/n').
    """
    data = np.asarray(means, dtype=np.float64)
    repeats = len(data)
    if repeats < 2:  # noqa: PLR2004 - a spread needs two
        return None
    deviation = float(np.std(data, ddof=1))
    quantile = float(special.stdtrit(repeats - 1, (1 + confidence) / 2))
    return PredictionInterval(
        mean=float(np.mean(data)),
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
    numbers = np.array([len(sample) for sample in samples])
    if numbers.min() < 2:  # noqa: PLR2004 - a spread needs two
        return None
    variances = np.array([float(np.var(sample, ddof=1)) for sample in samples])
    if math.sqrt(variances.max()) <= negligible(np.concatenate(samples)):
        return None
    later = future or int(numbers.min())
    parts = variances * (1 / numbers + 1 / later)
    dof = float(np.sum(parts) ** 2 / np.sum(parts**2 / (numbers - 1)))
    quantile = float(special.stdtrit(dof, (1 + confidence) / 2))
    return PredictionInterval(
        mean=float(np.mean([np.mean(sample) for sample in samples])),
        half_width=quantile * math.sqrt(float(np.sum(parts))) / len(samples),
        dof=dof,
        standard_deviation=math.sqrt(float(np.sum(variances))) / len(samples),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedMean:
    """The mean of a run, and the interval in which that of a later one is expected.

    Attributes:
        mean: over the cases of their means.
        interval: of the mean of a later run with as many repeats: from the spread within cases;
            where repeats drift, or a case has one score, from that of the repeats' means
            (equation 3 of Blackwell et al.); of pass scores of which no trial differs from
            another one of its case, from that alone. None where nothing can be said. A point is
            never shown as certainty.
        by_repeats: equation 3 alone, to be shown beside it; None without any spread.
        drifts: the repeats differ by more than chance; then equation 3 is what holds.
        drift_p: chance that they differ as much without drift; None if it cannot be told.
        repeats: the fewest scored trials of a case.
        confidence: of the intervals, two-sided.
        spread: what the interval rests on; None if that is no spread.
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
        quantile = float(special.stdtrit(dof, (1 + self.confidence) / 2))
        return 2 * quantile * self.spread.standard_deviation * math.sqrt(2 / repeats)


def expect_mean(samples: Sequence[Sequence[float]], *, confidence: float = 0.95) -> ExpectedMean:
    """Predict the mean of a later run of the same cases, with as many repeats.

    Args:
        samples: the scores of each case by trial index, at least one case with at least
            one score each, finite.
        confidence: two-sided, in (0, 1).

    Source:
        ``pooled_prediction``, else ``repeat_prediction``. For pass scores that agree throughout:
        of the misses of two runs alike each falls into the later one with a chance of one half
        at most, so that all of y do with 2^-y at most (derived here).
    """
    whole = in_step(samples)
    drift = drift_p(whole)
    drifts = drift is not None and drift < DRIFT_LEVEL
    pooled = pooled_prediction(samples, confidence=confidence)
    by_repeats = repeat_prediction(whole.mean(axis=0), confidence=confidence)
    spread = pooled if pooled and not drifts else _with_width(by_repeats)
    if spread is None:
        interval = _unanimous(samples, confidence=confidence)
    else:
        interval = within_share(spread.interval, samples)
    varies = by_repeats is not None and by_repeats.standard_deviation > 0
    return ExpectedMean(
        mean=float(np.mean([np.mean(sample) for sample in samples])),
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
    """Predict from scores that agree: some may turn the other way in a later run.

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
    mean = float(np.mean([sample[0] for sample in samples]))
    return max(0.0, mean - shift), min(1.0, mean + shift)


def repeats_for_width(expected: ExpectedMean, *, width: float, limit: int) -> int | None:
    """Return how many repeats would make the interval as narrow as wanted.

    Args:
        expected: of the run at hand.
        width: > 0, in units of the score.
        limit: the most repeats that are worth naming.

    Returns:
        The smallest number above those at hand; None if even the limit would not do, if
        those at hand do, or if nothing is known.
    """

    def is_enough(repeats: int) -> bool:
        found = expected.width_at(repeats)
        return found is not None and found <= width

    return fewest(is_enough, above=expected.repeats, limit=limit)
