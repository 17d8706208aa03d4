"""All 94 ways in which a job or a laptop has been seen to find its baseline, each with its test.

A test is a situation of ``test_which_commit.py``, or is named where more than the commit counts.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.ci.test_which_commit import SITUATIONS

TESTS = Path(__file__).parents[1]
KEPT = (
    "runs/lookup/test_stale.py::test_a_topic_in_a_kept_checkout_is_not_blamed_for_what_main_became"
)
FORKS = "ci/test_forks.py::test_a_pull_request_is_judged_by_what_main_paid_for"
NO_REPLIES = "ci/test_forks.py::test_where_no_reply_is_cached_the_base_lacks_only_a_key_too"
NO_COMMIT = "ci/test_sessions.py::test_a_branch_as_baseline_needs_the_commit"
WAYS = (
    # GitHub, pull requests
    (
        1,
        "merge ref, depth 1, harmless",
        "ci/test_rerun.py::test_a_pull_request_of_depth_one_is_held_against_its_base",
    ),
    (2, "the same, worse", "pull_request_of_depth_one"),
    (3, "full history, main got worse since", "pull_request_that_is_stale"),
    (4, "head.sha, depth 1", "pull_request_by_head_sha_of_depth_one"),
    (
        5,
        "the same, the branch had merged main",
        "pull_request_by_head_sha_of_depth_one_that_is_a_merge",
    ),
    (6, "merge ref, the branch had merged main", "pull_request_whose_branch_merged_main"),
    (7, "github.head_ref, force-pushed since", "pull_request_by_branch_that_was_force_pushed"),
    (8, "stacked, the parent is bad", "stacked_pull_request"),
    (9, "stacked, the parent was squashed into main", "pull_request_whose_parent_was_squashed"),
    (10, "retargeted, the old job again", "old_job_of_a_pull_request_that_was_retargeted"),
    (11, "retargeted, the new job", "pull_request_that_was_retargeted"),
    (12, "into a release", "pull_request_into_a_release"),
    (13, "old job again, branch deleted, main moved", "old_job_of_a_branch_that_was_deleted"),
    (14, "main was force-pushed", "pull_request_after_a_force_push"),
    (15, "a reverted prompt comes back", "pull_request_that_brings_back_what_was_reverted"),
    (16, "an octopus in the branch, merge ref", "pull_request_of_an_octopus_by_its_merge"),
    (17, "the same by head.sha, full clone", "pull_request_with_an_octopus"),
    (18, "closed after its merge", "pull_request_that_was_merged"),
    (
        19,
        "the default branch is trunk, the recipe says main",
        "runs/lookup/test_session_baseline.py::test_an_unknown_branch_names_the_default_one",
    ),
    (20, "sparse checkout without blobs", "pull_request_in_a_sparse_checkout"),
    (21, "full history without blobs", "pull_request_in_a_partial_clone"),
    # GitHub, other jobs
    (22, "first entry of the queue", "queue_entry_by_merge"),
    (23, "second entry, behind a bad one", "second_queue_entry"),
    (24, "the queue's refs were deleted", "queue_entry_whose_refs_were_deleted"),
    (25, "first push ever", "first_push_ever"),
    (
        26,
        "push to main, worse",
        "ci/test_recipes.py::test_at_github_main_is_compared_with_its_last_run",
    ),
    (27, "dispatch on main", "dispatch_on_main"),
    (28, "schedule", "schedule_on_main"),
    (29, "tag on main's tip", "tag_on_main"),
    (30, "tag on a release", "tag_on_a_release"),
    (31, "push of a topic, depth 1", "push_of_a_topic"),
    (32, "the same in a kept workspace, depth 1", KEPT),
    (33, "the same in a kept workspace, full", KEPT),
    (34, "dispatch on a topic", "dispatch_on_a_topic"),
    (35, "comment, merge ref", "github_comment_merge_ref"),
    (36, "workflow_run, head", "github_workflow_run_head"),
    (37, "no event file in the container", "pull_request_without_its_event_file"),
    (
        38,
        "pull_request_target, default checkout",
        "runs/lookup/test_stale.py::test_a_pull_request_that_is_not_checked_out_is_refused",
    ),
    (39, "pull_request_target, merge ref", "github_target_merge_ref"),
    (40, "review, stacked", "github_review"),
    (
        41,
        "origin cannot be reached",
        "ci/test_sessions.py::test_an_origin_that_cannot_be_reached_is_said_in_one_line",
    ),
    (42, "no git in the image", NO_COMMIT),
    (43, "dubious ownership", NO_COMMIT),
    # GitLab
    (44, "merge request, detached, depth 20", "merge_request_of_a_branch"),
    (45, "its base is beyond the depth", "merge_request_of_a_branch_of_depth_one"),
    (46, "the branch merged main", "merge_request_whose_branch_merged_main"),
    (47, "merged results", "merge_request_of_merged_results"),
    (48, "merge train behind a bad one", "merge_train_behind_a_bad_one"),
    (49, "child pipeline of merged results", "child_pipeline_of_merged_results"),
    (50, "child pipeline, stacked", "gitlab_child_pipeline"),
    (51, "external pull request, stacked", "gitlab_external_pull_request"),
    (52, "branch pipeline, kept workspace", KEPT),
    (53, "merge request, kept workspace", "merge_request_in_a_kept_workspace"),
    (54, "the same, full", "merge_request_in_a_kept_workspace_in_full"),
    (55, "branch pipeline, depth 20", "branch_pipeline"),
    (56, "pipeline of a fork whose main is stale", "pipeline_of_a_fork_whose_main_is_stale"),
    (57, "push to main, worse", "push_to_main_at_gitlab"),
    (
        58,
        "schedule",
        "ci/test_recipes.py::test_at_gitlab_a_cache_that_is_not_protected_has_the_run_of_main",
    ),
    # Other services
    (59, "Buildkite, fresh", "buildkite_in_a_fresh_checkout"),
    (60, "Buildkite, kept checkout", KEPT),
    (61, "Buildkite, stacked", "buildkite"),
    (62, "Jenkins, stacked", "jenkins"),
    (63, "Bitbucket, stacked", "bitbucket_merged_by_the_job"),
    (64, "Jenkins, merged by the job", "jenkins_merged_by_the_job"),
    (65, "CircleCI", "circleci_push"),
    (66, "CircleCI without blobs", "circleci_without_blobs"),
    (67, "Bitbucket, merged by the job", "bitbucket_merged_by_the_job"),
    (68, "Azure, depth 1", "azure_of_depth_one"),
    (69, "Azure, main's first run", "azure_on_main_for_the_first_time"),
    # Laptops
    (70, "stale local main", "laptop_with_a_stale_main"),
    (
        71,
        "origin/main was not fetched",
        "runs/lookup/test_stale.py::test_a_laptop_says_that_origin_was_not_fetched",
    ),
    (
        72,
        "a fork as origin, branch from upstream",
        "runs/lookup/test_stale.py::test_a_topic_from_upstream_is_compared_with_upstream",
    ),
    (
        73,
        "the only remote is called github",
        "runs/lookup/test_stale.py::test_the_only_remote_may_have_any_name",
    ),
    (
        74,
        "no remote",
        "runs/lookup/test_wanted_commit.py::test_without_a_remote_auto_is_the_usual_branch",
    ),
    (75, "shallow clone of a topic", "shallow_clone_of_a_topic"),
    (76, "no upstream branch", "laptop_on_a_branch_that_was_not_pushed"),
    (77, "worktree", "worktree_of_a_laptop"),
    (78, "detached", "laptop_with_a_detached_topic"),
    (79, "a rebase stopped half-way", "laptop_in_the_midst_of_a_rebase"),
    (80, "uncommitted on main", "laptop_with_an_uncommitted_change_on_main"),
    (81, "uncommitted on a topic", "laptop_with_an_uncommitted_change_on_a_topic"),
    (82, "the default branch was renamed", "laptop_whose_main_was_renamed"),
    (83, "criss-cross", "laptop_with_a_criss_cross"),
    (84, "the parent was squashed, not rebased", "laptop_whose_parent_was_squashed"),
    (85, "a file called main", "laptop_with_a_file_called_main"),
    (86, "a tag called main", "laptop_with_a_tag_called_main"),
    # Forks
    (87, "no key, harmless, main's replies here", FORKS),
    (
        88,
        "no key, the prompt changed",
        "plugin/stories/test_keyless.py::test_cases_that_ask_something_new_are_one_line_and_no_errors",
    ),
    (89, "no key, no replies", NO_REPLIES),
    (
        90,
        "no base URL",
        "ci/test_forks.py::test_a_host_that_was_asked_before_is_named_where_the_base_is_run",
    ),
    (91, "deferred, the prompt changed", FORKS),
    (92, "deferred, no replies", NO_REPLIES),
    (93, "deferred, Dependabot", FORKS),
    (94, "the queue with a key", "ci/test_recipes.py::test_at_github_the_merge_queue_is_gated_too"),
)


@cache
def _tests_of(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_no_way_is_missing() -> None:
    assert [number for number, *_ in WAYS] == list(range(1, 95))


@pytest.mark.parametrize(("number", "way", "tested_by"), WAYS)
def test_each_way_has_its_test(number: int, way: str, tested_by: str) -> None:
    file, is_elsewhere, name = tested_by.rpartition("::")
    names = _tests_of(file) if is_elsewhere else {make.__name__ for make in SITUATIONS}
    assert name in names, f"{number}, {way}"
