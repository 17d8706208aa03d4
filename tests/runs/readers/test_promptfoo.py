"""Files in the form that promptfoo writes with --output results.json, of its versions 3 and 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import TableError
from pytest_llmeval.runs.score_table import ScoreTable, read_table

NOTE = "results.json: its tests have no ids, so their vars name the cases"
LUNA, SOL = "openai:gpt-6-luna", "openai:gpt-6-sol"


def result(
    text: object, *, passed: bool = True, at: int = 0, prompt: int = 0, **more: Any
) -> dict[str, Any]:
    return {
        "id": "0b6e7a0e",
        "promptIdx": prompt,
        "testIdx": at,
        "testCase": {"vars": {"text": text}, "assert": [{"type": "equals"}], "metadata": {}},
        "promptId": "5f3a",
        "provider": {"id": SOL if prompt else LUNA, "label": ""},
        "prompt": {"raw": "Name the team", "label": "Name the team"},
        "vars": {"text": text},
        "response": {"output": "billing", "cached": False},
        "failureReason": 0 if passed else 1,
        "success": passed,
        "score": 1 if passed else 0,
        "latencyMs": 812,
        "cost": 0.0002,
        "namedScores": {},
        "gradingResult": {"pass": passed, "score": 1, "reason": "All assertions passed"},
        **more,
    }


def write(folder: Path, *rows: dict[str, Any], wrapped: bool = True) -> Path:
    path = folder / "results.json"
    summary = {"version": 3, "timestamp": "2026-11-26T15:38:34Z", "results": rows, "stats": {}}
    whole = {"evalId": "eval-abc", "results": summary, "config": {}, "shareableUrl": None}
    path.write_text(json.dumps(whole if wrapped else summary))
    return path


def read(path: Path, **choice: str) -> ScoreTable:
    return read_table(path, reference=str(path), **choice)


@pytest.mark.parametrize("wrapped", [True, False])
def test_vars_name_the_cases_and_tests_that_ran_again_are_repeats(
    tmp_path: Path, *, wrapped: bool
) -> None:
    rows = [result("a", at=2, passed=False), result("b", at=1), result("a", at=0)]

    table = read(write(tmp_path, *rows, wrapped=wrapped))

    assert table.scores == {"pass": {"text=a": {0: 1, 1: 0}, "text=b": {0: 1}}}
    assert table.notes == (NOTE,)


def test_a_description_stands_before_the_vars(tmp_path: Path) -> None:
    cases = ({"description": "late", "vars": {"n": 1, "a": [2]}}, {"description": "x"}, {})
    rows = [result("a", testCase=case, vars={}) for case in cases]

    table = read(write(tmp_path, *rows))

    assert list(table.scores["pass"]) == ["late: a=[2], n=1", "x", "the test without vars"]


def test_providers_are_told_apart_where_rows_have_no_place_of_their_prompt(
    tmp_path: Path,
) -> None:
    luna, sol = result("a"), result("a", passed=False, prompt=1)
    path = write(tmp_path, *({**row, "promptIdx": None} for row in (luna, sol)))
    for condition, expected in ((LUNA, 1), (SOL, 0)):
        assert read(path, condition=condition).scores == {"pass": {"text=a": {0: expected}}}


def test_a_provider_is_a_condition(tmp_path: Path) -> None:
    path = write(tmp_path, result("a"), result("a", prompt=1, passed=False))

    assert read(path, condition=SOL).scores == {"pass": {"text=a": {0: 0}}}
    with pytest.raises(TableError, match=f"holds 2 conditions: .* it has {LUNA}, {SOL}"):
        read(path)


def test_prompts_of_one_provider_are_told_apart_by_their_place(tmp_path: Path) -> None:
    path = write(tmp_path, result("a"), result("a", prompt=1, provider=LUNA))

    assert read(path, condition=f"{LUNA}#1").scores == {"pass": {"text=a": {0: 1}}}


def test_a_failed_call_is_an_errored_trial_on_every_metric_of_its_case(tmp_path: Path) -> None:
    named = {"namedScores": {"tone": 0.5}}
    failed = result("a", at=1, passed=False, failureReason=2, score=0)

    table = read(write(tmp_path, result("a", **named), failed, result("b")))

    assert table.scores == {
        "pass": {"text=a": {0: 1, 1: None}, "text=b": {0: 1}},
        "tone": {"text=a": {0: 0.5, 1: None}},
    }


def test_an_older_file_tells_a_failed_call_by_its_response(tmp_path: Path) -> None:
    failed = result("a", at=1, response={"error": "429"}, passed=False)
    del failed["failureReason"]

    assert read(write(tmp_path, result("a"), failed)).scores["pass"]["text=a"] == {0: 1, 1: None}


@pytest.mark.parametrize(("metric", "value"), [("score", 1), ("seconds", 0.812), ("cost", 0.0002)])
def test_other_numbers_are_read_if_they_are_asked_for(
    tmp_path: Path, metric: str, value: float
) -> None:
    assert read(write(tmp_path, result("a")), metric=metric).scores == {
        metric: {"text=a": {0: value}}
    }


def test_seconds_that_are_not_there_are_none(tmp_path: Path) -> None:
    rows = result("a"), result("b", latencyMs=None)

    assert read(write(tmp_path, *rows), metric="seconds").scores["seconds"]["text=b"] == {0: None}


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ('{"results": []}', "no sample has a score"),
        ('{"results": "x"}', "no sample has a score"),
        ('{"results": [1, {"promptIdx": "x"}]}', "no sample has a score"),
        ("[]", "neither a log of Inspect with samples nor what promptfoo writes"),
        ('{"results": {"results": [', "not JSON"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, content: str, part: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)

    with pytest.raises(TableError) as caught:
        read(path)

    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
