from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_llmeval.stats.early_looks import (
    expected_repeats,
    information,
    planned_looks,
    sequential_p,
)
from pytest_llmeval.stats.multiplicity import spending_bounds

# limits and p-values that were worked out elsewhere
VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("early_vectors.json").read_text()
)


@pytest.mark.parametrize(
    ("repeats", "looks"),
    [
        (1, (1,)),
        (2, (2,)),
        (3, (2, 3)),
        (4, (2, 3, 4)),
        (5, (2, 3, 5)),
        (6, (3, 4, 6)),
        (10, (4, 6, 10)),
    ],
)
def test_a_function_is_looked_at_when_two_and_three_fifths_of_its_repeats_are_made(
    repeats: int, looks: tuple[int, ...]
) -> None:
    assert planned_looks(repeats) == looks


def test_with_a_larger_baseline_early_repeats_are_a_smaller_share_of_the_information() -> None:
    assert information(5, (2, 3, 5)) == pytest.approx((0.571429, 0.75, 1.0), abs=1e-6)
    assert information(10, (2, 3, 5)) == pytest.approx((0.5, 0.692308, 1.0), abs=1e-6)


@pytest.mark.parametrize(
    ("baseline", "alpha", "limits"),
    [
        (5, 0.05, (2.3447, 2.0376, 1.7222)),
        (10, 0.05, (2.5380, 2.1250, 1.7041)),
        (10, 0.00625, (3.6944, 3.0967, 2.5170)),
        (20, 0.01, (3.6461, 2.9932, 2.3442)),
    ],
)
def test_the_limits_are_those_of_a_multivariate_normal(
    baseline: float, alpha: float, limits: tuple[float, ...]
) -> None:
    shares = information(baseline, (2, 3, 5))
    assert spending_bounds(shares, alpha=alpha) == pytest.approx(limits, abs=1e-4)


@pytest.mark.parametrize("given", VECTORS["bounds"], ids=str)
def test_all_limits_that_were_worked_out_elsewhere(given: dict[str, Any]) -> None:
    shares = information(given["baseline_repeats"], given["looks"])
    assert spending_bounds(shares, alpha=given["alpha"]) == pytest.approx(given["z"], abs=1e-4)


@pytest.mark.parametrize(
    ("z_values", "p_values"),
    [
        ((1.0, 1.5, 1.8), (0.3189, 0.1421, 0.0403)),
        ((2.6, 1.0, 1.0), (0.0454, 0.0454, 0.0454)),
        ((0.0, 0.0, 1.704), (1.0, 1.0, 0.0500)),
        ((3.5, 3.5, 3.5), (0.009251, 0.002230, 0.000236)),
        ((40.0,), (1e-12,)),
        ((), ()),
    ],
)
def test_the_p_of_several_looks_is_the_least_level_that_would_have_stopped(
    z_values: tuple[float, ...], p_values: tuple[float, ...]
) -> None:
    shares = information(10, (2, 3, 5))
    assert sequential_p(shares, z_values) == pytest.approx(p_values, abs=1e-4)


@pytest.mark.parametrize("given", VECTORS["sequential_p"], ids=str)
def test_all_p_values_that_were_worked_out_elsewhere(given: dict[str, Any]) -> None:
    shares = information(given["baseline_repeats"], given["looks"])
    assert sequential_p(shares, given["z"]) == pytest.approx(given["p"], abs=1e-4)


def test_without_an_effect_the_p_of_all_looks_is_small_as_rarely_as_it_says() -> None:
    shares = np.array(information(10, (2, 3, 5)))
    steps = np.sqrt(np.diff(shares, prepend=0.0))
    paths = np.cumsum(np.random.default_rng(3).normal(size=(200_000, 3)) * steps, axis=1)
    limits = spending_bounds(tuple(shares), alpha=0.05)
    stopped = np.any(paths / np.sqrt(shares) > limits, axis=1)
    assert np.mean(stopped) == pytest.approx(0.05, abs=0.003)


def test_no_look_waits_for_the_solvers_of_scipy() -> None:
    code = "import sys; from pytest_llmeval.stats.early_looks import sequential_p\n"
    code += "sequential_p((0.5, 0.7, 1.0), (1.0, 1.5)); print('scipy.optimize' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


# the mean repeats of 200 mixed cases in docs/early-stopping.md
@pytest.mark.parametrize(("drop", "repeats"), [(0.0, 2.97), (0.05, 3.01), (0.10, 2.03), (0.2, 2.0)])
def test_the_repeats_of_a_plan_are_those_of_the_simulated_gate(drop: float, repeats: float) -> None:
    """Of the ab mix: rates .15, .5 and .9 in shares of .25, .15 and .6."""
    within = 0.25 * 0.15 * 0.85 + 0.15 * 0.25 + 0.6 * 0.09

    def error(count: int) -> float:
        return float(np.sqrt(within * (1 / 10 + 1 / count) / 200))

    found = expected_repeats(error, repeats=5, baseline=10, drop=drop, target=0.10, alpha=0.05)
    assert found == pytest.approx(repeats, abs=0.25)


def test_a_drop_of_which_nothing_is_known_needs_all_repeats() -> None:
    assert expected_repeats(
        lambda _: 1.0, repeats=2, baseline=10, drop=0.1, target=0.1, alpha=0.05
    ) == 2  # fmt: skip
