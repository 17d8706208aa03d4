"""What the mean of the next run would be if nothing changed: prediction intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pytest_llmeval.stats.significance.paired import negligible
from pytest_llmeval.stats.significance.repeats import Drift, in_step, repeat_drift

DRIFT_LEVEL = 0.01


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
