"""Each command takes each kind of name, and means the same run and the same case by it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.runs.store import RunStore
from tests.project import Project
from tests.runs.conftest import Project as Repository
from tests.runs.conftest import _own_git  # noqa: F401 - a fixture
from tests.transcripts.recorded import Recorder, run_of, said, system, user

CASE = "evals/test_shop.py::test_label[t2]"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"COLUMNS": "200"})


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with a run of main, whose tip has none; t2 is the worst of three cases."""
    repository = Repository(tmp_path / "project").begin()
    monkeypatch.chdir(repository.top)
    first = repository.commit()
    recorder = Recorder(repository.top / ".llmeval")

    def case(name: str, outcomes: str) -> object:
        def exchanges(_index: int) -> list[object]:
            return [([system("Label."), user(name)], said("billing"))]

        return recorder.case(name, outcomes, exchanges)

    cases = [case("t1", "pp"), case("t2", "mm"), case("t3", "pm")]
    older = None
    for second in (1, 2):
        run = run_of(*cases, second=second, tree="f" * 40, ref="main", commit=first)  # type: ignore[arg-type]
        RunStore(recorder.home).save(replace(run, compared_with=older))
        older = run.id
    recorder.store.close()
    repository.commit()
    return repository


def runs_of(repository: Repository) -> tuple[str, str]:
    first, second = sorted(repository.store.files())
    return first, second


def names_of_runs(repository: Repository) -> dict[str, str]:
    _, newest = runs_of(repository)
    repository.git("tag", "v1", "HEAD~1")
    repository.git("update-ref", "refs/remotes/origin/shared", "HEAD")
    return {
        "id": newest,
        "last": "last",
        "branch": "main",
        "branch of origin": "shared",
        "short hash": repository.git("rev-parse", "--short", "HEAD~1"),
        "hash": repository.git("rev-parse", "HEAD~1"),
        "expression": "HEAD~1",
        "tag": "v1",
        "file": str(repository.store.by_id(newest)),
    }


@pytest.mark.parametrize(
    "command",
    [
        "show RUN",
        "show RUN t2",
        "compare RUN OTHER",
        "diff t2 RUN OTHER",
        "cache why t2 --run=RUN",
        "plan RUN",
        "doctor RUN",
        "selfcheck RUN",
    ],
)
def test_each_command_takes_each_name_of_a_run(repository: Repository, command: str) -> None:
    older, newest = runs_of(repository)
    for kind, name in names_of_runs(repository).items():
        words = [{"RUN": name, "OTHER": newest}.get(word, word) for word in command.split()]
        words = [word.replace("=RUN", f"={name}") for word in words]

        result = invoke(*words)

        assert result.exit_code == 0, (kind, result.output)
        assert (newest if kind != "last" or "OTHER" not in command else older) in result.stdout


CASES = {
    "node id": CASE,
    "without folder": "test_shop.py::test_label[t2]",
    "without file": "test_label[t2]",
    "parameters": "t2",
    "function": "test_label",
    "a part of it": "label",
    "node id of a function": "evals/test_shop.py::test_label",
}


@pytest.mark.parametrize(
    "command", ["show last NAME", "diff NAME", "diff NAME OLDER last", "cache why NAME"]
)
def test_each_command_takes_each_name_of_a_case(repository: Repository, command: str) -> None:
    older, _ = runs_of(repository)
    for kind, name in CASES.items():
        words = [{"NAME": name, "OLDER": older}.get(word, word) for word in command.split()]

        result = invoke(*words)

        assert result.exit_code == 0, (kind, result.output)
        assert CASE in result.stdout, kind


@pytest.mark.parametrize(
    "command", ["history NAME", "plan --function=NAME", "selfcheck last --function=NAME"]
)
def test_each_command_takes_each_name_of_a_function(repository: Repository, command: str) -> None:
    for kind, name in CASES.items():
        result = invoke(*(word.replace("NAME", name) for word in command.split()))

        assert result.exit_code == 0, (kind, result.output)
        assert "test_label" in result.stdout, kind


def test_show_means_the_last_run(repository: Repository) -> None:
    assert invoke("show").stdout == invoke("show", "last").stdout != ""


@pytest.mark.parametrize("name", ["test_label", "test_label[t2]", "t2", CASE])
def test_show_of_a_case_alone_means_the_last_run(repository: Repository, name: str) -> None:
    runs_of(repository)
    assert invoke("show", name).stdout == invoke("show", "last", name).stdout != ""


@pytest.mark.parametrize("name", ["test_labl", "label"])
def test_what_is_no_whole_name_of_a_case_is_a_run_that_is_not_here(
    repository: Repository, name: str
) -> None:
    result = invoke("show", name)

    assert result.exit_code != 0
    assert f"{name}: no table, run file or run id" in result.output


def test_what_is_judged_is_not_replaced_by_an_earlier_run(repository: Repository) -> None:
    older, _ = runs_of(repository)

    result = invoke("compare", older, "main")

    assert result.exit_code == 4
    assert "main: no complete run of a clean tree" in result.output


def test_history_list_show_compare_and_a_session_mean_the_same_run(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.path)
    few = (project.path / "test_evals.py").read_text().replace("repeats=5", "repeats=1")
    project.write(test_evals=few, test_other=few.replace("says_yes", "says_it"))
    project.commit("two files")
    project.run()
    (full,) = (path.name.partition(".")[0] for path in project.runs())
    project.run("test_other.py")
    project.run("-k", "says_yes and case-3")

    history = invoke("history").stdout
    assert [line.split()[3] for line in history.splitlines() if "main" in line] == ["20", "20"]
    assert f"run {full}" in invoke("show", "main").output
    assert json.loads(invoke("compare", "main", "last", "--json").stdout)["baseline"]["id"] == full
    _, report = project.gate("--llm-baseline=HEAD")
    assert report["baseline"]["id"] == full
    assert invoke("list").stdout.count("alone") == 2
