"""Where the mean of a later run is expected, and how many repeats make that narrow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pytest_llmeval.stats.intervals import within_share
from pytest_llmeval.stats.planning.power import fewest
from pytest_llmeval.stats.significance.paired import negligible
from pytest_llmeval.stats.significance.repeats import Drift, in_step, repeat_drift

DRIFT_LEVEL = 0.01
Source = Literal["pooled", "repeats", "unanimous"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionInterval:
    """Where the mean over the cases of a later run is expected.

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
        The interval; None with fewer than two repeats. Without any spread it has no width:
        such a point is no certainty (``Prediction.best``).

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
        future: repeats of the later run, >= 1; the fewest of a case here if not given.
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
class Prediction:
    """Both prediction intervals of a run, and which one holds.

    Attributes:
        by_repeats: from the means of the repeats that every case has (equation 3).
        pooled: from the spread within cases.
        drift: whether the repeats differ by more than that spread explains.
    """

    by_repeats: PredictionInterval | None
    pooled: PredictionInterval | None
    drift: Drift | None

    @property
    def drifts(self) -> bool:
        """Whether the pooled interval must not be trusted: what it rests on does not hold."""
        return self.drift is not None and self.drift.p < DRIFT_LEVEL

    @property
    def best(self) -> PredictionInterval | None:
        """The pooled interval; without it, or where repeats drift, the one by repeats.

        None where neither has any width.
        """
        if self.pooled is not None and not self.drifts:
            return self.pooled
        found = self.by_repeats
        return found if found and found.half_width > negligible([found.mean]) else None


def predict(
    samples: Sequence[Sequence[float]], *, future: int | None = None, confidence: float = 0.95
) -> Prediction:
    """Predict the mean of a later run in both ways.

    Args:
        samples: the scores of each case by trial index, at least one case with at least
            one score each.
        future: repeats of the later run, >= 1; the fewest of a case here if not given.
        confidence: two-sided, in (0, 1).
    """
    whole = in_step(samples)
    return Prediction(
        by_repeats=repeat_prediction(whole.mean(axis=0), future=future, confidence=confidence),
        pooled=pooled_prediction(samples, future=future, confidence=confidence),
        drift=repeat_drift(whole),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The mean of a run, and where that of a later one of as many repeats is expected.

    Attributes:
        mean: over the cases of their means.
        source: what the interval rests on: the spread within cases (``pooled``), that of
            the repeats' means (``repeats``, equation 3 of Blackwell et al.), or that no
            trial differed from another one of its case (``unanimous``, pass scores only);
            None where nothing can be said.
        interval: None without a source. A point is never shown as certainty.
        by_repeats: equation 3 alone, to be shown beside it; None without any spread.
        drifts: the repeats differ by more than chance; then equation 3 is what holds.
        drift_p: chance that they differ as much without drift; None if it cannot be told.
        repeats: the fewest scored trials of a case.
        confidence: of the intervals, two-sided.
    """

    mean: float
    source: Source | None
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
            repeats: of each case, >= 2, here and in the later run.
        """
        if self.spread is None:
            return None if self.width is None else self.width * self.repeats / repeats
        dof = self.spread.dof * (repeats - 1) / (self.repeats - 1)
        quantile = float(special.stdtrit(dof, (1 + self.confidence) / 2))
        return 2 * quantile * self.spread.standard_deviation * math.sqrt(2 / repeats)


def expect_mean(samples: Sequence[Sequence[float]], *, confidence: float = 0.95) -> Expected:
    """Tell where the mean of a later run of the same cases, with as many repeats, is expected.

    Args:
        samples: the scores of each case by trial index, at least one case with at least
            one score each, finite.
        confidence: two-sided, in (0, 1).

    Source:
        ``predict``, and for pass scores that agree throughout: of the misses of two runs
        alike each falls into the later one with a chance of one half at most, so that all
        of y do with 2^-y at most (derived here).
    """
    found = predict(samples, confidence=confidence)
    repeats = min(map(len, samples))
    binary = all(score in (0.0, 1.0) for sample in samples for score in sample)
    best = found.best
    source: Source | None = None
    interval = None
    if best is not None:
        source = "pooled" if best is found.pooled else "repeats"
        interval = within_share(best.interval, samples)
    elif binary and repeats >= 2 and _are_unanimous(samples):  # noqa: PLR2004 - else unknown
        source, interval = "unanimous", _unanimous(samples, confidence=confidence)
    whole = found.by_repeats
    return Expected(
        mean=float(np.mean([np.mean(sample) for sample in samples])),
        source=source,
        interval=interval,
        by_repeats=(
            within_share(whole.interval, samples) if whole and whole.standard_deviation else None
        ),
        drifts=found.drifts,
        drift_p=found.drift.p if found.drift else None,
        repeats=repeats,
        confidence=confidence,
        spread=best,
    )


def repeats_for_width(expected: Expected, *, width: float, limit: int) -> int | None:
    """Return how many repeats would make the interval as narrow as wanted.

    Args:
        expected: what is known by now.
        width: > 0, in units of the score.
        limit: the most repeats that are worth naming.

    Returns:
        The smallest number above those at hand; None if even the limit would not do, if
        those at hand do, or if nothing is known.
    """

    def is_enough(repeats: int) -> bool:
        found = expected.width_at(repeats)
        return found is not None and found <= width

    if expected.width is None:
        return None
    return fewest(is_enough, above=expected.repeats, limit=limit)


def _are_unanimous(samples: Sequence[Sequence[float]]) -> bool:
    return all(min(sample) == max(sample) for sample in samples)


def _unanimous(samples: Sequence[Sequence[float]], *, confidence: float) -> tuple[float, float]:
    """Allow for as many trials as may turn the other way in a later run, unseen in this one."""
    turned = math.ceil(math.log2(2 / (1 - confidence))) - 1
    shift = turned / (len(samples) * min(map(len, samples)))
    mean = float(np.mean([sample[0] for sample in samples]))
    return max(0.0, mean - shift), min(1.0, mean + shift)
