"""Logs in the form that Inspect 0.3.285 writes: its summaries and header, less what is not read."""

from __future__ import annotations

import json
import math
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import TableError
from pytest_llmeval.runs.readers import inspect_log, result_file
from pytest_llmeval.runs.score_table import ScoreTable, read_table

HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "tickets",
        "dataset": {"name": "tickets", "samples": 2, "sample_ids": ["t-001", 2]},
        "model": "openai/gpt-6-luna",
        "config": {"epochs": 2},
    },
}


def sample(case: object, epoch: int, value: object, **more: object) -> dict[str, Any]:
    return {
        "id": case,
        "epoch": epoch,
        "input": "Where is my refund?",
        "target": "billing",
        "scores": {"exact": {"value": value, "answer": "billing", "history": []}},
        "total_time": 0.341,
        "completed": True,
        **more,
    }


SAMPLES = [sample("t-001", 1, "C"), sample("t-001", 2, "I"), sample(2, 1, "P"), sample(2, 2, "N")]


def packed(
    folder: Path, members: dict[str, Any], *, compression: int = zipfile.ZIP_DEFLATED
) -> Path:
    path = folder / "tickets.eval"
    with zipfile.ZipFile(path, "w", compression) as log:
        for name, content in members.items():
            log.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return path


def log(folder: Path, samples: object = SAMPLES, **header: Any) -> Path:
    return packed(folder, {"summaries.json": samples, "header.json": {**HEADER, **header}})


def read(path: Path, **choice: str) -> ScoreTable:
    return read_table(path, reference=str(path), **choice)


def test_samples_are_cases_and_epochs_are_repeats(tmp_path: Path) -> None:
    table = read(log(tmp_path))

    assert table.scores == {"exact": {"t-001": {0: 1, 1: 0}, "2": {0: 0.5, 1: 0}}}
    assert table.notes == ()


def test_a_log_of_json_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "tickets.json"
    path.write_text(json.dumps({**HEADER, "samples": SAMPLES}))

    assert read(path).scores == read(log(tmp_path)).scores


def test_a_log_packed_with_zstd_is_read(tmp_path: Path) -> None:
    try:
        from backports.zstd import zipfile as packer
    except ImportError:
        packer = zipfile
    path = tmp_path / "tickets.eval"
    with packer.ZipFile(path, "w", packer.ZIP_ZSTANDARD) as packed:
        packed.writestr("header.json", json.dumps(HEADER))
        packed.writestr("summaries.json", json.dumps(SAMPLES))

    assert read(path).scores["exact"]["t-001"] == {0: 1, 1: 0}


def test_without_a_module_for_zstd_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "backports.zstd.zipfile", None)
    assert read(log(tmp_path)).scores

    def refused(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(zipfile.ZipFile, "read", refused)
    with pytest.raises(TableError, match=r"pip install backports\.zstd, or inspect log convert"):
        read(log(tmp_path))


@pytest.mark.parametrize(
    ("value", "score"),
    [("C", 1), ("yes", 1), (True, 1), (0.25, 0.25), ("0.5", 0.5), ("no", 0), (float("nan"), None)],
)
def test_a_value_is_the_number_that_inspect_takes_it_for(
    tmp_path: Path, value: object, score: float | None
) -> None:
    table = read(log(tmp_path, [*SAMPLES, sample(3, 1, value)]))

    assert table.scores["exact"]["3"] == {0: score}


def test_a_scorer_with_several_values_is_several_metrics(tmp_path: Path) -> None:
    both = {"tone": 3, "length": 0.5}
    table = read(log(tmp_path, [sample(1, 1, both), sample(1, 2, both)]), metric="exact.tone")

    assert table.scores == {"exact.tone": {"1": {0: 3, 1: 3}}}


def test_a_failed_sample_is_an_errored_trial_whatever_it_scored(tmp_path: Path) -> None:
    failed = [sample(3, 1, "C", error="TimeoutError()"), sample(3, 2, "C", scores={})]
    table = read(log(tmp_path, [*SAMPLES, *failed], status="error"))

    assert table.scores["exact"]["3"] == {0: None, 1: None}
    assert table.notes == ("tickets.eval: its status is 'error'",)


def test_an_unfinished_log_says_what_is_missing(tmp_path: Path) -> None:
    journal = {"_journal/start.json": {"eval": HEADER["eval"]}}
    parts = {f"_journal/summaries/{n}.json": [SAMPLES[n]] for n in range(3)}

    table = read(packed(tmp_path, journal | parts))

    assert table.notes == ("tickets.eval: 3 of 4 samples are in it",)


def test_values_that_are_no_numbers_are_counted(tmp_path: Path) -> None:
    graded = [{**one, "scores": {**one["scores"], "grade": {"value": "B+"}}} for one in SAMPLES]

    assert read(log(tmp_path, graded)).notes == (
        "tickets.eval: values of grade that are no numbers: 4, left out",
    )


@pytest.mark.parametrize("value", ["unparsed", [1, 0], 10**400, "inf", math.nan])
def test_a_value_that_is_no_number_is_a_failed_call_beside_numbers(
    value: object, tmp_path: Path
) -> None:
    table = read(log(tmp_path, [*SAMPLES, sample(3, 1, value)]))

    assert table.scores["exact"]["3"] == {0: None}
    assert table.notes == (
        "tickets.eval: values of exact that are no numbers: 1, taken as failed calls",
    )


@pytest.mark.parametrize(
    ("samples", "part"),
    [
        ([], "no sample has a score"),
        ([sample(1, 1, "C", error="x")], "no sample has a score"),
        ([sample(1, 0, "C")], "no 'epoch' from 1"),
        ([sample(1, "1", "C")], "no 'epoch' from 1"),  # type: ignore[arg-type]
        (["text"], "has no 'id'"),
        ([sample([1], 1, "C")], "case_id is [1], not a name"),
        ([sample(1, 1, "C"), sample("1", 1, "C")], "is there a second time"),
        ([sample(1, 1, 10**400)], "no sample has a score"),
        ({"no": "list"}, "no sample has a score"),
        ('[{"id": 1', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1" + "0" * 5000 + "]", "not JSON"),
    ],
)
def test_what_is_no_log_is_refused_in_a_sentence(
    tmp_path: Path, samples: object, part: str
) -> None:
    with pytest.raises(TableError) as caught:
        read(log(tmp_path, samples))

    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tickets.eval"
    path.write_bytes(b"not a zip")
    with pytest.raises(TableError, match="damaged, or no log of Inspect"):
        read(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be read"):
        inspect_log.read_packed(tmp_path)


def test_what_inflates_without_end_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_log, "LARGEST", 1000)
    path = log(tmp_path, " " * 10**6)

    with pytest.raises(TableError, match="inflate to more than"):
        read(path)


def test_a_large_file_of_json_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_file, "LARGEST", 1000)
    path = tmp_path / "tickets.json"
    path.write_text(" " * 1001)

    with pytest.raises(TableError, match="write its scores as a table"):
        read(path)


def test_a_folder_of_that_name_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be read"):
        result_file.load_json(tmp_path)
