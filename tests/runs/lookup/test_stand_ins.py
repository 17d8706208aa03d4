"""Whose run stands for the commit that REF means, where that has none."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_llmeval.errors import BaselineError, BaselineNotFound
from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.lookup.for_commands import find_reference
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.lookup.session_baseline import find_baseline
from pytest_llmeval.runs.store import new_run_id
from pytest_llmeval.settings import GateRules, Settings
from tests.runs.builders import make_run
from tests.runs.conftest import Project

ON_MAIN = CiFacts(provider="github", event="push")


def find(
    project: Project,
    reference: str = "main",
    *,
    root: str = ".",
    option: str = "--llm-baseline",
    reach: int = 50,
    age: int = 7,
    strict: bool = False,
) -> Baseline:
    refs = replace(project.refs, reach=reach)
    settings = Settings(session="", baseline_age=age, gate=GateRules(strict=strict))
    return find_baseline(reference, refs, settings, option=option, root=root, selection=())


def branch(project: Project) -> None:
    project.git("switch", "--quiet", "--create", "side")
    project.commit()


def revert(project: Project) -> None:
    project.git("revert", "--no-edit", "HEAD")


# --- a commit of the same files ---------------------------------------------------------------


def test_a_revert_has_the_run_of_the_commit_before_what_it_takes_back(project: Project) -> None:
    good = project.record()
    project.commit()
    project.record()
    revert(project)
    reverted = project.head
    branch(project)

    found = find(project, strict=True)

    assert (found.run.id, found.how, found.distance) == (good, "equal tree", 0)
    assert (found.wanted, found.substitute, found.notes) == (reverted, False, ())


def test_a_run_of_the_commit_itself_goes_before_one_of_an_equal_tree(project: Project) -> None:
    project.record()
    project.commit()
    revert(project)
    own = project.record()
    branch(project)
    assert find(project).run.id == own


def test_of_several_equal_trees_the_newest_run_is_taken(project: Project) -> None:
    project.record()
    for _ in range(3):
        project.commit()
        revert(project)
        newest = project.record()
        project.record(dirty=True)
    project.git("commit", "--quiet", "--allow-empty", "--message=nothing")
    branch(project)
    assert find(project).run.id == newest


def test_a_run_that_will_not_do_is_named_once(project: Project) -> None:
    good = project.record()
    project.git("commit", "--quiet", "--allow-empty", "--message=nothing")
    project.record(dirty=True)
    branch(project)
    found = find(project)
    assert (found.run.id, found.how, len(found.notes)) == (good, "equal tree", 1)


def test_a_commit_that_is_not_here_is_known_by_the_tree_of_its_run(project: Project) -> None:
    tree = project.git("rev-parse", "HEAD^{tree}")
    project.record(commit="1f" * 20, tree="0" * 40)
    queued = project.record(commit="2f" * 20, tree=tree)
    branch(project)
    assert find(project).run.id == queued


def test_the_tree_of_a_commit_that_is_not_here_is_not_known(project: Project) -> None:
    project.record(commit="2f" * 20, tree="0" * 40)
    project.store.save(make_run(commit=None, tree=None))
    assert project.refs.commits_of_equal_tree("1f" * 20) == ()
    assert project.store.commits() == ("2f" * 20,)


def test_a_named_commit_is_no_other_of_the_same_files(project: Project) -> None:
    project.record()
    project.git("commit", "--quiet", "--allow-empty", "--message=nothing")
    nothing = project.head
    branch(project)
    for name in (nothing, "HEAD~1"):
        with pytest.raises(BaselineNotFound):
            find(project, name)
    assert find(project).how == "equal tree"


def test_main_itself_is_held_against_its_last_commit_after_a_revert(project: Project) -> None:
    """Not against the commit of equal files, by which nothing would ever have changed."""
    project.record()
    project.commit()
    bad = project.record()
    revert(project)
    found = find(project)
    assert (found.run.id, found.how, found.substitute) == (bad, "earlier commit", False)


def test_a_command_finds_an_equal_tree_too(project: Project) -> None:
    good = project.record()
    project.commit()
    revert(project)
    branch(project)
    found = find_reference("main", project.refs, candidate=make_run(commit=project.head))
    assert (found.run.id, found.how) == (good, "equal tree")


# --- an ancestor ------------------------------------------------------------------------------


@pytest.fixture
def behind(project: Project) -> Project:
    """A branch off the third commit of main, of which the first has a run."""
    project.record()
    project.commit()
    (project.top / "prompt.txt").write_text("Name it.\n")
    project.commit()
    branch(project)
    return project


def test_an_ancestor_is_a_substitute(behind: Project) -> None:
    found = find(behind)
    assert (found.distance, found.differing_files) == (2, 3)
    assert (found.wanted, found.substitute) == (behind.git("rev-parse", "main"), True)


def test_strict_refuses_a_substitute(behind: Project) -> None:
    with pytest.raises(BaselineError) as caught:
        find(behind, strict=True)
    main, first = (behind.git("rev-parse", name) for name in ("main", "main~2"))
    what, rerun, todo = str(caught.value).split("\n")
    assert what == (
        f"--llm-baseline=main: {main[:7]} has no complete run. The one of {first[:7]}, 2 behind, "
        "could be used instead, which --llm-strict refuses."
    )
    assert rerun.endswith("add --llm-on-missing=rerun")
    assert todo == f"       Record one:  git switch --detach {main[:7]} && pytest"
    assert type(caught.value) is BaselineError  # no --llm-on-missing=warn lets it pass


@pytest.mark.parametrize(("reach", "distance"), [(3, 2), (2, 2), (1, None), (0, None)])
def test_an_ancestor_stands_in_within_reach(
    reach: int, distance: int | None, behind: Project
) -> None:
    if distance is not None:
        assert find(behind, reach=reach).distance == distance
        return
    with pytest.raises(BaselineNotFound) as caught:
        find(behind, reach=reach)
    nearest = f" or its {reach} nearest ancestor" if reach else ""
    assert f"{nearest} in .llmeval/runs" in str(caught.value)


def test_commits_to_other_projects_do_not_count(project: Project) -> None:
    (project.top / "bots").mkdir()
    (project.top / "bots" / "prompt.txt").touch()
    project.commit()
    first = project.record(root="bots")
    for _ in range(30):
        project.commit()
    (project.top / "bots" / "prompt.txt").write_text("Name it.\n")
    project.commit()
    branch(project)

    found = find(project, root="bots", reach=1)

    assert (found.run.id, found.distance, found.differing_files) == (first, 1, 32)
    with pytest.raises(BaselineNotFound, match="or its 1 nearest ancestor in"):
        find(project, root=".", reach=1)


def test_a_folder_that_came_later_begins_the_project(project: Project) -> None:
    project.record(root="bots")
    (project.top / "bots").mkdir()
    (project.top / "bots" / "prompt.txt").touch()
    project.commit()
    branch(project)
    assert find(project, root="bots").distance == 1


# --- in CI ------------------------------------------------------------------------------------


def clone_of_depth_one(project: Project, folder: Path) -> Project:
    url = project.top.as_uri()
    subprocess.run(["git", "clone", "--quiet", "--depth=1", url, str(folder)], check=True)
    return Project(folder)


def test_the_parent_of_a_push_is_known_where_history_is_cut(
    project: Project, tmp_path: Path
) -> None:
    parent = project.head
    project.commit()
    job = clone_of_depth_one(project, tmp_path / "job")
    run_id = job.record(parent)

    found = find(job)

    assert (found.run.id, found.how, found.distance) == (run_id, "earlier commit", 1)


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch", None])
def test_a_branch_of_which_nothing_is_recorded_yet_is_let_pass_in_ci(
    event: str | None, project: Project, tmp_path: Path
) -> None:
    project.commit()
    job = clone_of_depth_one(project, tmp_path / "job")
    job.ci = replace(ON_MAIN, event=event)

    with pytest.raises(BaselineNotFound) as caught:
        find(job)

    assert not caught.value.stops
    assert caught.value.line.endswith("This run will be the first")
    assert "\n" not in caught.value.line


def test_a_branch_that_had_another_rootdir_is_let_pass_in_ci(project: Project) -> None:
    project.record(root="bots")
    project.ci = ON_MAIN
    with pytest.raises(BaselineNotFound, match="was recorded with rootdir 'bots'") as caught:
        find(project)
    assert not caught.value.stops
    assert caught.value.line.endswith("this session has '.'. This run will be the first")


@pytest.mark.parametrize("event", ["pull_request", "pull_request_target", "merge_request_event"])
def test_a_request_is_not_let_pass(event: str, project: Project) -> None:
    of_head = {"commit": project.head, "target": "main"}
    project.ci = replace(ON_MAIN, event=event, of_request=True, **of_head)
    with pytest.raises(BaselineNotFound) as caught:
        find(project)
    assert caught.value.stops


def test_a_commit_that_was_named_is_not_let_pass_in_ci(project: Project) -> None:
    project.ci = ON_MAIN
    with pytest.raises(BaselineNotFound) as caught:
        find(project, project.head)
    assert caught.value.stops


def test_another_branch_than_ref_is_not_let_pass_in_ci(project: Project) -> None:
    branch(project)
    project.ci = ON_MAIN
    with pytest.raises(BaselineNotFound) as caught:
        find(project)
    assert caught.value.stops


def test_a_job_of_a_branch_that_moved_on_is_held_against_its_last_commit(project: Project) -> None:
    earlier = project.record()
    project.commit()
    project.record()
    pushed = project.head
    project.commit()
    project.git("switch", "--quiet", "--detach", pushed)
    project.ci = ON_MAIN
    found = find(project)
    assert (found.run.id, found.how) == (earlier, "earlier commit")


# --- age --------------------------------------------------------------------------------------


def test_an_old_baseline_is_named(project: Project) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=8, hours=1)
    created = long_ago.isoformat(timespec="seconds")
    commit = project.head
    project.store.save(make_run(id=new_run_id(long_ago), created=created, commit=commit))
    branch(project)

    (note,) = find(project, age=7).notes
    assert note.startswith("the baseline is 8 days old")
    assert find(project, age=8).notes == ()
    assert find(project, age=7, option="--llm-anchor").notes == ()
