"""The smallest drop that a comparison could have caught."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_llmeval.gate.comparison import Method
from pytest_llmeval.gate.figures import FEWEST_UNITS_FOR_T, Samples, Significance
from pytest_llmeval.gate.scoring import Scores
from pytest_llmeval.records import PASS_METRIC
from pytest_llmeval.stats.planning.power import (
    PlannedTest,
    detectable_shift,
    expected_rates,
    smallest_pass_drop,
    smallest_score_drop,
    within_case_variance,
)
from pytest_llmeval.stats.significance.exact import least_p_of_splits, least_within_case_p

FloatArray = NDArray[np.float64]

# their least p is that of as many like signs
SIGNS_COUNT: tuple[Method, ...] = (
    "same-shift",
    "sign-flip",
    "mcnemar",
    "mcnemar-exact",
    "mcnemar-mid-p",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """All that decides how small a drop of the suite is found.

    Attributes:
        share: changed cases of all.
        whole_units: effective units of the changed cases, rounded down.
        standard_error: of the suite effect; None without an interval. ``dof`` likewise.
        plan: trials of each changed case, level and degrees of freedom.
        rates: expected rate of good trials of each changed case; None for other scores
            than ``pass``, whose range is unknown.
        samples: the scores of the changed cases on each side.
    """

    share: float
    whole_units: int
    standard_error: float | None
    dof: float | None
    plan: PlannedTest
    rates: FloatArray | None
    samples: Sequence[Sequence[float]]

    @property
    def variance(self) -> float | None:
        """The variance of the scores within a case; None if no trial was repeated."""
        return within_case_variance(self.samples)

    def smallest_drop(self) -> float | None:
        """Return the drop beyond the margin that is found with 80 % power, > 0.

        Returns:
            It, on the scale of the suite; None where nothing in the range of the scores
            would be found.
        """
        formula = self._by_formula()
        if self.standard_error is None or self.dof is None:
            return formula
        by_spread = self.standard_error * detectable_shift(dof=self.dof, alpha=self.plan.alpha)
        if self.rates is None:
            return by_spread
        if formula is None or by_spread > self.share:
            return None
        # the spread that was seen is too hopeful near the ceiling, where failures are few
        return max(by_spread, formula)

    def _by_formula(self) -> float | None:
        if self.rates is None:
            drop = smallest_score_drop(self.variance, self.plan)
        else:
            drop = smallest_pass_drop(self.rates, self.plan)
        return None if drop is None else drop * self.share


def sensitivity(
    found: Significance, *, scores_there: Scores, metric: str, alpha: float
) -> Sensitivity:
    """Gather what decides how small a drop a comparison could have caught.

    Args:
        found: its test.
        scores_there: the scored trials of every case that the baseline has of the function.
        metric: what is scored.
        alpha: one-sided level.
    """
    extent, changed = found.extent, found.samples.cases
    return Sensitivity(
        share=extent.share,
        whole_units=extent.whole_units,
        standard_error=found.standard_error,
        dof=found.error_dof,
        plan=PlannedTest(
            baseline=np.array([float(len(case.baseline)) for case in changed]),
            current=np.array([float(len(case.current)) for case in changed]),
            alpha=alpha,
            dof=dof_of(extent.whole_units),
        ),
        rates=_rates(found.samples, scores_there) if metric == PASS_METRIC else None,
        samples=[scores for case in changed for scores in (case.baseline, case.current)],
    )


def dof_of(whole_units: int) -> int | None:
    """Return the degrees of freedom of a test over so many units, None if it knows none."""
    return whole_units - 1 if whole_units >= FEWEST_UNITS_FOR_T else None


def too_few_draws(found: Significance, *, penalty: int, alpha: float, sign: int) -> bool:
    """Tell whether even the worst outcome could not be called a regression.

    Args:
        found: the test of the comparison.
        penalty: by what the p-value is multiplied for the other comparisons.
        alpha: one-sided level.
        sign: 1 where higher is better, -1 where lower is.
    """
    if found.method == "sign-flip" and found.interval is None:
        return True  # independent units are lacking
    if found.method in SIGNS_COUNT:
        return 0.5**found.extent.units * penalty >= alpha
    if found.repeats is not None:
        return least_p_of_splits([found.repeats]) * penalty >= alpha
    if found.method == "exact-within-case":
        return least_within_case_p(found.samples.cases, sign=sign) * penalty >= alpha
    return False


def _rates(samples: Samples, scores_there: Scores) -> FloatArray:
    """Return how often each changed case is expected to be good, from the baseline."""
    used = slice(1) if samples.identical_repeats else slice(None)
    every = [value for scored in scores_there.values() for value in scored.values[used]]
    hits = [math.fsum(case.baseline) for case in samples.cases]
    overall = (math.fsum(every) + 0.5) / (len(every) + 1)
    return expected_rates(hits, [len(case.baseline) for case in samples.cases], overall=overall)
