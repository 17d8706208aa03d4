"""The steps of docs/ci.md that comment on a pull request do what the page says.

``gh`` is a script that notes what it is asked, and the file that it is to post.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.hosts import GITHUB, REPOSITORY, Job, github_push, pull_request
from tests.ci.origin import WORSE
from tests.ci.runner import GithubRun
from tests.ci.test_elsewhere import shown
from tests.ci.test_recipes import GITHUB as WORKFLOW
from tests.ci.test_recipes import README, Ci
from tests.ci.tools import run_tool

FOLLOWS = ".github/workflows/evals-comment.yml"
OPTIONS = "--edit-last --create-if-none"


def commenting() -> dict[Any, Any]:
    """Put the step of the page into the workflow of the README, as it is told there."""
    content = README.content
    more = yaml.safe_load(shown(f"{WORKFLOW}", before="more of "))["jobs"]["evals"]
    evals = content["jobs"]["evals"]
    for step in evals["steps"]:
        if step.get("run", "").startswith("pytest "):
            step["run"] += " --llm-report=evals.md"
    content["jobs"]["evals"] = {
        **evals, "permissions": more["permissions"], "steps": [*evals["steps"], *more["steps"]]
    }  # fmt: skip
    return content


def checked(content: str, folder: Path) -> None:
    """Have GitHub's schema and zizmor look at a workflow."""
    path = folder / WORKFLOW
    path.parent.mkdir(parents=True)
    path.write_text(content)
    schema = ("--builtin-schema", "vendor.github-workflows", WORKFLOW)
    done = run_tool("check-jsonschema", *schema, folder=folder)
    assert done.returncode == 0, done.stdout
    done = run_tool("zizmor", "--offline", "--no-progress", WORKFLOW, folder=folder)
    assert done.returncode == 0, done.stdout


def test_the_workflow_with_the_step_is_valid(tmp_path: Path) -> None:
    written = yaml.safe_dump({"on": (content := commenting()).pop(True), **content})
    pins = "".join(f"# {line}\n" for line in README.text.splitlines() if " # v" in line)
    checked(pins + written, tmp_path)


def test_the_workflow_for_forks_is_valid(tmp_path: Path) -> None:
    checked(shown(FOLLOWS), tmp_path)


def test_the_workflow_for_forks_reads_nothing_of_theirs() -> None:
    (job,) = yaml.safe_load(shown(FOLLOWS))["jobs"].values()
    assert job["permissions"] == {"pull-requests": "write"}
    (step,) = job["steps"]
    assert "${{" not in step["run"]
    given = {name: text for name, text in step["env"].items() if "github.event" in text}
    assert set(given) == {"OWNER", "BRANCH", "COMMIT", "ENDED", "PAGE"}


@pytest.mark.parametrize("repository", [REPOSITORY, "ada/bot"], ids=["own", "fork"])
def test_a_request_of_the_repository_has_the_report_as_its_comment(
    tmp_path: Path, repository: str
) -> None:
    ci = Ci(tmp_path)
    workflow = replace(README, text=yaml.safe_dump(commenting()))
    log = tmp_path / "shell" / "gh.log"
    ci.run_github(workflow, github_push, run_id=1)
    assert not log.exists()

    worse = ci.origin.commit(WORSE, on=ci.origin.tip)
    told = ci.run_github(workflow, pull_request, head=worse, head_repository=repository, run_id=2)

    assert told.exits == {"evals": 1}, told.output
    if repository != REPOSITORY:
        assert not log.exists()
        return
    asked, _, report = log.read_text().partition("\n")
    assert asked.strip() == f"pr comment 7 --body-file evals.md {OPTIONS}"
    assert "REGRESSED" in report.upper().splitlines()[0]
    assert "test_says_yes" in report


def _followed(ci: Ci, repository: str) -> Job:
    """Make the job of the default branch that follows the run for a pull request."""
    job = github_push(ci.origin, ci.folder / "follows")
    file = Path(job.environ["GITHUB_EVENT_PATH"])
    owner, _, name = repository.partition("/")
    run = {
        "event": "pull_request",
        "head_repository": {"full_name": repository, "owner": {"login": owner}, "name": name},
        "head_branch": "fea$(touch owned)ture",
        "head_sha": "5" * 40,
        "conclusion": "failure",
        "html_url": f"{GITHUB}/{REPOSITORY}/actions/runs/9",
    }
    event = json.loads(file.read_text()) | {"action": "completed", "workflow_run": run}
    file.write_text(json.dumps(event))
    return Job(path=job.path, environ={**job.environ, "GITHUB_EVENT_NAME": "workflow_run"})


@pytest.mark.parametrize("repository", [REPOSITORY, "ada/bot"], ids=["own", "fork"])
def test_a_request_of_a_fork_is_told_how_its_job_ended(tmp_path: Path, repository: str) -> None:
    ci = Ci(tmp_path)
    run = GithubRun(
        workflow=yaml.safe_load(shown(FOLLOWS)),
        check_out=lambda: _followed(ci, repository),
        shell=ci.shell,
        caches=ci.caches,
        artifacts=tmp_path / "artifacts",
        run_id=3,
        token="t0ken",  # noqa: S106 - it opens nothing
    )

    ended = run.run()

    log = tmp_path / "shell" / "gh.log"
    if repository == REPOSITORY:  # whose own job comments
        assert (ended, log.exists()) == ({}, False)
        return
    assert ended["comment"].exit == 0, ended["comment"].output
    said = f"The evals of {'5' * 40} ended with failure: {GITHUB}/{REPOSITORY}/actions/runs/9"
    assert log.read_text() == (
        f"t0ken pr comment ada:fea$(touch owned)ture {OPTIONS} --body {said}\n"
    )
    assert not list(tmp_path.rglob("owned"))
