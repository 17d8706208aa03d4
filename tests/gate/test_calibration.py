"""How often the gate cries wolf: whole comparisons of runs between which nothing happened.

Replies are two labels, so that their digests collide all the time, and the baseline has
twice the repeats of the run: the settings in which deciding by texts raised false alarms
from .05 to .93.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from pytest_llmeval.gate import Verdict, compare
from pytest_llmeval.records import Call, Case, GateRules, Outcome, Run, Slot, Trial
from tests.gate.builders import a_run, digest

BUILDS = 500
MOST_FALSE_ALARMS = 0.08
THERE, HERE = 10, 5

LABEL = {True: digest("yes"), False: digest("no")}
FUNCTION = "test_suite.py::test_f"

Build = Callable[[np.random.Generator], tuple[Run, Run]]


def share_of_regressed(build: Build, builds: int) -> float:
    regressed = 0
    for seed in range(builds):
        baseline, run = build(np.random.default_rng(seed))
        verdict = compare(baseline, run, GateRules()).verdict
        assert verdict is not Verdict.NOT_COMPARABLE
        regressed += verdict is Verdict.REGRESSED
    return regressed / builds


def a_case(at: int, cluster: str | None = None) -> Case:
    return Case(id=f"{FUNCTION}[{at}]", function=FUNCTION, repeats=HERE, cluster=cluster)


def trials_of(case: Case, hits: Sequence[bool], *, key: str, draws: str) -> list[Trial]:
    """One call a trial, whose reply is a label that is right or wrong."""
    trials = []
    for at, hit in enumerate(hits):
        call = Call(key=key, slot=Slot(at, 0), draw=f"{draws}/{at}", reply_sha256=LABEL[hit])
        outcome = Outcome.PASSED if hit else Outcome.MISSED
        trials.append(
            Trial(case=case.id, index=at, outcome=outcome, scores={"pass": hit}, calls=(call,))
        )
    return trials


def as_run(cases: Sequence[Case], trials: Sequence[Sequence[Trial]]) -> Run:
    flat = tuple(trial for of_case in trials for trial in of_case)
    return dataclasses.replace(a_run(), cases=tuple(cases), trials=flat)


def nothing_happened(rates: Sequence[float], *, changed: int) -> Build:
    """The first cases ask a changed request, the others replay the baseline's very draws."""

    def build(random: np.random.Generator) -> tuple[Run, Run]:
        cases = [a_case(at) for at in range(len(rates))]
        there, here = [], []
        for at, (case, rate) in enumerate(zip(cases, rates, strict=True)):
            old = (random.random(THERE) < rate).tolist()
            new = (random.random(HERE) < rate).tolist()
            there.append(trials_of(case, old, key=f"old {at}", draws=f"old {at}"))
            if at < changed:
                here.append(trials_of(case, new, key=f"new {at}", draws=f"new {at}"))
            else:
                here.append(trials_of(case, old[:HERE], key=f"old {at}", draws=f"old {at}"))
        return as_run(cases, there), as_run(cases, here)

    return build


def pairs_share_draws(cases: int, rate: float) -> Build:
    """Two cases each send the very same request: one draw, one luck."""

    def build(random: np.random.Generator) -> tuple[Run, Run]:
        named = [a_case(at) for at in range(cases)]
        there, here = [], []
        for pair in range(cases // 2):
            old = (random.random(THERE) < rate).tolist()
            new = (random.random(HERE) < rate).tolist()
            for case in named[2 * pair : 2 * pair + 2]:
                there.append(trials_of(case, old, key=f"old {pair}", draws=f"old {pair}"))
                here.append(trials_of(case, new, key=f"new {pair}", draws=f"new {pair}"))
        return as_run(named, there), as_run(named, here)

    return build


def clusters_move_together(clusters: int, size: int) -> Build:
    """Each document got better or worse by chance, and its cases with it."""

    def build(random: np.random.Generator) -> tuple[Run, Run]:
        cases = [a_case(at, f"document {at // size}") for at in range(clusters * size)]
        shifts = np.repeat(random.normal(0, 0.15, clusters), size)
        there, here = [], []
        for at, (case, shift) in enumerate(zip(cases, shifts, strict=True)):
            old = (random.random(THERE) < 0.6).tolist()
            new = (random.random(HERE) < 0.6 + shift).tolist()
            there.append(trials_of(case, old, key=f"old {at}", draws=f"old {at}"))
            here.append(trials_of(case, new, key=f"new {at}", draws=f"new {at}"))
        return as_run(cases, there), as_run(cases, here)

    return build


def unlike_rates(cases: int) -> Sequence[float]:
    """Half of the cases never fail, a tenth always do, the rest lie anywhere between."""
    random = np.random.default_rng(0)
    rates = random.beta(1.5, 1, cases)
    rates[: cases // 2] = 1.0
    rates[cases // 2 : cases // 2 + cases // 10] = 0.0
    return random.permutation(rates).tolist()


@pytest.mark.calibration
@pytest.mark.parametrize("cases", [60, 200])
@pytest.mark.parametrize("rate", [0.7, 0.9, 0.97])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_no_effect_seldom_reads_regressed(
    cases: int, rate: float, share: float, record_property: Callable[[str, object], None]
) -> None:
    build = nothing_happened([rate] * cases, changed=int(share * cases))
    alarms = share_of_regressed(build, BUILDS)
    record_property("false alarms", alarms)
    print(f"{cases} cases, rate {rate}, {share:.0%} changed: {alarms:.3f}")
    assert alarms <= MOST_FALSE_ALARMS


@pytest.mark.calibration
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(nothing_happened(unlike_rates(100), changed=100), id="unlike rates"),
        pytest.param(nothing_happened([0.8] * 60, changed=3), id="3 changed of 60"),
        pytest.param(nothing_happened([0.8] * 3, changed=3), id="3 changed of 3"),
        pytest.param(nothing_happened([0.8] * 8, changed=8), id="8 changed of 8"),
        pytest.param(pairs_share_draws(60, 0.8), id="pairs share draws"),
        pytest.param(pairs_share_draws(8, 0.8), id="4 pairs share draws"),
        pytest.param(clusters_move_together(20, 5), id="20 clusters"),
        pytest.param(clusters_move_together(4, 5), id="4 clusters"),
    ],
)
def test_unusual_layouts_seldom_read_regressed(
    build: Build, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    alarms = share_of_regressed(build, BUILDS)
    record_property("false alarms", alarms)
    print(f"{request.node.callspec.id}: {alarms:.3f}")
    assert alarms <= MOST_FALSE_ALARMS


@pytest.mark.parametrize("changed", [30, 15])
def test_no_effect_seldom_reads_regressed_in_few_builds(changed: int) -> None:
    build = nothing_happened([0.9] * 30, changed=changed)
    assert share_of_regressed(build, 200) <= MOST_FALSE_ALARMS
