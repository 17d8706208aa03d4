"""Files in the form that lm-evaluation-harness 0.4.13 writes with --log_samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import TableError
from pytest_llmeval.runs.score_table import ScoreTable, read_table

NOTE = "{}: one score a document, whatever --repeats was, so a case has one trial"


def line(doc: object, score: object, *, kind: str = "strict-match", **more: Any) -> dict[str, Any]:
    return {
        "doc_id": doc,
        "doc": {"question": "How many eggs?", "answer": "#### 18"},
        "target": "18",
        "arguments": {"gen_args_0": {"arg_0": "Q: How many eggs?", "arg_1": {"until": ["Q:"]}}},
        "resps": [["The answer is 18."]],
        "filtered_resps": ["18"],
        "filter": kind,
        "metrics": ["exact_match"],
        "doc_hash": "5d2b6c",
        "prompt_hash": "91ac07",
        "target_hash": "4ec956",
        "exact_match": score,
        **more,
    }


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "samples_gsm8k_2026-11-26T15-38-34.123456.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def read(path: Path, **choice: str) -> ScoreTable:
    return read_table(path, reference=str(path), **choice)


def test_documents_are_cases_and_a_filter_makes_a_metric_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, line(0, 0.0), line(0, 1.0, kind="flexible-extract"), line(1, 1.0))

    table = read(path)

    assert table.scores == {
        "exact_match,strict-match": {"0": {0: 0.0}, "1": {0: 1.0}},
        "exact_match,flexible-extract": {"0": {0: 1.0}},
    }
    assert table.notes == (NOTE.format(path.name),)
    assert list(read(path, metric="exact_match,strict-match").scores) == [
        "exact_match,strict-match"
    ]


def test_several_metrics_of_a_document_are_read(tmp_path: Path) -> None:
    more = {"metrics": ["acc", "acc_norm"], "acc": 1.0, "acc_norm": 0.0}

    assert read(write(tmp_path, line(7, None, kind="none", **more))).scores == {
        "acc": {"7": {0: 1.0}},
        "acc_norm": {"7": {0: 0.0}},
    }


def test_an_older_file_does_not_list_its_metrics(tmp_path: Path) -> None:
    old = {"doc_id": 3, "doc": {}, "target": " B", "arguments": [], "resps": [], "acc": 1.0}

    assert read(write(tmp_path, old)).scores == {"acc": {"3": {0: 1.0}}}


def test_pairs_of_numbers_are_left_out_and_counted(tmp_path: Path) -> None:
    pair = line(0, 1, metrics=["exact_match", "ppl"], ppl=[-3.5, 12])

    assert read(path := write(tmp_path, pair)).notes == (
        NOTE.format(path.name),
        f"{path.name}: values of ppl,strict-match that are no numbers: 1, left out",
    )


def test_a_line_without_its_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="line 2: it has no 'doc_id'"):
        read(write(tmp_path, line(0, 1), {"case_id": "a"}))


def test_a_document_is_there_once(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"jsonl: repeat 0 of case '0' is there a second time$"):
        read(write(tmp_path, line(0, 1), line(0, 0)))


def test_a_table_may_have_a_column_of_that_name(tmp_path: Path) -> None:
    row = {"case_id": "a", "repeat": 0, "score": 1, "doc_id": 4}

    assert read(write(tmp_path, row)).scores == {None: {"a": {0: 1}}}
