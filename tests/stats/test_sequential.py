from __future__ import annotations

import numpy as np
import pytest

from pytest_llmeval.stats.multiplicity import e_value, spending_bounds, spent


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
def test_the_whole_level_is_spent_at_the_end(spending: str) -> None:
    assert spent(1.0, alpha=0.05, spending=spending) == pytest.approx(0.05)


def test_one_look_is_the_plain_test() -> None:
    assert spending_bounds([1.0], alpha=0.05)[0] == pytest.approx(1.6449, abs=1e-4)


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
def test_looks_at_pure_chance_cross_as_rarely_as_the_level_says(spending: str) -> None:
    information = np.array([0.3, 0.5, 1.0])
    bounds = spending_bounds(information.tolist(), alpha=0.05, spending=spending)
    steps = np.sqrt(np.diff(information, prepend=0.0))
    paths = np.cumsum(np.random.default_rng(1).normal(size=(200_000, 3)) * steps, axis=1)
    crossed = np.any(paths / np.sqrt(information) > bounds, axis=1)
    assert np.mean(crossed) == pytest.approx(0.05, abs=0.003)


def test_without_any_pair_there_is_no_evidence() -> None:
    assert e_value([]) == 1.0


def test_drops_are_evidence_and_improvements_take_it_away() -> None:
    assert e_value([-1.0] * 40) > 20 > e_value([-1.0] * 5) > 1
    assert e_value([1.0] * 40) < 1


def test_evidence_is_the_mean_of_the_products_of_the_bets() -> None:
    assert e_value([[-1.0, 0.5]], bets=(0.1, 0.4)) == pytest.approx((1.1 * 0.95 + 1.4 * 0.8) / 2)


def test_thousands_of_pairs_do_not_overflow() -> None:
    assert e_value([1.0] * 100_000) == 0.0


@pytest.mark.unmeasured
def test_evidence_looked_at_after_every_round_cries_wolf_less_than_the_level() -> None:
    random = np.random.default_rng(2)
    alarms = 0
    for _ in range(300):
        rounds = random.choice([-1.0, 0.0, 1.0], p=[0.2, 0.6, 0.2], size=(10, 20))
        alarms += any(e_value(rounds[:end]) >= 20 for end in range(1, 11))
    assert alarms / 300 < 0.05
