"""The JSON report in every form of a result, compared with its schema and its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from docs import make_schema
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Outcome
from pytest_llmeval.reports.json_report import dumped, json_text
from pytest_llmeval.reports.make_report import make_report
from tests.report_schema import SCHEMA
from tests.reports.judgements import FORMS, LABEL, MISSED

DOCS = Path(__file__).parents[2] / "docs"
Schema = dict[str, Any]


@pytest.fixture(scope="module", params=FORMS)
def judgement(request: pytest.FixtureRequest) -> Judgement:
    made: Judgement = FORMS[request.param]()
    return made


def strict(schema: Any) -> Any:
    """The schema, with no key but those that it names."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    return closed | ({"additionalProperties": False} if "properties" in schema else {})


def names_in(schema: Any) -> Iterator[str]:
    """Every key that a schema names."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from names_in(value)


def test_every_form_fits_the_schema_and_has_no_other_key(judgement: Judgement) -> None:
    made = make_report(judgement)
    report = json.loads(json_text(made))
    assert report == dumped(made)
    jsonschema.Draft7Validator(strict(SCHEMA)).validate(report)


def test_the_schema_is_one_and_made_from_the_records() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert make_schema.schema() == SCHEMA, "make docs"


def test_the_page_tells_every_key() -> None:
    told = set(re.findall(r"`(\w+)`", (DOCS / "report-format.md").read_text(encoding="utf-8")))
    assert not set(names_in(SCHEMA)) - told


def moved_of(judgement: Judgement) -> list[dict[str, Any]]:
    functions = {one["function"]: one for one in dumped(make_report(judgement))["functions"]}
    cases: list[dict[str, Any]] = functions[LABEL]["moved"]
    return cases


def test_a_case_that_fell_is_told_with_what_it_takes_to_read_it() -> None:
    judgement = FORMS["regressed"]()
    assert judgement.run is not None
    first = moved_of(judgement)[0]
    calls = [
        call
        for trial in judgement.run.trials
        if trial.case == first["case"]
        for call in trial.calls
    ]
    assert first["failure"] == MISSED
    assert first["difference"] == -1
    here = first["replies"]["here"]
    assert here["listed"] == [{"key": calls[0].key, "draws": [call.draw for call in calls]}]
    assert first["replies"]["baseline"]["listed"][0]["key"] != calls[0].key


def test_those_that_fell_come_first_and_only_the_ten_that_moved_most() -> None:
    differences = [case["difference"] for case in moved_of(FORMS["regressed"]())]
    assert differences == sorted(differences)
    assert 0 not in differences
    assert len(differences) <= 10


def test_a_recorded_run_tells_where_a_case_failed_and_no_text() -> None:
    judgement = replace(FORMS["regressed"](), headlines={})
    first = moved_of(judgement)[0]
    assert judgement.run is not None
    trials = [one for one in judgement.run.trials if one.case == first["case"]]
    missed = next(one for one in trials if one.outcome is Outcome.MISSED)
    assert first["failure"] == missed.message != ""


def test_without_excerpts_no_key_of_theirs_is_there() -> None:
    assert all("excerpt" in case for case in moved_of(FORMS["regressed"]()))
    judgement = replace(FORMS["regressed"](), excerpts={})
    assert not any("excerpt" in case for case in moved_of(judgement))


def test_the_words_of_a_function_are_in_it() -> None:
    function = dumped(make_report(FORMS["regressed"]()))["functions"][0]
    assert function["label"] == "test_label"
    assert function["sentence"].startswith("test_label fell by 0.283 (0.950 -> 0.667); ")
    assert function["accepting_line"] == "llm_accept = test_label:pass >= 0.43"


def test_a_run_file_is_told_as_it_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = replace(FORMS["regressed"](), path=tmp_path / "gone" / "run.jsonl.gz")

    def told() -> str:
        return str(dumped(make_report(judgement))["run"]["file"])

    assert told() == f"{tmp_path}/gone/run.jsonl.gz"
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path)
    assert told() == "gone/run.jsonl.gz"
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert told() == f"{tmp_path}/gone/run.jsonl.gz"


def test_a_place_is_told_below_the_top_of_git() -> None:
    judgement = FORMS["regressed"]()
    run = judgement.run
    assert run is not None
    below = replace(run, root="services/support", places={LABEL: "evals/base.py:21"})
    function = dumped(make_report(replace(judgement, run=below)))["functions"][0]
    assert (function["file"], function["line"]) == ("services/support/evals/base.py", 21)
    assert function["moved"][0]["line"] == 21
