"""The workflow files of README and docs/ci.md are valid, and do what the pages say."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pytest_llmeval.cache.reply import TIME
from pytest_llmeval.cli import main
from pytest_llmeval.runs.run_file import read_run, write_run
from pytest_llmeval.runs.store import RunStore, new_run_id
from tests.ci.hosts import (
    Job,
    github_push,
    gitlab_push,
    merge_group,
    merge_request,
    pull_request,
)
from tests.ci.origin import WORSE, Origin, run_git
from tests.ci.runner import CacheEntries, Ended, GithubRun, GitlabPipeline, Shell
from tests.ci.situation import HARMLESS
from tests.ci.tools import run_tool
from tests.project import MODEL

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/ci.md")
GITHUB, GITLAB, RECORD = ".github/workflows/evals.yml", ".gitlab-ci.yml", "record.gitlab-ci.yml"
ELSEWHERE = (  # tested in test_elsewhere.py
    ".buildkite/pipeline.yml",
    ".circleci/config.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "more",  # in test_comments.py
    ".github/workflows/evals-comment.yml",
)
# The working tree of a base that is run for comparison goes away, so calls are noted elsewhere.
NOTED_THERE = 'Path(__import__("os").environ["CALLS"])'
NOTES_CALLS = {"model.py": MODEL.replace('Path(__file__).with_name("calls.log")', NOTED_THERE)}


@dataclass(frozen=True, slots=True)
class Recipe:
    """A file that a page shows, with the path that it is to have."""

    page: str
    path: str
    text: str

    @property
    def content(self) -> dict[Any, Any]:
        content: dict[Any, Any] = yaml.safe_load(self.text)
        return content


def blocks() -> list[Recipe]:
    """Return the files that the pages show."""
    return [
        Recipe(page, path, text)
        for page in PAGES
        for path, text in re.findall(
            r"```yaml\n# (\S+)[^\n]*\n(.*?)```", (ROOT / page).read_text(), re.DOTALL
        )
        if path not in ELSEWHERE
    ]


README, TEAM, GITLAB_JOB, GITLAB_RECORD = RECIPES = blocks()
WORKFLOWS = (README, TEAM)
CALLS = 16  # of 8 cases, twice
AGAIN = 48  # the same cases on both sides, three times: a fall is confirmed
of_each_page = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda one: one.page)


# --- as files ---------------------------------------------------------------------------------


def test_each_block_of_yaml_is_a_file_with_a_name() -> None:
    shown = sum((ROOT / page).read_text().count("```yaml") for page in PAGES)
    assert [one.path for one in RECIPES] == [GITHUB, GITHUB, GITLAB, RECORD]
    assert shown == len(RECIPES) + len(ELSEWHERE)


@pytest.mark.parametrize("shown", RECIPES, ids=lambda one: f"{one.page}:{one.path}")
def test_a_recipe_fits_the_schema_of_its_host(shown: Recipe, tmp_path: Path) -> None:
    schema = "vendor.github-workflows" if shown in WORKFLOWS else "vendor.gitlab-ci"
    (tmp_path / "recipe.yml").write_text(shown.text)

    done = run_tool("check-jsonschema", "--builtin-schema", schema, "recipe.yml", folder=tmp_path)

    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("shown", WORKFLOWS, ids=lambda one: f"{one.page}:{one.path}")
def test_zizmor_finds_nothing_in_a_workflow(shown: Recipe, tmp_path: Path) -> None:
    (tmp_path / shown.path).parent.mkdir(parents=True)
    (tmp_path / shown.path).write_text(shown.text)

    done = run_tool("zizmor", "--offline", "--no-progress", shown.path, folder=tmp_path)

    assert done.returncode == 0, done.stdout


STARTERS = ROOT / "pytest_llmeval" / "cli" / "starters"


@pytest.mark.parametrize(
    "text",
    [*(one.text for one in RECIPES), *(path.read_text() for path in STARTERS.glob("*.yml"))],
)
def test_a_recipe_is_written_as_people_write_yaml(text: str) -> None:
    assert re.findall(r"^.*(?:: |- |^)\{[^}].*$", text, re.MULTILINE) == []


def test_init_writes_the_files_of_the_pages() -> None:
    assert (STARTERS / "github.yml").read_text() == README.text
    assert (STARTERS / "gitlab.yml").read_text() == GITLAB_JOB.text


@of_each_page
def test_what_runs_code_of_branches_may_only_read(workflow: Recipe) -> None:
    content = workflow.content
    # YAML 1.1 reads the key "on" as true.
    assert content[True] == {
        "push": {"branches": ["main"]},
        "pull_request": {"types": ["opened", "synchronize", "reopened", "edited"]},
        "merge_group": None,
    }
    evals = content["jobs"]["evals"]
    assert evals.get("permissions", content["permissions"]) == {"contents": "read"}


def test_the_job_that_may_write_runs_no_code_of_the_project() -> None:
    record = TEAM.content["jobs"]["record"]
    assert TEAM.content["permissions"] == {}
    assert record["permissions"] == {"contents": "write"}
    assert [step["run"] for step in record["steps"] if "run" in step] == [
        "pip install pytest-llm-baseline",
        "llmeval push evals",
    ]
    assert "secrets." not in TEAM.text.partition("  record:")[2]


@of_each_page
def test_a_job_of_main_is_in_no_group_with_another_one(workflow: Recipe) -> None:
    alone = "github.event_name == 'pull_request' && github.ref || github.run_id"
    assert workflow.content["concurrency"]["group"] == f"evals-${{{{ {alone} }}}}"
    assert not any("concurrency" in job for job in workflow.content["jobs"].values())


@of_each_page
def test_the_key_of_the_provider_goes_to_pytest_alone(workflow: Recipe) -> None:
    steps = [step for job in workflow.content["jobs"].values() for step in job["steps"]]
    (step,) = (step for step in steps if "env" in step)
    assert step["run"].startswith("pytest --llm-baseline=auto --llm-on-missing=rerun")
    # In a fork there is no key, and a client that is built on import asks for one.
    key = "${{ secrets.OPENAI_API_KEY || 'llmeval-no-key-is-set' }}"
    assert step["env"] == {"OPENAI_API_KEY": key}


def test_caches_have_replies_and_runs_and_artifacts_have_no_replies() -> None:
    steps = [
        step
        for workflow in WORKFLOWS
        for job in workflow.content["jobs"].values()
        for step in job["steps"]
    ]
    kept = {".llmeval/cache", ".llmeval/runs"}
    cached = [step["with"] for step in steps if "actions/cache" in step.get("uses", "")]
    assert all(set(given["path"].split()) == kept for given in cached)
    evals = GITLAB_JOB.content["evals"]
    of_main, own = evals["cache"]
    assert (set(of_main["paths"]), own["paths"]) == (kept, [".llmeval/own"])

    (left,) = (step for step in steps if "upload-artifact" in step.get("uses", ""))
    report = "llmeval-report.json"
    assert left["with"]["path"].split("\n") == [report, ".llmeval/runs/${{ github.sha }}", ""]
    assert evals["artifacts"]["paths"] == [report, ".llmeval/runs/$CI_COMMIT_SHA"]


# --- as they run ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """What the jobs of a run came to.

    Attributes:
        exits: by the name of the job.
        verdict: of the session.
        calls: made by all, those of a base that was run for comparison too.
        baseline: as the report has it; empty without one.
        output: what all printed.
    """

    exits: Mapping[str, int]
    verdict: str
    calls: int
    baseline: Mapping[str, Any]
    output: str


class Ci:
    """A host with a repository, and jobs of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.origin = Origin(folder / "host", commits=2, changed=NOTES_CALLS)
        self.caches = CacheEntries(folder)
        self.report = folder / "report.json"
        # With few repeats, and a report whatever the lines of the recipe ask for.
        options = f"-p no:cacheprovider --llm-repeats=2 --llm-report={self.report}"
        environ = {"CALLS": str(folder / "calls.log"), "PYTEST_ADDOPTS": options}
        self.shell = Shell(folder / "shell", environ)
        self._numbers = count(1)

    def run_github(
        self,
        workflow: Recipe,
        make: Callable[..., Job],
        *,
        run_id: int,
        attempt: int = 1,
        **arguments: Any,
    ) -> Told:
        """Run a workflow at the event that ``make`` makes the checkouts of."""
        run = GithubRun(
            workflow=workflow.content,
            check_out=self._checkouts(make, arguments),
            shell=self.shell,
            caches=self.caches,
            artifacts=self.folder / f"artifacts-{run_id}",
            run_id=run_id,
            attempt=attempt,
            secrets={"OPENAI_API_KEY": "sk-of-the-repository"},
        )
        return self._told(run.run())

    def run_gitlab(
        self, jobs: Mapping[str, Any], make: Callable[..., Job], **arguments: Any
    ) -> Told:
        pipeline = GitlabPipeline(
            jobs=jobs,
            check_out=self._checkouts(make, arguments),
            shell=self.shell,
            caches=self.caches,
        )
        return self._told(pipeline.run())

    def stored(self) -> list[str]:
        """List the commits of the runs in the store of the team."""
        refs = run_git(self.origin.path, "for-each-ref", "--format=%(refname)", "refs/llmeval")
        return sorted(ref.split("/")[2] for ref in refs.split())

    def _checkouts(
        self, make: Callable[..., Job], arguments: Mapping[str, Any]
    ) -> Callable[[], Job]:
        return lambda: make(self.origin, self.folder / f"job-{next(self._numbers)}", **arguments)

    def _told(self, ended: Mapping[str, Ended]) -> Told:
        output = "\n".join(one.output for one in ended.values())
        log = self.folder / "calls.log"
        calls = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        assert self.report.exists(), output
        report = json.loads(self.report.read_text())
        self.report.unlink()
        exits = {name: one.exit for name, one in ended.items()}
        return Told(exits, report["verdict"], calls, report["baseline"] or {}, output)


RED = {"evals": 1}


@pytest.fixture
def ci(tmp_path: Path) -> Ci:
    return Ci(tmp_path)


def test_at_github_a_worse_prompt_is_stopped_and_nothing_is_paid_for_twice(ci: Ci) -> None:
    base, worse = ci.origin.tip, ci.origin.commit(WORSE, on=ci.origin.tip)

    told = ci.run_github(README, github_push, run_id=1)
    assert (told.exits, told.verdict, told.calls) == ({"evals": 0}, "unchanged", CALLS), told.output
    told = ci.run_github(README, pull_request, head=worse, run_id=2)
    assert (told.exits, told.verdict, told.calls) == (RED, "regressed", CALLS + AGAIN), told.output
    assert (told.baseline["commit"], told.baseline["how"]) == (base, "named by CI")
    told = ci.run_github(README, pull_request, head=worse, run_id=2, attempt=2)
    assert (told.exits, told.verdict, told.calls) == ({"evals": 1}, "regressed", 0), told.output

    # What the pull request bought is no other's.
    assert ci.caches.keys("refs/heads/main") == ["llmeval-push-1-1"]
    own = ["llmeval-pull_request-2-1", "llmeval-pull_request-2-2"]
    assert ci.caches.keys("refs/pull/7/merge") == own
    with (ROOT / "pyproject.toml").open("rb") as file:
        name = tomllib.load(file)["project"]["name"]
    assert set(ci.shell.installed) == {f"install -e . {name}"}


def test_at_github_the_merge_queue_is_gated_too(ci: Ci) -> None:
    base = ci.origin.tip
    worse = ci.origin.merge(base, ci.origin.commit(WORSE, on=base))

    told = ci.run_github(README, merge_group, head=worse, base=base, run_id=1)

    made = 2 * CALLS + AGAIN
    assert (told.exits, told.verdict, told.calls) == (RED, "regressed", made), told.output
    assert told.baseline["commit"] == base
    assert ci.caches.entries == {}


def test_at_github_a_harmless_pull_request_asks_nothing_and_runs_the_suite_once(ci: Ci) -> None:
    base = ci.origin.tip
    ci.run_github(README, github_push, run_id=1)

    told = ci.run_github(README, pull_request, head=ci.origin.commit(HARMLESS, on=base), run_id=2)

    assert (told.exits, told.verdict, told.calls) == ({"evals": 0}, "unchanged", 0), told.output
    assert (told.baseline["commit"], told.baseline["how"]) == (base, "named by CI")
    assert told.output.count("test session starts") == 1


def test_at_github_main_is_compared_with_its_last_run(ci: Ci) -> None:
    before, base = ci.origin.main
    told = ci.run_github(README, github_push, run_id=1)
    assert (told.baseline["commit"], told.baseline["how"]) == (before, "rerun")
    ci.origin.advance(WORSE)

    told = ci.run_github(README, github_push, run_id=2)

    assert (told.exits, told.verdict, told.calls) == (RED, "regressed", CALLS + AGAIN), told.output
    assert (told.baseline["commit"], told.baseline["how"]) == (base, "earlier commit")


def test_at_github_what_main_paid_for_later_is_not_hidden_by_the_own_cache(ci: Ci) -> None:
    head = ci.origin.commit(HARMLESS, on=ci.origin.tip)
    ci.run_github(README, github_push, run_id=1)
    ci.run_github(README, pull_request, head=head, run_id=2)
    base = ci.origin.advance(WORSE)
    assert ci.run_github(README, github_push, run_id=3).calls == CALLS + AGAIN

    told = ci.run_github(README, pull_request, head=head, run_id=4)

    assert (told.exits, told.verdict, told.calls) == ({"evals": 0}, "unchanged", 0), told.output
    assert told.baseline["commit"] == base


def grow_old(entry: Path, days: int) -> None:
    """Let the runs and replies of a cache entry have been made some days ago."""
    store, replies = RunStore(entry / ".llmeval"), entry / "replies.jsonl"
    for path in list(store.folder.rglob("*.gz")):
        run = read_run(path)
        then = datetime.fromisoformat(run.created) - timedelta(days=days)
        store.save(replace(run, id=new_run_id(then), created=then.isoformat(timespec="seconds")))
        path.unlink()
    llmeval("cache", "export", str(replies), f"--dir={store.directory}")
    shutil.rmtree(store.directory / "cache")
    then = datetime.now(UTC) - timedelta(days=days)
    replies.write_text(
        re.sub(r'"created": ?"[^"]+"', f'"created":"{then:{TIME}}"', replies.read_text())
    )
    llmeval("cache", "import", str(replies), f"--dir={store.directory}")


def llmeval(*arguments: str) -> str:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_at_github_what_no_baseline_needs_leaves_the_entry_of_main(ci: Ci) -> None:
    ci.run_github(README, github_push, run_id=1)
    base = ci.origin.advance(WORSE)
    ci.run_github(README, github_push, run_id=2)
    grow_old(ci.caches.entries["refs/heads/main", "llmeval-push-2-1"], days=100)
    tip = ci.origin.advance(HARMLESS)

    told = ci.run_github(README, github_push, run_id=3)

    assert (told.exits, told.verdict, told.calls) == ({"evals": 0}, "unchanged", 0), told.output
    kept = ci.caches.entries["refs/heads/main", "llmeval-push-3-1"] / ".llmeval"
    assert {path.parent.name for path in kept.rglob("*.gz")} == {base, tip}
    assert f" {CALLS} " in llmeval("cache", "stats", f"--dir={kept}").splitlines()[-1]

    head = ci.origin.commit({"more.txt": ""}, on=tip)
    told = ci.run_github(README, pull_request, head=head, run_id=4)
    assert (told.exits, told.verdict, told.calls) == ({"evals": 0}, "unchanged", 0), told.output


def test_a_run_planted_in_the_scope_of_a_pull_request_is_not_taken_by_rerun_always(ci: Ci) -> None:
    base = ci.origin.tip
    ci.run_github(README, github_push, run_id=1)
    worse = ci.origin.commit(WORSE, on=base)
    ci.run_github(README, pull_request, head=worse, run_id=2)
    # Code of the pull request saves its own run as that of main, under a name of main's entries.
    (own,) = (path for key, path in ci.caches.entries.items() if key[1].endswith("request-2-1"))
    of_branch = (one for one in own.rglob("*.gz") if one.parent.name != base)
    (path,) = (one for one in of_branch if not read_run(one).made)
    run = read_run(path)
    run = replace(run, commit=base, tree=run_git(ci.origin.path, "rev-parse", f"{base}^{{tree}}"))
    write_run(run, own / ".llmeval" / "runs" / base / path.name)
    ci.caches.entries["refs/pull/7/merge", "llmeval-push-9-9"] = own
    told = ci.run_github(README, pull_request, head=worse, run_id=3)
    assert told.exits == {"evals": 0}, told.output  # as SECURITY.md says

    always = Recipe(README.page, README.path, README.text.replace("=rerun ", "=rerun-always "))
    told = ci.run_github(always, pull_request, head=worse, run_id=4)

    assert (told.exits, told.verdict, told.calls) == ({"evals": 1}, "regressed", 0), told.output
    assert (told.baseline["commit"], told.baseline["how"]) == (base, "rerun")


def test_a_team_keeps_what_main_and_the_queue_recorded_also_where_they_are_red(ci: Ci) -> None:
    base = ci.origin.tip
    told = ci.run_github(TEAM, github_push, run_id=1)
    assert told.exits == {"evals": 0, "record": 0}, told.output
    assert ci.stored() == [base]

    worse = ci.origin.commit(WORSE, on=base)
    told = ci.run_github(TEAM, pull_request, head=worse, run_id=2)
    assert (told.exits, told.verdict, told.calls) == (RED, "regressed", CALLS + AGAIN), told.output
    assert (told.baseline["commit"], told.baseline["how"]) == (base, "named by CI")
    assert ci.stored() == [base]

    entry = ci.origin.merge(ci.origin.advance(HARMLESS), worse)
    told = ci.run_github(TEAM, merge_group, head=entry, base=ci.origin.tip, run_id=3)
    assert told.exits == {"evals": 1, "record": 0}, told.output
    assert told.baseline["how"] == "rerun"
    assert ci.stored() == sorted([base, entry])

    left = ci.folder / "artifacts-3"
    kept = {path.relative_to(left).parts[:4] for path in left.rglob("*") if path.is_file()}
    assert {parts[:-1] for parts in kept} == {("evals",), ("evals", ".llmeval", "runs")}
    assert kept >= {("evals", ".llmeval", "runs", entry)}


def test_at_gitlab_a_worse_prompt_is_stopped_and_a_pipeline_again_is_free(ci: Ci) -> None:
    jobs, base = GITLAB_JOB.content, ci.origin.tip
    worse = ci.origin.commit(WORSE, on=base)

    told = ci.run_gitlab(jobs, gitlab_push)
    assert (told.exits, told.verdict, told.calls) == ({"evals": 0}, "unchanged", CALLS), told.output
    for made in (2 * CALLS + AGAIN, 0):  # the caches of main and of merge requests are apart
        told = ci.run_gitlab(jobs, merge_request, head=worse)
        assert (told.exits, told.verdict) == ({"evals": 1}, "regressed"), told.output
        assert (told.calls, told.baseline["commit"]) == (made, base)
    assert GITLAB_JOB.content["evals"]["artifacts"]["reports"] == {"junit": "junit.xml"}
    last = sorted(ci.folder.glob("job-*/work/junit.xml"))[-1]
    assert 'failures="1"' in last.read_text()


def test_at_gitlab_a_cache_that_is_not_protected_has_the_run_of_main(ci: Ci) -> None:
    evals, base = GITLAB_JOB.content["evals"], ci.origin.tip
    of_main, own = evals["cache"]
    jobs = {"evals": {**evals, "cache": [{**of_main, "unprotect": True}, own]}}
    ci.run_gitlab(jobs, gitlab_push)

    told = ci.run_gitlab(jobs, merge_request, head=ci.origin.commit(HARMLESS, on=base))

    assert (told.exits, told.verdict, told.calls) == ({"evals": 0}, "unchanged", 0), told.output
    assert (told.baseline["commit"], told.baseline["how"]) == (base, "named by CI")
    assert ci.caches.keys("non_protected") == ["llmeval-main", "llmeval-own-feature"]


def test_at_gitlab_a_team_keeps_what_main_recorded(ci: Ci) -> None:
    evals, base = GITLAB_JOB.content["evals"], ci.origin.tip
    *before, judge = evals["script"]
    script = [*before, f"{judge} --llm-store=git+refs://origin"]
    of_main, own = evals["cache"]
    evals = {**evals, "script": script, "cache": [{**of_main, "unprotect": True}, own]}
    jobs = {"evals": evals, **GITLAB_RECORD.content}

    told = ci.run_gitlab(jobs, gitlab_push)
    assert told.exits == {"evals": 0, "record": 0}, told.output
    assert ci.stored() == [base]

    red = ci.origin.advance(WORSE)
    told = ci.run_gitlab(jobs, gitlab_push)
    assert told.exits == {"evals": 1, "record": 0}, told.output
    assert ci.stored() == sorted([base, red])

    told = ci.run_gitlab(jobs, merge_request, head=ci.origin.commit(HARMLESS, on=base))
    assert (told.exits, told.verdict, told.calls) == ({"evals": 0}, "unchanged", 0), told.output
    assert (told.baseline["commit"], told.baseline["how"]) == (base, "named by CI")
