"""Requests into a branch that is not the default one, in every CI service, as each checks it out.

The branch below has a worse prompt, and the request is harmless: against main it would be blamed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.ci.hosts import GITHUB, REPOSITORY, Job
from tests.ci.origin import WORSE, Origin, run_git
from tests.ci.situation import HARMLESS, Situation, complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a service sets in the job of a request, and what it checks out.

    Attributes:
        name: of the service, and of the job.
        head: which commit HEAD is: ``head``, the request's own last one, or a ``merge`` of it.
        environ: the variables; ``{head}`` and the like stand for commits.
        event: GitHub's event file, likewise.
        wanted: which commit is the baseline.
        fork: what the facts say.
        note: what must be said.
    """

    name: str
    head: str
    environ: Mapping[str, str]
    event: Mapping[str, object] = field(default_factory=dict)
    wanted: str = "below"
    fork: bool | None = None
    note: str = ""


def _event(action: str = "submitted") -> dict[str, object]:
    request = {
        "number": 7,
        "base": {"ref": "below"},
        "head": {"sha": "{head}", "repo": {"full_name": REPOSITORY}},
    }
    repository = {"full_name": REPOSITORY, "default_branch": "main"}
    return {"action": action, "pull_request": request, "repository": repository}


def _run_for(event: str, *targets: str) -> dict[str, object]:
    """The event of a job that another workflow's run starts; that of a fork names no request."""
    requests = [{"number": 7, "base": {"ref": target}} for target in targets]
    run = {"event": event, "head_sha": "{head}", "pull_requests": requests}
    return {"workflow_run": run, "repository": {"default_branch": "main"}}


def _github(name: str, *, sha: str, ref: str, **more: str) -> dict[str, str]:
    return {
        "CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": name, "GITHUB_REF": ref,
        "GITHUB_SHA": sha, "GITHUB_SERVER_URL": GITHUB, "GITHUB_REPOSITORY": REPOSITORY, **more,
    }  # fmt: skip


MERGE_REF = "refs/pull/7/merge"
GITLAB = {
    "CI": "true", "GITLAB_CI": "true", "CI_COMMIT_SHA": "{head}", "CI_DEFAULT_BRANCH": "main",
}  # fmt: skip
ROWS = (
    Row(
        name="github review", head="merge", event=_event(), fork=False,
        environ=_github("pull_request_review", sha="{merge}", ref=MERGE_REF),
    ),
    Row(
        name="github review comment", head="merge", event=_event(), fork=False,
        environ=_github("pull_request_review_comment", sha="{merge}", ref=MERGE_REF),
    ),
    Row(
        name="github target, merge ref", head="merge", event=_event(),
        environ=_github("pull_request_target", sha="{below}", ref="refs/heads/below",
                        GITHUB_BASE_REF="below"),
    ),
    Row(
        name="github target, head", head="head", event=_event(),
        environ=_github("pull_request_target", sha="{below}", ref="refs/heads/below",
                        GITHUB_BASE_REF="below"),
    ),
    Row(
        name="gitea", head="head", event=_event(), fork=False,
        environ=_github("pull_request", sha="{head}", ref="refs/pull/7/head",
                        GITHUB_BASE_REF="below", GITEA_ACTIONS="true"),
    ),
    Row(
        name="forgejo", head="head", event=_event(), fork=False,
        environ=_github("pull_request", sha="{head}", ref="refs/pull/7/head",
                        GITHUB_BASE_REF="below", FORGEJO_ACTIONS="true"),
    ),
    Row(
        name="gitlab child pipeline", head="head",
        environ={
            **GITLAB, "CI_PIPELINE_SOURCE": "parent_pipeline",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "below",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": "{began}",
        },
    ),
    Row(
        name="gitlab external pull request", head="head",
        environ={
            **GITLAB, "CI_PIPELINE_SOURCE": "external_pull_request_event",
            "CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME": "below",
            "CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_SHA": "{below}",
        },
    ),
    Row(
        name="buildkite", head="head",
        environ={
            "CI": "true", "BUILDKITE": "true", "BUILDKITE_COMMIT": "{head}",
            "BUILDKITE_PULL_REQUEST": "7", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "below",
            "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
        },
    ),
    Row(
        name="buildkite, commit HEAD", head="head",
        environ={
            "CI": "true", "BUILDKITE": "true", "BUILDKITE_COMMIT": "HEAD",
            "BUILDKITE_PULL_REQUEST": "7", "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "below",
        },
    ),
    Row(
        name="jenkins", head="head", fork=False,
        environ={"JENKINS_URL": "https://j", "CHANGE_ID": "7", "CHANGE_TARGET": "below"},
    ),
    Row(
        name="jenkins, merged by the job", head="merge", fork=True,
        environ={
            "CI": "true", "JENKINS_URL": "https://j", "CHANGE_ID": "7", "CHANGE_TARGET": "below",
            "CHANGE_FORK": "ada", "GIT_COMMIT": "{head}",
        },
    ),
    Row(
        name="bitbucket, merged by the job", head="merge",
        environ={
            "CI": "true", "BITBUCKET_BUILD_NUMBER": "5", "BITBUCKET_COMMIT": "{head}",
            "BITBUCKET_PR_ID": "7", "BITBUCKET_PR_DESTINATION_BRANCH": "below",
            "BITBUCKET_PR_DESTINATION_COMMIT": "{below}",
        },
    ),
    Row(
        name="azure", head="merge", fork=False,
        environ={
            "TF_BUILD": "True", "BUILD_SOURCEVERSION": "{merge}", "BUILD_REASON": "PullRequest",
            "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/below",
            "SYSTEM_PULLREQUEST_ISFORK": "False",
        },
    ),
    Row(
        name="drone", head="merge",
        environ={
            "CI": "true", "DRONE": "true", "DRONE_BUILD_EVENT": "pull_request",
            "DRONE_PULL_REQUEST": "7", "DRONE_TARGET_BRANCH": "below",
            "DRONE_COMMIT_SHA": "{head}", "DRONE_REPO_BRANCH": "main",
        },
    ),
    Row(
        name="woodpecker", head="head",
        environ={
            "CI": "woodpecker", "CI_PIPELINE_EVENT": "pull_request", "CI_COMMIT_SHA": "{head}",
            "CI_COMMIT_PULL_REQUEST": "7", "CI_COMMIT_TARGET_BRANCH": "below",
            "CI_REPO_DEFAULT_BRANCH": "main",
        },
    ),
    Row(
        name="travis", head="merge",
        environ={
            "CI": "true", "TRAVIS": "true", "TRAVIS_PULL_REQUEST": "7", "TRAVIS_BRANCH": "below",
            "TRAVIS_COMMIT": "{merge}", "TRAVIS_EVENT_TYPE": "pull_request",
        },
    ),
    Row(
        name="appveyor", head="merge",
        environ={
            "CI": "True", "APPVEYOR": "True", "APPVEYOR_PULL_REQUEST_NUMBER": "7",
            "APPVEYOR_REPO_BRANCH": "below", "APPVEYOR_REPO_COMMIT": "{head}",
        },
    ),
    Row(
        name="cloud build", head="head",
        environ={"_BASE_BRANCH": "below", "_PR_NUMBER": "7", "COMMIT_SHA": "{head}"},
    ),
    Row(  # its variables hold no target, which is said
        name="circleci", head="head", wanted="main", fork=False,
        environ={
            "CI": "true", "CIRCLECI": "true", "CIRCLE_SHA1": "{head}",
            "CIRCLE_PULL_REQUEST": f"{GITHUB}/{REPOSITORY}/pull/7",
        },
        note="circleci does not say what this is to be merged into: if not into main, name it",
    ),
    Row(
        name="circleci push", head="head", wanted="main",
        environ={"CI": "true", "CIRCLECI": "true", "CIRCLE_SHA1": "{head}"},
    ),
    Row(
        name="github comment, merge ref", head="merge", wanted="main",
        event={"issue": {"number": 7, "pull_request": {"url": "u"}},
               "repository": {"default_branch": "main"}},
        environ=_github("issue_comment", sha="{main}", ref="refs/heads/main"),
        note="github does not say what this is to be merged into: if not into main, name it",
    ),
    Row(
        name="github workflow run, head", head="head", event=_run_for("pull_request", "below"),
        environ=_github("workflow_run", sha="{main}", ref="refs/heads/main"),
    ),
    Row(
        name="github workflow run, merge ref", head="merge",
        event=_run_for("pull_request", "below"),
        environ=_github("workflow_run", sha="{main}", ref="refs/heads/main"),
    ),
    Row(
        name="github workflow run of a fork", head="head", event=_run_for("pull_request"),
        wanted="main", environ=_github("workflow_run", sha="{main}", ref="refs/heads/main"),
        note="github does not say what this is to be merged into: if not into main, name it",
    ),
    Row(  # a branch is built, for no request
        name="travis push", head="head", wanted="main",
        environ={
            "CI": "true", "TRAVIS": "true", "TRAVIS_PULL_REQUEST": "false",
            "TRAVIS_BRANCH": "feature", "TRAVIS_COMMIT": "{head}",
        },
    ),
    Row(
        name="drone push", head="head", wanted="main",
        environ={
            "CI": "true", "DRONE": "true", "DRONE_BUILD_EVENT": "push",
            "DRONE_TARGET_BRANCH": "feature", "DRONE_COMMIT_SHA": "{head}",
        },
    ),
    # Variables that a branch's own files may set say that it is its own baseline.
    Row(
        name="gitlab, base is HEAD", head="head",
        environ={
            **GITLAB, "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "below",
            "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "{head}",
        },
    ),
    Row(
        name="gitlab, base is the request's own head", head="merge",
        environ={
            **GITLAB, "CI_COMMIT_SHA": "{merge}", "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_MERGE_REQUEST_EVENT_TYPE": "merged_result",
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "below",
            "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": "{head}",
        },
    ),
)  # fmt: skip
SAID = "which is what is tested here: the baseline is looked up as on a laptop"


def _filled(value: object, commits: Mapping[str, str]) -> object:
    text = json.dumps(value)
    for name, commit in commits.items():
        text = text.replace(f"{{{name}}}", commit)
    return json.loads(text)


def make(row: Row, folder: Path) -> Situation:
    """Make the checkout of a job, with all branches at hand."""
    origin = Origin(folder / "host")
    below = origin.commit(WORSE, on=origin.tip)
    head = origin.commit(HARMLESS, on=below)
    # It moved on beside the request.
    tip = origin.commit({"README.md": "below\n"}, on=below)
    commits = {
        "below": tip,
        "head": head,
        "merge": origin.merge(tip, head),
        "main": origin.tip,
        "began": below,
    }
    origin.set("below", tip)
    origin.set("feature", head)
    origin.set(MERGE_REF, commits["merge"])
    work = folder / "work"
    run_git(folder, "clone", "--quiet", origin.url, str(work))
    run_git(work, "fetch", "--quiet", "origin", commits[row.head])
    run_git(work, "checkout", "--quiet", "--detach", commits[row.head])
    environ = dict(_filled(row.environ, commits))  # type: ignore[call-overload]
    if row.event:
        file = folder / "event.json"
        file.write_text(json.dumps(_filled(row.event, commits)))
        environ["GITHUB_EVENT_PATH"] = str(file)
    wanted = commits[row.wanted]
    if row.wanted == "below" and row.head == "head":
        wanted = below
    return complete(
        Job(path=work, environ=environ),
        origin,
        ref="auto",
        wanted=wanted,
        why=row.name,
        note=SAID if ", base is " in row.name else row.note,
        fork=row.fork,
    )


def _named(row: Row) -> Callable[[Path], Situation]:
    def situation(folder: Path) -> Situation:
        return make(row, folder)

    situation.__name__ = row.name.replace(", ", " ").replace(" ", "_")
    return situation


SYSTEMS = tuple(_named(row) for row in ROWS)
