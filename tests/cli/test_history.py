"""``llmeval history``, and the plots of ``plan`` and ``until``."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.runs.lookup import standing
from pytest_llmeval.runs.store import RunStore
from tests.reports.planted import recorded
from tests.runs.builders import make_run


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "100", "PY_COLORS": "0"})


@pytest.fixture
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path / ".llmeval", earlier=["ppppm", "pmpmm"])
    monkeypatch.chdir(tmp_path)


def test_a_damaged_run_is_passed_over_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / ".llmeval", earlier=["ppppm", "pmpmm"])
    monkeypatch.chdir(tmp_path)
    first, second, *_ = sorted(tmp_path.glob(".llmeval/runs/*/*.gz"))
    first.write_bytes(first.read_bytes()[:-50])  # its header can be read
    second.write_bytes(b"nothing")

    result = invoke("history", "label")

    assert result.exit_code == 0, result.output
    assert re.findall("^ *([0-9]{7}) ", result.stdout, re.MULTILINE) == ["5050505", "5151515"]
    notes = result.stderr.splitlines()
    assert len(notes) == 2
    assert all(note.startswith("warning: passed over: ") for note in notes)


def test_a_whole_name_means_that_function_though_a_file_has_the_name_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run()
    file, _, name = run.cases[0].function.partition("::")
    assert name in file
    other = {old.id: old.id.replace(f"::{name}", "::test_other") for old in run.cases}
    cases = [replace(old, id=other[old.id], function=f"{file}::test_other") for old in run.cases]
    trials = [replace(old, case=other[old.case]) for old in run.trials]
    both = replace(run, cases=(*run.cases, *cases), trials=(*run.trials, *trials))
    RunStore(tmp_path / ".llmeval").save(both)

    assert "test_other" in invoke("history").stdout
    assert "test_other" not in invoke("history", name).stdout


def test_changes_to_a_commit_do_not_stand_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = recorded(tmp_path / ".llmeval")
    monkeypatch.chdir(tmp_path)
    assert judgement.run is not None
    later = {"id": "20261121T084159-1a2b3c", "created": "2026-11-21T08:41:59+00:00"}
    RunStore(tmp_path / ".llmeval").save(replace(judgement.run, dirty=True, **later))

    lines = invoke("history", "label").stdout.splitlines()

    assert [line.split()[0] for line in lines[3:6]] == ["5050505", "5151515", "5151515*"]
    assert "*: recorded with changes that were not committed" in lines


def test_runs_that_are_not_shown_leave_room_for_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / ".llmeval", earlier=["ppppm", "pmpmm"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(standing, "_MOST_TRIALS", 150)  # each run has 65

    assert invoke("history", "tone", "--branch=main").stdout.count("main") == 3


@pytest.mark.usefixtures("_shop")
class TestHistory:
    def test_each_function_has_a_line_a_commit_oldest_first(self) -> None:
        result = invoke("history")

        assert result.exit_code == 0, result.output
        blocks = result.stdout.split("\n\n")
        assert blocks[0].splitlines()[1] == "test_label"
        assert blocks[1].splitlines()[0] == "test_tone"
        assert [line.split()[:5] for line in blocks[0].splitlines()[3:]] == [
            ["0000000", "main", "2026-11-21", "12", "0.933"],
            ["0101010", "main", "2026-11-21", "12", "0.800"],
            ["5050505", "main", "2026-11-21", "12", "1.000"],
            ["5151515", "shorter", "2026-11-21", "12", "0.700"],
        ]
        assert blocks[-1].splitlines() == [
            "interval: 90%, a range for the mean of other cases like these",
            "commits of 2 branches are mixed: main, shorter. Show those of one: --branch=NAME",
        ]
        assert "mixed" not in invoke("history", "--branch=main").stdout

    def test_no_branch_is_not_counted_as_one(self, tmp_path: Path) -> None:
        store = RunStore(tmp_path / ".llmeval")
        newest = store.load(store.every().runs[0].path)
        store.save(replace(newest, id="20261122T084159-1a2b3c", ref=None, commit="ab" * 20))

        told = "commits of 2 branches and of none are mixed: main, shorter. Show those of one: "
        assert told in invoke("history", "test_label").stdout

    def test_a_function_that_was_renamed_is_one(self, tmp_path: Path) -> None:
        store = RunStore(tmp_path / ".llmeval")
        newest = store.load(store.every().runs[0].path)
        moved, old = "evals/test_moved.py::test_label", "evals/test_shop.py::test_label"
        cases = tuple(
            replace(case, id=case.id.replace(old, moved), function=moved)
            for case in newest.cases
            if case.function == old
        )
        trials = tuple(
            replace(trial, case=trial.case.replace(old, moved))
            for trial in newest.trials
            if trial.case.startswith(f"{old}[")
        )
        later = {"id": "20261122T084159-1a2b3c", "created": "2026-11-22T08:41:59+00:00"}
        store.save(replace(newest, cases=cases, trials=trials, commit="d" * 40, **later))
        (tmp_path / "pytest.ini").write_text(f"[pytest]\nllm_renamed = {old} -> {moved}\n")

        blocks = invoke("history", "label").stdout.split("\n\n")

        assert len(blocks) == 2  # one function, and the legend
        assert [line.split()[0] for line in blocks[0].splitlines()[3:]][-1] == "ddddddd"
        assert len(blocks[0].splitlines()[3:]) == 5

    def test_only_columns_that_are_shown_are_explained(self) -> None:
        narrow = CliRunner().invoke(main, ["history", "label"], env={"COLUMNS": "30"}).stdout
        assert "interval" not in narrow
        assert "main" in narrow

    def test_intervals_of_a_function_are_drawn_on_one_scale(self) -> None:
        lines = invoke("history", "label").stdout.splitlines()[3:7]

        bars = [re.search(r"[━●]+", line) for line in lines]
        points = [line.index("●") for line in lines]
        assert all(bars)
        assert points[3] < points[1] < points[0] < points[2]

    def test_a_function_and_a_branch_can_be_named(self) -> None:
        output = invoke("history", "tone", "--branch=main").stdout

        assert "test_label" not in output
        assert "shorter" not in output
        assert output.count("main") == 3

    def test_the_newest_commits_count(self) -> None:
        output = invoke("history", "tone", "--limit=2").stdout

        assert re.findall(r"^[0-9a-f]{7}", output, re.MULTILINE) == ["5050505", "5151515"]

    def test_it_is_written_for_other_programs(self) -> None:
        label, tone = json.loads(invoke("history", "--json").stdout)

        assert (label["function"], tone["metric"]) == ("evals/test_shop.py::test_label", "pass")
        first = label["points"][0]
        assert (first["commit"], first["mean"]) == ("00" * 20, pytest.approx(0.9333, abs=1e-4))
        assert first["interval"][0] < first["mean"] < first["interval"][1]

    def test_it_is_drawn_for_a_browser(self) -> None:
        page = invoke("history", "--html").stdout  # the option's name before 1.0
        invoke("history", "--report=means.html", "--report=means.json")

        assert Path("means.html").read_text() == page
        assert Path("means.json").read_text() == invoke("history", "--json").stdout
        assert page.startswith("<!DOCTYPE html>")
        assert page.count("<polyline") == 2
        assert "commits of 2 branches are mixed: main, shorter. Show those of one" in page
        assert "mixed" not in invoke("history", "--html", "--branch=main").stdout
        assert "script" not in page
        assert "default-src &#39;none&#39;" in page

    def test_what_is_not_there_is_said(self) -> None:
        unknown, branch = invoke("history", "nothing"), invoke("history", "--branch=nowhere")

        assert (unknown.exit_code, branch.exit_code) == (4, 4)
        assert "nothing: no test function has that in its name" in unknown.stderr
        assert "no complete run of nowhere is recorded in" in branch.stderr

    def test_a_plan_is_drawn_by_repeats_and_by_cases(self) -> None:
        page = invoke("plan", "last", "--html").stdout

        assert page.count("<polyline") == 2
        assert "test_label: chance to find a drop of 0.1, by repeats" in page
        assert "test_label: chance to find a drop of 0.1, by cases" in page
        assert "test_tone: planning needs two cases and repeats of them" in page


def test_a_plan_from_rates_is_drawn(tmp_path: Path) -> None:
    page = invoke("plan", "--rates=0.5,0.9", "--html").stdout  # the option's name before 1.0
    invoke("plan", "--rates=0.5,0.9", f"--report={tmp_path / 'plan.html'}")

    assert (tmp_path / "plan.html").read_text() == page
    assert page.count("<polyline") == 2
    assert "assumed rates: chance to find a drop of 0.1, by cases" in page


@pytest.mark.usefixtures("_shop")
@pytest.mark.parametrize("width", [5, 20, 40, 60])
def test_a_narrow_terminal_shows_it_all_the_same(width: int) -> None:
    result = CliRunner().invoke(main, ["history"], env={"COLUMNS": str(width)})

    assert result.exit_code == 0, result.exception
    assert "5050505" in result.stdout


def test_without_runs_there_is_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    result = invoke("history")

    assert result.exit_code == 4
    assert "no complete run is recorded in" in result.stderr
