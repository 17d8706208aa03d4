"""The power simulation of the post "Why you should A/B test your LLM evals" (2023), vectorised.

One stream of uniform numbers, seed 1337: first the true rates of 100 cases, then trial by
trial, repeat by repeat, all cases of the control and all cases of the treatment. A call
is a hit if its number is at least 1 - rate. The post appends inside the loop over repeats
(its printed indentation says otherwise) and sets the seed again before each simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pytest_llmeval.stats.methods import Table, chi_square_root
from pytest_llmeval.stats.t_tests import paired_test
from tests.stats.reference import two_sided

FloatArray = NDArray[np.float64]

SEED, CASES, TRIALS = 1337, 100, 500
RATES, SHARES = [0.15, 0.5, 0.9], [0.25, 0.15, 0.6]


def true_rates() -> tuple[FloatArray, np.random.RandomState]:
    """The rates of the cases, and the stream as they leave it."""
    stream = np.random.RandomState(SEED)
    return stream.choice(RATES, size=CASES, p=SHARES), stream


def hits(*, repeats: int, effect: float) -> tuple[FloatArray, FloatArray]:
    """Hits of control and treatment, shape (trials, cases, repeats) each."""
    rates, stream = true_rates()
    drawn = stream.random_sample((TRIALS, repeats, 2, CASES))
    control = (drawn[:, :, 0] >= 1 - rates).astype(float)
    treatment = (drawn[:, :, 1] >= 1 - (rates + effect)).astype(float)
    return control.transpose(0, 2, 1), treatment.transpose(0, 2, 1)


@cache
def p_values(*, repeats: int, effect: float, last_only: bool = False) -> dict[str, FloatArray]:
    """The two-sided p of every simulated trial, by test."""
    control, treatment = hits(repeats=repeats, effect=effect)
    if last_only:
        control, treatment = control[..., -1:], treatment[..., -1:]
    tests: dict[str, Callable[[FloatArray, FloatArray], float]] = {
        "t": _unpaired_t,
        "chi2": _chi_square,
        "ols": _regression,
        "paired": lambda baseline, current: _paired(baseline.ravel(), current.ravel()),
        "avg": lambda baseline, current: _paired(baseline.mean(axis=1), current.mean(axis=1)),
        "fixed": lambda baseline, current: _fixed_effects(baseline, current, normal=False),
        "mixed": lambda baseline, current: _fixed_effects(baseline, current, normal=True),
    }
    return {
        name: np.array([test(*sides) for sides in zip(control, treatment, strict=True)])
        for name, test in tests.items()
    }


def power(p: FloatArray) -> float:
    return float(np.mean(p < 0.05))


def _unpaired_t(baseline: FloatArray, current: FloatArray) -> float:
    return float(stats.ttest_ind(current.ravel(), baseline.ravel()).pvalue)


def _chi_square(baseline: FloatArray, current: FloatArray) -> float:
    table = Table(
        baseline_hits=int(baseline.sum()),
        baseline_trials=baseline.size,
        current_hits=int(current.sum()),
        current_trials=current.size,
    )
    root = chi_square_root(table)
    assert root is not None
    return float(stats.chi2.sf(root**2, 1))


def _regression(baseline: FloatArray, current: FloatArray) -> float:
    """Least squares of the hits on the side: the test of the slope."""
    side = np.repeat([0.0, 1.0], baseline.size)
    r = np.corrcoef(side, np.concatenate([baseline.ravel(), current.ravel()]))[0, 1]
    dof = 2 * baseline.size - 2
    return float(2 * stats.t.sf(abs(r) * math.sqrt(dof / (1 - r**2)), dof))


def _paired(baseline: FloatArray, current: FloatArray) -> float:
    found = paired_test(current - baseline)
    return two_sided(found.tails)


def _fixed_effects(baseline: FloatArray, current: FloatArray, *, normal: bool) -> float:
    """Least squares with a constant for each case.

    With ``normal`` the random-intercept model: balanced, it has the same estimate and the
    same residual variance, and a normal p-value.
    """
    both = np.concatenate([baseline, current], axis=1)
    shift = float(current.mean() - baseline.mean())
    residual = float(np.sum((both - both.mean(axis=1, keepdims=True)) ** 2))
    residual -= shift**2 * baseline.size / 2
    dof = both.size - len(both) - 1
    t = abs(shift) / math.sqrt(residual / dof * 2 / baseline.size)
    return float(2 * (stats.norm.sf(t) if normal else stats.t.sf(t, dof)))


def true_power(trials: int) -> dict[str, float]:
    """The powers for the same cases by a larger simulation than the post's."""
    rates, _ = true_rates()
    random = np.random.default_rng(1)
    found: dict[str, list[FloatArray]] = {}
    for _ in range(trials // 2000):
        drawn = random.random((2000, 2, CASES, 5), dtype=np.float32)
        baseline = drawn[:, 0] < rates[:, np.newaxis].astype(np.float32)
        current = drawn[:, 1] < (rates + 0.05)[:, np.newaxis].astype(np.float32)
        for name, rejected in _rejections(baseline, current).items():
            found.setdefault(name, []).append(rejected)
    return {name: float(np.mean(np.concatenate(parts))) for name, parts in found.items()}


def _rejections(baseline: NDArray[np.bool_], current: NDArray[np.bool_]) -> dict[str, FloatArray]:
    difference = current.astype(np.float32) - baseline
    return {
        "paired_N1": _beyond(difference[..., 0]),
        "t_N1": _beyond_unpaired(
            baseline[..., 0].mean(axis=1), current[..., 0].mean(axis=1), size=CASES
        ),
        "avg_paired_N5": _beyond(difference.mean(axis=2)),
        "t_N5": _beyond_unpaired(
            baseline.mean(axis=(1, 2)), current.mean(axis=(1, 2)), size=5 * CASES
        ),
        "paired_stacked_N5": _beyond(difference.reshape(len(difference), -1)),
    }


def _beyond(differences: NDArray[np.float32]) -> FloatArray:
    size = differences.shape[1]
    error = differences.std(axis=1, ddof=1) / math.sqrt(size)
    return np.abs(differences.mean(axis=1) / error) > stats.t.ppf(0.975, size - 1)


def _beyond_unpaired(baseline: FloatArray, current: FloatArray, *, size: int) -> FloatArray:
    spread = (baseline * (1 - baseline) + current * (1 - current)) * size / (size - 1)
    return np.abs(current - baseline) / np.sqrt(spread / size) > stats.t.ppf(0.975, 2 * size - 2)
