"""A run is made of the commit that has none, before an older one stands in for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_llmeval.errors import BaselineError, BaselineNotFound
from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.lookup.session_baseline import find_baseline
from pytest_llmeval.runs.store import FoundRun
from pytest_llmeval.settings import GateRules, OnMissing, Settings
from tests.runs.conftest import Project


class Maker:
    """Records a run of the commits that it is asked for."""

    def __init__(self, project: Project) -> None:
        self.asked: list[str] = []
        self._project = project

    def __call__(self, commit: str) -> FoundRun:
        self.asked.append(commit)
        path = self._project.store.by_id(self._project.record(commit))
        assert path is not None
        return FoundRun(path, self._project.store.load(path), ("made with other packages",))


def find(
    project: Project,
    reference: str,
    make: Callable[[str], FoundRun | None],
    *,
    strict: bool = False,
    on_missing: OnMissing = "rerun",
) -> Baseline:
    settings = Settings(session="", gate=GateRules(strict=strict), on_missing=on_missing)
    return find_baseline(reference, project.refs, settings, root=".", selection=(), make=make)


@pytest.fixture
def branch(project: Project) -> Project:
    """Three commits on main, and one on a branch off its last."""
    project.commit()
    project.commit()
    project.git("switch", "--quiet", "--create", "feature")
    project.commit()
    return project


def test_the_wanted_commit_is_made_though_an_older_one_has_a_run(branch: Project) -> None:
    main = branch.git("rev-parse", "main")
    branch.record(branch.git("rev-parse", "main~1"))
    make = Maker(branch)

    found = find(branch, "main", make, strict=True)

    assert make.asked == [main]
    assert (found.run.commit, found.wanted, found.substitute) == (main, main, False)
    assert (found.how, found.distance) == ("rerun", 0)
    assert found.notes == ("made with other packages",)


def test_what_was_passed_over_is_said_of_a_run_that_is_made_too(branch: Project) -> None:
    main = branch.git("rev-parse", "main")
    branch.record(main, dirty=True)
    branch.store.complaints.append("git+refs://origin cannot be read")

    found = find(branch, "main", Maker(branch))

    assert found.notes == (
        f"passed over: 1 run of {main[:7]}, dirty: tracked files differed from the commit",
        "made with other packages",
        "git+refs://origin cannot be read",
    )


def test_nothing_is_made_where_a_run_is_stored(branch: Project) -> None:
    run_id = branch.record(branch.git("rev-parse", "main"))
    make = Maker(branch)

    assert find(branch, "main", make).run.id == run_id
    assert make.asked == []


def test_a_run_is_made_always_where_none_that_is_stored_is_trusted(branch: Project) -> None:
    main = branch.git("rev-parse", "main")
    stored = branch.record(main)
    make = Maker(branch)

    found = find(branch, "main", make, on_missing="rerun-always")

    assert make.asked == [main]
    assert (found.run.commit, found.how) == (main, "rerun")
    assert found.run.id != stored


def test_a_run_of_an_equal_tree_is_as_good(branch: Project) -> None:
    run_id = branch.record(branch.git("rev-parse", "main"))
    make = Maker(branch)
    branch.git("switch", "--quiet", "main")
    (branch.top / "prompt.txt").write_text("Name it.\n")
    branch.commit()
    branch.git("revert", "--no-edit", "HEAD")
    branch.git("switch", "--quiet", "--create", "other")
    branch.commit()

    assert find(branch, "main", make).run.id == run_id
    assert make.asked == []


def test_a_hash_is_made_too(branch: Project) -> None:
    make, commit = Maker(branch), branch.git("rev-parse", "main~1")
    assert find(branch, commit, make).run.commit == commit


def test_a_dirty_tree_is_held_against_its_own_commit(branch: Project) -> None:
    branch.git("switch", "--quiet", "main")
    branch.record(branch.git("rev-parse", "main~1"))
    (branch.top / "prompt.txt").write_text("Name it.\n")
    make = Maker(branch)

    find(branch, "main", make)

    assert make.asked == [branch.head]


def test_a_clean_tree_at_the_ref_itself_is_held_against_an_earlier_one(branch: Project) -> None:
    branch.git("switch", "--quiet", "main")
    make, oldest = Maker(branch), branch.record(branch.git("rev-parse", "main~2"))

    assert find(branch, "main", make).run.id == oldest
    assert make.asked == []


def test_where_no_earlier_one_has_a_run_that_of_the_parent_is_made(branch: Project) -> None:
    branch.git("switch", "--quiet", "main")
    make = Maker(branch)

    find(branch, "main", make)

    assert make.asked == [branch.git("rev-parse", "main~1")]


@pytest.fixture
def pushed(branch: Project) -> Project:
    """The job of a push to main."""
    branch.git("switch", "--quiet", "main")
    branch.ci = CiFacts(provider="github", event="push", commit=branch.head)
    return branch


@pytest.mark.parametrize("on_missing", ["rerun", "rerun-always"])
def test_a_job_of_the_branch_itself_makes_the_run_of_the_commit_before(
    pushed: Project, on_missing: OnMissing
) -> None:
    make = Maker(pushed)
    found = find(pushed, "main", make, on_missing=on_missing)
    assert (found.how, make.asked) == ("rerun", [pushed.git("rev-parse", "main~1")])


def test_it_is_compared_with_the_last_run_however_old(pushed: Project) -> None:
    make, oldest = Maker(pushed), pushed.record(pushed.git("rev-parse", "main~2"))
    assert find(pushed, "main", make).run.id == oldest
    assert make.asked == []


def test_it_never_makes_the_run_of_its_own_commit(pushed: Project) -> None:
    (pushed.top / "prompt.txt").write_text("made by a step of the job\n")
    make = Maker(pushed)
    find(pushed, "main", make)
    assert make.asked == [pushed.git("rev-parse", "main~1")]


def test_where_the_commit_before_cannot_be_run_it_records_the_first_run(pushed: Project) -> None:
    def fail(_: str) -> FoundRun:
        raise BaselineError("its pytest ended with 2")

    with pytest.raises(BaselineNotFound) as caught:
        find(pushed, "main", fail)

    before = pushed.git("rev-parse", "main~1")
    assert not caught.value.stops
    assert caught.value.line == (
        f"--llm-baseline=main: no run of {before[:7]} could be made: its pytest ended with 2. "
        "This run will be the first"
    )


def test_a_branch_of_a_single_commit_has_nothing_to_make(project: Project) -> None:
    project.ci = CiFacts(provider="github", event="push", commit=project.head)
    make = Maker(project)
    with pytest.raises(BaselineNotFound) as caught:
        find(project, "main", make)
    assert (caught.value.stops, make.asked) == (False, [])


def test_a_commit_without_such_evals_is_an_empty_baseline(branch: Project) -> None:
    found = find(branch, "main", lambda _: None)
    assert (found.how, found.run.cases) == ("nothing yet", ())


def test_what_cannot_be_made_is_named_with_the_reason(branch: Project) -> None:
    def fail(_: str) -> FoundRun:
        raise BaselineError("its pytest ended with 2")

    with pytest.raises(BaselineError) as caught:
        find(branch, "main", fail)

    main = branch.git("rev-parse", "main")
    what, why, way_out = str(caught.value).split("\n")
    assert what == f"--llm-baseline=main: no run of {main[:7]} could be made:"
    assert why == "       its pytest ended with 2"
    assert way_out.endswith(
        "If this branch repairs that commit, run it once with:  --llm-on-missing=warn"
    )
