"""Ends of the interval of a difference, for means near an end of the scale.

A handful of trials without a miss has hardly any spread, and a t interval is too sure there. So its
lower end is replaced by the score limit of paired hits, or by the end that it would have if one
more case had fallen by one trial. Derived and simulated for this gate: docs/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_llmeval.stats.arrays import special
from pytest_llmeval.stats.distributions import student_quantile
from pytest_llmeval.stats.intervals import student_interval, unit_mean
from pytest_llmeval.stats.sample import CaseScores, Sample

# halvings of the bracket of a limit: 1e-18 is left
HALVINGS = 60


def lower_end(
    sample: Sample, differences: Sequence[float], *, hits: bool, alpha: float
) -> float | None:
    """Return how far the mean over some cases may have fallen.

    Args:
        sample: the cases, of at least two effective units.
        differences: of these cases, negative is worse; of all trials, also where the sample holds
            one of several identical draws.
        hits: all scores are hits and misses.
        alpha: what may lie beyond the end, in (0, 0.5).

    Returns:
        The end, negative is worse; None where all scores are one number that is no hit or miss.
    """
    if hits and _are_single_pairs(sample, differences):
        fell, rose = differences.count(-1.0), differences.count(1.0)
        quantile = student_quantile(len(differences) - 1, alpha)
        return _score_limit(fell, rose, cases=len(differences), quantile=quantile)
    step = _step_of_hits(sample) if hits else _step_of_scores(sample.cases)
    if not step:
        return None
    units = range(len(differences)) if sample.units is None else sample.units
    one_more = unit_mean([*differences, -step], [*units, max(units) + 1])
    found, lower = unit_mean(differences, units), math.inf
    for each in (found, one_more):
        if each.standard_error:
            ends = student_interval(each.mean, each.standard_error, dof=each.dof, alpha=alpha)
            lower = min(lower, ends[0])
    return min(lower, one_more.mean)


def upper_end(
    sample: Sample, differences: Sequence[float], *, hits: bool, alpha: float
) -> float | None:
    """Return how far the mean may have risen where nothing varies: ``lower_end`` mirrored."""
    exchanged = [CaseScores(baseline=one.current, current=one.baseline) for one in sample.cases]
    mirrored = [-each for each in differences]
    end = lower_end(replace(sample, cases=exchanged), mirrored, hits=hits, alpha=alpha)
    return None if end is None else -end


def _are_single_pairs(sample: Sample, differences: Sequence[float]) -> bool:
    """Tell whether each case is a unit of its own, with one trial on each side."""
    are_units = sample.units is None or len(set(sample.units)) == len(sample.cases)
    are_single = all(len(one.baseline) == len(one.current) == 1 for one in sample.cases)
    return are_units and are_single and {-1.0, 0.0, 1.0}.issuperset(differences)


def _score_limit(fell: int, rose: int, *, cases: int, quantile: float) -> float:
    """Return the lowest mean difference that single pairs of hits do not refute.

    Source:
        Tango (1998), Statistics in Medicine 17, 891-908; Student's quantile is ours.
    """
    low, high = -1.0, (rose - fell) / cases
    if fell == cases:
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _score(middle, fell, rose, cases=cases) > quantile:
            low = middle
        else:
            high = middle
    return high


def _score(difference: float, fell: int, rose: int, *, cases: int) -> float:
    """Return Tango's z of a difference, given the most likely share of pairs that fell."""
    a, b = 2 * cases, (2 * cases - rose + fell) * difference - rose - fell
    c = -fell * difference * (1 - difference)
    share = (math.sqrt(b * b - 4 * a * c) - b) / (2 * a)
    variance = cases * (2 * share + difference - difference * difference)
    return (rose - fell - cases * difference) / math.sqrt(variance)


def _step_of_hits(sample: Sample) -> float:
    """Return by how much a case falls on average that loses one trial.

    With more trials here than in the baseline it is one of these near the top, and one of
    the baseline's near the bottom.
    """
    cases = sample.cases
    hits = math.fsum(math.fsum(side) / len(side) for c in cases for side in (c.baseline, c.current))
    rate = hits / (2 * len(cases))
    misses = 1 - rate if sample.sign > 0 else rate
    return math.fsum(
        1 / len(c.current) + misses * max(0.0, 1 / len(c.baseline) - 1 / len(c.current))
        for c in cases
    ) / len(cases)


def _step_of_scores(cases: Sequence[CaseScores]) -> float:
    """Return the largest difference within a case, by the fewer trials of its two sides."""
    scores = [one.baseline + one.current for one in cases]
    within = max(max(each) - min(each) for each in scores)
    largest = within or max(map(max, scores)) - min(map(min, scores))
    shares = (1 / min(len(one.baseline), len(one.current)) for one in cases)
    return largest * math.fsum(shares) / len(cases)


def highest_rate(
    rates: Sequence[float], units: Sequence[int], *, trials: int, alpha: float
) -> float:
    """Return how high the mean of some pass rates may be: Clopper and Pearson's upper limit.

    Args:
        rates: one a case, in [0, 1].
        units: the unit of each case.
        trials: of all cases.
        alpha: what may lie beyond the limit, in (0, 0.5).

    Returns:
        The limit, for an effective number of trials: mean (1 - mean) / SE^2, at least the effective
        units and at most the trials. It is all trials where each case is a unit and no case
        differs.
    """
    found = unit_mean(rates, units)
    mean = min(max(found.mean, 0.0), 1.0)  # rounding may put a mean of ones above 1
    worth = float(trials) if found.units == len(rates) else found.effective_units
    if found.standard_error:
        worth = max(found.effective_units, mean * (1 - mean) / found.standard_error**2)
    worth = min(worth, float(trials))
    hits = mean * worth
    return 1.0 if hits >= worth else float(special.betaincinv(hits + 1, worth - hits, 1 - alpha))
