"""The tests of a fixed number of cases: signs, splits and counts of hits, each with what it needs.

``TESTS[name].why_not(sample)`` tells whether a test fits the data, and ``TESTS[name].run(sample)``
runs it on data that fit. docs/statistics.md describes each test and its worth.

The tests on counts take trials as independent of each other. Repeats of a case are independent only
for a claim about these very cases: none of these tests sees how the effect varies from case to
case. The statistic of each is the signed root of its chi-square, a standard normal z, negative for
fewer hits in the current run. It is None where there is nothing to judge by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_llmeval.stats.arrays import np, special
from pytest_llmeval.stats.exact import exact_within_case, sign_flip
from pytest_llmeval.stats.intervals import unit_sums
from pytest_llmeval.stats.sample import (
    FEWEST_REPEATS,
    NOTHING_SHOWN,
    CaseScores,
    Sample,
    SignificanceResult,
    Tails,
    are_binary,
    in_step,
)
from pytest_llmeval.stats.t_tests import welch


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A test that can be chosen instead of the t-test.

    Attributes:
        checks: its conditions on the data, in turn; each returns a sentence on what the data lack,
            "" for nothing.
        run: the test, for data that fit.
    """

    checks: tuple[Callable[[Sample], str], ...] = ()
    run: Callable[[Sample], SignificanceResult]

    def why_not(self, sample: Sample) -> str:
        """Return in one plain sentence why the test does not fit the data, "" if it does."""
        return next(filter(None, (check(sample) for check in self.checks)), "")


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
    """Test pairs of single draws by the binomial distribution of the pairs that differ.

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
    # the binomial coefficient of many pairs does not fit into a float, its logarithm does
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

    There is no continuity correction. A stratum in which all trials are alike adds 0 to each sum.

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


def _lacks_independent_cases(sample: Sample) -> str:
    """Check that cases do not share their chance."""
    if sample.units is None or len(set(sample.units)) == len(sample.cases):
        return ""
    return (
        f"it takes every case as independent, the {len(sample.cases)} cases form "
        f"{len(set(sample.units))} units: use paired-t or sign-flip"
    )


def _lacks_binary_scores(sample: Sample) -> str:
    """Check that all scores are hits and misses."""
    if are_binary(sample.cases):
        return ""
    return "it counts hits, and some scores are neither 0 nor 1: use paired-t"


def _lacks_single_draws(sample: Sample) -> str:
    """Check that cases have one draw each, as pairs of repeats multiply false alarms."""
    repeated = sum(max(len(case.baseline), len(case.current)) > 1 for case in sample.cases)
    if not repeated:
        return ""
    return f"it pairs single trials, and {repeated} cases were repeated: use paired-t"


def _lacks_whole_repeats(sample: Sample) -> str:
    """Check that every case took part in every repeat."""
    for side, scores in zip(("baseline", "run"), sample.sides, strict=True):
        numbers = sorted({len(of_case) for of_case in scores})
        if len(numbers) > 1:
            return (
                f"it compares whole repeats, and the cases of the {side} have between "
                f"{numbers[0]} and {numbers[-1]}: use paired-t"
            )
        if numbers[0] < FEWEST_REPEATS:
            return f"it compares whole repeats, and the {side} has only 1: use paired-t"
    return ""


def normal_tails(z: float) -> Tails:
    """Return the one-sided p-values of a standard normal z, negative is worse."""
    return Tails(worse=float(special.ndtr(z)), better=float(special.ndtr(-z)))


def _exact_within_case(sample: Sample) -> SignificanceResult:
    tails = exact_within_case(sample.cases, sign=sample.sign)
    return SignificanceResult(tails=tails, statistic=math.fsum(sample.differences))


def _sign_flip(sample: Sample) -> SignificanceResult:
    tails = sign_flip(unit_sums(sample.differences, sample.units))
    return SignificanceResult(tails=tails, statistic=math.fsum(sample.differences))


def _welch(sample: Sample) -> SignificanceResult:
    baseline, current = (np.mean(in_step(side), axis=0) * sample.sign for side in sample.sides)
    return welch(baseline, current)


def _mcnemar_exact(sample: Sample, *, mid: bool = False) -> SignificanceResult:
    fell, rose = _moved(sample.cases)[:: sample.sign]
    tails = mcnemar_exact(fell, rose, mid=mid)
    return SignificanceResult(tails=tails, statistic=float(rose - fell))


def _of_root(root: float | None, sample: Sample, *, squared: bool = True) -> SignificanceResult:
    """Make the result of a test on counts from the signed root of its chi-square.

    Args:
        root: positive for more hits in the current run; None where there is nothing to judge by.
        sample: its sign decides what is worse.
        squared: report chi-square with one degree of freedom, not its root.
    """
    signed = sample.sign * (root or 0.0)
    return SignificanceResult(
        tails=NOTHING_SHOWN if root is None else normal_tails(signed),
        statistic=signed**2 if squared else signed,
        dof=1 if squared else None,
    )


def _mcnemar(sample: Sample) -> SignificanceResult:
    return _of_root(mcnemar_root(*_moved(sample.cases)), sample)


def _cmh(sample: Sample) -> SignificanceResult:
    return _of_root(cochran_mantel_haenszel_root(map(_table, sample.cases)), sample)


def _chi_square(sample: Sample, *, corrected: bool, squared: bool = True) -> SignificanceResult:
    root = chi_square_root(_pooled(sample.cases), corrected=corrected)
    return _of_root(root, sample, squared=squared)


def _moved(cases: Sequence[CaseScores]) -> tuple[int, int]:
    """Count the single draws that fell, and the single draws that rose."""
    differences = [case.difference(1) for case in cases]
    return differences.count(-1.0), differences.count(1.0)


def _table(case: CaseScores) -> Table:
    return Table(
        baseline_hits=int(sum(case.baseline)),
        baseline_trials=len(case.baseline),
        current_hits=int(sum(case.current)),
        current_trials=len(case.current),
    )


def _pooled(cases: Sequence[CaseScores]) -> Table:
    baseline = [score for case in cases for score in case.baseline]
    current = [score for case in cases for score in case.current]
    return _table(CaseScores(baseline=tuple(baseline), current=tuple(current)))


_PAIRS = (_lacks_binary_scores, _lacks_single_draws, _lacks_independent_cases)
_COUNTS = (_lacks_binary_scores, _lacks_independent_cases)

TESTS: Mapping[str, Method] = {
    "sign-flip": Method(run=_sign_flip),
    "exact-within-case": Method(checks=(_lacks_independent_cases,), run=_exact_within_case),
    "mcnemar": Method(checks=_PAIRS, run=_mcnemar),
    "mcnemar-exact": Method(checks=_PAIRS, run=_mcnemar_exact),
    "mcnemar-mid-p": Method(checks=_PAIRS, run=partial(_mcnemar_exact, mid=True)),
    "welch": Method(checks=(_lacks_whole_repeats,), run=_welch),
    "cmh": Method(checks=_COUNTS, run=_cmh),
    "chi-square": Method(checks=_COUNTS, run=partial(_chi_square, corrected=True)),
    "chi-square-plain": Method(checks=_COUNTS, run=partial(_chi_square, corrected=False)),
    "two-proportion-z": Method(
        checks=_COUNTS, run=partial(_chi_square, corrected=False, squared=False)
    ),
}
