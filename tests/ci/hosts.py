"""Checkouts as CI hosts make them, by real git and without network.

A job has the working tree that actions/checkout (v4), or GitLab's runner, makes of the
repository at the host, and the variables and the event file that the job gets there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.ci.origin import Origin, has_commit, run_git

REPOSITORY = "octo/bot"
GITHUB = "https://github.com"
GITLAB = "https://gitlab.com"
NUMBER = 7  # of every pull and merge request


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A checkout, and what the process in it sees of its host.

    Attributes:
        path: top of the working tree.
        environ: the variables that CI sets; none on a laptop.
    """

    path: Path
    environ: Mapping[str, str] = field(default_factory=dict)


def on_laptop(origin: Origin, folder: Path, *, branch: str = "main") -> Job:
    """Clone a repository and switch to a branch of it."""
    run_git(folder.parent, "clone", "--quiet", origin.url, str(folder))
    run_git(folder, "switch", "--quiet", branch)
    return Job(path=folder)


def pull_request(
    origin: Origin,
    folder: Path,
    *,
    head: str,
    base: str = "main",
    depth: int = 1,
    checks_out_head: bool = False,
    head_repository: str | None = REPOSITORY,
    submodules: bool = False,
) -> Job:
    """Make the job of a pull request at GitHub.

    GitHub merges the two branches, and the job is about the merge.

    Args:
        origin: the repository.
        folder: a new one for the job.
        head: last commit of the pull request.
        base: the branch that it is to be merged into.
        depth: ``fetch-depth``; 0 fetches all.
        checks_out_head: ``ref: ${{ github.event.pull_request.head.sha }}``.
        head_repository: where the pull request comes from; None if that was deleted.
        submodules: ``submodules: true``.
    """
    ref, target = f"refs/pull/{NUMBER}/merge", origin.at(base)
    origin.set(f"refs/pull/{NUMBER}/head", head)
    if head_repository == REPOSITORY:
        origin.set("feature", head)
    origin.set(ref, origin.merge(target, head))
    sha = origin.at(ref)
    theirs = None if head_repository is None else {"full_name": head_repository}
    event = {
        "action": "synchronize",
        "number": NUMBER,
        "pull_request": {
            "number": NUMBER,
            "head": {"ref": "feature", "sha": head, "repo": theirs},
            # Where the base branch was when the pull request was opened or changed.
            "base": {"ref": base, "sha": origin.main[0], "repo": {"full_name": REPOSITORY}},
        },
    }
    environ = _github_environ(folder, "pull_request", ref=ref, sha=sha, event=event)
    environ |= {"GITHUB_BASE_REF": base, "GITHUB_HEAD_REF": "feature"}
    wanted = ("", head) if checks_out_head else (ref, sha)
    path = _actions_checkout(origin, folder, *wanted, depth=depth, submodules=submodules)
    return Job(path=path, environ=environ)


def merge_group(
    origin: Origin, folder: Path, *, head: str, base: str, number: int = NUMBER, depth: int = 1
) -> Job:
    """Make the job of an entry of GitHub's merge queue into main.

    Args:
        origin: the repository.
        folder: a new one for the job.
        head: the commit that would become main's.
        base: what main, or the entry before, would then be.
        number: of the pull request.
        depth: ``fetch-depth``; 0 fetches all.
    """
    ref = f"refs/heads/gh-readonly-queue/main/pr-{number}-{base}"
    origin.set(ref, head)
    group = {"head_sha": head, "head_ref": ref, "base_sha": base, "base_ref": "refs/heads/main"}
    event = {"action": "checks_requested", "merge_group": group}
    environ = _github_environ(folder, "merge_group", ref=ref, sha=head, event=event)
    return Job(path=_actions_checkout(origin, folder, ref, head, depth=depth), environ=environ)


def github_push(origin: Origin, folder: Path, *, branch: str = "main", depth: int = 1) -> Job:
    """Make the job of a push to a branch at GitHub."""
    ref, sha = f"refs/heads/{branch}", origin.at(branch)
    event = {"ref": ref, "after": sha, "created": False, "forced": False}
    environ = _github_environ(folder, "push", ref=ref, sha=sha, event=event)
    return Job(path=_actions_checkout(origin, folder, ref, sha, depth=depth), environ=environ)


def _github_environ(
    folder: Path, name: str, *, ref: str, sha: str, event: Mapping[str, Any]
) -> dict[str, str]:
    """Write the event file, and return the variables that GitHub sets at every event."""
    folder.mkdir()
    file = folder / "event.json"
    repository = {"full_name": REPOSITORY, "default_branch": "main", "private": False}
    file.write_text(json.dumps({**event, "repository": repository}))
    return {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(file),
        "GITHUB_REF": ref,
        "GITHUB_REF_NAME": ref.split("/", 2)[2],
        "GITHUB_SHA": sha,
        "GITHUB_SERVER_URL": GITHUB,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "9000",
        "GITHUB_RUN_ATTEMPT": "1",
        # Set, and empty where there is no pull request.
        "GITHUB_BASE_REF": "",
        "GITHUB_HEAD_REF": "",
    }


def _actions_checkout(
    origin: Origin, folder: Path, ref: str, sha: str, *, depth: int, submodules: bool = False
) -> Path:
    """Check out a commit into ``folder/work`` as actions/checkout does.

    Args:
        origin: the repository.
        folder: the job's.
        ref: of the event; empty where the workflow named a hash.
        sha: the commit.
        depth: 0 for all branches and tags.
        submodules: of the first level.
    """
    work = folder / "work"
    run_git(folder, "init", "--quiet", str(work))
    run_git(work, "remote", "add", "origin", origin.url)
    run_git(work, "config", "--local", "gc.auto", "0")
    header = "AUTHORIZATION: basic dG9rZW4="
    run_git(work, "config", "--local", f"http.{GITHUB}/.extraheader", header)
    _, kind, short = ref.split("/", 2) if ref else ("", "", "")
    place = {"": "", "pull": f"refs/remotes/pull/{short}", "heads": f"refs/remotes/origin/{short}"}
    fetched = f"+{sha}:{place[kind]}" if ref else sha
    specs = [fetched]
    how = ["--no-tags", "--prune", "--no-recurse-submodules", f"--depth={depth}"]
    if not depth:
        how = ["--prune", "--no-recurse-submodules"]
        specs = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
        specs += [fetched] if kind == "pull" else []
    fetch = ["-c", "protocol.version=2", "fetch", *how, "origin"]
    run_git(work, *fetch, *specs)
    if not depth and not has_commit(work, sha):
        run_git(work, *fetch, fetched)  # of a fork, or of a branch that has moved on
    # A branch becomes a local one; all else is detached.
    checked_out = ["-B", short, place[kind]] if kind == "heads" else [place[kind] or sha]
    run_git(work, "checkout", "--progress", "--force", *checked_out)
    if submodules:
        shallow = [f"--depth={depth}"] if depth else []
        update = ["submodule", "update", "--init", "--force", *shallow]
        run_git(work, "-c", "protocol.version=2", "-c", "protocol.file.allow=always", *update)
    return work


def merge_request(
    origin: Origin,
    folder: Path,
    *,
    head: str,
    base: str = "main",
    is_merged: bool = False,
    depth: int = 20,
    source_project: str = "1",
) -> Job:
    """Make the job of a merge request at GitLab.

    Args:
        origin: the repository.
        folder: a new one for the job.
        head: last commit of the merge request.
        base: the branch that it is to be merged into.
        is_merged: the pipeline is one of merged results, else of the branch alone.
        depth: ``GIT_DEPTH``; 0 fetches all.
        source_project: id of the project that it comes from; that of the target is 1.
    """
    target = origin.at(base)
    sha = origin.merge(target, head) if is_merged else head
    environ = {
        "CI_COMMIT_REF_NAME": "feature",
        "CI_MERGE_REQUEST_IID": str(NUMBER),
        "CI_MERGE_REQUEST_EVENT_TYPE": "merged_result" if is_merged else "detached",
        "CI_MERGE_REQUEST_REF_PATH": f"refs/merge-requests/{NUMBER}/head",
        "CI_MERGE_REQUEST_PROJECT_ID": "1",
        "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": source_project,
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "feature",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": base,
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": run_git(origin.path, "merge-base", target, head),
        # Both are set for merged results alone.
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": head if is_merged else "",
        "CI_MERGE_REQUEST_TARGET_BRANCH_SHA": target if is_merged else "",
    }
    return _gitlab_job(origin, folder, "merge_request_event", sha, depth=depth, environ=environ)


def gitlab_push(origin: Origin, folder: Path, *, branch: str = "main", depth: int = 20) -> Job:
    """Make the job of a push to a branch at GitLab."""
    environ = {"CI_COMMIT_BRANCH": branch, "CI_COMMIT_REF_NAME": branch}
    specs = [f"+refs/heads/{branch}:refs/remotes/origin/{branch}"] if depth else []
    sha = origin.at(branch)
    return _gitlab_job(origin, folder, "push", sha, depth=depth, environ=environ, specs=specs)


def gitlab_tag(origin: Origin, folder: Path, *, tag: str = "v1") -> Job:
    """Make the job of a tag on the newest commit of main at GitLab."""
    sha = origin.tip
    origin.set(f"refs/tags/{tag}", sha)
    environ = {"CI_COMMIT_TAG": tag, "CI_COMMIT_REF_NAME": tag}
    specs = [f"+refs/tags/{tag}:refs/tags/{tag}"]
    return _gitlab_job(origin, folder, "push", sha, depth=20, environ=environ, specs=specs)


def _gitlab_job(
    origin: Origin,
    folder: Path,
    source: str,
    sha: str,
    *,
    depth: int,
    environ: Mapping[str, str],
    specs: Iterable[str] = (),
) -> Job:
    """Check out a commit as GitLab's runner does: by the ref of its pipeline, detached."""
    pipeline, work = "refs/pipelines/5000", folder / "work"
    origin.set(pipeline, sha)
    folder.mkdir()
    run_git(folder, "-c", "init.defaultBranch=none", "init", "--quiet", str(work))
    run_git(work, "remote", "add", "origin", origin.url)
    how = ["--no-recurse-submodules", "--prune", "--quiet"]
    every = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
    wanted = [f"+{pipeline}:{pipeline}", *(specs if depth else every)]
    shallow = [f"--depth={depth}"] if depth else []
    run_git(work, "fetch", "origin", *wanted, *shallow, *how)
    run_git(work, "-c", "submodule.recurse=false", "checkout", "-f", "-q", sha)
    url = f"{GITLAB}/{REPOSITORY}"
    everywhere = {
        "CI": "true",
        "GITLAB_CI": "true",
        "CI_PIPELINE_SOURCE": source,
        "CI_COMMIT_SHA": sha,
        "CI_DEFAULT_BRANCH": "main",
        "CI_PIPELINE_URL": f"{url}/-/pipelines/5000",
        "CI_JOB_URL": f"{url}/-/jobs/6000",
        "CI_PROJECT_PATH": REPOSITORY,
        "CI_PROJECT_URL": url,
    }
    return Job(path=work, environ={**everywhere, **environ})
