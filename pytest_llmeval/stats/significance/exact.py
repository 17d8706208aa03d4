"""Permutation tests for few changed cases: exact within the cases, or over units.

Both compare the total that was seen with the totals that chance alone would give, and
speak about these very cases only.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_llmeval.stats.significance.hypergeometric import distribution_of_hits
from pytest_llmeval.stats.significance.result import Tails
from pytest_llmeval.stats.significance.sample import CaseScores

FloatArray = NDArray[np.float64]

HITS = frozenset({0.0, 1.0})
MOST_SPLITS = 20_000
MOST_PAIRS = 1_000_000
SHUFFLES = 9999
MOST_SIGNED_UNITS = 12
# totals that differ by less, on the scale of the scores, are one total, rounded differently
SAME_TOTAL = 1e-9
SAME_VALUE = 1e-10
# how many signs are drawn at once: 32 MiB
SIGNS_AT_ONCE = 4_000_000
# of how many cases totals are drawn at once: 5 MiB
CASES_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spread:
    """A discrete distribution: values with their probabilities."""

    values: FloatArray
    chances: FloatArray


def exact_within_case(cases: Sequence[CaseScores], *, sign: int = 1) -> Tails:
    """Test the summed differences, were the scores of each case exchangeable.

    Scores of 0 and 1 are counted out exactly, unless so many cases have so many unlike
    numbers of trials that the totals would be millions. Others are split in every
    possible way if there are at most 20,000 ways. What is too much for either is
    shuffled 9999 times, with a seed made from the scores. A case whose scores are all the
    same has one total, and is left out.

    Args:
        cases: the changed cases, at least one.
        sign: 1 where higher is better, -1 where lower is.
    """
    total = math.fsum(case.difference(sign) for case in cases)
    if are_binary(cases):
        return _binary_tails(cases, total, sign)
    cases = sorted(filter(_has_spread, cases), key=_regardless_of_order)
    scores = (abs(score) for case in cases for score in case.baseline + case.current)
    scale = max(scores, default=1.0)
    if split_count(cases) <= MOST_SPLITS:
        return _counted_tails(_all_totals(cases, sign), total, scale=scale, add_one=False)
    return _counted_tails(_shuffled_totals(cases, sign), total, scale=scale, add_one=True)


def least_within_case_p(cases: Sequence[CaseScores], *, sign: int = 1) -> float:
    """Return the smallest p that ``exact_within_case`` could give for a drop.

    For scores of 0 and 1: its p if every score here were the worst and the baseline's
    were as they are. For others: one split of all, at least 1e-4 where shuffled.
    """
    if are_binary(cases):
        worst = 0.0 if sign > 0 else 1.0
        broken = [CaseScores(baseline=c.baseline, current=(worst,) * len(c.current)) for c in cases]
        return exact_within_case(broken, sign=sign).worse
    return least_p_of_splits(cases)


def least_p_of_splits(cases: Iterable[CaseScores]) -> float:
    """Return the p of the most extreme of all splits, at least 1e-4 where shuffled."""
    splits = split_count(cases)
    return 1 / splits if splits <= MOST_SPLITS else 1 / (SHUFFLES + 1)


def sign_flip(sums: Iterable[float]) -> Tails:
    """Test a total over units, were the sign of each unit's sum a matter of chance.

    All signs for at most 12 units, else 9999 seeded draws of them.

    Args:
        sums: the summed differences of each unit, at least one.
    """
    values = np.sort(np.fromiter(sums, dtype=np.float64))
    total = float(np.sum(values))
    scale = float(np.max(np.abs(values)))
    if len(values) > MOST_SIGNED_UNITS:
        return _counted_tails(_totals_of_signs(values), total, scale=scale, add_one=True)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(values))))
    return _counted_tails(signs @ values, total, scale=scale, add_one=False)


def _totals_of_signs(values: FloatArray) -> FloatArray:
    """Draw 9999 times the signs of all values, and add them up."""
    random = _seeded(values.tolist())
    rows = max(1, SIGNS_AT_ONCE // len(values))
    parts = []
    for done in range(0, SHUFFLES, rows):
        size = min(rows, SHUFFLES - done), len(values)
        kept = random.integers(0, 2, size=size, dtype=np.uint8) @ values
        parts.append(2 * kept - values.sum())
    return np.concatenate(parts)


def are_binary(cases: Iterable[CaseScores]) -> bool:
    """Return whether every score is 0 or 1."""
    return all(HITS.issuperset(case.baseline) and HITS.issuperset(case.current) for case in cases)


def split_count(cases: Iterable[CaseScores]) -> int:
    """Return in how many ways the scores can be dealt to the two sides."""
    return math.prod(math.comb(len(c.baseline) + len(c.current), len(c.current)) for c in cases)


def _counted_tails(totals: FloatArray, total: float, *, scale: float, add_one: bool) -> Tails:
    extra = int(add_one)
    slack = SAME_TOTAL * max(1.0, scale)
    as_low = int(np.count_nonzero(totals <= total + slack))
    as_high = int(np.count_nonzero(totals >= total - slack))
    return Tails(
        worse=(extra + as_low) / (extra + len(totals)),
        better=(extra + as_high) / (extra + len(totals)),
    )


def _binary_tails(cases: Sequence[CaseScores], total: float, sign: int) -> Tails:
    groups = sorted(_binary_groups(cases, sign), key=lambda group: len(group.values))
    totals = groups[0]
    for group in groups[1:]:
        if len(totals.values) * len(group.values) > MOST_PAIRS:
            random = _seeded(sorted(score for c in cases for score in c.baseline + c.current))
            drawn = sum(random.choice(g.values, p=g.chances, size=SHUFFLES) for g in groups)
            return _counted_tails(np.asarray(drawn), total, scale=1.0, add_one=True)
        totals = _sum_of(totals, group)
    as_low = math.fsum(totals.chances[totals.values <= total + SAME_TOTAL])
    as_high = math.fsum(totals.chances[totals.values >= total - SAME_TOTAL])
    return Tails(worse=min(1.0, as_low), better=min(1.0, as_high))


def _binary_groups(cases: Sequence[CaseScores], sign: int) -> Iterator[_Spread]:
    """Yield the summed difference of the cases of each size, by the hits that fall here."""
    hits_by_size: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for case in cases:
        hits = int(sum(case.baseline) + sum(case.current))
        hits_by_size[_size(case)].append(hits)
    for (baseline, current), hits_of_cases in sorted(hits_by_size.items()):
        lowest, chances = distribution_of_hits(hits_of_cases, baseline=baseline, current=current)
        counts = lowest + np.arange(len(chances))
        values = sign * (counts / current - (sum(hits_of_cases) - counts) / baseline)
        yield _Spread(values=values, chances=chances)


def _sum_of(one: _Spread, other: _Spread) -> _Spread:
    values = np.add.outer(one.values, other.values).ravel()
    chances = np.multiply.outer(one.chances, other.chances).ravel()
    _, first, member = np.unique(
        np.rint(values / SAME_VALUE), return_index=True, return_inverse=True
    )
    summed = np.bincount(member, weights=chances).astype(np.float64, copy=False)
    return _Spread(values=values[first], chances=summed)


def _has_spread(case: CaseScores) -> bool:
    """Return whether it matters which of the scores of a case fall here."""
    return len({*case.baseline, *case.current}) > 1


def _all_totals(cases: Sequence[CaseScores], sign: int) -> FloatArray:
    totals = np.zeros(1)
    for case in cases:
        pooled = np.sort(case.baseline + case.current)
        dealt = np.array(list(itertools.combinations(pooled, len(case.current))))
        differences = _differences(case, dealt.sum(axis=1), sign)
        totals = np.add.outer(totals, differences).ravel()
    return totals


def _differences(case: CaseScores, current: FloatArray, sign: int) -> FloatArray:
    """Return the difference for each total of the scores that fall here."""
    total = math.fsum(case.baseline + case.current)
    difference: FloatArray = sign * (
        current / len(case.current) - (total - current) / len(case.baseline)
    )
    return difference


def _shuffled_totals(cases: Sequence[CaseScores], sign: int) -> FloatArray:
    """Deal the scores of every case 9999 times: each way is as likely as another."""
    random = _seeded(sorted(score for case in cases for score in case.baseline + case.current))
    totals = np.zeros(SHUFFLES)
    for (baseline, current), alike in itertools.groupby(cases, key=_size):
        pooled = np.array([sorted(case.baseline + case.current) for case in alike])
        totals += sign * (1 / current + 1 / baseline) * _dealt_totals(pooled, current, random)
        totals -= sign * pooled.sum() / baseline
    return totals


def _dealt_totals(pooled: FloatArray, current: int, random: np.random.Generator) -> FloatArray:
    """Return what falls here in 9999 deals of cases of one size.

    The deals are drawn once and hold for each case, whose scores are put in an order of its
    own and whose deals begin at a place of its own: so no two cases are dealt alike. To draw
    them anew for each case takes up to twenty times as long.

    Args:
        pooled: the scores of each case on both sides, shape (n_cases, n_trials).
        current: how many of them fall to this run.
        random: the source of chance.
    """
    keys = random.random((pooled.shape[1], SHUFFLES))
    falls_here = (keys <= np.partition(keys, current - 1, axis=0)[current - 1]).astype(np.float64)
    totals = np.zeros(SHUFFLES)
    for start in range(0, len(pooled), CASES_AT_ONCE):
        dealt = random.permuted(pooled[start : start + CASES_AT_ONCE], axis=1) @ falls_here
        for of_case, first in zip(dealt, random.integers(SHUFFLES, size=len(dealt)), strict=True):
            totals += np.roll(of_case, first)
    return totals


def _size(case: CaseScores) -> tuple[int, int]:
    return len(case.baseline), len(case.current)


def _regardless_of_order(case: CaseScores) -> tuple[int, int, list[float]]:
    """Sort cases by what they hold: shuffles must not depend on the order of collection."""
    return *_size(case), sorted(case.baseline + case.current)


def _seeded(ascending: Iterable[float]) -> np.random.Generator:
    text = ",".join(repr(value) for value in ascending)
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))
