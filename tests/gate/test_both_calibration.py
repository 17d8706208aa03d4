"""How often early looks and confirmed falls, both on, cry wolf: by the gate's own functions.

Nearly all builds in which nothing changed end without a suspect, so a build costs what its looks
cost. The figures of docs/decisions/gate.md are of more builds than are run here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from pytest_llmeval.gate import conclusion
from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.confirmation import FIRST, MORE, confirm
from pytest_llmeval.records import Run, Trial
from tests.gate.early_sessions import RULES, session
from tests.gate.layouts import ab_post, alike, asked_anew
from tests.gate.simulation import Function, Rates, Suite

BASELINE, REPEATS, FRESH = 10, 5, FIRST + MORE
MOST = 0.04  # of any false alarm

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


@dataclass(frozen=True)
class End:
    """The end of a session with both: whether it is red, and the repeats of its function.

    Attributes:
        fresh: repeats of the branch that were asked to confirm.
    """

    is_red: bool
    stop: int
    fresh: int


def end_of(suite: Suite, seed: int) -> End:
    """Judge a build of one function as a session does that has both."""
    base, here = suite.build(seed)
    baseline, run = first(base, BASELINE), first(here, REPEATS)
    looked = session(baseline, run, only_calm=True)
    asked = 0

    def draw(cases: Sequence[str], count: int) -> tuple[Sequence[Trial], Sequence[Trial]]:
        nonlocal asked
        begin, asked = asked, asked + count
        return tuple(  # type: ignore[return-value]
            [
                one
                for one in side.trials
                if one.case in cases and begin <= one.index - first < begin + count
            ]
            for side, first in ((base, BASELINE), (here, REPEATS))
        )

    left = looked.left(baseline, run)
    found = confirm(baseline, left, compare(baseline, left, RULES), RULES, draw)
    (stop,) = looked.stops.values()
    return End(found.fails, stop, asked)


def suite_of(cases: int, rates: Rates) -> Suite:
    repeats = (BASELINE + FRESH, REPEATS + FRESH)
    return Suite(Function(asked_anew(cases), rates, repeats=repeats))


def told(ends: Sequence[End]) -> str:
    red, stop = sum(one.is_red for one in ends), sum(one.stop for one in ends)
    fresh, suspects = sum(one.fresh for one in ends), sum(one.fresh > 0 for one in ends)
    builds = len(ends)
    return (
        f"{builds} builds: red {red / builds:.4f}, suspects {suspects / builds:.4f}, repeats "
        f"{stop / builds:.2f}, fresh {fresh / builds:.2f}"
    )


@pytest.mark.parametrize(("cases", "builds"), [(30, 300), (100, 300)])
def test_both_raise_fewer_false_alarms_than_either(cases: int, builds: int) -> None:
    suite = suite_of(cases, alike(ab_post))
    ends = [end_of(suite, seed) for seed in range(builds)]
    print(f"nothing changed, {cases} cases, {told(ends)}")
    red = sum(one.is_red for one in ends) / builds
    assert red <= MOST + 2 * math.sqrt(MOST * (1 - MOST) / builds)  # two standard errors
