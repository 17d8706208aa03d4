"""A run is judged by its baseline's rules where they are stricter than its own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.gate.results import Fact, Why
from pytest_llmeval.gate.rules import stricter_rules
from pytest_llmeval.settings import GateRules

LAX: dict[str, Any] = {
    "alpha": 1e-12,
    "margin": 0.08,
    "target": 0.5,
    "max_gone": 1.0,
    "strict": False,
    "test": "sign-flip",
    "multiplicity": "holm",
    "edited": "leave_out",
}
STRICT: dict[str, Any] = {
    "alpha": 0.05,
    "margin": 0.0,
    "target": 0.1,
    "max_gone": 0.1,
    "strict": True,
    "test": "paired-t",
    "multiplicity": "bh",
    "edited": "compare",
}


@pytest.mark.parametrize("name", LAX)
def test_a_laxer_rule_is_not_followed_and_named(name: str) -> None:
    rules, notes = stricter_rules(GateRules(**{name: LAX[name]}), STRICT, typed=())

    assert getattr(rules, name) == STRICT[name]
    assert any(note.why is Why.LOOSENED and note.figures[0] == f"llm_{name}" for note in notes)


@pytest.mark.parametrize("name", [name for name in LAX if name != "test"])
def test_a_stricter_rule_holds_without_a_word(name: str) -> None:
    own = GateRules(**{name: STRICT[name]})

    rules, notes = stricter_rules(own, {name: LAX[name]}, typed=())

    assert (getattr(rules, name), notes) == (STRICT[name], ())


@pytest.mark.parametrize("name", LAX)
def test_what_is_typed_holds(name: str) -> None:
    own = GateRules(**{name: LAX[name]})
    recorded = {name: STRICT[name]}

    rules, notes = stricter_rules(own, recorded, typed={name})

    assert (getattr(rules, name), notes) == (LAX[name], ())


def test_a_typed_margin_keeps_the_target_above_it() -> None:
    own = GateRules(margin=0.2, target=0.3)

    rules, notes = stricter_rules(own, {"target": 0.1, "margin": 0.0}, typed={"margin"})

    assert (rules.margin, rules.target, notes) == (0.2, 0.3, ())


@pytest.mark.parametrize("value", [7.0, "x", ("a",), None, -1.0])
def test_what_is_no_rule_changes_nothing(value: Any) -> None:
    """A run file may come from anybody, and from an earlier version."""
    rules, notes = stricter_rules(GateRules(), {"alpha": value, "unknown": 1}, typed=())

    assert (rules.alpha, notes) == (GateRules().alpha, ())


def test_the_sentence_has_both_values() -> None:
    _, notes = stricter_rules(GateRules(alpha=1e-12), {"alpha": 0.05}, typed=())

    assert notes == (Fact(Why.LOOSENED, ("llm_alpha", "1e-12", "0.05")),)


shares = st.floats(0.001, 0.499)


@given(shares, shares, shares, shares)
def test_neither_side_is_stricter(own: float, theirs: float, up: float, down: float) -> None:
    mine = GateRules(alpha=own, max_gone=up, target=own + 0.5, margin=up)
    recorded = {"alpha": theirs, "max_gone": down, "target": theirs + 0.5, "margin": down}

    rules, _ = stricter_rules(mine, recorded, typed=())

    assert rules.alpha == max(own, theirs)
    assert rules.max_gone == min(up, down)
    assert rules.margin == min(up, down) < rules.target == min(own, theirs) + 0.5


@pytest.mark.parametrize("typed", [(), {"sequential"}])
@pytest.mark.parametrize("mine", [True, False])
def test_a_branch_may_look_early_or_not(mine: bool, typed: tuple[str, ...]) -> None:
    own = GateRules(sequential=mine)

    rules, notes = stricter_rules(own, {"sequential": not mine}, typed=typed)

    assert (rules.sequential, notes) == (mine, ())
