"""``llmeval prune``: runs by age, those that can be no baseline first, none that main needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from pytest_llmeval.runs.store import new_run_id
from tests.runs.builders import make_run
from tests.runs.conftest import (
    Project,
    _own_git,  # noqa: F401 - a fixture
)


def prune(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ["prune", *arguments], input=answer)


def record(project: Project, days: int, commit: str, **changes: object) -> str:
    """Record a run of some days ago."""
    when = datetime.now(UTC) - timedelta(days=days)
    run = make_run(id=new_run_id(when), created=when.isoformat(timespec="seconds"), commit=commit)
    project.store.save(replace(run, **changes))  # type: ignore[arg-type]
    return run.id


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = Project(tmp_path / "project").begin()
    monkeypatch.chdir(project.top)
    project.commit()
    return project


def left(project: Project) -> set[str]:
    return set(project.store.files())


def test_what_is_dirty_or_incomplete_goes_sooner_and_is_listed_first(project: Project) -> None:
    head, gone = project.head, "c" * 40
    needed = record(project, 200, head)
    dirty, part = record(project, 8, head, dirty=True), record(project, 9, head, complete=False)
    old, young = record(project, 100, gone), record(project, 80, gone)
    fresh = record(project, 6, head, dirty=True)

    told = prune("--dry-run").stdout.splitlines()
    assert [line.split()[0] for line in told[:3]] == [part, dirty, old]
    assert told[3].startswith("3 runs would go, 2 of them dirty or incomplete, ")
    assert told[4] == "3 runs stay, 1 of them as old but needed"
    assert len(left(project)) == 6

    assert prune("--yes").exit_code == 0
    assert left(project) == {needed, young, fresh}
    assert "0 runs would go" in prune().stdout


def test_nothing_goes_before_it_was_asked(project: Project) -> None:
    run = record(project, 100, "c" * 40)
    record(project, 1, project.head)

    refused = prune(answer="n\n")
    assert (refused.exit_code, run in left(project)) == (4, True)
    assert prune(answer="y\n").exit_code == 0
    assert run not in left(project)
    assert not (project.store.folder / ("c" * 40)).exists()


def test_the_newest_run_stays_however_old(project: Project) -> None:
    run = record(project, 100, "c" * 40)

    assert prune("--yes").exit_code == 0
    assert left(project) == {run}


def test_ages_and_the_branch_can_be_named(project: Project) -> None:
    project.git("switch", "--quiet", "--create", "release")
    kept = record(project, 40, project.commit())
    project.git("switch", "--quiet", "main")
    record(project, 0, project.commit())

    assert kept not in prune("--older-than=30d", "--keep=release", "--dry-run").stdout
    assert kept in prune("--older-than=30d", "--dry-run").stdout
    assert kept in prune("--older-than=0d", "--dry-run").stdout
    for typed in ("--older-than=soon", "--dirty-older-than=3", "--keep=nowhere"):
        result = prune(typed)
        assert (result.exit_code, typed.rpartition("=")[2] in result.output) == (4, True)


def test_what_main_needs_at_origin_stays_too(project: Project) -> None:
    ahead = record(project, 100, project.commit())
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    project.git("reset", "--quiet", "--hard", "HEAD~1")
    record(project, 0, project.head)

    assert ahead not in prune("--dry-run").stdout


def test_outside_git_age_alone_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    project = Project(tmp_path)
    old = record(project, 100, "c" * 40)
    new = record(project, 1, "c" * 40)

    assert prune("--yes").exit_code == 0
    assert left(project) == {new}
    assert old != new


def test_without_a_branch_to_keep_nothing_goes(project: Project) -> None:
    project.git("branch", "--quiet", "--move", "trunk")
    record(project, 100, "c" * 40)

    result = prune("--yes")

    assert result.exit_code == 4
    assert "--keep=REF" in result.output
