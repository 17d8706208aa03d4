from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Outcome
from pytest_llmeval.runs.directions import Directions
from pytest_llmeval.runs.score_table import ScoreTable, runs_of, undirected


def table(scores: dict[str | None, Any], **changes: Any) -> ScoreTable:
    usual = {
        "reference": "a.csv",
        "path": Path("a.csv"),
        "created": "2026-11-21T08:41:00+00:00",
        "clusters": {},
        "wordings": {},
    }
    return ScoreTable(scores=scores, **{**usual, **changes})


def test_scores_of_0_and_1_are_passes() -> None:
    first, _ = runs_of(table({None: {"x": {1: 0.0, 0: 1.0}}}), table({None: {"x": {0: None}}}))

    assert [trial.outcome for trial in first.trials] == [Outcome.PASSED, Outcome.MISSED]
    assert [trial.index for trial in first.trials] == [0, 1]
    assert first.cases[0].gate == ("pass",)


def test_other_scores_on_either_side_make_it_a_score() -> None:
    first, second = runs_of(table({None: {"x": {0: 0.0}}}), table({None: {"x": {0: 0.5}}}))

    assert first.cases[0].gate == second.cases[0].gate == ("score",)
    assert first.trials[0].outcome is Outcome.PASSED
    assert first.trials[0].scores == {"score": 0.0}


def test_an_empty_score_is_an_errored_trial() -> None:
    first, _ = runs_of(table({"tone": {"x": {0: None, 1: 3.0}}}), table({"tone": {}}))

    assert [trial.outcome for trial in first.trials] == [Outcome.ERRORED, Outcome.PASSED]
    assert first.trials[0].scores == {}


def test_each_of_several_metrics_is_a_function_with_cases_of_its_own() -> None:
    both = table({"tone": {"x": {0: 3.0}}, "pass": {"x": {0: 0.0}}}, clusters={"x": "doc"})
    first, second = runs_of(both, table({"tone": {"x": {0: 1.0}}}))

    assert [(case.id, case.function) for case in first.cases] == [
        ("tone::x", "scores::tone"),
        ("pass::x", "scores::pass"),
    ]
    assert [case.cluster for case in first.cases] == ["doc", "doc"]
    assert [case.id for case in second.cases] == ["tone::x"]


def test_a_case_knows_its_wording_and_what_it_asks() -> None:
    worded = table({None: {"x[v1]": {0: 1.0}, "y": {0: 1.0}}}, wordings={"x[v1]": ("x", "v1")})
    first, _ = runs_of(worded, worded)

    assert [(case.topic, case.wording) for case in first.cases] == [("x", "v1"), (None, None)]


def test_a_direction_holds_for_every_case() -> None:
    tone = table({"s": {"x": {0: 1.0}}})
    first, _ = runs_of(tone, tone, better={"": "lower"})
    assert first.cases[0].better == "lower"


def test_each_metric_has_a_direction_of_its_own() -> None:
    both = table({"latency_ms": {"x": {0: 1.0}}, "tone": {"x": {0: 1.0}}, "wer": {"x": {0: 1.0}}})

    first, _ = runs_of(replace(both, better={"wer": "lower"}), both, better={"latency_ms": "lower"})

    ways = {case.gate[0]: case.direction(case.gate[0]) for case in first.cases}
    assert ways == {"latency_ms": "lower", "tone": "higher", "wer": "lower"}


@pytest.mark.parametrize(
    ("better", "part"),
    [
        ({"": "lower"}, "--better=lower would hold for tone and wer: name each metric"),
        ({"tune": "lower"}, "--better=tune=lower: there is no such metric. .*tone"),
    ],
)
def test_a_direction_is_that_of_a_metric_that_is_there(better: Directions, part: str) -> None:
    both = table({"tone": {"x": {0: 1.0}}, "wer": {"x": {0: 1.0}}})
    with pytest.raises(SettingsError, match=part):
        runs_of(both, both, better=better)


def test_two_tables_that_say_unlike_directions_are_refused_unless_one_is_typed() -> None:
    first, second = (
        table({"wer": {"x": {0: 1.0}}}, better={"wer": way}) for way in ("lower", "higher")
    )
    with pytest.raises(
        SettingsError, match=r"of wer a\.csv says that lower is better, and a\.csv higher: "
    ):
        runs_of(first, second)
    for typed in ("wer", ""):
        assert runs_of(first, second, better={typed: "lower"})[1].cases[0].better == "lower"


def test_names_that_usually_mean_lower_are_asked_about() -> None:
    names = ("latency_ms", "wordErrorRate", "wer", "toxicity", "eval/loss", "errors", "duration")
    names += ("failure_rate", "runtime", "elapsed_s", "ttft", "bits_per_byte", "err", "nll")
    fine = ("tone", "answer", "lossless", "power", "seconds", "pass", "exact_match", "timeliness")
    one = table({name: {"x": {0: 1.0}} for name in (*names, *fine)} | {None: {"x": {0: 2.0}}})

    assert undirected([one, one]) == list(names)
    assert undirected([one], {"wer": "lower"}) == [name for name in names if name != "wer"]
    assert undirected([one], {"": "lower"}) == []


def test_a_direction_that_turns_no_metric_is_refused() -> None:
    costs = table({"cost": {"x": {0: 1.0}}})

    with pytest.raises(SettingsError, match="--better=higher has nothing to turn: cost has"):
        runs_of(costs, costs, better={"": "higher"})
    assert runs_of(costs, costs)[0].cases[0].gate == ("cost",)
