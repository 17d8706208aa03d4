"""Sensitivity of a comparison: the smallest drop that it finds, as it is and with more of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pytest_llmeval.stats.planning.detection import (
    PlannedTest,
    detectable_shift,
    smallest_pass_drop,
    smallest_score_drop,
    within_case_variance,
)
from pytest_llmeval.stats.significance.paired import FEWEST_UNITS_FOR_T

FloatArray = NDArray[np.float64]


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

    @property
    def repeats(self) -> int:
        """The most trials that a case has in this run."""
        return int(np.max(self.plan.current))

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

    def settles(self, *, difference: float, margin: float, target: float) -> bool:
        """Tell whether the target would be caught, and this difference be judged either way."""
        drop = self.smallest_drop()
        if drop is None or margin + drop > target:
            return False
        if self.standard_error is None:
            return True
        reach = self.plan.quantiles[0] * self.standard_error
        return max(target + difference, -difference - margin) > reach

    def with_cases(self, times: float) -> Sensitivity:
        """Return what so many times the cases would find: like these, as many of them changed."""
        error = self.standard_error
        units = int(self.whole_units * times)
        dof = dof_of_t(units)
        return replace(
            self,
            whole_units=units,
            standard_error=None if error is None else error / math.sqrt(times),
            dof=dof,
            plan=replace(self.plan, copies=times, dof=dof),
        )

    def with_repeats(self, repeats: int) -> Sensitivity:
        """Return what so many repeats would find, on both sides: no more are used here."""
        plan = replace(
            self.plan,
            baseline=np.maximum(self.plan.baseline, repeats),
            current=np.maximum(self.plan.current, repeats),
        )
        error = self.standard_error
        if error is not None:
            between = error**2 - self._within_cases(self.plan)
            error = math.sqrt(max(0.0, between) + self._within_cases(plan))
        return replace(self, plan=plan, standard_error=error)

    def _within_cases(self, plan: PlannedTest) -> float:
        """Return what the chance of single trials adds to the squared standard error."""
        per_case = (self.variance or 0.0) * float(np.mean(1 / plan.baseline + 1 / plan.current))
        return self.share**2 * per_case / len(plan.baseline)


def dof_of_t(whole_units: int) -> int | None:
    """Return the degrees of freedom of a t-test, None where units are too few for one."""
    return whole_units - 1 if whole_units >= FEWEST_UNITS_FOR_T else None
