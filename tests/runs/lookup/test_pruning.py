"""Which run files may go, and which of them a branch needs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from pytest_llmeval.errors import BaselineError
from pytest_llmeval.runs.lookup.pruning import needed_runs, runs_to_prune

if TYPE_CHECKING:
    from tests.runs.conftest import Project

NOW = datetime(2026, 11, 26, tzinfo=UTC)


def test_those_that_can_be_no_baseline_go_first_and_sooner(project: Project) -> None:
    def record(days: int, **changes: object) -> str:
        created = (NOW - timedelta(days=days)).isoformat(timespec="seconds")
        return project.record(created=created, **changes)

    clean, needed, young = record(50), record(50), record(20)
    dirty, part = record(20, dirty=True), record(20, complete=False)
    newest = record(50, dirty=True)
    again = record(20, complete=False, made="confirm")  # later than the newest run, beside it

    planned = runs_to_prune(
        project.store.every().runs,
        before=NOW - timedelta(days=30),
        dirty_before=NOW - timedelta(days=10),
        needed={needed},
    )

    assert [one.header.run.id for one in planned.going] == [dirty, part, again, clean]
    assert (planned.spared, planned.left) == (2, 3)
    assert {needed, young, newest}.isdisjoint(one.header.run.id for one in planned.going)


def test_a_branch_needs_the_clean_runs_of_its_line_here_and_at_origin(project: Project) -> None:
    first = project.record()
    project.record(dirty=True)
    base = project.commit()
    project.commit()
    ahead = project.record()
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    project.git("reset", "--quiet", "--hard", base)
    own = project.record()
    project.git("switch", "--quiet", "--create", "side")
    project.commit()
    side = project.record()

    assert needed_runs(None, project.refs) == {first, own, ahead}
    assert needed_runs("side", project.refs) == {first, own, side}
    assert needed_runs(base, project.refs) == {first, own}


def test_a_branch_that_is_not_known_is_refused(project: Project) -> None:
    project.git("branch", "--quiet", "--move", "trunk")
    for name in (None, "nowhere"):
        with pytest.raises(BaselineError, match=f"^{name or 'main'}: no branch .*--keep=REF"):
            needed_runs(name, project.refs)


def test_where_there_is_no_commit_no_run_is_needed(project: Project) -> None:
    refs = project.refs
    refs.git = replace(refs.git, commit=None)

    assert needed_runs(None, refs) == frozenset()
