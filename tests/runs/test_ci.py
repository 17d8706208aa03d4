"""The facts of CI are read from its variables and its event file, whatever stands there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.records import CiJob
from pytest_llmeval.runs.ci import (
    SYSTEMS,
    CiFacts,
    System,
    github_facts,
    gitlab_facts,
    read_ci,
)

SHA = "1a2b3c4d" * 5
HEAD = "0f1e2d3c" * 5
BASE = "9a8b7c6d" * 5

PULL_REQUEST = {
    "pull_request": {"head": {"sha": HEAD, "repo": {"full_name": "octo/bot"}}},
    "repository": {"full_name": "octo/bot", "default_branch": "trunk"},
}
MERGE_GROUP = {
    "merge_group": {"base_sha": BASE, "base_ref": "refs/heads/main"},
    "repository": {"full_name": "octo/bot", "default_branch": "trunk"},
}


def github(name: str = "pull_request", **changes: str) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": name,
        "GITHUB_BASE_REF": "main" if name == "pull_request" else "",
        "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_SHA": SHA,
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "octo/bot",
        "GITHUB_RUN_ID": "9000",
        **changes,
    }


def gitlab(**changes: str) -> dict[str, str]:
    return {
        "GITLAB_CI": "true",
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_COMMIT_SHA": SHA,
        "CI_DEFAULT_BRANCH": "trunk",
        "CI_JOB_URL": "https://gitlab.com/octo/bot/-/jobs/6000",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": BASE,
        **changes,
    }


def without(value: dict[str, Any], *place: str) -> dict[str, Any]:
    """Copy an object without what stands in a place of it."""
    copy: dict[str, Any] = json.loads(json.dumps(value))
    inner = copy
    for name in place[:-1]:
        inner = inner[name]
    del inner[place[-1]]
    return copy


def test_a_pull_request_at_github() -> None:
    assert github_facts(github(), PULL_REQUEST) == CiFacts(
        provider="github",
        event="pull_request",
        of_request=True,
        url="https://github.com/octo/bot/actions/runs/9000",
        fork=False,
        commit=SHA,
        target="main",
        merged=HEAD,
        default_branch="trunk",
    )


def test_an_entry_of_the_merge_queue() -> None:
    assert github_facts(github("merge_group"), MERGE_GROUP) == CiFacts(
        provider="github",
        event="merge_group",
        url="https://github.com/octo/bot/actions/runs/9000",
        is_queued=True,
        commit=SHA,
        target="main",
        base=BASE,
        base_name="merge_group.base_sha",
        default_branch="trunk",
    )


def test_a_merge_request_at_gitlab() -> None:
    assert gitlab_facts(gitlab()) == CiFacts(
        provider="gitlab",
        event="merge_request_event",
        of_request=True,
        url="https://gitlab.com/octo/bot/-/jobs/6000",
        commit=SHA,
        target="main",
        base=BASE,
        base_name="CI_MERGE_REQUEST_DIFF_BASE_SHA",
        default_branch="trunk",
    )


def test_the_target_of_merged_results_goes_before_the_base_of_the_diff() -> None:
    name = "CI_MERGE_REQUEST_TARGET_BRANCH_SHA"
    facts = gitlab_facts(gitlab(**{name: HEAD}))
    assert (facts.base, facts.base_name) == (HEAD, name)


@pytest.mark.parametrize("kind", ["merged_result", "merge_train"])
def test_the_base_of_the_diff_never_stands_for_the_target_of_merged_results(kind: str) -> None:
    facts = gitlab_facts(gitlab(CI_MERGE_REQUEST_EVENT_TYPE=kind))
    assert facts.base is None
    assert facts.is_queued is (kind == "merge_train")
    assert facts.complaints == ("CI_MERGE_REQUEST_TARGET_BRANCH_SHA is empty",)


@pytest.mark.parametrize(
    ("environ", "provider"),
    [
        ({}, None),
        ({"CI": ""}, None),
        ({"CI": "0"}, None),
        ({"CI": "False"}, None),
        ({"CI": "true"}, "other"),
        ({"GITHUB_ACTIONS": "false"}, None),
    ],
)
def test_an_unknown_ci_is_a_ci_and_a_laptop_is_none(
    environ: dict[str, str], provider: str | None
) -> None:
    facts = read_ci(environ)
    assert facts == CiFacts(provider=provider)  # type: ignore[arg-type]
    assert facts.job == (None if provider is None else CiJob(provider=provider))


def test_a_push_needs_nothing_of_the_event_file(tmp_path: Path) -> None:
    environ = github("push", GITHUB_EVENT_PATH=str(tmp_path), GITHUB_REF="refs/heads/main")
    facts = read_ci(environ)
    assert (facts.event, facts.target, facts.fork, facts.complaints) == ("push", None, None, ())


def test_a_push_at_gitlab_has_no_target() -> None:
    none = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "", "CI_JOB_URL": ""}
    facts = read_ci(gitlab(CI_PIPELINE_SOURCE="push", CI_PIPELINE_URL="https://p", **none))
    assert (facts.target, facts.base, facts.url, facts.complaints) == (None, None, "https://p", ())


def test_a_job_without_its_variables_is_still_one_of_its_provider() -> None:
    facts = read_ci({"GITHUB_ACTIONS": "true"})
    assert facts == CiFacts(provider="github", complaints=("GITHUB_SHA is empty",))


@pytest.mark.parametrize(
    ("head", "fork"),
    [
        ({"repo": {"full_name": "octo/bot"}}, False),
        ({"repo": {"full_name": "ada/bot"}}, True),
        ({"repo": None}, True),
        ({"sha": "a"}, None),
        (None, None),
    ],
)
def test_a_pull_request_of_another_repository_is_one_of_a_fork(
    head: object, fork: bool | None
) -> None:
    event = {**PULL_REQUEST, "pull_request": {"head": head}}
    assert github_facts(github(), event).fork is fork


def test_a_merge_request_of_another_project_is_one_of_a_fork() -> None:
    ids = {"CI_MERGE_REQUEST_PROJECT_ID": "1", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2"}
    assert gitlab_facts(gitlab(**ids)).fork is True
    ids["CI_MERGE_REQUEST_SOURCE_PROJECT_ID"] = "1"
    assert gitlab_facts(gitlab(**ids)).fork is False


@pytest.mark.parametrize("text", [b"", b"no json", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_an_event_file_that_cannot_be_read_is_told(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_bytes(text)
    facts = read_ci(github(GITHUB_EVENT_PATH=str(file)))
    (complaint,) = facts.complaints
    assert complaint.startswith("GITHUB_EVENT_PATH is '")
    assert facts.target == "main"


@pytest.mark.parametrize("path", ["", "nowhere/event.json", "\0"])
def test_an_event_file_that_is_not_there_is_told(path: str) -> None:
    (complaint,) = read_ci(github(GITHUB_EVENT_PATH=path)).complaints
    assert complaint == f"GITHUB_EVENT_PATH is {path!r}, no file with a JSON object in it"


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        (github_facts(github(GITHUB_SHA=""), PULL_REQUEST), "GITHUB_SHA is empty"),
        (github_facts(github(GITHUB_SHA="HEAD"), PULL_REQUEST),
         "GITHUB_SHA is 'HEAD', no hash of a commit"),
        (github_facts(github(GITHUB_SHA="0" * 40), PULL_REQUEST),
         f"GITHUB_SHA is '{'0' * 40}', no hash of a commit"),
        (github_facts(github(GITHUB_SHA="x" * 1000), PULL_REQUEST),
         f"GITHUB_SHA is '{'x' * 80}...', no hash of a commit"),
        (github_facts(github(GITHUB_BASE_REF=""), PULL_REQUEST), "GITHUB_BASE_REF is empty"),
        (github_facts(github(GITHUB_REF="refs/pull/7/head"), PULL_REQUEST),
         "GITHUB_REF is 'refs/pull/7/head', not refs/pull/NUMBER/merge"),
        (github_facts(github(), without(PULL_REQUEST, "pull_request", "head", "sha")),
         "pull_request.head.sha is empty"),
        (github_facts(github(), {"pull_request": [], "repository": ""}),
         "pull_request.head.sha is empty"),
        (github_facts(github("merge_group"), without(MERGE_GROUP, "merge_group", "base_sha")),
         "merge_group.base_sha is empty"),
        (github_facts(github("merge_group"), {"merge_group": {"base_sha": 1, "base_ref": "main"}}),
         "merge_group.base_sha is empty"),
        (github_facts(github("merge_group"), without(MERGE_GROUP, "merge_group", "base_ref")),
         "merge_group.base_ref is empty"),
        (gitlab_facts(gitlab(CI_COMMIT_SHA="")), "CI_COMMIT_SHA is empty"),
        (gitlab_facts(gitlab(CI_MERGE_REQUEST_TARGET_BRANCH_NAME="")),
         "CI_MERGE_REQUEST_TARGET_BRANCH_NAME is empty"),
        (gitlab_facts(gitlab(CI_MERGE_REQUEST_DIFF_BASE_SHA="")),
         "CI_MERGE_REQUEST_DIFF_BASE_SHA is empty"),
        (gitlab_facts(gitlab(CI_MERGE_REQUEST_TARGET_BRANCH_SHA="main")),
         "CI_MERGE_REQUEST_TARGET_BRANCH_SHA is 'main', no hash of a commit"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_is_told(facts: CiFacts, complaint: str) -> None:
    assert facts.complaints == (complaint,)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_service_tells_its_target_by_a_variable(system: System) -> None:
    sign = {system.sign: system.value or "True"}
    values = {
        system.request: "7", system.target: "refs/heads/next", system.commit: SHA.upper(),
        system.default: "trunk", system.event: "e", system.url: "https://u", system.fork: "ada",
    }  # fmt: skip
    environ = {name: text for name, text in values.items() if name}
    facts = read_ci({**environ, **sign} if system.target != system.sign else environ)
    assert facts == CiFacts(
        provider=system.name,
        event="e" if system.event else None,
        of_request=bool(system.target or system.request),
        url="https://u" if system.url else None,
        fork=True if system.fork else None,
        commit=SHA if system.commit else None,
        target="next" if system.target else None,
        default_branch="trunk" if system.default else None,
    )


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_service_without_a_request_has_no_target(system: System) -> None:
    environ = {system.sign: system.value or "True", system.commit: "HEAD", "CI": "true"}
    if system.request:
        environ |= {system.request: "false", system.target: "feature"}
    environ |= {system.sign: system.value or "True"}
    if system.target == system.sign:
        return  # that it has a target is all that is known of it
    facts = read_ci(environ)
    assert (facts.provider, facts.target, facts.of_request) == (system.name, None, False)
    assert (facts.commit, facts.fork, facts.is_for_branch) == (None, None, True)


@pytest.mark.parametrize("name", ["pull_request_review", "pull_request_target"])
def test_a_request_is_one_by_whatever_name(name: str) -> None:
    head = {"sha": HEAD, "repo": {"full_name": "ada/bot"}}
    event = {**PULL_REQUEST, "pull_request": {"head": head, "base": {"ref": "next"}}}
    facts = github_facts(github(name), event)
    assert (facts.target, facts.merged, facts.of_request) == ("next", HEAD, True)
    is_targets = name == "pull_request_target"
    assert (facts.commit, facts.fork) == ((None, None) if is_targets else (SHA, True))


def test_a_request_that_was_merged_is_a_push() -> None:
    event = {**PULL_REQUEST, "action": "closed"}
    facts = github_facts(github(GITHUB_REF="refs/heads/main"), event)
    assert (facts.target, facts.is_for_branch, facts.complaints) == (None, True, ())


def run_for(started: str, *requests: object) -> dict[str, Any]:
    run = {"event": started, "head_sha": HEAD, "pull_requests": list(requests)}
    return {"workflow_run": run, "repository": PULL_REQUEST["repository"]}


@pytest.mark.parametrize(
    ("requests", "target"),
    [
        ([{"base": {"ref": "next"}}], "next"),
        ([{"base": {"ref": "next"}}, {"base": {"ref": "next"}}], "next"),
        ([{"base": {"ref": "next"}}, {"base": {"ref": "main"}}], None),
        ([{"base": {"ref": ["next"]}}, None], None),
        ([], None),
    ],
)
def test_a_run_after_that_of_a_request_is_about_the_request(
    requests: list[object], target: str | None
) -> None:
    facts = github_facts(github("workflow_run"), run_for("pull_request", *requests))
    assert (facts.of_request, facts.target, facts.merged) == (True, target, HEAD)
    assert (facts.commit, facts.fork, facts.complaints) == (None, None, ())


def test_a_run_whose_requests_are_no_list_has_no_target() -> None:
    event = run_for("pull_request_target")
    event["workflow_run"]["pull_requests"] = None
    assert github_facts(github("workflow_run"), event).target is None


def test_a_run_after_a_push_is_about_the_branch() -> None:
    facts = github_facts(github("workflow_run"), run_for("push", {"base": {"ref": "next"}}))
    assert (facts.is_for_branch, facts.target, facts.commit) == (True, None, SHA)


@pytest.mark.parametrize("is_request", [True, False])
def test_a_comment_is_about_a_request_or_about_none(*, is_request: bool) -> None:
    event = {"issue": {"number": 7, **({"pull_request": {"url": "u"}} if is_request else {})}}
    facts = github_facts(github("issue_comment"), event)
    assert (facts.of_request, facts.target) == (is_request, None)
    assert facts.commit == (None if is_request else SHA)


@pytest.mark.parametrize("sign", ["GITEA_ACTIONS", "FORGEJO_ACTIONS"])
def test_the_ref_of_a_request_at_gitea_is_no_merge(sign: str) -> None:
    facts = github_facts(github(GITHUB_REF="refs/pull/7/head", **{sign: "true"}), PULL_REQUEST)
    assert (facts.merged, facts.complaints) == (HEAD, ())


def test_a_child_pipeline_has_the_target_of_its_request() -> None:
    facts = gitlab_facts(gitlab(CI_PIPELINE_SOURCE="parent_pipeline"))
    assert (facts.target, facts.base, facts.of_request) == ("main", BASE, True)


def test_a_request_at_another_host_has_a_target_at_gitlab() -> None:
    none = {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": ""}
    name = "CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME"
    event = "external_pull_request_event"
    facts = gitlab_facts(gitlab(CI_PIPELINE_SOURCE=event, **none, **{name: "next"}))
    assert (facts.target, facts.base, facts.of_request) == ("next", None, True)


@pytest.mark.parametrize("name", ["pull_request", "pull_request_target", "pull_request_review"])
def test_a_request_without_its_event_file_is_none_of_the_branch_itself(name: str) -> None:
    facts = github_facts(github(name, GITHUB_BASE_REF="main"), None)
    assert (facts.target, facts.of_request, facts.is_for_branch) == ("main", True, False)
    assert facts.complaints[0].startswith("GITHUB_EVENT_PATH is ''")
