"""`llmeval list`: rows that fit, filters, JSON; and the colours of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.cli.pages import echo_lines
from pytest_llmeval.reports.notation import RED, Line, columns
from pytest_llmeval.runs.store import RunStore
from tests.runs.builders import make_run, make_trials

MODELS = ("anthropic/claude-sonnet-4-5-20250929", "openai/gpt-6-luna-2026-09-22")
LOST = "20261119T084100-dddddd"
OLD, NEW, PART = "20261120T084100-aaaaaa", "20261121T084100-bbbbbb", "20261122T084100-cccccc"
BRANCH = "feature/a-branch-with-a-very-long-name"


def llmeval(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def _runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three runs: of main, of a branch, and a part of that."""
    monkeypatch.chdir(tmp_path)
    store = RunStore(Path(".llmeval").absolute())
    store.save(make_run(id=OLD, models=MODELS))
    store.save(make_run(id=NEW, ref=BRANCH, commit="b" * 40, models=MODELS))
    store.save(make_run(id=PART, ref=BRANCH, complete=False, selection=("-k Peru",)))


def ids(result: Result) -> list[str]:
    _, *rows = result.stdout.splitlines()
    return [row.split()[0] for row in rows]


@pytest.mark.usefixtures("_runs")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ((), [PART, NEW, OLD]),
        (("--branch=main",), [OLD]),
        ((f"--branch={BRANCH}",), [PART, NEW]),
        (("--complete",), [NEW, OLD]),
        (("--limit=2",), [PART, NEW]),
        (("--complete", "--limit=1"), [NEW]),
    ],
)
def test_some_of_the_runs_can_be_listed(filters: tuple[str, ...], expected: list[str]) -> None:
    assert ids(llmeval("list", *filters)) == expected


@pytest.mark.usefixtures("_runs")
def test_a_run_of_an_outage_is_told_from_others() -> None:
    store = RunStore(Path(".llmeval").absolute())
    store.save(make_run(id=LOST, trials=make_trials(20, errored=3)))

    (row,) = (line for line in llmeval("list").stdout.splitlines() if line.startswith(LOST))
    assert "3 of 20 trials errored" in row
    (entry,) = (one for one in json.loads(llmeval("list", "--json").stdout) if one["id"] == LOST)
    assert "3 of 20 trials errored" in entry["remarks"]


@pytest.mark.usefixtures("_runs")
def test_where_no_run_is_such_a_one_that_is_told() -> None:
    result = llmeval("list", "--branch=other")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "none of 3 recorded runs is such a one\n"
    assert llmeval("list", "--branch=other", "--json").stdout == "[]\n"
    assert llmeval("list", "--limit=0").exit_code == 4


@pytest.mark.usefixtures("_runs")
@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_rows_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = llmeval("list").stdout.splitlines()
    assert len(lines) == 4
    assert max(map(columns, lines)) <= width
    assert all(one in "\n".join(lines) for one in (OLD, NEW, PART, "bbbbbbb", "main"))


@pytest.mark.usefixtures("_runs")
def test_what_a_run_lacks_is_told_before_its_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    _, part, *_ = llmeval("list").stdout.splitlines()
    assert "incomplete" in part
    monkeypatch.setenv("COLUMNS", "240")
    _, part, whole, _ = llmeval("list").stdout.splitlines()
    assert part.endswith("of '-k Peru' alone")
    assert whole.endswith(f"  {', '.join(MODELS)}      2       4")


@pytest.mark.usefixtures("_runs")
def test_runs_are_listed_as_json() -> None:
    part, whole = json.loads(llmeval("list", "--json", "--limit=2").stdout)
    assert (part["id"], part["complete"], part["selection"]) == (PART, False, ["-k Peru"])
    assert whole == {
        "id": NEW,
        "created": "2026-11-21T08:41:00+00:00",
        "commit": "b" * 40,
        "dirty": False,
        "ref": BRANCH,
        "complete": True,
        "cases": 2,
        "trials": 4,
        "errored": 0,
        "skipped": 0,
        "models": sorted(MODELS),
        "selection": [],
        "remarks": [],
    }


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, False),  # no terminal
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"PY_COLORS": "1", "NO_COLOR": "1"}, True),
        ({"PY_COLORS": "0", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_follow_the_variables_that_pytest_follows(
    variables: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("PY_COLORS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    echo_lines([Line("REGRESSED", RED), Line()])

    red = "\x1b[31m\x1b[1mREGRESSED\x1b[0m\n\n"
    assert capsys.readouterr().out == (red if coloured else "REGRESSED\n\n")


@pytest.mark.usefixtures("_runs")
def test_the_name_of_a_file_that_is_no_run_steers_no_terminal() -> None:
    folder = Path(".llmeval", "runs", "c" * 40)
    folder.mkdir()
    (folder / "x\n::error::planted\x1b[2J.jsonl.gz").write_bytes(b"no run")

    result = CliRunner().invoke(main, ("list",), color=True)

    warning = result.stderr.removesuffix("\n")
    assert warning.startswith("warning: passed over: ")
    assert warning.isprintable()
    assert r"x\n::error::planted\x1b[2J.jsonl.gz" in warning
