"""Branches that are further on at their remote than here, or that another remote has."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_llmeval.errors import BaselineError
from pytest_llmeval.runs.ci import read_ci
from pytest_llmeval.runs.git import read_state
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.lookup.session_baseline import find_baseline
from pytest_llmeval.runs.lookup.wanted_commit import WantedCommit
from pytest_llmeval.runs.own_repository import OwnRepository
from pytest_llmeval.runs.store import RunStore
from pytest_llmeval.settings import Settings
from tests.ci.hosts import github_push, on_laptop, pull_request
from tests.ci.origin import WORSE, Origin, run_git
from tests.ci.situation import HARMLESS

OTHER = {"CI": "true"}
BUILDKITE = {"CI": "true", "BUILDKITE": "true", "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main"}
GITLAB = {"CI": "true", "GITLAB_CI": "true", "CI_PIPELINE_SOURCE": "push"}


def refs_in(checkout: Path, environ: Mapping[str, str] | None = None) -> Refs:
    """Resolve as a session does: in CI it may fetch."""
    ci, directory = read_ci(environ or {}), checkout.parent / "dot-llmeval"
    own = None
    if ci.provider is not None:
        own = OwnRepository(directory, top=checkout, fetches=True)
    return Refs(RunStore(directory), read_state(checkout), ci, own)


def wanted(
    checkout: Path, environ: Mapping[str, str] | None = None, *, ref: str = "auto"
) -> WantedCommit:
    return refs_in(checkout, environ).wanted(ref)


def kept_checkout(folder: Path) -> tuple[Origin, Path]:
    """A checkout of an old pipeline, in which the next one fetches the commit of a topic alone."""
    origin = Origin(folder / "host")
    job = on_laptop(origin, folder / "job").path
    worse = origin.advance(WORSE)
    topic = origin.commit(HARMLESS, on=worse)
    origin.set("topic", topic)
    run_git(job, "fetch", "--quiet", "--", "origin", topic)
    run_git(job, "checkout", "--quiet", "--force", "FETCH_HEAD")
    return origin, job


@pytest.mark.parametrize("environ", [BUILDKITE, GITLAB, OTHER], ids=["buildkite", "gitlab", "ci"])
@pytest.mark.parametrize("ref", ["auto", "main"])
def test_a_topic_in_a_kept_checkout_is_not_blamed_for_what_main_became(
    tmp_path: Path, environ: Mapping[str, str], ref: str
) -> None:
    origin, job = kept_checkout(tmp_path)
    assert wanted(job, environ, ref=ref).commit == origin.tip


def test_a_laptop_says_that_origin_was_not_fetched(tmp_path: Path) -> None:
    origin, clone = kept_checkout(tmp_path)
    found = wanted(clone)
    assert found.commit == origin.main[-2]
    assert found.notes == (
        "origin/main was not in the last fetch: if main has moved on:  git fetch origin",
    )


def test_a_laptop_says_how_old_its_origin_is(tmp_path: Path) -> None:
    clone = on_laptop(Origin(tmp_path / "host"), tmp_path / "clone").path
    run_git(clone, "fetch", "--quiet")
    run_git(clone, "switch", "--quiet", "--create", "topic")
    run_git(clone, "commit", "--quiet", "--allow-empty", "--message=more")
    assert wanted(clone).notes == ()
    then = time.time() - 5.5 * 24 * 60 * 60
    os.utime(clone / ".git" / "FETCH_HEAD", (then, then))
    (note,) = wanted(clone).notes
    assert note.startswith("origin/main was fetched 5 days ago")


# A job that merges the request into a local main


def merged_by_the_job(folder: Path, *, knows_origin: bool) -> tuple[Origin, Path]:
    """A checkout as Drone and its kin make it, without what they say of it."""
    origin = Origin(folder / "host")
    head = origin.commit(WORSE, on=origin.main[1])
    origin.set("topic", head)
    job = folder / "job"
    run_git(folder, "init", "--quiet", "--initial-branch=main", str(job))
    run_git(job, "remote", "add", "origin", origin.url)
    place = "refs/remotes/origin/main" if knows_origin else ""
    run_git(job, "fetch", "--quiet", "origin", f"+refs/heads/main:{place}")
    run_git(job, "checkout", "--quiet", "--force", "-B", "main", origin.tip)
    run_git(job, "fetch", "--quiet", "origin", head)
    run_git(job, "merge", "--quiet", "--no-ff", "--no-edit", head)
    return origin, job


@pytest.mark.parametrize("knows_origin", [True, False])
@pytest.mark.parametrize("ref", ["auto", "main"])
def test_a_request_on_a_local_main_is_compared_with_that_of_origin(
    tmp_path: Path, *, knows_origin: bool, ref: str
) -> None:
    origin, job = merged_by_the_job(tmp_path, knows_origin=knows_origin)
    assert wanted(job, OTHER, ref=ref).commit == origin.tip


def test_a_local_main_is_not_let_pass_where_origin_does_not_answer(tmp_path: Path) -> None:
    _, job = merged_by_the_job(tmp_path, knows_origin=False)
    run_git(job, "remote", "set-url", "origin", str(tmp_path / "nowhere"))
    with pytest.raises(BaselineError) as caught:
        find_baseline("main", refs_in(job, OTHER), Settings(session=""), root=".", selection=())
    assert getattr(caught.value, "stops", True)
    assert "origin gave no history" in str(caught.value)


def test_a_push_to_main_is_one_in_an_unknown_ci_too(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "host")
    job = github_push(origin, tmp_path / "job").path
    assert wanted(job, OTHER, ref="main").commit == origin.tip


# Several remotes


def fork_of(origin: Origin, folder: Path) -> Path:
    """Clone a fork whose main is old, with the origin as ``upstream``; begin a topic there."""
    run_git(folder, "clone", "--quiet", "--bare", origin.url, str(folder / "fork.git"))
    clone = folder / "clone"
    run_git(folder, "clone", "--quiet", (folder / "fork.git").as_uri(), str(clone))
    run_git(clone, "remote", "add", "upstream", origin.url)
    origin.advance(WORSE)
    run_git(clone, "fetch", "--quiet", "upstream")
    run_git(clone, "switch", "--quiet", "--no-track", "--create", "topic", "upstream/main")
    run_git(clone, "commit", "--quiet", "--allow-empty", "--message=harmless")
    return clone


@pytest.mark.parametrize("ref", ["auto", "main", "upstream/main"])
def test_a_topic_from_upstream_is_compared_with_upstream(tmp_path: Path, ref: str) -> None:
    origin = Origin(tmp_path / "host")
    found = wanted(fork_of(origin, tmp_path), ref=ref)
    assert found.commit == origin.tip
    said = " ".join(found.notes)
    assert ("upstream/main has 1 commit more" in said) is (ref != "upstream/main")


def test_of_several_remotes_the_nearest_is_named(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "host")
    clone = fork_of(origin, tmp_path)
    run_git(clone, "branch", "--quiet", "--delete", "--force", "main")
    found = wanted(clone, ref="main")
    assert found.commit == origin.tip
    assert found.notes == ("of several remotes the nearest counts: upstream/main",)


def test_a_remote_that_has_the_very_branch_as_its_main_does_not_count(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "host")
    clone = on_laptop(origin, tmp_path / "clone").path
    run_git(clone, "switch", "--quiet", "--create", "topic")
    run_git(clone, "commit", "--quiet", "--allow-empty", "--message=more")
    run_git(clone, "remote", "add", "mine", "nowhere")
    run_git(clone, "update-ref", "refs/remotes/mine/main", "HEAD")
    assert wanted(clone, ref="main").commit == origin.tip


@pytest.mark.parametrize("has_local", [True, False])
@pytest.mark.parametrize("ref", ["auto", "main"])
def test_the_only_remote_may_have_any_name(tmp_path: Path, *, ref: str, has_local: bool) -> None:
    origin = Origin(tmp_path / "host")
    clone = tmp_path / "clone"
    run_git(tmp_path, "clone", "--quiet", "--origin=github", origin.url, str(clone))
    newest = origin.advance({"README.md": "newer\n"})
    run_git(clone, "fetch", "--quiet", "github")
    run_git(clone, "switch", "--quiet", "--create", "topic", "--no-track", "github/main")
    run_git(clone, "commit", "--quiet", "--allow-empty", "--message=more")
    if not has_local:
        run_git(clone, "branch", "--quiet", "--delete", "--force", "main")
    assert wanted(clone, ref=ref).commit == newest


# A pull request that is not checked out


def test_a_pull_request_that_is_not_checked_out_is_refused(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "host")
    job = pull_request(origin, tmp_path / "job", head=origin.commit(WORSE, on=origin.tip), depth=0)
    run_git(job.path, "checkout", "--quiet", "--detach", origin.tip)
    told = {"GITHUB_EVENT_NAME": "pull_request_target", "GITHUB_REF": "refs/heads/main"}
    environ = {**job.environ, **told, "GITHUB_SHA": origin.tip}

    with pytest.raises(BaselineError, match="nothing of the pull request is tested"):
        find_baseline(
            "auto", refs_in(job.path, environ), Settings(session=""), root=".", selection=()
        )


@pytest.mark.parametrize(
    ("event", "told", "cure"),
    [
        (
            "issue_comment",
            {"issue": {"pull_request": {"url": "u"}}},
            "refs/pull/${{ github.event.issue.number }}/merge",
        ),
        (
            "workflow_run",
            {"workflow_run": {"event": "pull_request", "head_sha": "1a2b3c4d" * 5}},
            "${{ github.event.workflow_run.head_sha }}",
        ),
    ],
)
def test_a_distant_event_without_the_request_is_refused(
    tmp_path: Path, event: str, told: Mapping[str, object], cure: str
) -> None:
    job = github_push(Origin(tmp_path / "host"), tmp_path / "job")
    file = Path(job.environ["GITHUB_EVENT_PATH"])
    file.write_text(json.dumps({**json.loads(file.read_text()), **told}))
    environ = {**job.environ, "GITHUB_EVENT_NAME": event}

    with pytest.raises(BaselineError, match="nothing of the pull request is tested") as caught:
        find_baseline(
            "auto", refs_in(job.path, environ), Settings(session=""), root=".", selection=()
        )
    assert f"ref: {cure}" in str(caught.value)


# What auto took, and why


@pytest.mark.parametrize(
    ("environ", "chosen"),
    [
        ({}, "auto: the default branch"),
        (
            {"JENKINS_URL": "https://j", "CHANGE_TARGET": "main"},
            "auto: the target, as jenkins says",
        ),
        (
            {"CIRCLECI": "true", "CIRCLE_PULL_REQUEST": "https://g/pull/7"},
            "auto: the default branch, as circleci names no target",
        ),
    ],
    ids=["laptop", "jenkins", "circleci"],
)
def test_what_auto_took_is_said(tmp_path: Path, environ: Mapping[str, str], chosen: str) -> None:
    origin = Origin(tmp_path / "host")
    origin.set("topic", origin.commit(HARMLESS, on=origin.tip))
    clone = on_laptop(origin, tmp_path / "clone", branch="topic").path
    assert wanted(clone, environ).chosen == chosen
    assert wanted(clone, environ, ref="main").chosen == ""


def test_what_auto_took_is_said_where_ci_knows_the_default_branch(tmp_path: Path) -> None:
    _, job = kept_checkout(tmp_path)
    run_git(job, "remote", "set-head", "origin", "--delete")
    assert wanted(job, BUILDKITE).chosen == "auto: the default branch, as buildkite says"
    # A service that has no variable for it says nothing.
    jenkins = {"JENKINS_URL": "https://j"}
    assert wanted(job, jenkins).chosen == "auto: the default branch, as origin says"
