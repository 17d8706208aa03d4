"""What early stopping saves and costs, by sessions that the shipped functions judge.

Rates have the standard error of so few sessions; the bounds leave two of them. The rates of
``make calibrate`` are in docs/early-stopping.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_llmeval.gate import conclusion
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.records import Outcome, Run
from tests.gate.early_sessions import RULES, session, tally, tally_of
from tests.gate.layouts import Mix, ab_post, alike, asked_anew, ceiling, constant, unlike
from tests.gate.simulation import Function, Rates, Suite

pytestmark = pytest.mark.calibration


def dropped(mix: Mix, by: float) -> Rates:
    """Every case lost as much of its rate, as far as it had that much."""

    def rates(random: np.random.Generator, topics: int) -> NDArray[np.float64]:
        before = mix(random, topics)
        return np.stack([before, np.maximum(before - by, 0.0)])

    return rates


class Cell(NamedTuple):
    """A suite, how many sessions of it are run, and what it may cost."""

    rates: Rates
    builds: int
    cases: int = 100
    baseline: int = 10
    changed: int | None = None
    functions: int = 1

    def suite(self) -> Suite:
        layout = asked_anew(self.cases, changed=self.changed)
        repeats = (self.baseline, 5)
        names = [f"test_{number}" for number in range(self.functions)]
        return Suite(*(Function(layout, self.rates, repeats=repeats, name=name) for name in names))


NONE = alike(ab_post)
FALSE_ALARMS = {
    "10 cases": Cell(NONE, 2000, cases=10),
    "30 cases": Cell(NONE, 1000, cases=30),
    "100 cases": Cell(NONE, 1000),
    "500 cases": Cell(NONE, 150, cases=500),
    "10 cases, rates .1": Cell(alike(constant(0.1)), 2000, cases=10),
    "3 functions": Cell(NONE, 400, cases=60, functions=3),
    "8 functions": Cell(NONE, 200, cases=60, functions=8),
    "unlike effects": Cell(unlike(constant(0.5), 0.3), 1000, cases=60),
    "12 of 60 changed": Cell(NONE, 1000, cases=60, changed=12),
    "baseline 5": Cell(NONE, 1000, cases=60, baseline=5),
}
CALLS = {
    "none": (Cell(NONE, 1000), 0.62),
    "-.20": (Cell(dropped(ab_post, 0.20), 500), 0.42),
    "-.10": (Cell(dropped(ab_post, 0.10), 1000, cases=60), 0.64),
}
POWER = {
    "20 cases": (Cell(dropped(ab_post, 0.10), 1000, cases=20), 0.03),
    "60 cases": (Cell(dropped(ab_post, 0.05), 1000, cases=60), 0.03),
    "200 cases": (Cell(dropped(ab_post, 0.02), 500, cases=200), 0.03),
    "half at 1": (Cell(dropped(ceiling, 0.05), 1000, cases=60), 0.03),
    "all at 1": (Cell(dropped(constant(1.0), 0.05), 1000, cases=20), 0.03),
    "12 of 60 changed": (Cell(dropped(ab_post, 0.10), 1000, cases=60, changed=12), 0.045),
}


@pytest.mark.parametrize("name", FALSE_ALARMS)
def test_false_alarms_stay_at_the_level(name: str) -> None:
    cell = FALSE_ALARMS[name]
    found = tally(cell.suite(), cell.builds)
    print(f"no effect, {name}: {found}")
    assert found.red <= 0.055 + 2 * math.sqrt(0.05 * 0.95 / cell.builds)


def _losing_later(
    baseline: Run, run: Run, random: np.random.Generator, *, outcome: Outcome, share: float
) -> tuple[Run, Run]:
    """A share of the trials with an outcome errs, in rounds after the first look alone."""
    trials = tuple(
        replace(one, outcome=Outcome.ERRORED, scores={})
        if one.index > 1 and one.outcome is outcome and random.random() < share
        else one
        for one in run.trials
    )
    return baseline, replace(run, trials=trials)


def _unequal(baseline: Run, run: Run, random: np.random.Generator) -> tuple[Run, Run]:
    """Each case has 1 to 10 trials in the baseline."""
    sizes = {case.id: random.integers(1, 11) for case in baseline.cases}
    trials = tuple(one for one in baseline.trials if one.index < sizes[one.case])
    return replace(baseline, trials=trials), run


TROUBLES: dict[str, Callable[[Run, Run, np.random.Generator], tuple[Run, Run]]] = {
    "misses err later": partial(_losing_later, outcome=Outcome.MISSED, share=0.12),
    "hits err later": partial(_losing_later, outcome=Outcome.PASSED, share=0.06),
    "unequal baseline": _unequal,
}


@pytest.mark.parametrize("name", TROUBLES)
def test_what_is_uneven_raises_no_false_alarms(name: str) -> None:
    suite, random, builds = Cell(NONE, 0, cases=30).suite(), np.random.default_rng(0), 1000
    pairs = (TROUBLES[name](*suite.build(seed), random) for seed in range(builds))
    found = tally_of(session(*pair) for pair in pairs)
    print(f"no effect, {name}: {found}")
    assert found.red <= 0.055 + 2 * math.sqrt(0.05 * 0.95 / builds)


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_saved(name: str) -> None:
    cell, most = CALLS[name]
    found = tally(cell.suite(), cell.builds)
    print(f"calls, {name}: {found}")
    assert found.calls <= most


@pytest.mark.parametrize("name", POWER)
def test_hardly_any_power_is_lost(name: str) -> None:
    cell, most = POWER[name]
    found = tally(cell.suite(), cell.builds)
    print(f"found, {name}: {found}")
    assert found.lost <= most + 2 * math.sqrt(most / cell.builds)


def test_the_gate_calls_red_what_these_sessions_call_red(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures above leave out the rest of ``compare``, for its time."""
    monkeypatch.setattr(conclusion, "remedies", lambda *_, **__: (None, None))
    suite = Cell(dropped(ab_post, 0.06), 0, cases=40, functions=2).suite()
    for seed in range(40):
        baseline, run = suite.build(seed)
        ended = session(baseline, run)
        found = compare(baseline, ended.left(baseline, run), RULES).functions
        red = {one.function for one in found if one.verdict is Verdict.REGRESSED}
        assert red == ended.red
        stops = {one.function: one.stopped_at or 5 for one in found}
        assert stops == ended.stops
