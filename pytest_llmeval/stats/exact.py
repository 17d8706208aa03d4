"""Permutation tests for few changed cases: exact within the cases, or over units.

Both tests compare the observed total with the totals that chance alone would give, and speak about
these very cases only.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_llmeval.stats.arrays import FloatArray, np
from pytest_llmeval.stats.sample import CaseScores, Tails, are_binary

# a distribution of whole numbers: the lowest, and the chances of this and all higher numbers
Counts = tuple[int, FloatArray]
# by trials in the baseline and here: the place of the observed number among all possible numbers
# (outside of these if its chance is negligible), and the chances of these
HitsBySize = dict[tuple[int, int], Counts]

MOST_SPLITS = 20_000
# how many sums of totals are merged at once, for other scores than hits
MOST_PAIRS = 200_000
# for hits: how many totals are kept (32 MB), and how many products give these totals (.2 s)
MOST_TOTALS = 4_000_000
MOST_PRODUCTS = 200_000_000
SHUFFLES = 9999
MOST_SIGNED_UNITS = 12
# two totals that differ by less, on the scale of the scores, differ by rounding alone
SAME_TOTAL = 1e-9
SAME_VALUE = 1e-10
# how many signs are drawn at once: 32 MiB
SIGNS_AT_ONCE = 4_000_000
# for how many cases totals are drawn at once: 5 MiB
CASES_AT_ONCE = 64
# trials of one case: the binomials of more are too long to be divided one by one
MOST_TRIALS_BY_WHOLE_NUMBERS = 200
# smaller chances are left out: no p-value depends on them, and convolutions get shorter
NEVER = 1e-100


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactTails(Tails):
    """The p-values of a permutation test.

    Attributes:
        seen: the chance of the observed total, which both p-values include.
    """

    seen: float

    @property
    def mid_p(self) -> Tails:
        """The p-values with half of the chance ``seen``: less conservative, no longer exact."""
        return Tails(worse=self.worse - self.seen / 2, better=self.better - self.seen / 2)


def exact_within_case(cases: Sequence[CaseScores], *, sign: int = 1) -> ExactTails:
    """Test the summed differences, as if the scores of each case were exchangeable.

    Scores of 0 and 1 are counted out exactly, unless so many cases have so many unlike numbers of
    trials that there would be millions of totals. Then totals are drawn. Other scores are split in
    every possible way if no case, nor all cases together, has more than 20,000 ways, and if few
    totals differ (scores of few values, or few cases). Larger samples are shuffled 9999 times, with
    a seed made from the scores. A case whose scores are all the same has one total, and is left
    out.

    Args:
        cases: the changed cases, at least one.
        sign: 1 where higher is better, -1 where lower is.
    """
    if are_binary(cases):
        return _binary_tails(cases, sign)
    total = math.fsum(case.difference(sign) for case in cases)
    # it must matter which of the scores of a case the current run gets
    cases = [case for case in cases if len({*case.baseline, *case.current}) > 1]
    cases = sorted(cases, key=_regardless_of_order)
    scores = (abs(score) for case in cases for score in case.baseline + case.current)
    scale = max(scores, default=1.0)
    split = _all_totals(cases, sign, scale=max(1.0, scale))
    if split is not None:
        return _counted_tails(split[0], total, scale=scale, weights=split[1])
    return _counted_tails(_shuffled_totals(cases, sign), total, scale=scale, drawn=True)


def least_within_case_p(cases: Sequence[CaseScores], *, sign: int = 1) -> float:
    """Return the smallest p that ``exact_within_case`` could give for a drop.

    For scores of 0 and 1 it is the p if every score of the current run were the worst one, with the
    baseline as it is. For other scores it is one split of all, at least 1e-4 if shuffled.
    """
    if are_binary(cases):
        worst = 0.0 if sign > 0 else 1.0
        broken = [CaseScores(baseline=c.baseline, current=(worst,) * len(c.current)) for c in cases]
        return exact_within_case(broken, sign=sign).worse
    return least_p_of_splits(cases)


def least_p_of_splits(cases: Iterable[CaseScores]) -> float:
    """Return the p of the most extreme of all splits, at least 1e-4 if the splits are shuffled."""
    splits = split_count(cases)
    return 1 / splits if splits <= MOST_SPLITS else 1 / (SHUFFLES + 1)


def least_p_of_repeats(baseline: Sequence[int | None], current: Sequence[int]) -> float:
    """Return the p of the most extreme split of cases of so many trials.

    Args:
        baseline: trials of each case in the baseline; None for as many as here.
        current: trials of each case in this run.
    """
    pairs = zip(baseline, current, strict=True)
    return 1 / math.prod(math.comb((before or here) + here, here) for before, here in pairs)


def fewest_repeats(alpha: float, baseline: Sequence[int | None] = (None,)) -> int:
    """Return how many repeats cases need for the least p to be below alpha.

    Args:
        alpha: in (0, 1).
        baseline: trials of each case in the baseline; None for as many as here.
    """
    return next(
        n for n in itertools.count(1) if least_p_of_repeats(baseline, [n] * len(baseline)) < alpha
    )


def sign_flip(sums: Iterable[float]) -> Tails:
    """Test a total over units, as if the sign of each unit's sum were a matter of chance.

    All signs for at most 12 units, else 9999 seeded draws of them.

    Args:
        sums: the summed differences of each unit, at least one.
    """
    values = np.sort(np.fromiter(sums, dtype=np.float64))
    total = float(np.sum(values))
    scale = float(np.max(np.abs(values)))
    if len(values) > MOST_SIGNED_UNITS:
        return _counted_tails(_totals_of_signs(values), total, scale=scale, drawn=True)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(values))))
    return _counted_tails(signs @ values, total, scale=scale)


def _totals_of_signs(values: FloatArray) -> FloatArray:
    """Draw 9999 times the signs of all values, and add them up."""
    random = seeded(values.tolist())
    rows = max(1, SIGNS_AT_ONCE // len(values))
    parts = []
    for done in range(0, SHUFFLES, rows):
        size = min(rows, SHUFFLES - done), len(values)
        kept = random.integers(0, 2, size=size, dtype=np.uint8) @ values
        parts.append(2 * kept - values.sum())
    return np.concatenate(parts)


def split_count(cases: Iterable[CaseScores]) -> int:
    """Return in how many ways the scores can be dealt to the two sides."""
    return math.prod(math.comb(len(c.baseline) + len(c.current), len(c.current)) for c in cases)


def _counted_tails(
    totals: FloatArray,
    total: float,
    *,
    scale: float,
    drawn: bool = False,
    weights: FloatArray | None = None,
) -> ExactTails:
    """Count the totals that are as low as the observed one, and the totals that are as high.

    Drawn totals are only some of all totals, so the observed one is added to these.
    """
    extra, slack = int(drawn), SAME_TOTAL * max(1.0, scale)
    counts = np.ones(len(totals)) if weights is None else weights
    as_low, as_high = totals <= total + slack, totals >= total - slack
    all_of_them = extra + math.fsum(counts)
    low, high, seen = (
        (extra + math.fsum(counts[which])) / all_of_them
        for which in (as_low, as_high, as_low & as_high)
    )
    return ExactTails(worse=low, better=high, seen=seen)


def _binary_tails(cases: Sequence[CaseScores], sign: int) -> ExactTails:
    """Convolve the hits of the cases of each size, in whole steps of the summed difference."""
    counts = _hits_by_size(cases)
    grid = math.lcm(*itertools.chain(*counts))
    # one more hit of this run adds 1/current, and takes 1/baseline from the other side
    steps = [grid // baseline + grid // current for baseline, current in counts]
    common = math.gcd(*steps)
    place, chances = 0, np.ones(1)
    for step, (seen, of_size) in zip(steps, counts.values(), strict=True):
        stride = step // common
        length = len(chances) + stride * (len(of_size) - 1)
        if length > MOST_TOTALS or len(chances) * len(of_size) > MOST_PRODUCTS:
            drawn = _drawn_totals(counts, _seeded_by(cases))
            return _counted_tails(sign * drawn, 0.0, scale=1.0, drawn=True)
        added = np.zeros(length)
        for at, chance in enumerate(of_size.tolist()):
            added[at * stride : at * stride + len(chances)] += chance * chances
        place, chances = place + stride * seen, added
    sides = sign * np.sign(np.arange(len(chances)) - place)
    low, same, high = (math.fsum(chances[sides == side]) for side in (-1, 0, 1))
    return ExactTails(worse=min(1.0, low + same), better=min(1.0, same + high), seen=same)


def _drawn_totals(counts: HitsBySize, random: np.random.Generator) -> FloatArray:
    """Draw 9999 times by how much the summed difference exceeds the observed one."""
    totals = np.zeros(SHUFFLES)
    for (baseline, current), (seen, chances) in counts.items():
        hits = random.choice(len(chances), p=chances / chances.sum(), size=SHUFFLES)
        totals += (hits - seen) * (1 / baseline + 1 / current)
    return totals


def _hits_by_size(cases: Sequence[CaseScores]) -> HitsBySize:
    """Count for the cases of each size the hits of this run, and give the chances of all counts."""
    by_size: defaultdict[tuple[int, int], list[CaseScores]] = defaultdict(list)
    for case in cases:
        by_size[_size(case)].append(case)
    found = {}
    for (baseline, current), alike in sorted(by_size.items()):
        hits = [int(sum(case.baseline) + sum(case.current)) for case in alike]
        lowest, chances = distribution_of_hits(hits, baseline=baseline, current=current)
        found[baseline, current] = int(sum(sum(case.current) for case in alike)) - lowest, chances
    return found


def distribution_of_hits(hits_of_cases: Sequence[int], *, baseline: int, current: int) -> Counts:
    """Give the chances of how many hits of several cases the current run gets.

    Args:
        hits_of_cases: of each case on both sides together.
        baseline: trials of each case in the baseline, >= 1.
        current: trials of each case in this run, >= 1.

    Returns:
        The lowest number, and the chances of this number and all higher ones, without those of
        negligible chance.
    """
    counts = [
        _times(_distribution_of_one(hits, baseline=baseline, current=current), times=times)
        for hits, times in sorted(Counter(hits_of_cases).items())
    ]
    while len(counts) > 1:  # short distributions first: each sum is as long as all its parts
        left_over = counts[len(counts) // 2 * 2 :]
        counts = [_added(*pair) for pair in zip(counts[::2], counts[1::2], strict=False)]
        counts += left_over
    return counts[0]


def _distribution_of_one(hits: int, *, baseline: int, current: int) -> Counts:
    """Give the chances of how many hits of one case the current run gets."""
    first, last = max(0, hits - baseline), min(current, hits)
    if baseline + current <= MOST_TRIALS_BY_WHOLE_NUMBERS:
        ways = math.comb(baseline + current, hits)
        chances = [
            math.comb(current, x) * math.comb(baseline, hits - x) / ways
            for x in range(first, last + 1)
        ]
        return first, np.array(chances)
    x = np.arange(first, last, dtype=np.float64)
    steps = np.log((current - x) * (hits - x)) - np.log((x + 1) * (baseline - hits + x + 1))
    logs = np.concatenate([np.zeros(1), np.cumsum(steps)])
    relative = np.exp(logs - np.max(logs))
    trimmed, chances_of_all = _without_ends(relative / np.sum(relative))
    return first + trimmed, chances_of_all


def _times(one: Counts, *, times: int) -> Counts:
    """Add up a count so many times, by doubling: 10,000 single additions take seconds."""
    if times == 1:
        return one
    half = _times(one, times=times // 2)
    whole = _added(half, half)
    return _added(whole, one) if times % 2 else whole


def _added(one: Counts, other: Counts) -> Counts:
    """Add up two independent counts."""
    trimmed, chances = _without_ends(np.convolve(one[1], other[1]))
    return one[0] + other[0] + trimmed, chances


def _without_ends(chances: FloatArray) -> Counts:
    """Leave out numbers of negligible chance at both ends: how many at the start, and the rest."""
    reached = np.flatnonzero(chances > NEVER)
    return int(reached[0]), chances[reached[0] : reached[-1] + 1]


def _all_totals(
    cases: Sequence[CaseScores], sign: int, *, scale: float
) -> tuple[FloatArray, FloatArray] | None:
    """Split the scores of all cases in every way.

    Returns:
        The totals, and the chance of each; None where they are too many.
    """
    if sum(split_count([case]) for case in cases) > MOST_SPLITS:
        return None
    totals, chances = np.zeros(1), np.ones(1)
    for case in cases:
        pooled = np.sort(case.baseline + case.current)
        dealt = np.array(list(itertools.combinations(pooled, len(case.current))))
        values, ways = _merged(_differences(case, dealt.sum(axis=1), sign), scale=scale)
        if len(totals) * len(values) > MOST_PAIRS:
            return None
        both = np.multiply.outer(chances, ways / len(dealt)).ravel()
        totals, chances = _merged(np.add.outer(totals, values).ravel(), both, scale=scale)
    return totals, chances


def _merged(
    totals: FloatArray, weights: FloatArray | None = None, *, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Add up the weights of equal totals, of 1 each if none are given."""
    rounded = np.rint(totals / (SAME_VALUE * scale))
    _, first, member = np.unique(rounded, return_index=True, return_inverse=True)
    return totals[first], np.bincount(member, weights=weights).astype(np.float64, copy=False)


def _differences(case: CaseScores, current: FloatArray, sign: int) -> FloatArray:
    """Return the difference for each total of the scores that the current run gets."""
    total = math.fsum(case.baseline + case.current)
    difference: FloatArray = sign * (
        current / len(case.current) - (total - current) / len(case.baseline)
    )
    return difference


def _shuffled_totals(cases: Sequence[CaseScores], sign: int) -> FloatArray:
    """Deal the scores of every case 9999 times: each way is as likely as another."""
    random = _seeded_by(cases)
    totals = np.zeros(SHUFFLES)
    for (baseline, current), alike in itertools.groupby(cases, key=_size):
        pooled = np.array([sorted(case.baseline + case.current) for case in alike])
        totals += sign * (1 / current + 1 / baseline) * _dealt_totals(pooled, current, random)
        totals -= sign * pooled.sum() / baseline
    return totals


def _dealt_totals(pooled: FloatArray, current: int, random: np.random.Generator) -> FloatArray:
    """Return what the current run gets in 9999 deals of cases of one size.

    The deals are drawn once for all cases, as drawing them for each case takes up to twenty times
    as long. Each case puts its scores in an order of its own, and its deals begin at a place of
    their own, so no two cases of up to 9999 are dealt alike.

    Args:
        pooled: the scores of each case on both sides, shape (n_cases, n_trials).
        current: how many of them the current run gets.
        random: the source of chance.
    """
    keys = random.random((pooled.shape[1], SHUFFLES))
    is_current = (keys <= np.partition(keys, current - 1, axis=0)[current - 1]).astype(np.float64)
    places = np.resize(random.permutation(SHUFFLES), len(pooled))
    totals = np.zeros(SHUFFLES)
    for start in range(0, len(pooled), CASES_AT_ONCE):
        at_once = slice(start, start + CASES_AT_ONCE)
        dealt = random.permuted(pooled[at_once], axis=1) @ is_current
        for of_case, first in zip(dealt, places[at_once], strict=True):
            totals += np.roll(of_case, first)
    return totals


def _size(case: CaseScores) -> tuple[int, int]:
    return len(case.baseline), len(case.current)


def _regardless_of_order(case: CaseScores) -> tuple[int, int, list[float]]:
    """Sort cases by their scores: shuffles must not depend on the order of collection."""
    return *_size(case), sorted(case.baseline + case.current)


def _seeded_by(cases: Iterable[CaseScores]) -> np.random.Generator:
    return seeded(sorted(score for case in cases for score in case.baseline + case.current))


def seeded(scores: Iterable[float]) -> np.random.Generator:
    """Return a source of chance that the same scores in the same order always give."""
    text = ",".join(repr(float(score)) for score in scores)
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))
