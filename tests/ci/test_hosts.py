"""The checkouts of these tests are those that the hosts make."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ci.hosts import (
    Job,
    github_push,
    gitlab_push,
    merge_group,
    merge_request,
    on_laptop,
    pull_request,
)
from tests.ci.origin import WORSE, Origin, run_git


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    origin = Origin(tmp_path / "host")
    origin.set("feature", origin.commit(WORSE, on=origin.main[1]))
    return origin


def refs(job: Job) -> set[str]:
    """All refs but ``origin/HEAD``, which some versions of git make at any fetch of branches."""
    names = run_git(job.path, "for-each-ref", "--format=%(refname)").split()
    return set(names) - {"refs/remotes/origin/HEAD"}


def is_shallow(job: Job) -> bool:
    return run_git(job.path, "rev-parse", "--is-shallow-repository") == "true"


def branch_of(job: Job) -> str:
    """The branch that is checked out; nothing if HEAD is detached."""
    return run_git(job.path, "branch", "--show-current")


def test_a_pull_request_has_the_merge_and_nothing_else(origin: Origin, tmp_path: Path) -> None:
    job = pull_request(origin, tmp_path / "job", head=origin.at("feature"))

    assert refs(job) == {"refs/remotes/pull/7/merge"}
    assert (branch_of(job), is_shallow(job)) == ("", True)
    assert run_git(job.path, "rev-parse", "HEAD") == job.environ["GITHUB_SHA"]


def test_a_pull_request_in_full_has_the_branches_of_origin(origin: Origin, tmp_path: Path) -> None:
    job = pull_request(origin, tmp_path / "job", head=origin.at("feature"), depth=0)

    branches = {"refs/remotes/origin/main", "refs/remotes/origin/feature"}
    assert refs(job) == {"refs/remotes/pull/7/merge", *branches}
    assert (branch_of(job), is_shallow(job)) == ("", False)


def test_a_pull_request_by_hash_has_no_ref_at_all(origin: Origin, tmp_path: Path) -> None:
    head = origin.at("feature")
    job = pull_request(origin, tmp_path / "job", head=head, checks_out_head=True)

    assert refs(job) == set()
    assert (branch_of(job), is_shallow(job)) == ("", True)
    assert run_git(job.path, "rev-parse", "HEAD") == head


def test_a_push_has_its_branch_here_and_at_origin(origin: Origin, tmp_path: Path) -> None:
    job = github_push(origin, tmp_path / "job")

    assert refs(job) == {"refs/heads/main", "refs/remotes/origin/main"}
    assert (branch_of(job), is_shallow(job)) == ("main", True)


def test_a_queue_entry_has_a_branch_of_its_own(origin: Origin, tmp_path: Path) -> None:
    head = origin.merge(origin.tip, origin.at("feature"))
    job = merge_group(origin, tmp_path / "job", head=head, base=origin.tip)

    branch = f"gh-readonly-queue/main/pr-7-{origin.tip}"
    assert refs(job) == {f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"}
    assert (branch_of(job), is_shallow(job)) == (branch, True)


@pytest.mark.parametrize("is_merged", [False, True])
def test_a_merge_request_has_its_pipeline_alone(
    is_merged: bool, origin: Origin, tmp_path: Path
) -> None:
    head = origin.at("feature")
    job = merge_request(origin, tmp_path / "job", head=head, is_merged=is_merged)

    assert refs(job) == {"refs/pipelines/5000"}
    assert (branch_of(job), is_shallow(job)) == ("", False)
    assert (run_git(job.path, "rev-parse", "HEAD") == head) is not is_merged


def test_a_push_at_gitlab_has_the_branch_at_origin(origin: Origin, tmp_path: Path) -> None:
    job = gitlab_push(origin, tmp_path / "job", depth=1)

    assert refs(job) == {"refs/pipelines/5000", "refs/remotes/origin/main"}
    assert (branch_of(job), is_shallow(job)) == ("", True)


def test_a_clone_knows_the_default_branch_of_origin(origin: Origin, tmp_path: Path) -> None:
    job = on_laptop(origin, tmp_path / "clone", branch="feature")

    branches = {f"refs/{where}/{name}" for where in ("heads", "remotes/origin")
                for name in ("main", "feature")}  # fmt: skip
    assert refs(job) == branches
    assert run_git(job.path, "symbolic-ref", "refs/remotes/origin/HEAD").endswith("/main")
    assert dict(job.environ) == {}
