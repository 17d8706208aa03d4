"""The gate and the reference, which somebody else wrote from the docs alone, judge alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.reference.agreement import differences, methods_of
from tests.reference.pairs import Pair, a_main, a_pair, a_renamed_pair

PAIRS = 20_000
PARTS = 10
# seeds, of which some pair has what is rare: a drop that was accepted, whole repeats
QUICK = range(300)
ANCHORED = range(100)

ROWS = set(range(1, 12))
METHODS = {"exact-within-case", "paired-t", "same-shift", "sign-flip", "whole-repeats"}


def test_a_few_hundred_random_pairs_are_judged_alike() -> None:
    found, reached = _compared(QUICK)
    assert not found
    assert {row for row, _, _ in reached} == ROWS
    assert {method for _, method, _ in reached} >= METHODS
    assert any(accepted for _, _, accepted in reached)


@pytest.mark.calibration
@pytest.mark.parametrize("part", range(PARTS))
def test_every_random_pair_is_judged_alike(part: int) -> None:
    size = PAIRS // PARTS
    found, reached = _compared(range(part * size, (part + 1) * size))
    assert not found
    assert {row for row, _, _ in reached} == ROWS


def test_an_anchor_is_judged_alike() -> None:
    found = {seed: differences(a_pair(seed), a_main(seed))[1] for seed in ANCHORED}
    assert not {seed: unlike for seed, unlike in found.items() if unlike}


def test_a_run_under_new_names_is_judged_alike() -> None:
    found, reached = _compared(ANCHORED, a_renamed_pair)
    assert not found
    assert {row for row, _, _ in reached} == ROWS


@pytest.mark.calibration
@pytest.mark.parametrize("part", range(PARTS))
def test_every_run_under_new_names_is_judged_alike(part: int) -> None:
    size = PAIRS // PARTS
    assert not _compared(range(part * size, (part + 1) * size), a_renamed_pair)[0]


@pytest.mark.parametrize("seed", [101_895, 102_791])
def test_the_mean_that_llm_accept_looks_at_is_the_mean_that_is_shown(seed: int) -> None:
    assert not differences(a_pair(seed))[1]


def test_a_missed_trial_is_worth_nothing_known_where_its_run_never_recorded_the_metric() -> None:
    assert not differences(a_pair(20_265))[1]


def test_a_seed_is_a_pair() -> None:
    one, other = a_pair(1), a_pair(1)
    assert (one.baseline, one.run) == (other.baseline, other.run)
    assert one.run != a_pair(2).run


def _compared(
    seeds: range, pair_of: Callable[[int], Pair] = a_pair
) -> tuple[dict[int, list[str]], Counter[tuple[int, str, bool]]]:
    """Where the two differ, by seed; and how often each row, method and acceptance was reached."""
    found, reached = {}, Counter()
    for seed in seeds:
        pair = pair_of(seed)
        comparison, unlike = differences(pair)
        reached.update(methods_of(comparison))
        if unlike:
            found[seed] = unlike
    return found, reached
