"""How often early looks and confirmed falls, both on, cry wolf: by the gate's own functions.

Nine in ten builds in which nothing changed are left out unjudged. The gate's p is never below the
t-test's, so where no t-test comes near its limit there is no suspect, and no red. Each cell judges
a few of these, too. The figures of docs/decisions/gate.md are of more builds than are run here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pytest_llmeval.gate import conclusion
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.confirmation import FIRST, MORE, confirm
from pytest_llmeval.records import Run, Trial
from pytest_llmeval.stats.early_looks import information, planned_looks
from pytest_llmeval.stats.multiplicity import spending_bounds
from tests.gate.early_sessions import RULES, session
from tests.gate.layouts import ab_post, alike, asked_anew, constant, gained, unlike
from tests.gate.simulation import NEW, OLD, Function, Rates, Suite

BASELINE, REPEATS, FRESH = 10, 5, FIRST + MORE
MOST = 0.04  # of any false alarm
WHOLE = 20  # builds of a cell that are judged in any case

pytestmark = pytest.mark.calibration


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would settle an open question takes most of the time, and decides nothing."""
    monkeypatch.setattr(conclusion, "remedies", lambda *_, **__: (None, None))


def first(run: Run, repeats: int) -> Run:
    """The run of a session, of all trials that may be drawn."""
    trials = tuple(one for one in run.trials if one.index < repeats)
    cases = tuple(replace(case, repeats=repeats) for case in run.cases)
    return replace(run, cases=cases, trials=trials)


class Cell(NamedTuple):
    """A suite: the rates of each function, and how many of its cases ask anew."""

    cases: int
    functions: Sequence[Rates]
    changed: int | None = None
    builds: int = 600

    def suite(self) -> Suite:
        layout, repeats = asked_anew(self.cases, changed=self.changed), (BASELINE, REPEATS)
        drawn = (repeats[0] + FRESH, repeats[1] + FRESH)
        named = enumerate(self.functions)
        return Suite(
            *(Function(layout, one, repeats=drawn, name=f"test_{at}") for at, one in named)
        )

    def may_be_suspect(self, right: Sequence[NDArray[np.bool_]]) -> bool:
        """Tell whether a t-test of some function at some look is at the limit of a suspect."""
        planned = planned_looks(REPEATS)
        level = 2 * RULES.alpha / len(self.functions)  # Holm's, of the least p
        limits = spending_bounds(information(BASELINE, planned), alpha=level)
        looks = [*zip(planned, limits, strict=True)]
        return any(
            is_low(draws[OLD, : self.changed], draws[NEW, : self.changed, :repeats], limit)
            for draws in right
            for repeats, limit in looks
        )


def is_low(before: NDArray[np.bool_], after: NDArray[np.bool_], limit: float) -> bool:
    """Tell whether the t-test's z for a fall is at a limit, or cannot be told."""
    differences = after.mean(axis=1) - before[:, :BASELINE].mean(axis=1)
    if differences.std() < 1e-9:
        return True
    p = stats.ttest_1samp(differences, 0.0, alternative="less").pvalue
    return bool(p < stats.norm.sf(limit) + 1e-9)


class End(NamedTuple):
    """The end of a session with both: whether it is red, its calls, and those that confirm.

    Calls are shares of those that the branch would make in all repeats.
    """

    is_red: bool
    calls: float
    further: float


def end_of(base: Run, here: Run) -> End:
    """Judge a build as a session does that has both."""
    baseline, run = first(base, BASELINE), first(here, REPEATS)
    looked = session(baseline, run, only_calm=True)
    asked, further = 0, 0

    def draw(cases: Sequence[str], count: int) -> tuple[Sequence[Trial], Sequence[Trial]]:
        nonlocal asked, further
        begin, asked, wanted = asked, asked + count, {*cases}
        further += 2 * count * len(wanted)
        return tuple(  # type: ignore[return-value]
            [
                one
                for one in side.trials
                if one.case in wanted and begin <= one.index - first < begin + count
            ]
            for side, first in ((base, BASELINE), (here, REPEATS))
        )

    left = looked.left(baseline, run)
    found = confirm(baseline, left, compare(baseline, left, RULES), RULES, draw)
    return End(found.fails, looked.share_of_calls, further / len(run.trials))


NONE, TURNED = alike(ab_post), unlike(constant(0.5), 0.3)
CELLS = {
    f"{functions} x {cases}": Cell(cases, [NONE] * functions, builds=300 if functions == 8 else 600)
    for functions in (1, 3, 8)
    for cases in (10, 30, 100)
} | {
    "one improved, one did not change, cases of one are unlike": Cell(
        60, [gained(ab_post, 0.1), NONE, TURNED]
    ),
    "cases of 8 functions are unlike": Cell(30, [TURNED] * 8),
    "12 of 60 changed in 3 functions": Cell(60, [NONE] * 3, changed=12),
}


@pytest.mark.parametrize("name", CELLS)
def test_both_raise_few_false_alarms(name: str) -> None:
    cell = CELLS[name]
    suite, ends = cell.suite(), []
    for seed in range(cell.builds):
        right = suite.draw(seed)
        may_be_suspect = cell.may_be_suspect(right)
        if may_be_suspect or seed < WHOLE:
            ends.append((seed, end_of(*suite.built(right))))
            assert may_be_suspect or not ends[-1][1].further
    red = sum(end.is_red for _, end in ends) / cell.builds
    suspects = sum(end.further > 0 for _, end in ends) / cell.builds
    further = sum(end.further for _, end in ends) / cell.builds
    calls = sum(end.calls for seed, end in ends if seed < WHOLE) / WHOLE
    print(
        f"{name}: {cell.builds} builds: red {red:.4f}, suspects {suspects:.4f}, calls {calls:.2f} "
        f"+ {further:.2f}"
    )
    assert red <= MOST + 3 * math.sqrt(MOST * (1 - MOST) / cell.builds)  # three standard errors
