"""Power of a comparison: the smallest drop it could have caught, and what would settle it.

What would settle it is one number, decided once: repeating the look until it pleases adds
false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import Method
from pytest_llmeval.gate.significance import FEWEST_UNITS_FOR_T, Significance
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.planning.detection import (
    PlannedTest,
    detectable_shift,
    expected_rates,
    fewest,
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
MOST_TIMES_THE_CASES = 100
MOST_REPEATS = 1000


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

    def settles(self, *, difference: float, rules: GateRules) -> bool:
        """Tell whether the target would be caught, and this difference be judged either way."""
        drop = self.smallest_drop()
        if drop is None or rules.margin + drop > rules.target:
            return False
        if self.standard_error is None:
            return True
        reach = self.plan.quantiles[0] * self.standard_error
        return max(rules.target + difference, -difference - rules.margin) > reach

    def with_cases(self, times: float) -> Sensitivity:
        """Return what so many times the cases would find: like these, as many of them changed."""
        error = self.standard_error
        units = int(self.whole_units * times)
        dof = _dof_of(units)
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


def sensitivity(pairing: Pairing, found: Significance, *, alpha: float) -> Sensitivity:
    """Gather what decides how small a drop a comparison could have caught.

    Args:
        pairing: with at least one changed case.
        found: its test.
        alpha: one-sided level.
    """
    samples = pairing.samples
    return Sensitivity(
        share=pairing.share,
        whole_units=pairing.whole_units,
        standard_error=found.standard_error,
        dof=found.error_dof,
        plan=PlannedTest(
            baseline=np.array([float(len(case.baseline)) for case in samples]),
            current=np.array([float(len(case.current)) for case in samples]),
            alpha=alpha,
            dof=_dof_of(pairing.whole_units),
        ),
        rates=_rates(pairing) if pairing.baseline.is_pass else None,
        samples=[scores for case in samples for scores in (case.baseline, case.current)],
    )


def _dof_of(whole_units: int) -> int | None:
    return whole_units - 1 if whole_units >= FEWEST_UNITS_FOR_T else None


def _rates(pairing: Pairing) -> FloatArray:
    """Return how often each changed case is expected to be good, from the baseline."""
    used = slice(1) if pairing.identical_repeats else slice(None)
    every = [one for scored in pairing.baseline.of_case.values() for one in scored.values[used]]
    hits = [math.fsum(case.baseline) for case in pairing.samples]
    overall = (math.fsum(every) + 0.5) / (len(every) + 1)
    return expected_rates(hits, [len(case.baseline) for case in pairing.samples], overall=overall)


def too_few_draws(pairing: Pairing, found: Significance, *, penalty: int, alpha: float) -> bool:
    """Tell whether even the worst outcome could not be called a regression.

    Args:
        pairing: with at least one changed case.
        found: its test.
        penalty: by what the p-value is multiplied for the other comparisons.
        alpha: one-sided level.
    """
    if found.method == "sign-flip" and found.interval is None:
        return True  # independent units are lacking
    if found.method in SIGNS_COUNT:
        return 0.5 ** len(set(pairing.units)) * penalty >= alpha
    if found.method == "whole-repeats" and pairing.whole_repeats is not None:
        return least_p_of_splits([pairing.whole_repeats]) * penalty >= alpha
    if found.method == "exact-within-case":
        return least_within_case_p(pairing.samples, sign=pairing.sign) * penalty >= alpha
    return False


def settling_cases(
    seen: Sensitivity, *, cases: int, difference: float, rules: GateRules
) -> int | None:
    """Return about how many more cases would settle it, None if that is no remedy.

    Args:
        seen: what the comparison could catch as it was.
        cases: how many it had.
        difference: the suite effect, thought to stay as it is.
        rules: level, margin and target.
    """

    def settles(number: int) -> bool:
        return seen.with_cases(number / cases).settles(difference=difference, rules=rules)

    number = fewest(settles, above=cases, limit=MOST_TIMES_THE_CASES * cases)
    return None if number is None else number - cases


def settling_repeats(seen: Sensitivity, *, difference: float, rules: GateRules) -> int | None:
    """Return about how many repeats a case would settle it, None if that is no remedy."""

    def settles(number: int) -> bool:
        return seen.with_repeats(number).settles(difference=difference, rules=rules)

    return fewest(settles, above=int(np.max(seen.plan.current)), limit=MOST_REPEATS)
