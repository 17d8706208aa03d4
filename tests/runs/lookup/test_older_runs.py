"""Which older runs may have further draws for a baseline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmeval.runs.lookup.session_baseline import find_baseline, older_runs
from pytest_llmeval.settings import Settings
from tests.runs.builders import make_call, make_trials
from tests.runs.conftest import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project").begin()


def found(project: Project) -> list[str]:
    """The ids of the older runs of main's newest run, newest first."""
    (path,) = [project.store.by_id(max(project.store.files()))]
    assert path is not None
    return [run.id for run in older_runs(project.store.load(path), project.refs)]


def test_runs_of_the_commit_and_of_its_ancestors_are_found_newest_first(project: Project) -> None:
    project.commit()
    first, second = project.record(), project.record()
    project.commit()
    third = project.record()
    project.record()
    assert found(project) == [third, second, first]


def test_fresh_trials_for_a_fall_of_this_very_commit_are_not(project: Project) -> None:
    """They count for others. Whoever judges the same again finds the same suspects."""
    project.commit()
    project.git("switch", "-qc", "other")
    project.commit()
    other = project.record()
    project.git("switch", "-qc", "side", "main")
    project.commit()
    own = project.record()
    main = project.git("rev-parse", "main")
    again = {"made": "confirm", "complete": False, "commit": main}
    for_other = project.record(**again, asked_by=other)
    project.record(**again, asked_by=own)
    (path,) = [project.store.by_id(project.record(commit=main))]
    assert path is not None
    assert [one.id for one in older_runs(project.store.load(path), project.refs)] == [for_other]


def test_runs_of_another_branch_are_not(project: Project) -> None:
    project.commit()
    first = project.record()
    project.git("switch", "-qc", "side")
    project.commit()
    project.record()
    project.git("switch", "-q", "main")
    project.commit()
    project.record()
    assert found(project) == [first]


@pytest.mark.parametrize(
    "changes",
    [
        {"root": "evals"},
        {"typed_model": "openai/gpt-6-sol"},
        {"dirty": True},
        {"complete": False},
        {"trials": make_trials(errored=10)},
        {"trials": make_trials(calls=[replace(make_call(), replayed=True)])},
        {"made": "confirm", "complete": False, "dirty": True},
        {"made": "confirm", "complete": False, "trials": make_trials(errored=10)},
    ],
)
def test_runs_that_are_no_baseline_or_that_paid_for_nothing_are_not(
    project: Project, changes: dict[str, object]
) -> None:
    project.commit()
    project.record(**changes)
    project.record()
    assert found(project) == []


def test_fresh_trials_of_a_confirmation_are_though_they_are_a_part(project: Project) -> None:
    project.commit()
    fresh = project.record(made="confirm", complete=False)
    project.record()
    assert found(project) == [fresh]


def test_a_damaged_run_is_passed_over(project: Project) -> None:
    project.commit()
    run_id = project.record()
    project.record()
    path = project.store.by_id(run_id)
    assert path is not None
    path.write_bytes(path.read_bytes()[:-20])
    assert found(project) == []


def test_at_most_ten_are_read(project: Project) -> None:
    project.commit()
    for _ in range(13):
        project.record()
    assert len(found(project)) == 10


def test_outside_git_there_is_no_older_run(project: Project, tmp_path: Path) -> None:
    commit = project.commit()
    project.record()
    refs = project.refs
    refs.git = replace(refs.git, top=None)
    (path,) = project.store.files().values()
    run = project.store.load(path)
    assert older_runs(run, refs) == ()
    assert older_runs(replace(run, commit=None), project.refs) == ()
    assert run.commit == commit


def test_only_a_run_that_stands_for_a_commit_has_older_ones(project: Project) -> None:
    project.commit()
    first, newest = project.record(), project.record()
    project.git("switch", "-qc", "side")
    project.commit()

    def older(reference: str, *, repeats: int = 20) -> list[str]:
        settings = Settings(session="", baseline_repeats=repeats)
        baseline = find_baseline(reference, project.refs, settings, root=".", selection=())
        assert baseline.run.id == newest
        return [run.id for run in baseline.older]

    assert older("main") == [first]
    assert older("main", repeats=0) == []
    assert older(newest) == []
