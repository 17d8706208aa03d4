"""A run held against itself: its first repeats against its last ones."""

from __future__ import annotations

from dataclasses import replace

from pytest_llmeval.gate.comparison import FunctionComparison
from pytest_llmeval.gate.judge import judge
from pytest_llmeval.gate.measuring import CostOf
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules


def compare_halves(
    run: Run, *, alpha: float, cost_of: CostOf | None = None
) -> tuple[FunctionComparison, ...]:
    """Let the gate judge the second half of a run by the first.

    Of an odd number of repeats the middle one is left out. Nothing changed in between, so
    whatever the gate finds is chance or drift.

    Args:
        run: with two repeats or more of some cases; the others take no part.
        alpha: one-sided level, in (0, 0.5).
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.
    """
    halves = {case.id: case.repeats // 2 for case in run.cases}
    cases = tuple(replace(c, repeats=halves[c.id]) for c in run.cases if halves[c.id])
    repeats = {case.id: case.repeats for case in run.cases}
    first = [t for t in run.trials if t.index < halves[t.case]]
    last = [t for t in run.trials if repeats[t.case] - t.index <= halves[t.case]]
    there, here = (replace(run, cases=cases, trials=tuple(half)) for half in (first, last))
    return judge(there, here, GateRules(alpha=alpha), cost_of=cost_of).functions
