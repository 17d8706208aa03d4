"""How often confirmed falls cry wolf, and how many are found: whole suites of hits, on numbers.

The gate's p of a comparison of hits is worked out from counts: the larger of the t-test's and the
mid-p of the exact test within cases. What is a suspect, what three fresh repeats decide and what
the rest decide is asked of the gate. ``make calibrate`` prints the rates of docs/confirm.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pytest_llmeval.gate.confirmation import FIRST, MORE, SecondLook, confirmed_at_last
from pytest_llmeval.stats.exact import exact_within_case
from pytest_llmeval.stats.multiplicity import holm
from pytest_llmeval.stats.sample import CaseScores

Array = NDArray[np.float64]
ALPHA, LEVEL, REPEATS = 0.05, 0.10, 5
Mix = Callable[[np.random.Generator, int], Array]


def ab(random: np.random.Generator, cases: int) -> Array:
    return random.choice([0.15, 0.5, 0.9], size=cases)


def half_at_one(random: np.random.Generator, cases: int) -> Array:
    rates = ab(random, cases)
    rates[: cases // 2] = 1.0
    return rates


def lower(rates: Array, drop: float) -> Array:
    """Rates that fell by a drop on average, as far as each can fall."""
    if not drop:
        return rates
    grid = np.linspace(0, 1, 1001)
    means = np.array([np.maximum(rates - step, 0).mean() for step in grid])
    step = grid[np.argmin(np.abs(rates.mean() - means - drop))]
    return np.maximum(rates - step, 0)


@dataclass
class Hits:
    """How many trials of each case hit, of so many."""

    counts: Array
    trials: int

    def __add__(self, more: Hits) -> Hits:
        return Hits(self.counts + more.counts, self.trials + more.trials)


def drawn(random: np.random.Generator, rates: Array, trials: int) -> Hits:
    return Hits(random.binomial(trials, rates).astype(float), trials)


def p_of(before: Hits, after: Hits, *, unless: float = 1.0) -> float:
    """The gate's p for a fall; the exact test is not asked where the t-test's is no less."""
    differences = after.counts / after.trials - before.counts / before.trials
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    if not error:
        return 0.5 ** len(differences) if differences.mean() < 0 else 1.0
    p = float(stats.t.cdf(differences.mean() / error, len(differences) - 1))
    if before.trials == after.trials or p >= unless:
        return p
    samples = [
        CaseScores(baseline=scores(b, before.trials), current=scores(a, after.trials))
        for b, a in zip(before.counts, after.counts, strict=True)
    ]
    return max(p, exact_within_case(samples).mid_p.worse)


def scores(hits: float, trials: int) -> tuple[float, ...]:
    return (1.0,) * int(hits) + (0.0,) * (trials - int(hits))


@dataclass
class Build:
    """A build of several functions: what is true of each, and what was recorded of main.

    Attributes:
        base: rates of the base now; ``here`` of this branch.
        stored: the baseline of each function.
    """

    base: list[Array]
    here: list[Array]
    stored: list[Hits]
    asked: float = 0.0  # fresh repeats of the branch, as a share of its repeats
    early: list[bool] = field(default_factory=list)

    def reds(self, random: np.random.Generator) -> tuple[set[int], set[int]]:
        """Which functions are red today, and which with a second look."""
        own = [drawn(random, rates, REPEATS) for rates in self.here]
        p = [p_of(b, o, unless=2 * ALPHA) for b, o in zip(self.stored, own, strict=True)]
        first = holm(p)
        now = {at for at, one in enumerate(first) if one < ALPHA}
        highest = {
            at: LEVEL if at in now else ALPHA * p[at] / one
            for at, one in enumerate(first)
            if one < 2 * ALPHA
        }
        return now, self._confirmed(highest, own, random)

    def _confirmed(
        self, highest: dict[int, float], own: list[Hits], random: np.random.Generator
    ) -> set[int]:
        """Look a second time at the suspects, each with its level."""
        suspects = [*highest]
        looks: dict[tuple[str, str], SecondLook] = {}
        fresh = {at: Hits(np.zeros_like(self.base[at]), 0) for at in suspects}
        red, still = set(), suspects
        for count in (FIRST, MORE):
            left = []
            for at in still:
                fresh[at] += drawn(random, self.base[at], count)
                own[at] += drawn(random, self.here[at], count)
                self.asked += 2 * count / REPEATS / len(self.base)
                look = looks[str(at), ""] = SecondLook(
                    p=p_of(fresh[at], own[at]),
                    p_base=p_of(self.stored[at], fresh[at]),
                    highest=highest[at],
                )
                early = look.early(len(suspects)) if count == FIRST else None
                if early is None:
                    left.append(at)
                elif early:
                    red.add(at)
            still = left
        at_last = confirmed_at_last(looks, family=len(suspects))
        return red | {at for at in still if (str(at), "") in at_last}


def rates_of(
    mix: Mix,
    *,
    cases: int,
    size: int,
    builds: int,
    drift: float = 0.0,
    drop: float = 0.0,
    functions: int = 1,
    seed: int = 1,
) -> tuple[float, float, float]:
    """The share of builds that are red now, and with a second look, and the further calls.

    Args:
        mix: of rates.
        cases: of each function.
        size: repeats of the baseline.
        builds: how many.
        drift: by which the provider fell since main was recorded, for base and branch alike.
        drop: of the branch, in the first function.
        functions: how many share the level.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    now, confirmed, asked = 0, 0, 0.0
    for _ in range(builds):
        recorded = [mix(random, cases) for _ in range(functions)]
        base = [lower(rates, drift) for rates in recorded]
        here = [lower(base[0], drop), *base[1:]]
        build = Build(base, here, [drawn(random, rates, size) for rates in recorded])
        red, red_twice = build.reds(random)
        now, confirmed = now + bool(red), confirmed + bool(red_twice)
        asked += build.asked
    return now / builds, confirmed / builds, asked / builds


def own_rates(
    mix: Mix, *, cases: int, size: int, baselines: int, branches: int
) -> tuple[float, float]:
    """The rate of false alarms that 1 in 20 baselines exceeds: now, and with a second look."""
    random = np.random.default_rng(2)
    found = []
    for _ in range(baselines):
        rates = mix(random, cases)
        stored = drawn(random, rates, size)
        builds = [Build([rates], [rates], [stored]).reds(random) for _ in range(branches)]
        found.append([sum(map(bool, red)) / branches for red in zip(*builds, strict=True)])
    now, confirmed = np.percentile(np.array(found), 95, axis=0)
    return float(now), float(confirmed)


def most(rate: float, builds: int) -> float:
    """A rate, and two standard errors of so many builds: less would fail by chance."""
    return rate + 2 * math.sqrt(rate * (1 - rate) / builds)


pytestmark = pytest.mark.calibration


@pytest.mark.parametrize(("mix", "size"), [(ab, 10), (ab, 5), (half_at_one, 10)])
def test_hardly_a_lucky_baseline_turns_harmless_branches_red(mix: Mix, size: int) -> None:
    now, confirmed = own_rates(mix, cases=100, size=size, baselines=200, branches=200)
    print(f"{mix.__name__}, baseline of {size}: {now:.3f} -> {confirmed:.3f}")
    assert now > 0.10
    assert confirmed <= most(0.07, 200)  # each rate is of as many branches, which widens them


@pytest.mark.parametrize("mix", [ab, half_at_one])
def test_a_provider_that_moved_is_not_blamed_on_the_branch(mix: Mix) -> None:
    now, confirmed, _ = rates_of(mix, cases=100, size=10, builds=1000, drift=0.10)
    print(f"{mix.__name__}, both drift by .10: {now:.3f} -> {confirmed:.3f}")
    assert now > 0.95
    assert confirmed <= most(0.02, 1000)


@pytest.mark.parametrize(("functions", "drift"), [(3, 0.05), (8, 0.05), (8, 0.10)])
def test_nor_on_one_of_several_functions(functions: int, drift: float) -> None:
    now, confirmed, _ = rates_of(
        ab, cases=100, size=10, builds=250, drift=drift, functions=functions
    )
    print(f"{functions} functions drift by {drift}: {now:.3f} -> {confirmed:.3f}")
    assert confirmed <= most(0.09, 250)


@pytest.mark.parametrize("mix", [ab, half_at_one])
@pytest.mark.parametrize("drop", [0.05, 0.08])
def test_no_power_is_lost_at_drops_that_matter(mix: Mix, drop: float) -> None:
    now, confirmed, asked = rates_of(mix, cases=100, size=10, builds=1000, drop=drop)
    print(f"{mix.__name__}, fell by {drop}: {now:.3f} -> {confirmed:.3f}, calls +{asked:.2f}")
    # both are found in the same builds, so that their difference varies less than this
    assert confirmed >= now - 2 * math.sqrt(now * (1 - now) / 1000)


def test_cases_that_truly_rose_and_fell_cry_wolf_no_more_than_without() -> None:
    """Such cases differ alike in both looks, so the second one adds no doubt."""
    random, builds, now, confirmed = np.random.default_rng(3), 1500, 0, 0
    for _ in range(builds):
        base = random.choice([0.02, 0.98], size=60)
        here = np.where(random.random(60) < 0.5, 1 - base, base)
        red, red_twice = Build([base], [here], [drawn(random, base, 10)]).reds(random)
        now, confirmed = now + bool(red), confirmed + bool(red_twice)
    print(f"half of 60 cases turned: {now / builds:.3f} -> {confirmed / builds:.3f}")
    assert confirmed / builds <= most(0.055, builds)


def test_what_it_costs_where_nothing_changed() -> None:
    for functions in (1, 3, 8):
        now, confirmed, asked = rates_of(
            ab, cases=100, size=10, builds=1500 // functions, functions=functions
        )
        print(f"{functions} functions, unchanged: {now:.3f} -> {confirmed:.3f}, calls +{asked:.2f}")
        assert confirmed <= most(0.025, 1500 // functions)
        assert asked <= 0.30
