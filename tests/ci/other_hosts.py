"""Checkouts as Buildkite, Jenkins, CircleCI, Azure Pipelines and Bitbucket make them, by real git.

Each function makes the job of a push to ``main``, or that of a pull request, with the variables
that the service sets, from its documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.ci.hosts import GITHUB, NUMBER, REPOSITORY, Job
from tests.ci.origin import Origin, run_git


@dataclass(frozen=True, slots=True)
class Built:
    """What a job is for.

    Attributes:
        origin: the repository.
        head: the last commit of a pull request; empty for a push to main.
        target: what the request is to be merged into.
    """

    origin: Origin
    head: str = ""
    target: str = "main"

    @property
    def branch(self) -> str:
        return "feature" if self.head else "main"

    @property
    def commit(self) -> str:
        return self.head or self.origin.at("main")


MakeJob = Callable[[Built, Path], Job]


def _begun(built: Built, work: Path) -> None:
    """Make an empty repository with the remote, as most agents begin."""
    if built.head:
        built.origin.set("feature", built.head)
        built.origin.set(f"refs/pull/{NUMBER}/head", built.head)
    if not work.exists():  # else it was kept
        work.mkdir(parents=True)
        run_git(work, "init", "--quiet")
        run_git(work, "remote", "add", "origin", built.origin.url)


def buildkite(built: Built, folder: Path) -> Job:
    """Fetch all branches, and the request's head, which is checked out."""
    _begun(built, folder)
    run_git(folder, "fetch", "--quiet", "--prune", "--", "origin")
    wanted = f"refs/pull/{NUMBER}/head" if built.head else "main"
    run_git(folder, "fetch", "--quiet", "--", "origin", wanted)
    run_git(folder, "checkout", "--quiet", "--force", built.commit)
    environ = {
        "CI": "true",
        "BUILDKITE": "true",
        "BUILDKITE_BRANCH": built.branch,
        "BUILDKITE_COMMIT": built.commit,
        "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
        "BUILDKITE_PULL_REQUEST": str(NUMBER) if built.head else "false",
        "BUILDKITE_PULL_REQUEST_BASE_BRANCH": built.target if built.head else "",
        "BUILDKITE_SOURCE": "webhook",
        "BUILDKITE_BUILD_URL": "https://buildkite.com/octo/bot/builds/9",
    }
    return Job(path=folder, environ=environ)


def jenkins(built: Built, folder: Path) -> Job:
    """Merge the request with its target in the workspace, which is kept between builds."""
    _begun(built, folder)
    tip = built.origin.at(built.target)
    specs = [f"+refs/heads/{built.target}:refs/remotes/origin/{built.target}"]
    if built.head:
        specs.append(f"+refs/pull/{NUMBER}/head:refs/remotes/origin/PR-{NUMBER}")
    run_git(folder, "fetch", "--no-tags", "--force", "--quiet", "--", built.origin.url, *specs)
    run_git(folder, "checkout", "--quiet", "--force", tip)
    if built.head:
        run_git(folder, "merge", "--quiet", built.head)
    environ = {
        "CI": "true",
        "JENKINS_URL": "https://jenkins.example.org/",
        "BUILD_URL": "https://jenkins.example.org/job/bot/1/",
        "BRANCH_NAME": f"PR-{NUMBER}" if built.head else "main",
        "GIT_COMMIT": run_git(folder, "rev-parse", "HEAD"),
        "WORKSPACE": str(folder),
        "WORKSPACE_TMP": f"{folder}@tmp",  # it need not be there
    }
    if built.head:
        environ |= {"CHANGE_ID": str(NUMBER), "CHANGE_TARGET": built.target}
        environ |= {"CHANGE_BRANCH": "feature", "CHANGE_URL": f"{GITHUB}/{REPOSITORY}/pull/7"}
    return Job(path=folder, environ=environ)


def circleci(built: Built, folder: Path) -> Job:
    """Clone without blobs, and let the branch be at the commit."""
    _begun(built, folder.with_name("unused"))
    run_git(folder.parent, "clone", "--quiet", "--filter=blob:none", built.origin.url, str(folder))
    run_git(folder, "checkout", "--quiet", "--force", "-B", built.branch, built.commit)
    environ = {
        "CI": "true",
        "CIRCLECI": "true",
        "CIRCLE_BRANCH": built.branch,
        "CIRCLE_SHA1": built.commit,
        "CIRCLE_BUILD_URL": "https://circleci.com/gh/octo/bot/9",
    }
    if built.head:
        environ["CIRCLE_PULL_REQUEST"] = f"{GITHUB}/{REPOSITORY}/pull/{NUMBER}"
    return Job(path=folder, environ=environ)


def azure(built: Built, folder: Path) -> Job:
    """Fetch one commit: that of main, or the host's merge of the request."""
    _begun(built, folder)
    ref, commit = "refs/heads/main", built.commit
    if built.head:
        ref = f"refs/pull/{NUMBER}/merge"
        commit = built.origin.merge(built.origin.at(built.target), built.head)
        built.origin.set(ref, commit)
    how = ["--force", "--no-tags", "--prune", "--no-recurse-submodules", "--depth=1"]
    run_git(folder, "fetch", "--quiet", *how, "origin", f"+{commit}:refs/remotes/origin/{commit}")
    run_git(folder, "checkout", "--quiet", "--force", f"refs/remotes/origin/{commit}")
    environ = {
        "TF_BUILD": "True",
        "BUILD_REASON": "PullRequest" if built.head else "IndividualCI",
        "BUILD_SOURCEBRANCH": ref,
        "BUILD_SOURCEVERSION": commit,
    }
    if built.head:
        environ |= {
            "SYSTEM_PULLREQUEST_PULLREQUESTID": "123",
            "SYSTEM_PULLREQUEST_TARGETBRANCH": f"refs/heads/{built.target}",
            "SYSTEM_PULLREQUEST_ISFORK": "False",
        }
    return Job(path=folder, environ=environ)


def bitbucket(built: Built, folder: Path) -> Job:
    """Clone the request's branch alone, and merge the target into it: the branch comes first."""
    _begun(built, folder.with_name("unused"))
    branch = f"--branch={built.branch}"
    how = ["--quiet", branch, "--depth=50", built.origin.url, str(folder)]
    run_git(folder.parent, "clone", *how)
    run_git(folder, "reset", "--quiet", "--hard", built.commit)
    environ = {
        "CI": "true",
        "BITBUCKET_BUILD_NUMBER": "9",
        "BITBUCKET_BRANCH": built.branch,
        "BITBUCKET_COMMIT": built.commit,
        "BITBUCKET_REPO_FULL_NAME": REPOSITORY,
    }
    if built.head:
        tip = built.origin.at(built.target)
        run_git(folder, "fetch", "--quiet", "--depth=50", "origin", tip)
        run_git(folder, "merge", "--quiet", "--no-edit", tip)
        environ |= {
            "BITBUCKET_PR_ID": str(NUMBER),
            "BITBUCKET_PR_DESTINATION_BRANCH": built.target,
            "BITBUCKET_PR_DESTINATION_COMMIT": tip,
        }
    return Job(path=folder, environ=environ)
