"""What is said of a fall that was looked at a second time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_llmeval.gate.results import Confirmation, Effect, Evidence, Fact, Verdict, Why
from pytest_llmeval.reports.sentences import sentence
from pytest_llmeval.settings import GateRules
from tests.reports.test_stopped_words import FELL

ONE = replace(
    FELL,
    looks=(),
    stopped_at=None,
    effect=Effect(cases=9, changed=9, difference=-0.2, baseline_mean=0.9, mean=0.7),
    evidence=Evidence(p=0.06, p_adjusted=0.08, family_size=2),
)
FOUND: dict[str, Any] = {"repeats": 3, "baseline_mean": 0.85, "mean": 0.65, "reference": "main"}
ASKED = "main, asked again, scored 0.850; all trials of this branch 0.650"


@pytest.mark.parametrize(
    ("verdict", "found", "words"),
    [
        (
            Verdict.REGRESSED,
            Confirmation(outcome="confirmed", p=0.004, **FOUND),
            f"; confirmed: {ASKED}; chance alone would do this in 1 of 250 comparisons",
        ),
        (
            Verdict.REGRESSED,
            Confirmation(outcome="impossible", why=Fact(Why.NOT_ASKED_AGAIN, ("it rained",))),
            "; chance alone would do this in 1 of 12 comparisons (could not be "
            "confirmed: it rained)",
        ),
        (
            Verdict.NOT_CONFIRMED,
            Confirmation(outcome="chance", p=0.4, **FOUND),
            f", and the fall is not there again: {ASKED}",
        ),
        (
            Verdict.NOT_CONFIRMED,
            Confirmation(outcome="base_fell", p=0.4, p_base=0.01, **FOUND),
            f", and main fell as well: {ASKED}. The provider changed, or main was recorded on "
            "a lucky day: on main, record it again:  pytest --llm-cache=refresh",
        ),
    ],
    ids=["confirmed", "impossible", "not there", "main fell"],
)
def test_the_sentence_tells_what_the_second_look_saw(
    verdict: Verdict, found: Confirmation, words: str
) -> None:
    text = sentence(replace(ONE, verdict=verdict, confirmation=found), GateRules())

    assert text.endswith(f"fell by 0.200 (0.900 -> 0.700){words}")
