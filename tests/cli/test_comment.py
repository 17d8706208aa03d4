"""`llmeval comment`, against a server that speaks GitHub's API."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.github.jobs import COMMIT, RUN, URL, event, job, packed, report
from tests.servers.github_server import ACCOUNT, FORK, REPOSITORY, GithubServer, pull_request
from tests.test_cli import assert_refused, llmeval

MARKER = "<!-- llmeval comment: evals -->"
NUMBER = 7


@pytest.fixture
def github() -> Iterator[GithubServer]:
    """GitHub, with a pull request from a fork, and others that are not meant."""
    with GithubServer() as server:
        server.pull_requests += [
            pull_request(3, commit=COMMIT, branch="other"),
            pull_request(4, commit="f" * 40),
            pull_request(5, commit=COMMIT, state="closed"),
            pull_request(6, commit=COMMIT, base=FORK),
            pull_request(NUMBER, commit=COMMIT),
            pull_request(8, commit=COMMIT, head="mallory/another-fork"),
            pull_request(9, commit=COMMIT, head=None),
        ]
        yield server


@pytest.fixture
def comment(
    github: GithubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Run the command on a report, in a job of this event."""

    def run(document: object = None, *arguments: object, told: Any = None) -> Result:
        for name, text in job(tmp_path, github.url, told).items():
            monkeypatch.setenv(name, text)
        if document is not None:
            github.add_artifact(RUN, "evals", packed(document))
        return llmeval("comment", *arguments)

    return run


def body(github: GithubServer) -> str:
    """The one comment that is there."""
    [made] = github.comments[NUMBER]
    text: str = made["body"]
    return text


def assert_said(result: Result, *parts: str) -> None:
    assert result.exit_code == 0, result.output
    [line] = result.output.splitlines()
    for part in parts:
        assert part in line


# --- what it does -----------------------------------------------------------------------------


def test_a_report_becomes_a_comment_that_says_who_reported_it(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    result = comment(report())

    assert_said(result, "commented on #7: https://github.com/octo/bot/pull/7#issuecomment-")
    marker, origin, _, *rest = body(github).splitlines()
    assert marker == MARKER
    said = "As reported by the pull request's job for 0123456; [its run]("
    assert origin == f"{said}{URL}) ended in failure."
    assert "test_label" in "\n".join(rest)
    assert github.written == [f"POST /repos/{REPOSITORY}/issues/7/comments"]


def test_a_later_report_takes_the_place_of_the_comment(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    comment(report())
    result = comment(report("improved"))

    assert_said(result, "comment updated on #7: https://")
    assert "improved" in body(github)
    assert len(github.written) == 2


def test_the_same_report_again_writes_nothing(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    comment(report())
    assert_said(comment(), "says so already")
    assert len(github.written) == 1


def test_unchanged_makes_no_comment(github: GithubServer, comment: Callable[..., Result]) -> None:
    assert_said(comment(report("unchanged")), "nothing to comment: unchanged (#7)")
    assert github.written == []


def test_unchanged_is_said_where_a_comment_says_something_else(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    comment(report())
    assert_said(comment(report("unchanged")), "comment updated")
    assert "unchanged" in body(github)


def test_unchanged_that_fails_by_the_anchor_is_worth_a_comment(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    assert_said(comment(report("unchanged", fails=True)), "commented on #7")


def test_each_artifact_has_a_comment_of_its_own(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    github.add_artifact(RUN, "other", packed(report()))
    comment(report())
    assert_said(comment(None, "--artifact=other"), "commented")
    assert [one["body"].splitlines()[0] for one in github.comments[NUMBER]] == [
        MARKER,
        "<!-- llmeval comment: other -->",
    ]


def test_a_file_may_be_named_instead_of_the_artifact(
    github: GithubServer, comment: Callable[..., Result], tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report()))
    assert_said(comment(None, file), "commented on #7")


# --- whose comment ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "text"),
    [
        ("mallory", MARKER),
        ("github-actions", MARKER),
        (ACCOUNT, f"Somebody wrote: {MARKER}"),
        (ACCOUNT, f"\n{MARKER}"),
        (ACCOUNT, "<!-- llmeval comment: evals2 -->"),
    ],
    ids=["stranger", "namesake", "quoted", "second line", "other name"],
)
def test_no_comment_is_touched_but_our_own(
    github: GithubServer, comment: Callable[..., Result], by: str, text: str
) -> None:
    github.add_comment(NUMBER, text, by=by)

    assert_said(comment(report()), "commented on #7")

    assert github.comments[NUMBER][0]["body"] == text
    assert github.written == [f"POST /repos/{REPOSITORY}/issues/7/comments"]


def test_our_own_comment_is_found_on_a_later_page(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    github.page = 2
    for _ in range(4):
        github.add_comment(NUMBER, MARKER, by="mallory")
    github.add_comment(NUMBER, f"{MARKER}\nold", by=ACCOUNT)

    assert_said(comment(report()), "comment updated")
    assert "test_label" in github.comments[NUMBER][-1]["body"]


# --- which pull request -----------------------------------------------------------------------


def test_the_pull_request_is_found_on_a_later_page(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    github.page = 1
    assert_said(comment(report()), "commented on #7")


def test_the_name_of_a_branch_cannot_widen_the_search(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    branch = "x&state=closed&head=mallory:feature#%26"
    comment(report(), told=event(head_branch=branch))
    assert list(github.comments) == []

    github.pull_requests.append(pull_request(12, commit=COMMIT, branch=branch))
    assert_said(comment(report(), told=event(head_branch=branch)), "commented on #12")


@pytest.mark.parametrize(
    "changed",
    [
        {"event": "push"},
        {"event": "pull_request_target"},
        {"head_sha": "e" * 40},
        {"head_branch": "gone"},
        {"head_repository": None},
        {"head_repository": {"full_name": "mallory/renamed"}},
    ],
    ids=lambda changed: next(iter(changed.items()))[0],
)
def test_without_a_pull_request_there_is_a_line_and_exit_0(
    github: GithubServer, comment: Callable[..., Result], changed: dict[str, Any]
) -> None:
    result = comment(report(), told=event(**changed))
    assert_said(result, "nothing to comment: run 77 was for", "no open pull request of octo/bot")
    assert github.written == []


def test_numbers_in_the_artifact_are_not_looked_at(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    document = report(pull_request=1, number=1)
    document["run"] |= {"ref": "refs/pull/1/merge", "commit": "e" * 40}
    comment(document, told=event(pull_requests=[{"number": 1}]))
    assert list(github.comments) == [NUMBER]


def test_two_pull_requests_of_one_commit_are_not_guessed_between(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    github.pull_requests.append(pull_request(11, commit=COMMIT))
    assert_said(comment(report()), "nothing to comment", "#7, #11")
    assert github.written == []


def test_a_run_without_the_artifact_is_no_error(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    github.add_artifact(RUN, "evals", packed(report()), expired=True)
    github.add_artifact(RUN + 1, "evals", packed(report()))
    assert_said(comment(), "nothing to comment: run 77 left no artifact 'evals'")


def test_the_newest_artifact_of_a_name_counts(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    github.add_artifact(RUN, "evals", packed(report()))
    comment(report("improved"))
    assert "improved" in body(github)


def test_a_report_that_is_none_is_refused_and_nothing_is_written(
    github: GithubServer, comment: Callable[..., Result]
) -> None:
    assert_refused(comment(report(verdict="excellent")), "the report does not fit its schema: ")
    document = report("anchor")
    document["anchor"]["baseline"] = None
    assert_refused(comment(document), "the report contradicts itself: ")
    assert github.written == []


# --- what was typed ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a -->", "a--b", "", "a\nb", "ä"])
def test_a_name_that_would_end_the_marker_is_refused(
    comment: Callable[..., Result], name: str
) -> None:
    assert_refused(comment(None, f"--artifact={name}"), "--artifact")


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH"])
def test_a_variable_that_is_missing_is_named(
    comment: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, github: GithubServer, name: str
) -> None:
    comment()  # sets them all
    monkeypatch.delenv(name)
    assert_refused(llmeval("comment"), f"{name} is not set", "docs/ci.md")


def test_an_event_of_another_workflow_is_refused(comment: Callable[..., Result]) -> None:
    refused = comment(told={"action": "opened", "number": 7})
    assert_refused(refused, "GITHUB_EVENT_PATH=", "on: workflow_run")


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "nothing"])
def test_what_is_no_plain_file_is_not_read(
    comment: Callable[..., Result], tmp_path: Path, github: GithubServer, kind: str
) -> None:
    there, path = tmp_path / "there.json", tmp_path / "report.json"
    there.write_text(json.dumps(report()))
    if kind == "link":
        path.symlink_to(there)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    assert_refused(comment(None, path), "report.json: a report is a plain file")
    assert github.written == []
