"""The workflow files of README and docs/ci.md are valid, and do what the pages say."""

from __future__ import annotations

import json
import re
import subprocess
import sysconfig
import tomllib
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.hosts import (
    Job,
    github_push,
    gitlab_push,
    merge_group,
    merge_request,
    pull_request,
)
from tests.ci.origin import WORSE, Origin
from tests.ci.runner import CacheEntries, Ended, GithubJob, Shell, run_gitlab_job
from tests.ci.situation import HARMLESS
from tests.project import MODEL

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/ci.md")
GITHUB, GITLAB = ".github/workflows/evals.yml", ".gitlab-ci.yml"
# The working tree of a base that is run for comparison goes away, so calls are noted elsewhere.
NOTED_THERE = 'Path(__import__("os").environ["CALLS"])'
NOTES_CALLS = {"model.py": MODEL.replace('Path(__file__).with_name("calls.log")', NOTED_THERE)}


def blocks() -> list[tuple[str, str]]:
    """Return path and text of each workflow file that the pages show."""
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    return re.findall(r"```yaml\n# (\S+)\n(.*?)```", text, re.DOTALL)


def recipe(path: str) -> dict[Any, Any]:
    (found,) = (text for name, text in blocks() if name == path)
    workflow: dict[Any, Any] = yaml.safe_load(found)
    return workflow


# --- as files ---------------------------------------------------------------------------------


def test_each_block_of_yaml_is_a_file_with_a_name() -> None:
    shown = sum((ROOT / page).read_text().count("```yaml") for page in PAGES)
    assert [path for path, _ in blocks()] == [GITHUB, GITLAB]
    assert shown == len(blocks())


def run_tool(name: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    tool = Path(sysconfig.get_path("scripts"), name)
    return subprocess.run(
        [tool, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("path", "text"), blocks(), ids=[path for path, _ in blocks()])
def test_a_recipe_fits_the_schema_of_its_host(path: str, text: str, tmp_path: Path) -> None:
    schema = "vendor.gitlab-ci" if path == GITLAB else "vendor.github-workflows"
    (tmp_path / "recipe.yml").write_text(text)

    done = run_tool("check-jsonschema", "--builtin-schema", schema, "recipe.yml", folder=tmp_path)

    assert done.returncode == 0, done.stdout


def test_zizmor_finds_nothing_in_the_workflow(tmp_path: Path) -> None:
    (tmp_path / GITHUB).parent.mkdir(parents=True)
    ((_, text),) = (block for block in blocks() if block[0] == GITHUB)
    (tmp_path / GITHUB).write_text(text)

    done = run_tool("zizmor", "--offline", "--no-progress", GITHUB, folder=tmp_path)

    assert done.returncode == 0, done.stdout


def test_the_readme_keeps_its_promise_of_fifteen_lines() -> None:
    (text,) = (text for path, text in blocks() if path == GITHUB)
    assert len(text.splitlines()) == 15


def test_the_workflow_may_only_read_and_cancels_nothing() -> None:
    workflow = recipe(GITHUB)
    # YAML 1.1 reads the key "on" as true.
    assert workflow[True] == {"push": {"branches": ["main"]}, "pull_request": {}, "merge_group": {}}
    assert workflow["permissions"] == {"contents": "read"}
    assert list(workflow["jobs"]) == ["evals"]
    assert not {"permissions", "concurrency"} & set(workflow["jobs"]["evals"])
    assert "concurrency" not in workflow


def test_the_key_of_the_provider_goes_to_pytest_alone() -> None:
    with_variables = [step for step in recipe(GITHUB)["jobs"]["evals"]["steps"] if "env" in step]
    assert with_variables == [
        {
            "run": "pytest --llm-baseline=auto --llm-on-missing=rerun",
            "env": {"OPENAI_API_KEY": "${{ secrets.OPENAI_API_KEY }}"},
        }
    ]


def test_jobs_hand_each_other_replies_alone() -> None:
    steps = recipe(GITHUB)["jobs"]["evals"]["steps"]
    paths = {step["with"]["path"] for step in steps if "cache" in step.get("uses", "")}
    assert paths | set(recipe(GITLAB)["evals"]["cache"]["paths"]) == {".llmeval/cache"}


# --- as they run ------------------------------------------------------------------------------


class Ci:
    """A host with a repository, and jobs of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.origin = Origin(folder / "host", commits=1)
        self.origin.advance(NOTES_CALLS)
        self.caches = CacheEntries(folder)
        self.report = folder / "report.json"
        # With few repeats, and a report whatever the lines of the recipe ask for.
        options = f"-p no:cacheprovider --llm-repeats=2 --llm-report={self.report}"
        environ = {"CALLS": str(folder / "calls.log"), "PYTEST_ADDOPTS": options}
        self.shell = Shell(folder / "shell", environ)
        self._numbers = count(1)

    def job(self, make: Callable[..., Job], **arguments: Any) -> Job:
        return make(self.origin, self.folder / f"job-{next(self._numbers)}", **arguments)

    def run_github(
        self, job: Job, *, run_id: int, attempt: int = 1
    ) -> tuple[Ended, dict[str, Any]]:
        github = GithubJob(
            steps=recipe(GITHUB)["jobs"]["evals"]["steps"],
            job=job,
            shell=self.shell,
            caches=self.caches,
            run_id=run_id,
            attempt=attempt,
            secrets={"OPENAI_API_KEY": "sk-of-the-repository"},
        )
        return self._told(github.run())

    def run_gitlab(self, job: Job) -> tuple[Ended, dict[str, Any]]:
        definition = recipe(GITLAB)["evals"]
        return self._told(run_gitlab_job(definition, job, shell=self.shell, caches=self.caches))

    def calls(self) -> int:
        """Count the calls made since the last time, those of a base that was run too."""
        log = self.folder / "calls.log"
        number = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        return number

    def _told(self, ended: Ended) -> tuple[Ended, dict[str, Any]]:
        assert self.report.exists(), ended.output
        report = json.loads(self.report.read_text())
        self.report.unlink()
        return ended, report


@pytest.fixture
def ci(tmp_path: Path) -> Ci:
    return Ci(tmp_path)


def test_at_github_a_worse_prompt_is_stopped_and_nothing_is_paid_for_twice(ci: Ci) -> None:
    ended, report = ci.run_github(ci.job(github_push), run_id=1)
    assert (ended.exit, report["verdict"], ci.calls()) == (0, "not_gated", 40)

    worse = ci.origin.commit(WORSE, on=ci.origin.tip)
    ended, report = ci.run_github(ci.job(pull_request, head=worse), run_id=2)
    assert (ended.exit, report["verdict"], ci.calls()) == (1, "regressed", 40)
    assert (report["baseline"]["commit"], report["baseline"]["how"]) == (ci.origin.tip, "rerun")

    ended, report = ci.run_github(ci.job(pull_request, head=worse), run_id=2, attempt=2)
    assert (ended.exit, report["verdict"], ci.calls()) == (1, "regressed", 0)

    # What the pull request bought is no other's.
    assert ci.caches.keys("refs/heads/main") == ["llmeval-1-1"]
    assert ci.caches.keys("refs/pull/7/merge") == ["llmeval-2-1", "llmeval-2-2"]
    with (ROOT / "pyproject.toml").open("rb") as file:
        name = tomllib.load(file)["project"]["name"]
    assert set(ci.shell.installed) == {f"install -e . {name}"}


def test_at_github_the_merge_queue_is_gated_too(ci: Ci) -> None:
    ci.run_github(ci.job(github_push), run_id=1)
    assert ci.calls() == 40
    base = ci.origin.tip
    harmless = ci.origin.merge(base, ci.origin.commit(HARMLESS, on=base))
    worse = ci.origin.merge(harmless, ci.origin.commit(WORSE, on=base))

    ended, report = ci.run_github(ci.job(merge_group, head=harmless, base=base), run_id=2)
    assert (ended.exit, report["verdict"], ci.calls()) == (0, "unchanged", 0)

    ended, report = ci.run_github(ci.job(merge_group, head=worse, base=harmless), run_id=3)
    assert (ended.exit, report["verdict"], ci.calls()) == (1, "regressed", 40)
    assert report["baseline"]["commit"] == harmless


def test_at_gitlab_a_worse_prompt_is_stopped_and_nothing_is_paid_for_twice(ci: Ci) -> None:
    ended, report = ci.run_gitlab(ci.job(gitlab_push))
    assert (ended.exit, report["verdict"], ci.calls()) == (0, "not_gated", 40)

    worse = ci.origin.commit(WORSE, on=ci.origin.tip)
    ci.origin.set("feature", worse)
    for made in (40, 0):
        ended, report = ci.run_gitlab(ci.job(merge_request, head=worse))
        assert (ended.exit, report["verdict"], ci.calls()) == (1, "regressed", made)
        assert report["baseline"]["commit"] == ci.origin.tip
