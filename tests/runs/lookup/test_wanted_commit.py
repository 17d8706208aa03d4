"""What CI says of the baseline is believed only where it is true of HEAD."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.git import GitState
from pytest_llmeval.runs.lookup.wanted_commit import WantedCommit, find_wanted
from tests.runs.conftest import Project

NOWHERE = "1a2b3c4d" * 5
LAPTOP = CiFacts()


@pytest.fixture
def begun(project: Project) -> str:
    """Begin a branch, which has a commit more than main; returns main's."""
    main = project.head
    project.git("switch", "--quiet", "--create", "feature")
    project.commit()
    return main


def in_queue(project: Project, **changes: object) -> CiFacts:
    """The facts of a queue entry whose commit is HEAD."""
    known = {"provider": "github", "commit": project.head, "target": "main"}
    return CiFacts(**{**known, "base_name": "merge_group.base_sha", **changes})  # type: ignore[arg-type]


def find(project: Project, ref: str = "main", ci: CiFacts = LAPTOP) -> WantedCommit:
    return find_wanted(ref, git=project.state, ci=ci)


def test_a_full_hash_is_that_commit_without_a_repository() -> None:
    outside = GitState(top=None)
    assert find_wanted(NOWHERE.upper(), git=outside, ci=LAPTOP) == WantedCommit(
        commit=NOWHERE, exact=True
    )


def test_a_branch_outside_of_git_is_unknown() -> None:
    nothing = WantedCommit(commit=None, is_known=False)
    assert find_wanted("main", git=GitState(top=None), ci=LAPTOP) == nothing


def test_an_expression_is_that_commit(project: Project, begun: str) -> None:
    assert find(project, "HEAD~1") == WantedCommit(commit=begun, exact=True)


def test_a_tag_is_where_it_left_the_branch(project: Project, begun: str) -> None:
    project.git("tag", "v1", "main")
    assert find(project, "v1") == WantedCommit(commit=begun, is_tip=True)


def test_what_no_one_has_heard_of_is_unknown(project: Project) -> None:
    nothing = WantedCommit(commit=None, is_known=False)
    assert find(project, "mian") == nothing
    assert find(project, "HEAD^1") == nothing  # the first commit has no parent


def test_a_history_of_its_own_has_no_commit_in_common(project: Project) -> None:
    project.git("switch", "--quiet", "--orphan", "alone")
    project.commit()
    assert find(project) == WantedCommit(commit=None, branch="main")


def test_origin_stands_in_for_a_local_branch_of_another_history(
    project: Project, begun: str
) -> None:
    project.git("update-ref", "refs/remotes/origin/main", begun)
    project.git("switch", "--quiet", "--orphan", "alone")
    project.commit()
    project.git("branch", "--quiet", "--force", "main", "alone")
    project.git("switch", "--quiet", "feature")
    found = find(project)
    assert found.commit == begun
    assert found.notes == ("the local branch main is stale: origin/main has 1 commit more",)


def test_without_a_default_branch_auto_says_what_to_type(project: Project) -> None:
    project.git("remote", "add", "origin", "nowhere")
    found = find(project, "auto")
    assert (found.commit, found.is_known) == (None, False)
    assert found.notes[0].endswith("Name it:  pytest --llm-baseline=BRANCH")


def test_without_a_remote_auto_is_the_usual_branch(project: Project, begun: str) -> None:
    found = find(project, "auto")
    assert (found.commit, found.branch, found.notes) == (begun, "main", ())


def test_auto_is_the_target_also_where_origin_has_a_default_branch(
    project: Project, begun: str
) -> None:
    project.git("update-ref", "refs/remotes/origin/next", project.head)
    project.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/next")
    found = find(project, "auto", in_queue(project, base=begun))
    assert found == WantedCommit(commit=begun, told_by_ci=True, branch="main")


def test_auto_is_the_default_branch_that_ci_names(project: Project, begun: str) -> None:
    ci = CiFacts(provider="gitlab", commit=project.head, default_branch="main")
    assert find(project, "auto", ci) == WantedCommit(commit=begun, is_tip=True, branch="main")


@pytest.mark.parametrize("prefix", ["", "refs/heads/", "origin/", "refs/remotes/origin/"])
def test_a_target_is_known_by_any_of_its_names(prefix: str, project: Project, begun: str) -> None:
    ci = in_queue(project, base=begun)
    project.git("branch", "--quiet", "--move", "main", "old")
    assert find(project, f"{prefix}main", ci) == WantedCommit(
        commit=begun, told_by_ci=True, branch="main"
    )


def test_another_branch_than_the_target_is_looked_up_and_the_target_named(
    project: Project, begun: str
) -> None:
    found = find(project, "main", in_queue(project, base=begun, target="next"))
    assert found.commit == begun
    assert found.notes == ("this is to be merged into next: --llm-baseline=auto compares with it",)


def test_a_commit_that_was_named_needs_no_word_about_the_target(
    project: Project, begun: str
) -> None:
    assert find(project, "HEAD~1", in_queue(project, base=begun)).notes == ()


def test_a_complaint_leads_back_to_the_laptop(project: Project, begun: str) -> None:
    ci = in_queue(project, base=NOWHERE, complaints=("GITHUB_SHA is empty",))
    assert find(project, ci=ci) == WantedCommit(
        commit=begun,
        is_tip=True,
        branch="main",
        notes=("GITHUB_SHA is empty: the baseline is looked up as on a laptop",),
    )


def test_a_complaint_is_told_where_nothing_is_found(project: Project) -> None:
    ci = in_queue(project, target="next", complaints=("GITHUB_SHA is empty",))
    assert find(project, "next", ci).notes != ()


@pytest.mark.parametrize("known", [True, False])
def test_a_base_that_head_does_not_hold_is_told(known: bool, project: Project, begun: str) -> None:
    beside = project.head
    project.git("switch", "--quiet", "--create", "other", "main")
    project.commit()
    base = beside if known else NOWHERE
    found = find(project, ci=in_queue(project, base=base))
    assert found.commit == begun
    assert found.notes == (
        f"merge_group.base_sha is {base[:7]}, no commit in the history of HEAD: "
        "the baseline is looked up as on a laptop",
    )


def test_a_base_that_is_not_here_is_believed_in_a_shallow_clone(project: Project) -> None:
    shallow = replace(project.state, shallow=True)
    found = find_wanted("main", git=shallow, ci=in_queue(project, base=NOWHERE))
    assert found == WantedCommit(commit=NOWHERE, told_by_ci=True, branch="main")


def test_a_target_without_a_base_is_looked_up(project: Project, begun: str) -> None:
    assert find(project, ci=in_queue(project)) == WantedCommit(
        commit=begun, is_tip=True, branch="main"
    )


def test_a_commit_that_is_no_merge_of_the_pull_request_is_told(
    project: Project, begun: str
) -> None:
    found = find(project, ci=in_queue(project, merged=NOWHERE))
    assert found.commit == begun
    assert found.notes[0].startswith("HEAD is no merge of the pull request's commit 1a2b3c4:")


def test_a_commit_that_the_job_made_itself_is_told(project: Project, begun: str) -> None:
    ci = in_queue(project, base=begun)
    project.commit()
    found = find(project, ci=ci)
    assert found.commit == begun
    assert found.notes[0].startswith(f"HEAD is {project.head[:7]}, not the commit of the CI job:")


def test_the_branch_of_a_pull_request_may_be_checked_out(project: Project, begun: str) -> None:
    ci = in_queue(project, commit=NOWHERE, merged=project.head)
    assert find(project, ci=ci) == WantedCommit(commit=begun, is_tip=True, branch="main")


def test_what_is_tested_is_no_baseline_of_itself(project: Project, begun: str) -> None:
    found = find(project, ci=in_queue(project, base=project.head))
    assert found.commit == begun
    assert found.notes == (
        f"merge_group.base_sha is {project.head[:7]}, which is what is tested here: "
        "the baseline is looked up as on a laptop",
    )


@pytest.mark.parametrize("is_queued", [True, False])
def test_an_entry_that_changes_nothing_is_compared_with_the_entry_before_it(
    project: Project, begun: str, *, is_queued: bool
) -> None:
    entry = project.head
    project.git("commit", "--quiet", "--allow-empty", "--message=nothing")
    found = find(project, ci=in_queue(project, base=entry, is_queued=is_queued))
    assert found.commit == (entry if is_queued else begun)
    assert found.told_by_ci is is_queued


def test_a_branch_that_merged_its_base_just_now_is_compared_with_it(
    project: Project, begun: str
) -> None:
    project.git("switch", "--quiet", "main")
    project.commit()
    newest = project.head
    project.git("switch", "--quiet", "feature")
    project.git("merge", "--quiet", "--no-ff", "--no-edit", "main")
    ci = in_queue(project, base=newest, base_name="CI_MERGE_REQUEST_DIFF_BASE_SHA")
    assert find(project, ci=ci) == WantedCommit(commit=newest, told_by_ci=True, branch="main")


@pytest.mark.parametrize(("ref", "is_said"), [("auto", True), ("main", False)])
def test_a_request_whose_target_is_unknown_says_so(
    project: Project, begun: str, ref: str, *, is_said: bool
) -> None:
    ci = CiFacts(provider="circleci", of_request=True, commit=project.head)
    found = find(project, ref, ci)
    assert found.commit == begun
    said = (
        "circleci does not say what this is to be merged into: if not into main, name it:  "
        "pytest --llm-baseline=BRANCH",
    )
    assert found.notes == (said if is_said else ())


def test_a_merge_of_a_request_tells_what_its_target_had(project: Project, begun: str) -> None:
    request = project.head
    project.git("switch", "--quiet", "--detach", "main")
    project.git("merge", "--quiet", "--no-ff", "--no-edit", request)
    found = find(project, ci=in_queue(project, commit=None, merged=request))
    assert found == WantedCommit(commit=begun, told_by_ci=True, branch="main")


def test_a_branch_that_origin_has_no_more_is_stale(project: Project, begun: str) -> None:
    project.git("remote", "add", "origin", "nowhere")
    project.git("config", "branch.main.remote", "origin")
    project.git("config", "branch.main.merge", "refs/heads/main")
    found = find(project)
    assert found.commit == begun
    assert found.notes == ("the local branch main is stale: origin has no such branch any more",)


def test_of_two_merge_bases_the_one_in_the_line_of_the_branch_counts(
    project: Project, begun: str
) -> None:
    mine = project.head
    project.git("switch", "--quiet", "main")
    its_own = project.commit()
    project.git("merge", "--quiet", "--no-edit", mine)
    project.git("switch", "--quiet", "feature")
    project.git("merge", "--quiet", "--no-edit", its_own)
    assert find(project).commit == its_own
