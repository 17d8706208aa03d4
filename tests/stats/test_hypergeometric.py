"""How many hits fall here by chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_llmeval.stats.exact import (
    MOST_TRIALS_BY_WHOLE_NUMBERS,
    distribution_of_hits,
)


def of_one(hits: int, *, baseline: int, current: int) -> tuple[int, list[float]]:
    lowest, chances = distribution_of_hits([hits], baseline=baseline, current=current)
    return lowest, chances.tolist()


@pytest.mark.parametrize(
    ("hits", "baseline", "current"),
    [(3, 5, 5), (9, 5, 10), (0, 4, 4), (180, 100, 100), (7, 100, 100)],
)
def test_of_one_case_it_is_hypergeometric(hits: int, baseline: int, current: int) -> None:
    lowest, chances = of_one(hits, baseline=baseline, current=current)
    counts = lowest + np.arange(len(chances))
    assert chances == pytest.approx(stats.hypergeom.pmf(counts, baseline + current, hits, current))
    assert sum(chances) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("hits", "baseline", "current"),
    [(150, 101, 100), (0, 500, 1), (1999, 1000, 1000), (900, 5000, 800)],
)
def test_of_many_trials_it_is_hypergeometric_too(hits: int, baseline: int, current: int) -> None:
    assert baseline + current > MOST_TRIALS_BY_WHOLE_NUMBERS
    lowest, chances = of_one(hits, baseline=baseline, current=current)
    counts = lowest + np.arange(len(chances))
    expected = stats.hypergeom.pmf(counts, baseline + current, hits, current)
    assert chances == pytest.approx(expected, rel=1e-9, abs=1e-90)
    assert sum(chances) == pytest.approx(1.0)


@pytest.mark.parametrize("cases", [1, 2, 3, 5, 8])
def test_counts_of_several_cases_add_up(cases: int) -> None:
    hits = [1, 4, 4, 6, 9, 4, 0, 10][:cases]
    lowest, chances = distribution_of_hits(hits, baseline=5, current=5)
    found = np.zeros(5 * cases + 1)
    found[lowest : lowest + len(chances)] = chances
    expected = np.ones(1)
    for each in hits:
        expected = np.convolve(expected, stats.hypergeom.pmf(np.arange(6), 10, each, 5))
    assert found == pytest.approx(expected)


def test_a_hundred_thousand_trials_a_case_are_counted_out() -> None:
    lowest, chances = distribution_of_hits(
        [150_000] * 3 + [20_000], baseline=100_000, current=100_000
    )
    counts = lowest + np.arange(len(chances))
    assert float(counts @ chances) == pytest.approx(235_000.0)
