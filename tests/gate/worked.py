"""Worked examples that several tests look at, and the formula of the smallest drop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import FunctionComparison
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.detection import PlannedTest, smallest_pass_drop
from tests.gate.builders import a_case, a_run, joined, scored_runs

# six cases with a spread that a t-test can work with
SPREAD = scored_runs(
    [[0.9, 0.8], [0.7, 0.5], [0.6, 0.9], [0.3, 0.5], [0.8, 0.8], [0.5, 0.4]],
    [[0.8, 0.9], [0.3, 0.5], [0.7, 0.7], [0.4, 0.4], [0.6, 0.5], [0.5, 0.5]],
)


def by_formula(
    hits: Sequence[float],
    trials: Sequence[int],
    *,
    after: Sequence[int],
    baseline: tuple[int, int],
    dof: int | None = None,
) -> float:
    """The formula for pass scores; ``baseline`` is hits and trials of all its cases."""
    pi = (baseline[0] + 0.5) / (baseline[1] + 1)
    rates = np.array([(s + pi) / (n + 1) for s, n in zip(hits, trials, strict=True)])
    before = np.array(trials, dtype=float)
    plan = PlannedTest(baseline=before, current=np.array(after, dtype=float), alpha=0.05, dof=dof)
    drop = smallest_pass_drop(rates, plan)
    assert drop is not None
    return drop


def among(others: int, baseline: Run, run: Run) -> FunctionComparison:
    """The comparison of two runs among as many others that are tested too."""
    names = [f"test_{at}" for at in range(others)]
    more_there = a_run(*(a_case("x", "ppppp", function=name) for name in names))
    more_here = a_run(*(a_case("x", "ppppp", function=name, request="v2") for name in names))
    functions = compare(joined(baseline, more_there), joined(run, more_here), GateRules())
    assert functions.functions[0].evidence.family_size == others + 1
    return functions.functions[0]
