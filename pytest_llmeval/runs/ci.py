"""Facts that CI tells of a job by its variables and its event file, in one record.

Nothing else reads these variables. Whatever cannot be used becomes a sentence in ``complaints``,
and the session goes on as on a laptop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pytest_llmeval.cache.key import parse_json, value_at
from pytest_llmeval.records import CiJob
from pytest_llmeval.runs.run_lines import FULL_HASH

LONGEST = 80  # characters of a value that a complaint shows

Provider = Literal[
    "github", "gitlab", "appveyor", "azure", "bitbucket", "buildkite", "circleci", "cloud-build",
    "drone", "jenkins", "travis", "woodpecker", "other",
]  # fmt: skip

MERGE_REF = r"refs/pull/[0-9]+/merge"
MERGED_RESULTS = ("merged_result", "merge_train")
DIFF_BASE = "CI_MERGE_REQUEST_DIFF_BASE_SHA"


@dataclass(frozen=True, slots=True, kw_only=True)
class CiFacts:
    """Facts of the CI job that a session runs in; on a laptop all are None.

    Attributes:
        provider: None outside of CI; ``other`` for a CI of which only ``CI`` is known.
        event: what started the job, by the provider's own word: ``push``, ``pull_request``,
            ``merge_group``, ``merge_request_event``.
        of_request: the job is about a pull or merge request that is not merged yet.
        url: the web page of the job's run.
        fork: whether a pull or merge request comes from another repository; None at other events.
        is_queued: the job belongs to a merge queue or train, the last look before the merge.
        commit: full hash of the commit that the job was started for.
        target: the branch that this commit is to be merged into, without ``refs/heads/``; None
            where it is in no pull request, merge request or merge queue, and where CI names none.
        base: full hash of the commit that ``target`` had, where CI says it outright.
        base_name: the variable or field that says ``base``.
        merged: full hash of a request's last commit. Where HEAD is a merge of it, the first
            parent is the commit that ``target`` had.
        default_branch: of the repository.
        complaints: what CI said that cannot be used, each a sentence without its full stop.
    """

    provider: Provider | None = None
    event: str | None = None
    of_request: bool = False
    url: str | None = None
    fork: bool | None = None
    is_queued: bool = False
    commit: str | None = None
    target: str | None = None
    base: str | None = None
    base_name: str = ""
    merged: str | None = None
    default_branch: str | None = None
    complaints: tuple[str, ...] = ()

    @property
    def is_for_branch(self) -> bool:
        """Whether this is a CI job, but not one for a pull or merge request."""
        return self.provider is not None and not self.of_request

    @property
    def job(self) -> CiJob | None:
        """What a run tells of the job; None outside of CI."""
        if self.provider is None:
            return None
        return CiJob(provider=self.provider, event=self.event, url=self.url, fork=self.fork)


ON_LAPTOP = CiFacts()


def read_ci(environ: Mapping[str, str]) -> CiFacts:
    """Read what CI tells of the job.

    Args:
        environ: the variables of the process, such as ``os.environ``.

    Returns:
        Facts without provider where no CI is named. It never raises: an event file that cannot
        be read is a complaint.
    """
    if environ.get("GITHUB_ACTIONS") == "true":
        return github_facts(environ, _read_event(environ.get("GITHUB_EVENT_PATH", "")))
    if environ.get("GITLAB_CI") == "true":
        return gitlab_facts(environ)
    for system in SYSTEMS:
        sign = environ.get(system.sign, "").lower()
        if sign == system.value if system.value else sign not in _NO:
            return system.facts(environ)
    is_ci = environ.get("CI", "").lower() not in _NO
    return CiFacts(provider="other" if is_ci else None)


@dataclass(frozen=True, slots=True)
class System:
    """A CI service and the names of its variables; a name is empty where it has no variable.

    Attributes:
        name: of the service.
        sign: the variable that it sets in each job: to ``value`` unless this is empty, else to
            anything.
        request: the variable that it sets in jobs of requests alone; ``target`` if not given.
        target: the branch that the request is to be merged into.
        commit: the job's commit, which may be the request's last one or a merge of it.
        default: the default branch.
        event: what started the job.
        url: the page of the job.
        fork: whether the request comes from another repository, or the name of that repository.
    """

    name: Provider
    sign: str
    value: str = ""
    target: str = ""
    request: str = ""
    commit: str = ""
    default: str = ""
    event: str = ""
    url: str = ""
    fork: str = ""

    def facts(self, environ: Mapping[str, str]) -> CiFacts:
        """Read its variables."""
        is_request = environ.get(self.request or self.target, "").lower() not in _NO
        target = environ.get(self.target, "") if is_request else ""
        commit = environ.get(self.commit, "").lower()
        fork = environ.get(self.fork, "").lower() not in _NO
        return CiFacts(
            provider=self.name,
            event=environ.get(self.event) or None,
            of_request=is_request,
            url=environ.get(self.url) or None,
            fork=fork if is_request and self.fork else None,
            commit=commit if re.fullmatch(FULL_HASH, commit) else None,
            target=target.removeprefix("refs/heads/") or None,
            default_branch=environ.get(self.default) or None,
        )


_NO = ("", "0", "false")
# From the documentation of each. No variable of CircleCI's requests holds the target; those of
# Cloud Build are substitutions, which a step has to hand on by these names.
SYSTEMS = (
    System("appveyor", "APPVEYOR", request="APPVEYOR_PULL_REQUEST_NUMBER",
           target="APPVEYOR_REPO_BRANCH", commit="APPVEYOR_REPO_COMMIT"),
    System("azure", "TF_BUILD", target="SYSTEM_PULLREQUEST_TARGETBRANCH",
           commit="BUILD_SOURCEVERSION", event="BUILD_REASON", fork="SYSTEM_PULLREQUEST_ISFORK"),
    System("bitbucket", "BITBUCKET_BUILD_NUMBER", target="BITBUCKET_PR_DESTINATION_BRANCH",
           commit="BITBUCKET_COMMIT"),
    System("buildkite", "BUILDKITE", target="BUILDKITE_PULL_REQUEST_BASE_BRANCH",
           commit="BUILDKITE_COMMIT", default="BUILDKITE_PIPELINE_DEFAULT_BRANCH",
           event="BUILDKITE_SOURCE", url="BUILDKITE_BUILD_URL"),
    System("circleci", "CIRCLECI", request="CIRCLE_PULL_REQUEST", commit="CIRCLE_SHA1",
           url="CIRCLE_BUILD_URL", fork="CIRCLE_PR_USERNAME"),
    System("cloud-build", "_BASE_BRANCH", target="_BASE_BRANCH", commit="COMMIT_SHA"),
    System("drone", "DRONE", request="DRONE_PULL_REQUEST", target="DRONE_TARGET_BRANCH",
           commit="DRONE_COMMIT_SHA", default="DRONE_REPO_BRANCH", event="DRONE_BUILD_EVENT",
           url="DRONE_BUILD_LINK"),
    System("jenkins", "JENKINS_URL", target="CHANGE_TARGET", url="BUILD_URL", fork="CHANGE_FORK"),
    System("travis", "TRAVIS", request="TRAVIS_PULL_REQUEST", target="TRAVIS_BRANCH",
           commit="TRAVIS_COMMIT", event="TRAVIS_EVENT_TYPE", url="TRAVIS_BUILD_WEB_URL"),
    System("woodpecker", "CI", value="woodpecker", request="CI_COMMIT_PULL_REQUEST",
           target="CI_COMMIT_TARGET_BRANCH", commit="CI_COMMIT_SHA",
           default="CI_REPO_DEFAULT_BRANCH", event="CI_PIPELINE_EVENT", url="CI_PIPELINE_URL"),
)  # fmt: skip


def _read_event(path: str) -> object:
    """Read GitHub's event file; return None if there is none to be read."""
    try:
        return parse_json(Path(path).read_bytes())
    except (OSError, ValueError):
        return None


def github_facts(environ: Mapping[str, str], event: object) -> CiFacts:
    """Read the variables of GitHub Actions.

    Args:
        environ: the variables of the job.
        event: the event file as ``json`` read it; None if it cannot be read.
    """
    notes = _Complaints()
    name = environ.get("GITHUB_EVENT_NAME") or None
    is_over = value_at(event, "action") == "closed" and not environ.get(
        "GITHUB_REF", ""
    ).startswith("refs/pull/")
    # Jobs of reviews have this name, too; it is known without an event file.
    is_request = isinstance(value_at(event, "pull_request"), dict) or "pull_request" in (name or "")
    default = value_at(event, "repository", "default_branch")
    facts = CiFacts(
        provider="github",
        event=name,
        of_request=is_request and not is_over,
        url=_github_url(environ),
        is_queued=name == "merge_group",
        default_branch=default if isinstance(default, str) else None,
    )
    if (facts.of_request or facts.is_queued) and not isinstance(event, dict):
        path = environ.get("GITHUB_EVENT_PATH", "")
        notes.append(f"GITHUB_EVENT_PATH is {_shown(path)}, no file with a JSON object in it")
    elif facts.is_queued:
        target = notes.need("merge_group.base_ref", value_at(event, "merge_group", "base_ref"))
        base = notes.commit("merge_group.base_sha", value_at(event, "merge_group", "base_sha"))
        facts = replace(facts, base=base, base_name="merge_group.base_sha", target=target)
    is_own = not (facts.of_request and name == "pull_request_target")  # else it is the target's
    if facts.of_request:
        facts = _with_request(facts, environ, event, notes=notes)
    elif _is_about_request(event):
        is_own, facts = False, _with_distant_request(facts, event, notes=notes)
    if is_own:
        facts = replace(facts, commit=notes.commit("GITHUB_SHA", environ.get("GITHUB_SHA")))
    target = facts.target and facts.target.removeprefix("refs/heads/")
    return replace(facts, target=target, complaints=tuple(notes))


def _with_request(
    facts: CiFacts, environ: Mapping[str, str], event: object, *, notes: _Complaints
) -> CiFacts:
    """Add what is known of a pull request at GitHub."""
    request, ref = value_at(event, "pull_request"), environ.get("GITHUB_REF", "")
    if isinstance(event, dict):
        merged = notes.commit("pull_request.head.sha", value_at(request, "head", "sha"))
        is_targets = facts.event == "pull_request_target"  # with its secrets, for forks too
        fork = None if is_targets else _comes_from_elsewhere(event)
        # The ref of Gitea and Forgejo is refs/pull/NUMBER/head.
        is_theirs = environ.get("GITEA_ACTIONS") or environ.get("FORGEJO_ACTIONS")
        if facts.event == "pull_request" and not (is_theirs or re.fullmatch(MERGE_REF, ref)):
            notes.append(f"GITHUB_REF is {_shown(ref)}, not refs/pull/NUMBER/merge")
        facts = replace(facts, merged=merged, fork=fork)
    base = environ.get("GITHUB_BASE_REF") or value_at(request, "base", "ref")
    return replace(facts, target=notes.need("GITHUB_BASE_REF", base))


def _is_about_request(event: object) -> bool:
    """Whether an event of the default branch is about a request: a comment, or a run for one."""
    started = value_at(event, "workflow_run", "event")
    is_run = isinstance(started, str) and started.startswith("pull_request")
    return is_run or isinstance(value_at(event, "issue", "pull_request"), dict)


def _with_distant_request(facts: CiFacts, event: object, *, notes: _Complaints) -> CiFacts:
    """Add what such an event tells; a comment, or a run for a fork's request, tells no target."""
    run = value_at(event, "workflow_run")
    if run is None:
        return replace(facts, of_request=True)
    listed = value_at(run, "pull_requests")
    requests = listed if isinstance(listed, list) else []
    targets = {ref for one in requests if isinstance(ref := value_at(one, "base", "ref"), str)}
    target = targets.pop() if len(targets) == 1 else None
    merged = notes.commit("workflow_run.head_sha", value_at(run, "head_sha"))
    return replace(facts, of_request=True, target=target, merged=merged)


def _comes_from_elsewhere(event: object) -> bool | None:
    ours = value_at(event, "repository", "full_name")
    head = value_at(event, "pull_request", "head")
    if not isinstance(head, dict) or "repo" not in head or not isinstance(ours, str):
        return None
    # A repository that was deleted is null.
    return value_at(head, "repo", "full_name") != ours


def _github_url(environ: Mapping[str, str]) -> str | None:
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    told = [environ.get(name, "") for name in names]
    return "{}/{}/actions/runs/{}".format(*told) if all(told) else None


def gitlab_facts(environ: Mapping[str, str]) -> CiFacts:
    """Read the variables of GitLab CI."""
    notes = _Complaints()
    event = environ.get("CI_PIPELINE_SOURCE") or None
    base = fork = None
    base_name = ""
    # Child pipelines have these variables too; a request at GitHub has its own.
    target = environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
    theirs = environ.get("CI_EXTERNAL_PULL_REQUEST_TARGET_BRANCH_NAME") or None
    if event == "merge_request_event" or target:
        target = notes.need("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", target)
        base_name = _name_of_gitlab_base(environ)
        base = notes.commit(base_name, environ.get(base_name))
        source = environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID")
        project = environ.get("CI_MERGE_REQUEST_PROJECT_ID")
        fork = source != project if source and project else None
    return CiFacts(
        provider="gitlab",
        event=event,
        of_request=bool(event == "merge_request_event" or target or theirs),
        url=environ.get("CI_JOB_URL") or environ.get("CI_PIPELINE_URL") or None,
        fork=fork,
        is_queued=environ.get("CI_MERGE_REQUEST_EVENT_TYPE") == "merge_train",
        commit=notes.commit("CI_COMMIT_SHA", environ.get("CI_COMMIT_SHA")),
        target=target or theirs,
        base=base,
        base_name=base_name,
        default_branch=environ.get("CI_DEFAULT_BRANCH") or None,
        complaints=tuple(notes),
    )


def _name_of_gitlab_base(environ: Mapping[str, str]) -> str:
    """Name the variable that holds the target's commit.

    The target's variable is empty in a pipeline of the branch alone. The diff's variable holds the
    commit where the branch began, which is not what a merged result was made of.
    """
    target = "CI_MERGE_REQUEST_TARGET_BRANCH_SHA"
    is_merged = environ.get("CI_MERGE_REQUEST_EVENT_TYPE") in MERGED_RESULTS
    return target if environ.get(target) or is_merged else DIFF_BASE


class _Complaints(list[str]):
    """Complaints about the values that were asked for, a sentence each."""

    def need(self, name: str, value: object) -> str | None:
        """Return a text that is not empty; complain of anything else."""
        if isinstance(value, str) and value:
            return value
        self.append(f"{name} is empty")
        return None

    def commit(self, name: str, value: object) -> str | None:
        """Return a full hash in lower case; complain of anything else, and of zeros alone."""
        text = self.need(name, value)
        if text is None:
            return None
        commit = text.lower()
        if not re.fullmatch(FULL_HASH, commit) or not commit.strip("0"):
            self.append(f"{name} is {_shown(text)}, no hash of a commit")
            return None
        return commit


def _shown(text: str) -> str:
    return repr(text if len(text) <= LONGEST else f"{text[:LONGEST]}...")
