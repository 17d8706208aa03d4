"""How often "a drop of 0.10 is ruled out" is said where the mean fell by just that.

The cells are those in which the rule was found: 7 sizes, 6 numbers of repeats, 8 mixes of rates and
4 ways to fall. Whole arrays of builds are judged at once by a second implementation of the lower
end, which a test compares with the gate's own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pytest_llmeval.stats.ends import lower_end
from pytest_llmeval.stats.sample import CaseScores, Sample

Array = NDArray[np.float64]
ALPHA, TARGET = 0.05, 0.10
BUILDS = 3000
MOST = 0.060
SIZES = (10, 20, 30, 50, 60, 100, 200)
REPEATS = ((1, 1), (3, 3), (5, 5), (10, 5), (1, 8), (5, 10))


def ab(random: np.random.Generator, cases: int) -> Array:
    return random.choice([0.15, 0.5, 0.9], size=cases)


def half_at_one(random: np.random.Generator, cases: int) -> Array:
    rates = ab(random, cases)
    rates[: cases // 2] = 1.0
    rates[cases // 2 : cases // 2 + cases // 10] = 0.0
    return rates


def constant(rate: float) -> Callable[[np.random.Generator, int], Array]:
    return lambda _, cases: np.full(cases, rate)


def fixed(coins: int) -> Callable[[np.random.Generator, int], Array]:
    def rates(_: np.random.Generator, cases: int) -> Array:
        found = np.array([float(at % 2) for at in range(cases)])
        found[:coins] = 0.5
        return found

    return rates


MIXES = {
    "ab": ab,
    "half at 1": half_at_one,
    "all .97": constant(0.97),
    "all .9": constant(0.9),
    "all .12": constant(0.12),
    **{f"fixed, {coins} coins": fixed(coins) for coins in (1, 2, 3)},
}


def alike(rates: Array) -> Array:
    return rates * (1 - TARGET / rates.mean())


def by_points(rates: Array, cases: Array | slice = slice(None)) -> Array:
    """Let some cases lose the same points, down to 0, until the mean has fallen far enough."""
    low, high = 0.0, 1.0
    for _ in range(60):
        points = (low + high) / 2
        fallen = rates.copy()
        fallen[cases] = np.maximum(0.0, fallen[cases] - points)
        low, high = (points, high) if (rates - fallen).mean() < TARGET else (low, points)
    return fallen


def hardest_third(rates: Array) -> Array:
    """A third of the cases that can fall, the hardest, or as many more as it takes."""
    able = np.flatnonzero(rates > 0)
    ordered = able[np.argsort(rates[able], kind="stable")]
    enough = int(np.searchsorted(np.cumsum(rates[ordered]), TARGET * len(rates) - 1e-9)) + 1
    return by_points(rates, ordered[: max(enough, -(-len(rates) // 3))])


def some_to_zero(rates: Array) -> Array:
    """The best cases fall to 0, one after the other."""
    fallen, left = rates.copy(), TARGET * len(rates)
    for at in np.argsort(-rates, kind="stable"):
        lost = min(left, rates[at])
        fallen[at] -= lost
        left -= lost
    return fallen


FALLS = {
    "alike": alike,
    "same points": by_points,
    "hardest third": hardest_third,
    "some to 0": some_to_zero,
}


def t_ends(differences: Array) -> tuple[Array, Array]:
    """The lower t end of each row, and its spread."""
    cases = differences.shape[1]
    spread = differences.std(axis=1, ddof=1)
    quantile = stats.t.ppf(1 - ALPHA, cases - 1)
    return differences.mean(axis=1) - quantile * spread / np.sqrt(cases), spread


def tango(fell: Array, rose: Array, cases: int) -> Array:
    quantile = stats.t.ppf(1 - ALPHA, cases - 1)
    low, high = np.full(len(fell), -1.0), (rose - fell) / cases
    for _ in range(50):
        d = (low + high) / 2
        b = (2 * cases - rose + fell) * d - rose - fell
        c = -fell * d * (1 - d)
        w = (np.sqrt(np.maximum(0, b * b - 8 * cases * c)) - b) / (4 * cases)
        variance = np.maximum(1e-300, cases * (2 * w + d - d * d))
        beyond = (rose - fell - cases * d) / np.sqrt(variance) > quantile
        low, high = np.where(beyond, d, low), np.where(beyond, high, d)
    return np.where(fell == cases, -1.0, high)


def lower_ends(before: Array, here: Array, repeats: tuple[int, int]) -> Array:
    """The lower end of every build, from the hits of each case, shape (builds, cases)."""
    n0, n1 = repeats
    differences = here / n1 - before / n0
    cases = differences.shape[1]
    if repeats == (1, 1):
        fell, rose = (differences < 0).sum(axis=1), (differences > 0).sum(axis=1)
        return tango(fell.astype(float), rose.astype(float), cases)
    rate = (before.mean(axis=1) / n0 + here.mean(axis=1) / n1) / 2
    step = 1 / n1 + (1 - rate) * max(0.0, 1 / n0 - 1 / n1)
    one_more, _ = t_ends(np.column_stack([differences, -step]))
    own, spread = t_ends(differences)
    return np.where(spread > 1e-12, np.minimum(own, one_more), one_more)


def as_before(before: Array, here: Array, repeats: tuple[int, int]) -> NDArray[np.bool_]:
    """What was "ruled out" until now: by the t interval and the binomial chance of all misses."""
    n0, n1 = repeats
    own, spread = t_ends(here / n1 - before / n0)
    missed = np.minimum(1.0, 1 - before.mean(axis=1) / n0 + TARGET)
    trials = here.shape[1] * n1
    chance = stats.binom.cdf(trials - here.sum(axis=1), trials, missed)
    return (spread > 1e-12) & (own > -TARGET) & (chance <= ALPHA)


def drawn(
    random: np.random.Generator, rates: Array, fallen: Array, repeats: tuple[int, int], builds: int
) -> tuple[Array, Array]:
    before, here = (
        random.binomial(n, np.clip(of_cases, 0, 1), size=(builds, len(rates))).astype(float)
        for n, of_cases in zip(repeats, (rates, fallen), strict=True)
    )
    return before, here


def cell(
    size: int, repeats: tuple[int, int], mix: str, fall: str, *, builds: int = BUILDS
) -> tuple[float, float]:
    """How often the target is ruled out though the mean fell by it: before, and by the rule."""
    random = np.random.default_rng([size, *repeats, *map(ord, mix + fall)])
    found = np.zeros(2)
    suites = 20  # each with rates of its own
    for _ in range(suites):
        rates = MIXES[mix](random, size)
        sides = drawn(random, rates, FALLS[fall](rates), repeats, builds // suites)
        ruled_out = lower_ends(*sides, repeats) > -TARGET + 1e-9
        found += [as_before(*sides, repeats).sum(), ruled_out.sum()]
    return tuple(found / (builds // suites * suites))  # type: ignore[return-value]


@pytest.mark.parametrize("repeats", REPEATS)
@pytest.mark.parametrize("mix", ["ab", "all .97", "all .12", "fixed, 2 coins"])
def test_the_second_implementation_is_that_of_the_gate(mix: str, repeats: tuple[int, int]) -> None:
    random = np.random.default_rng(1)
    rates = MIXES[mix](random, 12)
    before, here = drawn(random, rates, alike(rates), repeats, 40)
    for row, expected in enumerate(lower_ends(before, here, repeats)):
        cases = [
            CaseScores(baseline=scores(old, repeats[0]), current=scores(new, repeats[1]))
            for old, new in zip(before[row], here[row], strict=True)
        ]
        differences = [case.difference(1) for case in cases]
        found = lower_end(Sample(cases=cases), differences, hits=True, alpha=ALPHA)
        assert found == pytest.approx(expected, abs=1e-9)


def scores(hits: float, trials: int) -> tuple[float, ...]:
    return (1.0,) * int(hits) + (0.0,) * (trials - int(hits))


@pytest.mark.parametrize(
    ("size", "repeats", "mix"), [(10, (3, 3), "all .97"), (20, (1, 8), "all .12")]
)
def test_a_drop_is_seldom_ruled_out_in_vain_in_few_cells(
    size: int, repeats: tuple[int, int], mix: str
) -> None:
    for fall in FALLS:
        before, rule = cell(size, repeats, mix, fall, builds=1000)
        print(f"{size} cases, {repeats}, {mix}, {fall}: {before:.3f} > {rule:.3f}")
        assert rule <= MOST + 2 * 0.007


@pytest.mark.calibration
@pytest.mark.parametrize("repeats", REPEATS, ids=[f"{n0} v {n1}" for n0, n1 in REPEATS])
def test_a_drop_is_seldom_ruled_out_in_vain(repeats: tuple[int, int]) -> None:
    cells = [(size, mix, fall) for size in SIZES for mix in MIXES for fall in FALLS]
    found = {one: cell(one[0], repeats, *one[1:]) for one in cells}
    for one in [one for one, rates in found.items() if rates[1] > MOST - 0.005]:
        found[one] = cell(one[0], repeats, *one[1:], builds=20 * BUILDS)
    for mix in MIXES:
        worst = [max(found[one][at] for one in cells if one[1] == mix) for at in (0, 1)]
        print(f"{repeats[0]} v {repeats[1]}, {mix}: {worst[0]:.3f} > {worst[1]:.3f}")
    for at, when in enumerate(("before", "by the rule")):
        above = sum(rates[at] > MOST for rates in found.values())
        print(f"{when}: {above} of {len(cells)} cells above {MOST}")
    assert max(rule for _, rule in found.values()) <= MOST
