"""`llmeval merge`: shards that pytest recorded become one run, judged once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cli import main
from pytest_llmeval.records import Run
from pytest_llmeval.runs.run_file import read_run, write_run
from pytest_llmeval.runs.store import RunStore
from tests.project import Project, make_project
from tests.stories.test_cli import assert_refused, llmeval

# deals the cases out as plugins for shards do, and says so
CONFTEST = """
    import os
    import pytest

    def pytest_collection_modifyitems(config, items):
        shard = os.environ.get("SHARD")
        if shard is None:
            return
        mine = items[int(shard) - 1 :: 3]
        config.hook.pytest_deselected(items=[item for item in items if item not in mine])
        items[:] = mine
"""
MORE = """
    import pytest
    from pytest_llmeval import llm_eval

    @llm_eval(repeats=2)
    @pytest.mark.parametrize("case", range(7))
    def test_more(llm, case):
        assert llm.ask(f"{case} rate=0.9").text == "yes"
"""
BAD = 'PROMPT = "Say yes to {case}, please. rate=0.2"\n'


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the project lies that was made first."""
    return tmp_path_factory.mktemp("shards") / "project"


@pytest.fixture
def project(recorded: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a whole run of main, and three shards of a worse prompt in ``shards/``."""
    if recorded.exists():
        shutil.copytree(recorded, pytester.path, dirs_exist_ok=True)
        project = Project(pytester)
    else:
        project = make_project(pytester)
        project.write(conftest=CONFTEST, test_more=MORE)
        (project.path / ".gitignore").write_text("__pycache__/\ncalls.log\nout/\nshards*/\n")
        project.commit()
        project.run()
        project.git("switch", "-qc", "branch")
        project.write(app=BAD)
        project.commit()
        record_shards(project, monkeypatch)
        shutil.copytree(project.path, recorded, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(project.path)
    return project


def record_shards(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in "123":
        with monkeypatch.context() as patch:
            patch.setenv("SHARD", number)
            project.run(f"--llm-dir=shards/{number}")


def newest(project: Project) -> Run:
    found = RunStore(project.path / ".llmeval").newest()
    assert found is not None
    return found.run


def rewritten(project: Project, change: Callable[[Run], Run]) -> None:
    """Let the shards have been recorded otherwise."""
    for file in (project.path / "shards").rglob("*.jsonl.gz"):
        write_run(change(read_run(file)), file)


def merged_run(project: Project, document: dict[str, Any]) -> Run:
    """The run that a report is of; others may have begun in the same second."""
    store = RunStore(project.path / ".llmeval")
    path = store.by_id(document["run"]["id"])
    assert path is not None
    return store.load(path)


def test_three_shards_are_judged_once_as_one_complete_run(project: Project) -> None:
    result = llmeval(
        "merge", "shards/1", "shards/2", "shards/3", "--baseline=main", "--report=out/r.json"
    )

    assert result.exit_code == 1, result.output
    document = json.loads((project.path / "out" / "r.json").read_text())
    assert document["verdict"] == "regressed"
    assert document["baseline"]["commit"] == project.git("rev-parse", "main")
    verdicts = {each["function"]: each["verdict"] for each in document["functions"]}
    assert verdicts.keys() == {"test_evals.py::test_says_yes", "test_more.py::test_more"}
    assert verdicts["test_evals.py::test_says_yes"] == "regressed"
    run = merged_run(project, document)
    assert (run.complete, len(run.cases)) == (True, 27)
    *_, last = result.stdout.splitlines()
    assert last.startswith("llm evals: test_says_yes fell by ")
    assert f"recorded {run.id} for {project.git('rev-parse', 'HEAD')[:7]}\n" in result.stdout


def test_to_merge_again_is_the_same_run(project: Project) -> None:
    first = llmeval("merge", "shards")
    files = {file: file.read_bytes() for file in project.runs()}
    second = llmeval("merge", "shards/3", "shards/2", "shards/1", "shards/2")

    assert (first.exit_code, second.exit_code) == (0, 0), first.output
    assert {file: file.read_bytes() for file in project.runs()} == files
    assert "compared with nothing yet" in first.stdout


def test_a_merged_run_is_a_baseline(project: Project) -> None:
    assert llmeval("merge", "shards", "--report=out/r.json").exit_code == 0
    merged = merged_run(project, json.loads((project.path / "out" / "r.json").read_text()))
    result = llmeval("compare", "main", "branch", "--json")
    assert json.loads(result.stdout)["run"]["id"] == merged.id


def test_shards_that_stopped_early_lack_nothing_and_are_judged(project: Project) -> None:
    function = "test_evals.py::test_says_yes"

    def stopped(run: Run) -> Run:
        repeats = max(case.repeats for case in run.cases if case.function == function) - 1
        trials = (
            one for one in run.trials if one.index < repeats or not one.case.startswith(function)
        )
        return replace(run, trials=tuple(trials), looks={function: repeats}, complete=False)

    rewritten(project, stopped)
    result = llmeval("merge", "shards", "--baseline=main", "--report=out/r.json")

    assert result.exit_code == 1, result.output
    assert "could not judge" not in result.stdout
    assert "as 1 function stopped early" in result.stdout
    assert "not usable as a baseline: the run is incomplete, as it stopped early" in result.stdout
    document = json.loads((project.path / "out" / "r.json").read_text())
    assert document["verdict"] == "regressed"
    assert not document["run"]["complete"]


def test_what_a_missing_shard_has_is_not_judged_and_not_called_gone(project: Project) -> None:
    for file in (project.path / "shards").rglob("*.jsonl.gz"):
        run = read_run(file)
        kept = [case for case in run.cases if "test_more" in case.id]
        trials = tuple(trial for trial in run.trials if "test_more" in trial.case)
        write_run(replace(run, cases=tuple(kept), trials=trials), file)
    result = llmeval("merge", "shards", "--baseline=main")
    assert result.exit_code == 1
    assert "could not judge: 7 of 27 cases are here" in result.stdout
    assert "not judged: test_says_yes (20 cases, deselected)" in result.stdout
    assert "llm_accept_gone" not in result.stdout


@pytest.mark.parametrize(
    ("shards", "said"),
    [
        (("shards/1", "shards/3"), "18 of 27 cases are here: shard 2 missing?"),
        (("shards/1", "shards/2"), "18 of 27 cases are here: is a shard missing, or did one stop"),
        (("shards/1", "shards/2", "empty"), "18 of 27 cases are here: no run file"),
    ],
)
def test_a_missing_shard_is_named_and_fails(
    project: Project, shards: tuple[str, ...], said: str
) -> None:
    (project.path / "empty").mkdir()
    result = llmeval("merge", *shards, "--report=out/r.json")

    assert result.exit_code == 1
    assert f"could not judge: {said}" in result.stdout
    document = json.loads((project.path / "out" / "r.json").read_text())
    assert (document["verdict"], document["fails"]) == ("could_not_judge", True)
    assert said in document["why"]
    assert not merged_run(project, document).complete


def test_what_is_no_shard_is_one_line_and_exit_4(project: Project) -> None:
    assert_refused(llmeval("merge"), "DIR...")
    assert_refused(llmeval("merge", "shards/4"), "shards/4")
    (project.path / "empty").mkdir()
    assert_refused(llmeval("merge", "empty"), "no run file (.jsonl.gz) lies in empty")
    assert_refused(llmeval("merge", "shards", "--baseline=nowhere"), "--baseline=nowhere: no file")
    assert_refused(llmeval("merge", "shards", "--report=r.txt"), "--report=")
    assert_refused(llmeval("merge", "shards", "--baseline=nowhere", "--report=out/r.json"))
    document = json.loads((project.path / "out" / "r.json").read_text())
    assert (document["verdict"], document["fails"]) == ("could_not_judge", True)
    assert "--baseline=nowhere: no file" in document["why"]
    [file] = (project.path / "shards" / "1").rglob("*.jsonl.gz")
    file.write_bytes(file.read_bytes()[:-20])
    before = [*(project.path / "shards").rglob("*.jsonl.gz")]
    assert_refused(llmeval("merge", "shards"), "is cut off before its end")
    assert [*(project.path / "shards").rglob("*.jsonl.gz")] == before


def test_runs_that_git_tracks_are_not_trusted(project: Project) -> None:
    project.git("add", "-f", ".llmeval/runs")
    assert_refused(llmeval("merge", "shards"), "git tracks .llmeval/runs")


def test_without_a_baseline_run_the_merged_one_is_recorded_all_the_same(project: Project) -> None:
    shutil.rmtree(project.path / ".llmeval")
    result = llmeval("merge", "shards", "--baseline=main")
    assert_refused(result, "--baseline=main: no complete run recorded for main")
    assert "--llm-" not in result.stderr
    assert newest(project).complete


@pytest.mark.parametrize("named", [["shards"], ["shards/1", "shards/2", "shards/3"]], ids=len)
def test_a_shard_of_another_commit_is_refused(project: Project, named: list[str]) -> None:
    """The three good ones were passed over for it, and the report spoke of missing cases."""
    [file] = (project.path / "shards" / "3").rglob("*.jsonl.gz")
    run = read_run(file)
    write_run(replace(run, commit="ab" * 20, id=f"2026{run.id[4:]}"), file)
    assert_refused(llmeval("merge", *named), "are of different commits (")


def test_the_base_that_a_shard_ran_is_no_shard(project: Project) -> None:
    [file] = (project.path / "shards" / "3").rglob("*.jsonl.gz")
    base = replace(read_run(file), commit="ab" * 20, id="20261124T000000-000000", made="rerun")
    RunStore(project.path / "shards" / "3").save(base)
    assert llmeval("merge", "shards").exit_code == 0


def test_runs_of_other_commits_beside_them_are_passed_over(project: Project) -> None:
    shutil.copytree(project.path / ".llmeval" / "runs", project.path / "shards" / "1" / "others")
    result = llmeval("merge", "shards")
    assert result.exit_code == 0
    head = project.git("rev-parse", "HEAD")[:7]
    assert f"note: passed over, as not of {head}: 1 run" in result.stdout


def test_shards_by_path_are_complete_if_they_reach_every_file(project: Project) -> None:
    for file in ("test_evals.py", "test_more.py"):
        project.run(f"--llm-dir=paths/{file}", file)

    part = llmeval("merge", "paths/test_more.py", "--union", "--baseline=main")
    assert part.exit_code == 1
    assert "could not judge: no shard was given test_evals.py" in part.stdout
    whole = llmeval("merge", "paths", "--union", "--baseline=main", "--report=out/r.json")
    assert whole.exit_code == 1
    document = json.loads((project.path / "out" / "r.json").read_text())
    assert document["verdict"] == "regressed"
    run = merged_run(project, document)
    assert (run.complete, run.selection, len(run.cases)) == (True, (), 27)
    assert_refused(llmeval("merge", "paths"), "--union")


def test_outside_of_the_repository_paths_cannot_be_checked(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.run("--llm-dir=paths", "test_more.py")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    result = llmeval("merge", project.path / "paths", "--union")
    assert_refused(result, "--union needs the commit of the runs", "Check it out first")


def test_the_gate_has_the_rules_that_the_shards_had_where_they_are_stricter(
    project: Project,
) -> None:
    rules = {"alpha": 0.2, "margin": 0.9, "target": 0.95, "later": "unknown here"}
    rewritten(project, lambda run: replace(run, rules=rules))
    result = llmeval("merge", "shards", "--baseline=main", "--report=out/r.json")
    document = json.loads((project.path / "out" / "r.json").read_text())
    assert (document["settings"]["margin"], document["settings"]["alpha"]) == (0.0, 0.2)
    assert "llm_margin = 0.9 was not followed" in result.output
    rewritten(project, lambda run: replace(run, rules={"alpha": 0.7}))
    assert_refused(llmeval("merge", "shards"), "alpha=0.7 of run ", ": must lie above 0")


def test_marks_of_shards_lower_nothing(project: Project) -> None:
    (file,) = (project.path / ".llmeval" / "runs").rglob("*.jsonl.gz")
    main = read_run(file)
    cases = tuple(replace(case, min_score=0.2, marked=9) for case in main.cases)
    write_run(replace(main, cases=cases), file)

    result = llmeval("merge", "shards", "--baseline=main")

    assert result.exit_code == 1
    assert "below the min_score of the baseline: test_says_yes[case-" in result.output
    assert "note: test_says_yes: min_score=None was not followed" in result.output
    assert "note: test_more: repeats=2 here, and 9 in the baseline" in result.output


def test_in_ci_a_part_that_gates_alone_is_warned_of(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    warning = "only 9 of 27 cases are judged here: parts that are judged alone"
    monkeypatch.setenv("SHARD", "1")
    assert warning not in project.run("--llm-baseline=main").stdout.str()
    monkeypatch.setenv("CI", "true")
    part = project.run("--llm-baseline=main").stdout.str()
    assert f"note: {warning}" in part
    assert "llmeval merge DIR... --baseline=main" in part
    assert warning not in project.run().stdout.str()
    monkeypatch.delenv("SHARD")
    assert "judged here" not in project.run("--llm-baseline=main").stdout.str()
    by_path = project.run("--llm-baseline=main", "test_more.py").stdout.str()
    assert "note: only 7 of 27 cases are judged here" in by_path


def test_what_was_not_counted_is_not_claimed_to_be_counted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(test_broken="raise OSError")
    project.run("--continue-on-collection-errors")
    assert newest(project).collected is None
    (project.path / "test_broken.py").unlink()
    project.pytester.runpytest("--lf")
    assert newest(project).collected is None


def test_the_command_is_listed() -> None:
    assert "merge" in main.commands


def test_a_shallow_clone_gets_what_a_session_gets_and_no_option_is_named_that_is_none(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job that judges has a clone of depth 1, and main's runs."""
    folder = tmp_path_factory.mktemp("gate")
    project.git("clone", "-q", "--bare", ".", str(folder / "origin.git"))
    clone = folder / "clone"
    origin = (folder / "origin.git").as_uri()
    project.git("clone", "-q", "--depth=1", "--branch=branch", origin, str(clone))
    shutil.copytree(project.path / ".llmeval", clone / ".llmeval")
    shards = str(project.path / "shards")
    monkeypatch.chdir(clone)

    refused = llmeval("merge", shards, "--baseline=main")
    assert_refused(refused, "let it be fetched: add --fetch")
    assert "--llm-" not in refused.stderr

    fetched = llmeval("merge", shards, "--baseline=main", "--fetch")
    monkeypatch.setenv("CI", "true")
    in_ci = llmeval("merge", shards, "--baseline=main")
    assert (fetched.exit_code, in_ci.exit_code) == (1, 1)
    assert "regressed" in in_ci.stdout.lower()
