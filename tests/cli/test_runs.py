"""`llmeval list` and `llmeval show`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from tests.project import Project


def llmeval(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def test_runs_are_listed_and_shown(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.path)
    project.run()
    (file,) = project.runs()
    run_id = file.name.removesuffix(".jsonl.gz")

    heading, row = llmeval("list").stdout.splitlines()
    shown = llmeval("show", "last")

    assert heading.split() == ["run", "commit", "branch", "models", "cases", "trials"]
    assert row.split() == [
        run_id,
        file.parent.name[:7],
        "main",
        "function/model:answer",
        "20",
        "100",
    ]
    assert shown.exit_code == 0
    assert shown.stdout.startswith(f"run {run_id}, 20 cases, 100 trials\ncommit {file.parent.name}")
    assert "test_says_yes     20  0." in shown.stdout
    told = (
        "not gated: llmeval show compares nothing. To compare the run, type  llmeval compare OTHER"
    )
    assert f"{told} last" in shown.stdout


def test_an_incomplete_run_and_a_damaged_one_are_told(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.run("-k", "case-3", "-x", "test_evals.py::test_says_yes")
    (file,) = project.runs()
    file.with_name("20261121T084100-000000.jsonl.gz").write_bytes(b"noise")

    result = llmeval("list")

    assert "incomplete: not everything was collected" in result.stdout
    assert "warning: passed over: " in result.stderr
    for name in (file, "last", file.name.removesuffix(".jsonl.gz")):
        shown = llmeval("show", name)
        assert "note: incomplete" in shown.stdout
        assert "note: of '-k case-3', 'test_evals.py::test_says_yes' alone" in shown.stdout
        assert " alone" not in shown.stderr  # each is said once
        assert "incomplete" not in shown.stderr
        of_case = llmeval("show", name, "case-3")
        assert "is incomplete: not everything was collected\n" in of_case.stderr


def test_where_nothing_is_recorded_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (["list"], ["show", "last"], ["list", "--dir", "other"]):
        result = llmeval(*command)
        assert result.exit_code == 4
        assert "Record one: pytest" in result.stderr


def test_a_name_means_the_run_that_it_means_as_what_is_compared(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    project.run()
    everything = project.runs()[0].name.removesuffix(".jsonl.gz")
    project.run("-k", "case-3")
    for command in ("show", "plan", "selfcheck"):
        assert llmeval(command, "main").stdout.startswith(f"run {everything}")
    assert (
        f"here main@{project.git('rev-parse', '--short=7', 'main')}"
        in llmeval("compare", everything, "main").stdout
    )
    part = llmeval("show", "main::test_says_yes[case-3]").stdout
    assert part.startswith(f"run {everything}, 1 case, 5 trials")


def test_a_score_table_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"c{case},{repeat},{repeat % 2}" for case in range(8) for repeat in range(4)]
    Path("t.csv").write_text("\n".join(["case_id,repeat,score", *rows]))
    shown = llmeval("show", "t.csv")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("table t.csv, 8 cases, 32 trials\n")
    assert "0.500" in shown.stdout
    assert "note: " not in shown.stdout
    assert llmeval("show", "u.csv").exit_code == 4
