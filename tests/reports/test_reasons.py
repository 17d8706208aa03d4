"""Sentences for what the gate hands over."""

from __future__ import annotations

import pytest

from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.reports.reasons import worded

LISTED = (Why.DESELECTED, Why.NOT_RUN)  # in one line for all functions that were not judged


@pytest.mark.parametrize("why", [why for why in Why if why not in LISTED])
def test_every_reason_of_the_gate_has_a_sentence(why: Why) -> None:
    counts = {Why.CASES_EDITED: 6, Why.TOO_FEW_TRIALS: 5}
    figures = (1, 2, 3, 4, 5, 6)[: counts.get(why, 4)]
    assert worded(Fact(why, figures))


@pytest.mark.parametrize(
    ("metric", "needs"),
    [
        (
            "tone",
            'record it in every trial, by llm_score(value, "tone"), or gate on another; where '
            "lower is better or a value is below 0, trials that crashed have none",
        ),
        ("tokens", "it takes replies that count their tokens, and trials that did not crash"),
    ],
)
def test_a_metric_without_value_is_told_what_it_takes(metric: str, needs: str) -> None:
    assert worded(Fact(Why.WITHOUT_VALUE, (metric, 2, 4))) == (
        f"2 of 4 scored trials here have no value for {metric}, more than 5 %: {needs}"
    )
