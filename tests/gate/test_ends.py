"""Verdict and printed interval agree: 20 worked inputs, with every figure and decision."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.gate.results import FunctionComparison, Verdict
from pytest_llmeval.stats.ends import highest_rate
from tests.gate.builders import a_case, a_run, compared

VECTORS = json.loads(Path(__file__).with_name("ends_vectors.json").read_text())["vectors"]
LETTERS = "mp"


def vector_of(given: dict[str, Any]) -> FunctionComparison:
    """What the gate makes of an input: its changed cases, and replays up to all cases."""
    sides = [given["before"], given["here"]]
    hits = all(score in (0, 1) for side in sides for scores in side for score in scores)
    runs = []
    for request, side in zip(("v1", "v2"), sides, strict=True):
        cases = [
            a_case(f"c{at}", "".join(LETTERS[score] for score in scores), request=request)
            if hits
            else a_case(f"c{at}", scores=scores, request=request)
            for at, scores in enumerate(side)
        ]
        replayed = [a_case(f"r{at}", "ppp") for at in range(given["cases"] - len(cases))]
        runs.append(a_run(*cases, *replayed))
    return compared(*runs)


def rates(side: list[list[float]]) -> list[float]:
    return [sum(scores) / len(scores) for scores in side]


@pytest.mark.parametrize("given", VECTORS, ids=[one["name"] for one in VECTORS])
def test_every_figure_and_decision_is_that_of_the_worked_input(given: dict[str, Any]) -> None:
    found, expected = vector_of(given), given["expected"]
    evidence, close = found.evidence, {"abs": 1e-6}
    assert found.effect.difference == pytest.approx(expected["difference"], **close)
    assert evidence.p == pytest.approx(expected["p_fell"], **close)
    assert evidence.p_improved == pytest.approx(expected["p_rose"], **close)
    assert evidence.p_within_case == pytest.approx(expected["exact_p_fell"], **close)
    interval = expected.get("interval")
    assert evidence.interval == (interval and pytest.approx(tuple(interval), **close))
    assert (found.verdict is Verdict.REGRESSED) is expected["regressed"]
    assert (found.verdict is Verdict.IMPROVED) is expected.get("improved", False)
    assert evidence.ruled_out_by == expected["ruled_out_by"]
    moved = [one.difference for one in found.compared if one.difference]
    assert (len(moved), sum(each < 0 for each in moved)) == (expected["moved"], expected["fell"])


@pytest.mark.parametrize("given", VECTORS, ids=[one["name"] for one in VECTORS])
def test_means_and_their_upper_limits_are_those_of_the_worked_input(given: dict[str, Any]) -> None:
    expected = given["expected"]
    before, here = rates(given["before"]), rates(given["here"])
    close = {"abs": 1e-6}
    assert math.fsum(before) / len(before) == pytest.approx(expected["mean_before"], **close)
    assert math.fsum(here) / len(here) == pytest.approx(expected["mean_here"], **close)
    if "baseline_upper" in expected:
        units = range(len(before))
        for side, of_side, name in (
            (given["before"], before, "baseline_upper"),
            (given["here"], [1 - rate for rate in here], "misses_here_upper"),
        ):
            limit = highest_rate(of_side, units, trials=sum(map(len, side)), alpha=0.05)
            assert limit == pytest.approx(expected[name], **close)
