"""How far chance explains a difference, and whether a drop is ruled out: from docs/statistics.md.

Written from the docs alone, small and slow. Higher is better here, and a hit is 1.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy import optimize, stats

TINY = 1e-9
MOST_DEALS = 20_000
FEW_UNITS = 6


@dataclass
class Compared:
    """One common case: its values by trial index, as far as they enter d."""

    id: str
    before: dict[int, float]
    after: dict[int, float]
    cluster: str | None
    one_sided: dict[str, set]
    changed: bool
    here: float  # its mean here: if unchanged, of all trials of the baseline

    @property
    def d(self):
        return mean(self.after.values()) - mean(self.before.values())

    @property
    def values(self):
        return [*self.before.values(), *self.after.values()]


def mean(of) -> float:
    of = list(of)
    return math.fsum(of) / len(of)


def units_of(cases: list[Compared], *, labels: bool = True) -> list[list[int]]:
    """Cases that share a cluster or a draw of one side, by their positions."""
    group = list(range(len(cases)))
    for i, j in itertools.combinations(range(len(cases)), 2):
        one, other = cases[i], cases[j]
        label = labels and one.cluster is not None and one.cluster == other.cluster
        if (label or one.one_sided.keys() & other.one_sided.keys()) and group[i] != group[j]:
            group = [group[i] if at == group[j] else at for at in group]
    return [[i for i, at in enumerate(group) if at == name] for name in dict.fromkeys(group)]


def consent(result, cases, tied) -> None:
    """The larger p of the test and of all deals; cases that share draws are dealt out as one."""
    groups = []
    for unit in tied:
        some = [cases[i] for i in unit]
        whole = some[0] if len(some) == 1 else whole_repeats(some, labels=False)
        if whole is None or (len(tied) < len(cases) and over_repeats(cases)):
            return
        if len(some) > 1:
            whole = replace(
                some[0], before=dict(enumerate(whole[0])), after=dict(enumerate(whole[1]))
            )
        groups.append(whole)
    for name, sign in (("p", 1), ("p_improved", -1)):
        setattr(result, name, max(getattr(result, name), within_cases(groups, sign, mid=True)))


def jackknife(d, units) -> tuple[float, float, float]:
    """The mean, its standard error over units, and degrees of freedom."""
    k, u = len(d), len(units)
    centre = mean(d)
    parts = [math.fsum(d[i] - centre for i in unit) / (k - len(unit)) for unit in units]
    square = (u - 1) / u * math.fsum(part**2 for part in parts)
    dof = math.floor(k**2 / sum(len(unit) ** 2 for unit in units) + TINY) - 1
    return centre, math.sqrt(square), dof


def t_test(d, units, shift) -> float:
    centre, error, dof = jackknife(d, units)
    if error < 1e-12:
        return 0.5 ** len(units) if centre + shift < -TINY else 1.0
    return float(stats.t.cdf((centre + shift) / error, dof))


def within_cases(cases, sign: int, *, mid: bool = False) -> float:
    """All deals of the scores of each case, counted out: the chance of a total as low."""
    total = {Fraction(0): 1.0}
    for case in cases:
        pooled = [Fraction(value).limit_denominator(10**6) * sign for value in case.values]
        n0, n1 = len(case.before), len(case.after)
        if len(set(pooled)) == 1:
            continue
        sums: dict[tuple[int, Fraction], int] = {(0, Fraction(0)): 1}
        for value in pooled:
            nxt = Counter(sums)
            for (size, at), ways in sums.items():
                if size < n1:
                    nxt[size + 1, at + value] += ways
            sums = dict(nxt)
        ways = math.comb(n0 + n1, n1)
        mine = {x / n1 - (sum(pooled) - x) / n0: c / ways for (s, x), c in sums.items() if s == n1}
        new: dict[Fraction, float] = defaultdict(float)
        for (a, one), (b, other) in itertools.product(total.items(), mine.items()):
            new[a + b] += one * other
        total = new
    seen = sum(case.d for case in cases) * sign
    lower = math.fsum(chance for at, chance in total.items() if at <= seen + TINY)
    equal = math.fsum(chance for at, chance in total.items() if abs(at - seen) <= TINY)
    return lower - equal / 2 if mid else lower


def whole_repeats(cases, *, labels=True) -> tuple[list[float], list[float]] | None:
    """The totals of whole repeats on both sides; None where they tell nothing."""
    names = Counter(case.cluster for case in cases if case.cluster is not None)
    if labels and any(count > 1 for count in names.values()):
        return None
    if over_repeats(cases):
        return None
    sides = []
    for side in ("before", "after"):
        indices = sorted({at for case in cases for at in getattr(case, side)})
        has = {at: [c for c in cases if at in getattr(c, side)] for at in indices}
        sides.append([at for at in indices if len(has[at]) >= 0.9 * len(cases) - TINY])
    if not all(sides):
        return None
    centre = {}
    for case in cases:
        known = [case.before[at] for at in sides[0] if at in case.before]
        known += [case.after[at] for at in sides[1] if at in case.after]
        centre[case.id] = mean(known or [0.0])  # one without a value there moves no total
    before, after = (
        [
            math.fsum(getattr(c, side)[at] - centre[c.id] for c in cases if at in getattr(c, side))
            for at in indices
        ]
        for side, indices in zip(("before", "after"), sides, strict=True)
    )
    return before, after


def over_repeats(cases) -> bool:
    """Whether a draw of one side, such as a wider fixture's, is one of several trial indices."""
    indices = defaultdict(set)
    for case in cases:
        for draw, of in case.one_sided.items():
            indices[draw] |= of
    return any(len(of) > 1 for of in indices.values())


def least_of_deals(whole) -> float:
    deals = math.comb(len(whole[0]) + len(whole[1]), len(whole[1]))
    return 1 / deals if deals <= MOST_DEALS else 1e-4


def tail(before, after, sign, *, mid=False) -> float:
    totals = np.array([*before, *after]) * sign
    deals = np.array(list(itertools.combinations(range(len(totals)), len(after))))
    sums = totals[deals].sum(axis=1)
    seen, close = math.fsum(after) * sign, TINY * max(1.0, np.abs(totals).max())
    return float(np.mean(sums <= seen + close) - mid * np.mean(abs(sums - seen) <= close) / 2)


def sign_flip(d, units, sign) -> float:
    sums = np.array([math.fsum(d[i] for i in unit) for unit in units]) * sign
    flips = np.array(list(itertools.product((1, -1), repeat=len(sums))))
    return float(np.mean(flips @ sums <= sums.sum() + TINY))


# --- is the target ruled out?


def smallest_drop(cases, m, hits, overall, whole, rules) -> float | None:
    """Of fewer than 6 units: what is found in 4 of 5 builds; None if nothing is."""
    k = len(cases)
    z, power = stats.norm.ppf(1 - rules.alpha), stats.norm.ppf(0.8)
    n0, n1 = (np.array([len(getattr(c, side)) for c in cases]) for side in ("before", "after"))
    if hits:
        formula = drop_of_hits(cases, overall, n0, n1, z, power)
    else:
        sides = [[*of.values()] for c in cases for of in (c.before, c.after)]
        dof = sum(len(one) - 1 for one in sides)
        square = sum(math.fsum((x - mean(one)) ** 2 for x in one) for one in sides)
        variance = square / dof if dof else 0.0
        formula = float((z + power) * math.sqrt(variance * mean(1 / n0 + 1 / n1) / k)) or None
        formula = formula if variance > 1e-18 else None
    formula = None if formula is None else formula * k / m
    if whole is None:
        return formula
    dof = len(whole[0]) + len(whole[1]) - 2
    square = sum(math.fsum((x - mean(side)) ** 2 for x in side) for side in whole) / dof
    error = math.sqrt(square * sum(1 / len(side) for side in whole)) / m
    if error < 1e-12:
        return formula
    critical = stats.t.ppf(1 - rules.alpha, dof)
    shift = optimize.brentq(lambda x: stats.nct.sf(critical, dof, x) - 0.8, 1e-9, 60)
    if not hits:
        return error * shift
    return None if formula is None or error * shift > k / m else max(formula, error * shift)


def drop_of_hits(cases, overall, n0, n1, z, power) -> float | None:
    """Every rate falls by the same amount until it is 0; the spread is binomial."""
    rates = np.array([(sum(c.before.values()) + overall) / (len(c.before) + 1) for c in cases])
    k = len(cases)

    def excess(drop):
        after = np.maximum(0.0, rates - drop)
        pooled = (n0 * rates + n1 * after) / (n0 + n1)
        null = np.mean(pooled * (1 - pooled) * (1 / n0 + 1 / n1)) / k
        fallen = np.mean(rates * (1 - rates) / n0 + after * (1 - after) / n1) / k
        beyond = np.mean(rates - after) - 1 / (2 * k * np.mean(n1))
        return beyond - z * math.sqrt(null) - power * math.sqrt(fallen)

    grid = np.linspace(0, 1, 65)
    at = next((i for i, drop in enumerate(grid) if excess(drop) >= 0), None)
    if at is None:
        return None
    return float(np.mean(np.minimum(rates, optimize.brentq(excess, grid[at - 1], grid[at]))))


def lower_end(cases, units, hits, alpha) -> float | None:
    d, k = [case.d for case in cases], len(cases)
    ones = all(len(case.before) == len(case.after) == 1 for case in cases)
    if hits and ones and len(units) == k:
        return tango(sum(x < -TINY for x in d), sum(x > TINY for x in d), k, alpha)
    if hits:
        p = mean(mean(of.values()) for c in cases for of in (c.before, c.after))
        step = mean(
            1 / len(c.after) + (1 - p) * max(0, 1 / len(c.before) - 1 / len(c.after)) for c in cases
        )
    else:
        reach = max(max(case.values) - min(case.values) for case in cases)
        everything = [value for case in cases for value in case.values]
        reach = reach or max(everything) - min(everything)
        if not reach:
            return None
        step = reach * mean(1 / min(len(c.before), len(c.after)) for c in cases)
    ends = []
    for some, tied in ((d, units), ([*d, -step], [*units, [k]])):
        centre, error, dof = jackknife(some, tied)
        if error > 1e-12:
            ends.append(centre - stats.t.ppf(1 - alpha, dof) * error)
    return min(ends, default=min(d))


def tango(fell, rose, k, alpha) -> float:
    """The score limit of a difference of two paired shares, with Student's quantile."""
    if fell == k:
        return -1.0
    quantile = stats.t.ppf(1 - alpha, k - 1)

    def beyond(delta):
        b = (2 * k - rose + fell) * delta - rose - fell
        c = -fell * delta * (1 - delta)
        w = (math.sqrt(max(0.0, b * b - 8 * k * c)) - b) / (4 * k)
        spread = k * (2 * w + delta - delta**2)
        return (rose - fell - k * delta) / math.sqrt(max(spread, 1e-300)) - quantile

    return float(optimize.brentq(beyond, -1 + 1e-12, (rose - fell) / k - 1e-12, xtol=1e-13))


def most_lost(cases, units, alpha) -> float:
    """How much a mean can fall: by no more than it was, nor by more than what misses here."""
    k = len(cases)
    effective = k**2 / sum(len(unit) ** 2 for unit in units)
    limits = []
    for rates, trials in (
        ([mean(c.before.values()) for c in cases], sum(len(c.before) for c in cases)),
        ([1 - mean(c.after.values()) for c in cases], sum(len(c.after) for c in cases)),
    ):
        centre, error, _ = jackknife(rates, units) if len(units) > 1 else (mean(rates), 0.0, 0)
        size = float(trials) if len(units) == k else effective
        if error > 1e-12:
            size = max(effective, centre * (1 - centre) / error**2)
        size = min(size, trials)
        right = size * centre
        top = right >= size - TINY
        limits.append(1.0 if top else stats.beta.ppf(1 - alpha, right + 1, size - right))
    return float(min(limits))
