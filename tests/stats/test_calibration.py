"""How often each test cries wolf, and how often it finds a drop, over many seeded suites.

``ab`` is the mix of cases of the A/B post. "Like": nothing changes anywhere. "Unlike": half
the cases gain .1 and half lose .1, drawn anew for each suite, so that cases like these do
not change on average. Rates of the tables in docs/statistics.md; ``make calibrate``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_llmeval.stats.methods import TESTS
from pytest_llmeval.stats.sample import CaseScores, Sample
from pytest_llmeval.stats.t_tests import crossed_test, paired_test
from tests.stats.ab_post import RATES, SHARES

SUITES = 2000
ALPHA = 0.05
# two standard errors of the simulation above the level
MOST = 0.06

pytestmark = pytest.mark.calibration

Shift = str


def suite(random: np.random.Generator, shift: Shift, *, cases: int, repeats: int) -> Sample:
    before = random.choice(RATES, p=SHARES, size=(cases, 1))
    after = before + shifted(random, before, shift)
    baseline, current = ((random.random((cases, repeats)) < rates) for rates in (before, after))
    return Sample(cases=as_cases(baseline.astype(float), current.astype(float)))


def shifted(
    random: np.random.Generator, before: NDArray[np.float64], shift: Shift
) -> NDArray[np.float64]:
    if shift == "unlike":
        return random.choice([-0.1, 0.1], size=before.shape)
    return -before * (0.05 / 0.6525) if shift == "drop" else np.zeros_like(before)


def as_cases(baseline: NDArray[np.float64], current: NDArray[np.float64]) -> list[CaseScores]:
    return [
        CaseScores(baseline=tuple(one), current=tuple(other))
        for one, other in zip(baseline.tolist(), current.tolist(), strict=True)
    ]


def p_of(name: str, sample: Sample) -> float:
    """The p for a drop: by a test that can be chosen, or by the t-test as the gate takes it."""
    if name == "log-ratio":
        logs = [
            CaseScores(
                baseline=tuple(map(math.log, case.baseline)),
                current=tuple(map(math.log, case.current)),
            )
            for case in sample.cases
        ]
        return paired_test(Sample(cases=logs, sign=sample.sign).differences).tails.worse
    if name == "paired-t":
        return paired_test(sample.differences).tails.worse
    return TESTS[name].run(sample).tails.worse


def rate_of(name: str, shift: Shift, *, cases: int, repeats: int, suites: int = SUITES) -> float:
    found = 0
    for seed in range(suites):
        sample = suite(np.random.default_rng(seed), shift, cases=cases, repeats=repeats)
        found += p_of(name, sample) < ALPHA
    return found / suites


GATE = ("paired-t", "sign-flip")
ONE_DRAW = ("mcnemar", "mcnemar-exact", "mcnemar-mid-p")
FIXED = ("welch", "cmh")


@pytest.mark.parametrize("shift", ["like", "unlike"])
@pytest.mark.parametrize("name", GATE)
def test_a_test_for_a_gate_cries_wolf_as_rarely_as_the_level_says(name: str, shift: Shift) -> None:
    suites = SUITES if name == "paired-t" else 400
    rate = rate_of(name, shift, cases=30, repeats=5, suites=suites)
    assert rate <= (MOST if suites == SUITES else 0.075)


@pytest.mark.parametrize("shift", ["like", "unlike"])
@pytest.mark.parametrize("name", ONE_DRAW)
def test_single_draws_cry_wolf_as_rarely_as_the_level_says(name: str, shift: Shift) -> None:
    assert rate_of(name, shift, cases=100, repeats=1) <= MOST


@pytest.mark.parametrize("name", ["exact-within-case", *FIXED])
def test_a_test_of_these_very_cases_holds_its_level_if_nothing_changes(name: str) -> None:
    assert rate_of(name, "like", cases=30, repeats=5) <= MOST


@pytest.mark.parametrize("name", FIXED)
def test_a_test_that_is_not_for_a_gate_cries_wolf_where_cases_change_unlike(name: str) -> None:
    assert rate_of(name, "unlike", cases=100, repeats=10, suites=500) > 0.08


@pytest.mark.parametrize("name", ["chi-square", "chi-square-plain", "two-proportion-z"])
def test_unpaired_tests_waste_what_pairing_knows(name: str) -> None:
    assert rate_of(name, "like", cases=100, repeats=5, suites=1000) < 0.02
    paired = rate_of("paired-t", "drop", cases=100, repeats=5, suites=500)
    assert rate_of(name, "drop", cases=100, repeats=5, suites=500) < paired - 0.1


@pytest.mark.parametrize(("scale", "most"), [("log-ratio", MOST), ("paired-t", MOST)])
def test_skewed_seconds_hold_the_level_on_either_scale(scale: str, most: float) -> None:
    assert seconds(scale, factor=1.0) <= most


def test_the_log_scale_finds_what_the_raw_scale_misses() -> None:
    assert seconds("log-ratio", factor=1.1) > seconds("paired-t", factor=1.1) + 0.15


@pytest.mark.parametrize("spread", [0.0, 0.03, 0.08])
@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (4, 4), (5, 3), (8, 3), (8, 5)])
def test_a_small_crossed_table_seldom_cries_wolf(shape: tuple[int, int], spread: float) -> None:
    assert crossed_tables(shape, spread=spread) <= 0.031 + 2 * 0.004


@pytest.mark.parametrize(
    ("shape", "least"), [((3, 3), 0.234), ((4, 4), 0.525), ((5, 3), 0.34), ((8, 3), 0.60)]
)
def test_a_small_crossed_table_finds_a_drop_of_a_fifth(
    shape: tuple[int, int], least: float
) -> None:
    assert crossed_tables(shape, spread=0.0, drop=0.2) >= least - 0.02


def crossed_tables(
    shape: tuple[int, int], *, spread: float, drop: float = 0.0, suites: int = SUITES
) -> float:
    """Hits of 5 repeats on both sides; how wordings act is normal with that deviation."""
    found = 0
    for seed in range(suites):
        random = np.random.default_rng(seed)
        before = np.broadcast_to(random.choice(RATES, p=SHARES, size=(shape[0], 1)), shape)
        after = np.clip(before - drop + random.normal(0, spread, size=shape[1]), 0, 1)
        hits = random.binomial(5, after) - random.binomial(5, before)
        found += crossed_test(hits / 5).tails.worse < ALPHA
    return found / suites


def seconds(name: str, *, factor: float, suites: int = 1000) -> float:
    """Lognormal seconds of unlike cases; what is slower is worse."""
    found = 0
    for seed in range(suites):
        random = np.random.default_rng(seed)
        typical = random.lognormal(0, 1, size=(100, 1))
        baseline = typical * random.lognormal(0, 0.6, size=(100, 5))
        current = factor * typical * random.lognormal(0, 0.6, size=(100, 5))
        sample = Sample(cases=as_cases(baseline, current), sign=-1)
        found += p_of(name, sample) < ALPHA
    return found / suites
