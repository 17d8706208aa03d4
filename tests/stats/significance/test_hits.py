"""How many hits fall here by chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_llmeval.stats.significance.hits import MOST_TRIALS_BY_WHOLE_NUMBERS, hits_here


def of_one(hits: int, *, there: int, here: int) -> tuple[int, list[float]]:
    lowest, chances = hits_here([hits], there=there, here=here)
    return lowest, chances.tolist()


@pytest.mark.parametrize(
    ("hits", "there", "here"), [(3, 5, 5), (9, 5, 10), (0, 4, 4), (180, 100, 100), (7, 100, 100)]
)
def test_of_one_case_it_is_hypergeometric(hits: int, there: int, here: int) -> None:
    lowest, chances = of_one(hits, there=there, here=here)
    counts = lowest + np.arange(len(chances))
    assert chances == pytest.approx(stats.hypergeom.pmf(counts, there + here, hits, here))
    assert sum(chances) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("hits", "there", "here"), [(150, 101, 100), (0, 500, 1), (1999, 1000, 1000), (900, 5000, 800)]
)
def test_of_many_trials_it_is_hypergeometric_too(hits: int, there: int, here: int) -> None:
    assert there + here > MOST_TRIALS_BY_WHOLE_NUMBERS
    lowest, chances = of_one(hits, there=there, here=here)
    counts = lowest + np.arange(len(chances))
    expected = stats.hypergeom.pmf(counts, there + here, hits, here)
    assert chances == pytest.approx(expected, rel=1e-9, abs=1e-90)
    assert sum(chances) == pytest.approx(1.0)


@pytest.mark.parametrize("cases", [1, 2, 3, 5, 8])
def test_counts_of_several_cases_add_up(cases: int) -> None:
    hits = [1, 4, 4, 6, 9, 4, 0, 10][:cases]
    lowest, chances = hits_here(hits, there=5, here=5)
    found = np.zeros(5 * cases + 1)
    found[lowest : lowest + len(chances)] = chances
    expected = np.ones(1)
    for each in hits:
        expected = np.convolve(expected, stats.hypergeom.pmf(np.arange(6), 10, each, 5))
    assert found == pytest.approx(expected)


def test_a_hundred_thousand_trials_a_case_are_counted_out() -> None:
    lowest, chances = hits_here([150_000] * 3 + [20_000], there=100_000, here=100_000)
    counts = lowest + np.arange(len(chances))
    assert float(counts @ chances) == pytest.approx(235_000.0)
