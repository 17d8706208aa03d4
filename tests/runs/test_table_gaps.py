from __future__ import annotations

from typing import Any

from pytest_llmeval.runs.score_table import without_gaps
from tests.runs.test_table_runs import table


def left(first: dict[str, Any], second: dict[str, Any], allowed: float | None = None) -> Any:
    pair = table({None: first}), table({None: second})
    (one, other), notes = without_gaps(pair, max_errored=allowed)
    return one.scores[None], other.scores[None], notes


def test_what_neither_side_scored_is_left_out_and_counted() -> None:
    old, new, notes = left(
        {"a": {0: None, 1: 1}, "b": {0: None}}, {"a": {0: None, 1: 0}, "b": {0: None}}
    )

    assert (old, new) == ({"a": {1: 1}}, {"a": {1: 0}})
    assert notes == ("left out: 2 trials with no score on either side",)


def test_what_one_side_scored_stays_unless_that_is_allowed() -> None:
    old, new = {"a": {0: 1}, "b": {0: 1}}, {"a": {0: None}, "b": {0: 1}}

    assert left(old, new) == (old, new, ())
    assert left(old, new, 0.4) == (old, new, ())
    assert left(old, new, 0.5) == (
        {"b": {0: 1}},
        {"b": {0: 1}},
        (
            "left out: 1 trial with a score on one side alone, as --max-errored allows",
            "left out: 1 case with no score on one side",
        ),
    )


def test_a_metric_of_one_side_is_left_as_it_is() -> None:
    pair = table({"tone": {"a": {0: None}}}), table({None: {"a": {0: None}}})

    assert without_gaps(pair, max_errored=1.0) == (pair, ())


def test_what_cost_nothing_on_both_sides_is_a_gap_and_on_one_side_is_not() -> None:
    pair = (
        table({"cost": {"a": {0: 0.0, 1: 2.0}, "b": {0: 0.0}}}),
        table({"cost": {"a": {0: 0.0, 1: 3.0}, "b": {0: 1.0}}}),
    )

    (old, new), notes = without_gaps(pair, max_errored=None)

    assert old.scores["cost"] == {"a": {1: 2.0}, "b": {0: 0.0}}
    assert new.scores["cost"] == {"a": {1: 3.0}, "b": {0: 1.0}}
    assert notes == ("left out: 1 trial with no cost above 0 on either side",)
