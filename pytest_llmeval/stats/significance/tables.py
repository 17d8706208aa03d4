"""Tests on counts of hits: unpaired tables, pairs of single draws, tables case by case.

All of them count trials as independent of each other. Repeats of a case are not, unless
the claim is meant for these very cases; none of these tests sees how the effect varies
from case to case. Each returns the signed root of its chi-square, which is a standard normal
z, negative for fewer hits in the current run; None where there is nothing to judge by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from scipy import special

from pytest_llmeval.stats.significance.tails import NOTHING_SHOWN, Tails


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Hits and trials on both sides, each side with at least one trial."""

    baseline_hits: int
    baseline_trials: int
    current_hits: int
    current_trials: int

    @property
    def hits(self) -> int:
        """Hits of both sides."""
        return self.baseline_hits + self.current_hits

    @property
    def trials(self) -> int:
        """Trials of both sides."""
        return self.baseline_trials + self.current_trials


def chi_square_root(table: Table, *, corrected: bool = True) -> float | None:
    """Test whether two unpaired samples have the same rate: Pearson's chi-square.

    Without the correction the root is the z of two proportions with the pooled rate.

    Args:
        table: hits and trials of both sides.
        corrected: with Yates' continuity correction, never beyond zero.

    Returns:
        The signed root of chi-square with one degree of freedom; None if all trials are alike.

    Source:
        Same as ``scipy.stats.chi2_contingency``. Tables 1 to 4 and 7 to 9 of Ball et al.
        are corrected, table 6 is not.
    """
    misses = table.trials - table.hits
    margins = table.baseline_trials * table.current_trials * table.hits * misses
    if not margins:
        return None
    cross = table.current_hits * table.baseline_trials - table.baseline_hits * table.current_trials
    distance = max(0.0, abs(cross) - table.trials / 2) if corrected else float(abs(cross))
    return math.copysign(distance, cross) * math.sqrt(table.trials / margins)


def mcnemar_root(fell: int, rose: int) -> float | None:
    """Test pairs of single draws, with Edwards' continuity correction.

    Args:
        fell: pairs that hit in the baseline and missed in the current run, >= 0.
        rose: pairs that missed in the baseline and hit in the current run, >= 0.

    Returns:
        The signed root of (abs(fell - rose) - 1)^2 / (fell + rose), 0 where they are equal;
        None if no pair differs.

    Source:
        The post "More money on evals": 21 and 40 give 5.311. Same as statsmodels
        ``mcnemar(exact=False, correction=True)`` where they are unequal.
    """
    pairs = fell + rose
    if not pairs:
        return None
    return math.copysign(max(0, abs(rose - fell) - 1), rose - fell) / math.sqrt(pairs)


def mcnemar_exact(fell: int, rose: int, *, mid: bool = False) -> Tails:
    """Test pairs of single draws by the binomial distribution of those that differ.

    Args:
        fell: pairs that hit in the baseline and missed in the current run, >= 0.
        rose: pairs that missed in the baseline and hit in the current run, >= 0.
        mid: count what was seen by half (mid-p): less conservative, no longer exact.

    Source:
        Same as statsmodels ``mcnemar(exact=True)`` if not ``mid``.
    """
    pairs = fell + rose
    if not pairs:
        return NOTHING_SHOWN
    # the binomial coefficient of many pairs is beyond a float, its logarithm is not
    seen = math.exp(
        math.lgamma(pairs + 1) - math.lgamma(fell + 1) - math.lgamma(rose + 1) - pairs * math.log(2)
    )
    extra = seen / 2 if mid else 0.0
    return Tails(
        worse=float(special.bdtr(rose, pairs, 0.5)) - extra,
        better=float(special.bdtr(fell, pairs, 0.5)) - extra,
    )


def cochran_mantel_haenszel_root(tables: Iterable[Table]) -> float | None:
    """Test for one common shift of the odds, stratified: a table a case.

    Without continuity correction. Strata in which all trials are alike say nothing and
    are left out by their own arithmetic.

    Returns:
        The signed root of chi-square with one degree of freedom; None if every stratum is
        all alike.

    Source:
        Same as statsmodels ``StratifiedTable.test_null_odds(correction=False)``.
    """
    excess = variance = 0.0
    for table in tables:
        share = table.hits * table.current_trials / table.trials
        misses = table.trials - table.hits
        excess += table.current_hits - share
        variance += share * table.baseline_trials * misses / (table.trials * (table.trials - 1))
    return excess / math.sqrt(variance) if variance else None
