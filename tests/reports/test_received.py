"""Reports that a stranger wrote, from the artifact to the text of a comment."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_LZMA, ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from pytest_llmeval.errors import ReportRefused
from pytest_llmeval.github.workflow_run import report_in
from pytest_llmeval.reports.received import DEEPEST, MOST_BYTES, SCHEMA_FILE, read_report
from tests.github.jobs import archive, report

WELL = json.dumps(report()).encode()


def with_note(value: str) -> bytes:
    """Word a report with a key that nobody knows, which newer versions may have."""
    return WELL[:-1] + b', "later": ' + value.encode() + b"}"


def test_a_report_is_read() -> None:
    assert read_report(WELL) == report()
    assert read_report(with_note('{"than": [1.5, null]}'))["later"] == {"than": [1.5, None]}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 10**6, "nested too deeply"),
        (b" " * (MOST_BYTES + 1), "more than 5000000 bytes"),
        (with_note("[" * DEEPEST + "]" * DEEPEST), "more than 20 levels"),
        (with_note("NaN"), "not finite"),
        (with_note("-Infinity"), "not finite"),
        (with_note("1e999"), "not finite"),
        (with_note("9" * 100), "too large"),
        (with_note("9" * 5000), "no JSON"),
        (with_note(f"[{'0,' * 10**6}0]"), "more than 1000000 values"),
        (with_note('{"a": 1, "a": 2}'), "twice"),
        (WELL[:-1] + b', "verdict": "unchanged"}', "twice"),
        (b"null", "must be object"),
        (b"{}", "must contain"),
        (json.dumps(report(verdict="excellent")).encode(), "verdict: must be one of"),
        (json.dumps(report(fails="no")).encode(), "fails: must be boolean"),
        (
            json.dumps(report(schema_version=2)).encode(),
            "schema_version: must be same as const definition: 1",
        ),
        (json.dumps(report(functions=[{}])).encode(), "functions.0.: cannot be validated"),
    ],
    ids=range(19),
)
def test_what_is_no_report_is_refused_in_a_line(content: bytes, why: str) -> None:
    with pytest.raises(ReportRefused, match=why) as raised:
        read_report(content)
    message = str(raised.value)
    assert "\n" not in message
    assert len(message) < 200


def test_a_wheel_has_the_schema_that_reports_are_held_against(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (wheel,) = WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(wheel) as files:
        name = str(SCHEMA_FILE.relative_to(root))
        assert files.read(name) == (root / "docs" / SCHEMA_FILE.name).read_bytes()


def test_a_refusal_stays_in_its_line_whatever_a_key_is_called() -> None:
    document = report()
    document["run"]["versions"] = {"\n::error::x": 1}
    with pytest.raises(ReportRefused) as raised:
        read_report(json.dumps(document).encode())
    assert str(raised.value).isprintable()


def test_a_refusal_does_not_quote_the_report() -> None:
    with pytest.raises(ReportRefused) as raised:
        read_report(json.dumps(report(verdict="@octocat <b>")).encode())
    assert "octocat" not in str(raised.value)


# --- artifacts --------------------------------------------------------------------------------


def test_the_one_report_of_an_artifact_is_found_beside_other_files() -> None:
    files = {"r.json": "{}", ".llmeval/runs/a.json": "1", "evals.md": "2"}
    assert report_in(archive(files), most=10) == b"{}"


def test_of_a_report_no_more_is_unpacked_than_may_be_read() -> None:
    bomb = archive({"r.json": b"0" * 10**7})
    assert len(bomb) < 10**5
    assert len(report_in(bomb, most=1000)) == 1000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        archive({"r.json": "{}"})[:-30],
        archive({"r.json": "{}" * 100}).replace(b"\xab", b"\xac", 1)[:60],
        archive({}),
        archive({"a.json": "{}", "b.json": "{}"}),
        archive({"../r.json": "{}"}),
        archive({"evals/r.json": "{}"}),
        archive({"/r.json": "{}"}),
        archive({"r.json": "{}"}, ZIP_LZMA),
        archive({"r.json": "{}"}, ZIP_BZIP2),
    ],
    ids=range(11),
)
def test_an_artifact_without_one_plain_report_is_refused(content: bytes) -> None:
    with pytest.raises(ReportRefused, match="artifact"):
        report_in(content, most=1000)


def test_a_report_that_is_damaged_within_its_archive_is_refused() -> None:
    whole = archive({"r.json": json.dumps(list(range(1000)))})
    for place in range(30, 200):
        damaged = whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        try:
            report_in(damaged, most=10**5)
        except ReportRefused:
            continue
        pytest.fail(f"byte {place} is not missed")
