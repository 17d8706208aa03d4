from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_llmeval.stats.expected import expect_mean, pooled_prediction, repeat_prediction

quick = settings(max_examples=60)
samples = st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=2, max_size=12)


@quick
@given(samples, st.integers(1, 10), st.floats(0.5, 0.99))
def test_prediction_by_repeats_is_equation_3(
    means: list[float], future: int, confidence: float
) -> None:
    n = len(means)
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * np.std(means, ddof=1)
    found = repeat_prediction(means, future=future, confidence=confidence)
    assert found is not None
    assert found.half_width == pytest.approx(half * np.sqrt(1 / n + 1 / future))
    assert found.interval == pytest.approx(
        (np.mean(means) - found.half_width, np.mean(means) + found.half_width)
    )


def test_one_repeat_predicts_nothing() -> None:
    assert repeat_prediction([0.6]) is None
    found = expect_mean([[0.5], [0.7]])
    assert (found.by_repeats, found.drift_p, found.spread) == (None, None, None)


def test_a_case_with_one_score_leaves_the_pooled_prediction_out() -> None:
    assert pooled_prediction([[0.1, 0.4, 0.2], [0.5]]) is None


def test_pooled_prediction_without_any_spread_is_unknown() -> None:
    assert pooled_prediction([[0.5, 0.5], [1.0, 1.0]]) is None


def test_unlike_numbers_of_repeats_are_each_weighed_by_their_own() -> None:
    cases = [[0.1, 0.4, 0.2, 0.3], [0.9, 0.5]]
    v = [np.var(case, ddof=1) for case in cases]
    parts = [v[0] * (1 / 4 + 1 / 3), v[1] * (1 / 2 + 1 / 3)]
    dof = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2)
    found = pooled_prediction(cases, future=3)
    assert found is not None
    assert found.dof == pytest.approx(dof)
    half = stats.t.ppf(0.975, dof) * np.sqrt(sum(parts)) / 2
    assert found.half_width == pytest.approx(half)


def test_a_run_of_identical_repeats_has_no_prediction_at_all() -> None:
    by_repeats = repeat_prediction([0.5, 0.5, 0.5])
    assert by_repeats is not None
    assert by_repeats.half_width == 0.0
    found = expect_mean([[0.7, 0.7, 0.7], [0.2, 0.2, 0.2]])
    assert (found.interval, found.by_repeats, found.spread) == (None, None, None)


def steady(cases: int = 40, repeats: int = 5, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    rates = random.choice([0.15, 0.5, 0.9], p=[0.25, 0.15, 0.6], size=(cases, 1))
    return (random.random((cases, repeats)) < rates).astype(float)


def test_steady_repeats_are_predicted_from_the_spread_within_cases() -> None:
    found = expect_mean(steady().tolist())
    assert not found.drifts
    assert found.spread == pooled_prediction(steady().tolist()) is not None


def test_repeats_that_drift_fall_back_on_equation_3() -> None:
    scores = steady(cases=80)
    scores[:, 3:] *= np.random.default_rng(1).random((80, 2)) < 0.5
    found = expect_mean(scores.tolist())
    assert found.drifts
    assert found.spread == repeat_prediction(scores.mean(axis=0)) is not None


def test_a_case_with_one_score_falls_back_on_equation_3_as_far_as_it_goes() -> None:
    assert expect_mean([[0.1, 0.4], [0.5, 0.7], [0.3]]).spread is None


def test_pooled_prediction_covers_what_it_promises_from_two_repeats_on() -> None:
    random = np.random.default_rng(2)
    rates = random.choice([0.15, 0.5, 0.9], p=[0.25, 0.15, 0.6], size=(60, 1))
    for repeats in (2, 5):
        covered = 0
        for _ in range(400):
            drawn = (random.random((60, 2 * repeats)) < rates).astype(float)
            found = pooled_prediction(drawn[:, :repeats].tolist())
            assert found is not None
            low, high = found.interval
            covered += low <= drawn[:, repeats:].mean() <= high
        assert covered / 400 > 0.92


@quick
@given(st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=2, max_size=8))
def test_order_of_cases_and_trials_changes_no_pooled_prediction(cases: list[list[int]]) -> None:
    found = pooled_prediction(cases)
    other = pooled_prediction([case[::-1] for case in cases[::-1]])
    assert (found is None) == (other is None)
    if found and other:
        assert found.half_width == pytest.approx(other.half_width)
