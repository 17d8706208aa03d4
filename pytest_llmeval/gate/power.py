"""Power of a comparison: what decides how small a drop it could have caught."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import Method
from pytest_llmeval.stats.detection import PlannedTest, Sensitivity, dof_of_t, expected_rates
from pytest_llmeval.stats.exact import least_p_of_splits, least_within_case_p
from pytest_llmeval.stats.repeats import error_of_totals
from pytest_llmeval.stats.sample import SignificanceResult
from pytest_llmeval.stats.t_tests import negligible

FloatArray = NDArray[np.float64]

# their least p is that of as many like signs
SIGNS_COUNT: tuple[Method, ...] = (
    "same-shift",
    "sign-flip",
    "mcnemar",
    "mcnemar-exact",
    "mcnemar-mid-p",
)


def sensitivity(
    pairing: Pairing, method: Method, found: SignificanceResult, *, alpha: float
) -> Sensitivity:
    """Gather what decides how small a drop a comparison could have caught.

    Args:
        pairing: with at least one changed case.
        method: the test that was run.
        found: its result.
        alpha: one-sided level.
    """
    samples = pairing.samples
    error, dof = _error(pairing, method, found)
    return Sensitivity(
        share=pairing.share,
        whole_units=pairing.whole_units,
        standard_error=error,
        dof=dof,
        plan=PlannedTest(
            baseline=np.array([float(len(case.baseline)) for case in samples]),
            current=np.array([float(len(case.current)) for case in samples]),
            alpha=alpha,
            dof=dof_of_t(pairing.whole_units),
        ),
        rates=_rates(pairing) if pairing.baseline.is_pass else None,
        samples=[scores for case in samples for scores in (case.baseline, case.current)],
    )


def _error(
    pairing: Pairing, method: Method, found: SignificanceResult
) -> tuple[float | None, float | None]:
    """Return the standard error of the suite effect and its degrees of freedom, if known."""
    totals = pairing.whole_repeats if method == "whole-repeats" else None
    if totals:
        error = error_of_totals(totals)
        if error > negligible([*totals.baseline, *totals.current]):
            return error / len(pairing.pairs), len(totals.baseline) + len(totals.current) - 2
    if found.interval is None:
        return None, None
    # the statistic of a test that was chosen has degrees of freedom of its own, or none
    dof_of_error = found.dof if method == "crossed" else pairing.whole_units - 1
    return found.standard_error, dof_of_error


def _rates(pairing: Pairing) -> FloatArray:
    """Return how often each changed case is expected to be good, from the baseline."""
    used = slice(1) if pairing.identical_repeats else slice(None)
    every = [one for scored in pairing.baseline.of_case.values() for one in scored.values[used]]
    hits = [math.fsum(case.baseline) for case in pairing.samples]
    overall = (math.fsum(every) + 0.5) / (len(every) + 1)
    return expected_rates(hits, [len(case.baseline) for case in pairing.samples], overall=overall)


def too_few_draws(
    pairing: Pairing, method: Method, found: SignificanceResult, *, penalty: int, alpha: float
) -> bool:
    """Tell whether even the worst outcome could not be called a regression.

    Args:
        pairing: with at least one changed case.
        method: the test that was run.
        found: its result.
        penalty: by what the p-value is multiplied for the other comparisons.
        alpha: one-sided level.
    """
    if method == "sign-flip" and found.interval is None:
        return True  # independent units are lacking
    if method in SIGNS_COUNT:
        return 0.5 ** len(set(pairing.units)) * penalty >= alpha
    if method == "whole-repeats" and pairing.whole_repeats is not None:
        return least_p_of_splits([pairing.whole_repeats]) * penalty >= alpha
    if method == "exact-within-case":
        return least_within_case_p(pairing.samples, sign=pairing.sign) * penalty >= alpha
    return False
