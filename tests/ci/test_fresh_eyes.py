"""Set-ups that README and docs/ci.md tell in words: a prompt is broken, and mended, in each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.hosts import (
    Job,
    github_push,
    gitlab_push,
    gitlab_tag,
    merge_request,
    pull_request,
)
from tests.ci.origin import WORSE, Origin, run_git
from tests.ci.situation import HARMLESS
from tests.ci.test_recipes import AGAIN, CALLS, GITLAB_JOB, NOTES_CALLS, README, ROOT, Ci

PAGE = (ROOT / "docs" / "ci.md").read_text()
BOT = "svc/bot"


def of_monorepo() -> str:
    """Change the workflow as the page tells for a project in a folder."""
    words = " ".join(PAGE.partition("**In a monorepo**")[2].partition("\n\n")[0].split())
    assert f"write `{BOT}/.llmeval` in each path and in the line with `mv`" in words
    assert (
        f"put `working-directory: {BOT}` into the steps that run pip, pytest and `llmeval`" in words
    )
    assert "the project's name behind `llmeval-` in each key" in words
    content = yaml.safe_load(README.text.replace("llmeval-pu", "llmeval-bot-pu"))
    for step in content["jobs"]["evals"]["steps"]:
        if "path" in step.get("with", {}):
            step["with"]["path"] = step["with"]["path"].replace(".llmeval", f"{BOT}/.llmeval")
        run = step.get("run", "")
        if " mv " in run:
            step["run"] = run.replace(".llmeval", f"{BOT}/.llmeval")
        elif run.startswith(("pip", "pytest", "llmeval")):
            step["working-directory"] = BOT
    return yaml.safe_dump(content).replace("key: llmeval-${{ g", "key: llmeval-bot-${{ g")


def told(ended: Any) -> tuple[object, ...]:
    """Say what counts of a job: exit, verdict, calls, the baseline's commit."""
    (code,) = ended.exits.values()
    return code, ended.verdict, ended.calls, ended.baseline.get("commit")


def in_folder(make: Callable[..., Job]) -> Callable[..., Job]:
    def job(origin: Origin, folder: Path, **arguments: Any) -> Job:
        made = make(origin, folder, **arguments)
        return replace(made, path=made.path / BOT)

    return job


def test_a_monorepo_at_github(tmp_path: Path) -> None:
    ci = Ci(tmp_path)
    ci.origin = Origin(tmp_path / "monorepo", project=BOT, commits=1, changed=NOTES_CALLS)
    base = ci.origin.tip
    workflow = replace(README, text=of_monorepo())
    push, request = in_folder(github_push), in_folder(pull_request)

    ended = ci.run_github(workflow, push, run_id=1)
    assert told(ended)[:3] == (0, "new", CALLS), ended.output  # nothing had an eval before
    ended = ci.run_github(workflow, request, head=ci.origin.commit(HARMLESS, on=base), run_id=2)
    assert told(ended) == (0, "unchanged", 0, base), ended.output
    worse = ci.origin.commit(WORSE, on=base)
    ended = ci.run_github(workflow, request, head=worse, run_id=3)
    assert told(ended) == (1, "regressed", CALLS + AGAIN, base), ended.output
    repair = ci.origin.revert(worse, on=worse)
    ended = ci.run_github(workflow, request, head=repair, run_id=4)
    assert told(ended) == (0, "unchanged", 0, base), ended.output
    assert ci.caches.keys("refs/heads/main") == ["llmeval-bot-push-1-1"]


def with_rule(told_rule: str) -> dict[str, Any]:
    """Add a rule that the page tells, with the variable that goes with it."""
    found = re.search(r"with the variable\s+`(\w+: pull)`", PAGE)
    assert found
    assert f"`- if: {told_rule}`" in PAGE
    rule = {"if": told_rule, "variables": yaml.safe_load(found[1])}
    evals = GITLAB_JOB.content["evals"]
    return {"evals": {**evals, "rules": [*evals["rules"], rule]}}


def with_branches() -> dict[str, Any]:
    """Add the rule that the page tells for pipelines of branches, and share the cache."""
    (evals,) = with_rule("$CI_COMMIT_BRANCH").values()
    of_main, own = evals["cache"]
    return {"evals": {**evals, "cache": [{**of_main, "unprotect": True}, own]}}


def gitlab_branch(origin: Origin, folder: Path, *, head: str, **_: Any) -> Job:
    origin.set("feature", head)
    return gitlab_push(origin, folder, branch="feature")


def in_kept_workspace(origin: Origin, folder: Path, *, head: str, **_: Any) -> Job:
    """Fetch the branch alone into the clone of an older pipeline, whose main is an older one."""
    kept = folder.with_name("kept")
    if not kept.exists():
        job = gitlab_push(origin, kept)
        run_git(job.path, "update-ref", "refs/remotes/origin/main", origin.main[0])
    job = gitlab_branch(origin, folder, head=head)
    work = kept / "work"
    run_git(work, "fetch", "--quiet", "--depth=20", origin.url, head)
    run_git(work, "checkout", "--quiet", "--force", head)
    return replace(job, path=work)


def merged(origin: Origin, folder: Path, **arguments: Any) -> Job:
    return merge_request(origin, folder, is_merged=True, **arguments)


@pytest.mark.parametrize("make", [merged, gitlab_branch, in_kept_workspace])
def test_pipelines_of_gitlab(tmp_path: Path, make: Callable[..., Job]) -> None:
    ci, jobs = Ci(tmp_path), with_branches()
    before = ci.origin.tip
    ci.run_gitlab(jobs, gitlab_push)
    # Main got worse beside the requests: only what is merged with it has that.
    worse = ci.origin.commit(WORSE, on=before)
    harmless = ci.origin.commit(HARMLESS, on=before)
    repair = ci.origin.revert(worse, on=worse)

    ended = ci.run_gitlab(jobs, make, head=harmless)
    assert told(ended) == (0, "unchanged", 0, before), ended.output
    ended = ci.run_gitlab(jobs, make, head=worse)
    assert told(ended) == (1, "regressed", CALLS + AGAIN, before), ended.output
    ended = ci.run_gitlab(jobs, make, head=repair)
    assert told(ended)[:2] == (0, "unchanged"), ended.output
    assert told(ended)[3] == before
    red = ci.origin.advance(WORSE)
    ci.run_gitlab(jobs, gitlab_push)
    ended = ci.run_gitlab(jobs, make, head=harmless)
    assert told(ended)[:2] == (0, "unchanged"), ended.output
    assert told(ended)[3] == (red if make is merged else before)


def test_a_tag_at_gitlab_has_no_run_of_main_and_is_judged_all_the_same(tmp_path: Path) -> None:
    ci, jobs = Ci(tmp_path), with_rule("$CI_COMMIT_TAG")
    before = ci.origin.tip
    ci.origin.advance(WORSE)
    ci.run_gitlab(jobs, gitlab_push)

    ended = ci.run_gitlab(jobs, gitlab_tag)

    assert told(ended) == (1, "regressed", 2 * CALLS + AGAIN, before), ended.output
    assert ended.baseline["how"] == "rerun"
