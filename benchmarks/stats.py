"""Are the statistics quick enough to be used without a thought?

In one process, after the imports: 10,000 cases x 20 repeats x 5 metrics (the default test,
the exact test and Holm's correction; target: below 1 s), the exact test of 5 cases x 20
(below 50 ms) and of 10,000 x 20 scores that are no hits (below 4 s), a plan with its curves
(below 1 s), self-checks, and the whole gate on two runs of the first size, with a call a
trial. Medians of 5 rounds.
Run: ``python benchmarks/stats.py``. (A ``statistics.py`` here would hide Python's own.)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.records import PASS_METRIC, Call, Case, Outcome, Run, Slot, Trial, Usage
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.methods import TESTS
from pytest_llmeval.stats.multiplicity import holm
from pytest_llmeval.stats.sample import CaseScores, Sample
from pytest_llmeval.stats.selfcheck import self_check
from pytest_llmeval.stats.suite_size import (
    Design,
    Plan,
    assumed_components,
    fallen,
    plan,
)
from pytest_llmeval.stats.t_tests import paired_test

ROUNDS = 5
METRICS = 5
RULES = GateRules()


def main() -> int:
    """Print the table; 1 if a target was missed."""
    large = [suite(10_000, 20, seed=metric) for metric in range(METRICS)]
    hits, scores = suite(5, 20, seed=0), suite(5, 20, seed=0, hits=False)
    many = suite(10_000, 20, seed=0, hits=False)
    run = [case.current for case in suite(200, 10, seed=0)]
    few = [case.current for case in suite(5, 10, seed=0, hits=False)]
    runs = [recorded(large, here=here) for here in (False, True)]
    rows: list[tuple[str, Callable[[], object], float | None]] = [
        ("10,000 cases x 20 x 5 metrics: t, exact, Holm", lambda: compare_all(large), 1.0),
        ("exact test, 5 cases x 20, hits", lambda: exact(hits), 0.05),
        ("exact test, 5 cases x 20, other scores (shuffled)", lambda: exact(scores), 0.05),
        ("exact test, 10,000 cases x 20, other scores (shuffled)", lambda: exact(many), 4.0),
        ("plan: cases, repeats, two curves", planned, 1.0),
        ("self-check, 200 cases x 10, 2000 deals", lambda: self_check(run), None),
        ("self-check, 5 cases x 10, other scores, 200 deals", lambda: self_check(few), None),
        ("two runs of 10,000 cases x 20 x 5 metrics, judged", lambda: compare(*runs, RULES), None),
    ]
    print("| what | time | target |\n|---|---:|---:|")
    missed = False
    for what, work, target in rows:
        took = median(seconds(work) for _ in range(ROUNDS))
        missed |= target is not None and took >= target
        limit = "" if target is None else f"{target * 1000:.0f} ms"
        print(f"| {what} | {took * 1000:.1f} ms | {limit} |")
    return int(missed)


def suite(cases: int, repeats: int, *, seed: int, hits: bool = True) -> list[CaseScores]:
    random = np.random.default_rng(seed)
    rates = random.beta(4, 1.5, size=(cases, 1))
    sides = [random.random((cases, repeats)) for _ in range(2)]
    drawn = [(side < rates).astype(float) if hits else rates + 0.2 * side for side in sides]
    return [
        CaseScores(baseline=tuple(there), current=tuple(here))
        for there, here in zip(*(side.tolist() for side in drawn), strict=True)
    ]


def recorded(metrics: Sequence[Sequence[CaseScores]], *, here: bool) -> Run:
    """Make a run of one side of every metric, each trial with a draw of its own."""
    names = [PASS_METRIC, *(f"metric-{number}" for number in range(1, len(metrics)))]
    cases, trials = [], []
    for at, of_metrics in enumerate(zip(*metrics, strict=True)):
        values = [case.current if here else case.baseline for case in of_metrics]
        id_ = f"test_suite.py::test_f[{at}]"
        cases.append(
            Case(id=id_, function="test_suite.py::test_f", repeats=len(values[0]), gate=(*names,))
        )
        for index, scores in enumerate(zip(*values, strict=True)):
            outcome = Outcome.PASSED if scores[0] else Outcome.MISSED
            scored = dict(zip(names, scores, strict=True))
            calls = (a_call(f"{at}", trial=index, draw=f"{here}/{at}/{index}"),)
            trials.append(Trial(case=id_, index=index, outcome=outcome, scores=scored, calls=calls))
    return Run(
        id=f"{here}", created="2026-11-21T08:41:00+00:00", commit=None, tree=None, dirty=False,
        ref=None, root=".", versions={}, selection=(), complete=True, partial=(),
        cases=tuple(cases), trials=tuple(trials), outside_calls=0,
    )  # fmt: skip


def a_call(key: str, *, trial: int, draw: str) -> Call:
    slot = Slot(trial, 0)
    return Call(
        key=key, slot=slot, draw=draw, seconds=0.1, usage=Usage(input_tokens=20, output_tokens=5)
    )


def compare_all(metrics: Sequence[Sequence[CaseScores]]) -> tuple[float, ...]:
    for cases in metrics:
        exact(cases)
    return holm([paired_test(Sample(cases=cases).differences).tails.worse for cases in metrics])


def exact(cases: Sequence[CaseScores]) -> float:
    return TESTS["exact-within-case"].run(Sample(cases=cases)).tails.worse


def planned() -> Plan:
    rates = np.repeat([0.15, 0.5, 0.9], [5, 3, 12])
    parts = assumed_components(rates, fallen(rates, 0.05))
    design = Design(cases=100, baseline=10, current=5, components=parts)
    return plan(design, drop=0.05, power=0.8)


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
