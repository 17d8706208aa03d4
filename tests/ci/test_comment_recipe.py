"""The workflow of docs/ci.md that comments: from the pull request's red job to its comment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.ci.hosts import REPOSITORY, Job, pull_request
from tests.ci.origin import WORSE
from tests.ci.runner import Ended, GithubRun
from tests.ci.test_recipes import COMMENT, TEAM, Ci
from tests.github.jobs import archive, event, job
from tests.servers import github_server
from tests.servers.github_server import FORK, TOKEN, GithubServer

NUMBER = 7
RUN = 5


@pytest.fixture
def github() -> Iterator[GithubServer]:
    with GithubServer() as server:
        yield server


def test_it_may_write_below_pull_requests_and_runs_no_code_of_the_project() -> None:
    content = COMMENT.content
    (following,) = content["jobs"].values()
    # YAML 1.1 reads the key "on" as true.
    assert content[True] == {
        "workflow_run": {"workflows": [TEAM.content["name"]], "types": ["completed"]}
    }
    assert content["permissions"] == {}
    assert following["permissions"] == {"actions": "read", "pull-requests": "write"}
    assert [step["uses"].partition("@")[0] for step in following["steps"] if "uses" in step] == [
        "actions/setup-python"
    ]
    assert [step["run"] for step in following["steps"] if "run" in step] == [
        "pip install pytest-llm-baseline",
        "llmeval comment",
    ]
    assert "secrets." not in COMMENT.text


class Hosted:
    """A repository whose pull requests are judged, and commented on."""

    def __init__(self, folder: Path, github: GithubServer) -> None:
        self.ci = Ci(folder)
        self.github = github
        self.folder = folder

    def judge(self, files: dict[str, str]) -> str:
        """Run the evals of a fork's branch with these files; return its last commit."""
        self.ci.shell.environ = {**self.ci.shell.environ, "PYTEST_ADDOPTS": "--llm-repeats=2"}
        head = self.ci.origin.commit(files, on=self.ci.origin.tip)
        run = GithubRun(
            workflow=TEAM.content,
            check_out=lambda: pull_request(
                self.ci.origin,
                Path(mkdtemp(dir=self.folder), "job"),
                head=head,
                head_repository=FORK,
            ),
            shell=self.ci.shell,
            caches=self.ci.caches,
            artifacts=self.folder / "left",
            run_id=RUN,
            secrets={"OPENAI_API_KEY": "sk-of-the-repository"},
        )
        self.ended = run.run()["evals"]
        left = self.folder / "left" / "evals"
        files_left = [path for path in left.rglob("*") if path.is_file()]
        packed = {str(path.relative_to(left)): path.read_bytes() for path in files_left}
        self.github.add_artifact(RUN, "evals", archive(packed))
        self.github.pull_requests.append(github_server.pull_request(NUMBER, commit=head))
        return head

    def follow(self, **changed: Any) -> dict[str, Ended]:
        """Run the workflow that follows, in a job with an empty folder."""
        folder = self.folder / "comment"
        folder.mkdir()
        told = event(id=RUN, **changed)
        environ = {
            **job(self.folder, self.github.url, told),
            "GITHUB_EVENT_NAME": "workflow_run",
            "GITHUB_REF": "refs/heads/main",
            "GITHUB_SHA": self.ci.origin.tip,
        }
        del environ["GITHUB_TOKEN"]  # the recipe hands it over
        run = GithubRun(
            workflow=COMMENT.content,
            check_out=lambda: Job(path=folder, environ=environ),
            shell=self.ci.shell,
            caches=self.ci.caches,
            artifacts=self.folder / "none",
            run_id=RUN + 1,
            token=TOKEN,
        )
        return run.run()


@pytest.fixture
def hosted(tmp_path: Path, github: GithubServer) -> Hosted:
    return Hosted(tmp_path, github)


def test_a_red_gate_of_a_fork_is_commented_on(hosted: Hosted, github: GithubServer) -> None:
    head = hosted.judge(WORSE)
    assert hosted.ended.exit == 1, hosted.ended.output

    ended = hosted.follow(head_sha=head)

    assert ended["comment"].exit == 0, ended["comment"].output
    [comment] = github.comments[NUMBER]
    assert f"job for {head[:7]}; " in comment["body"]
    assert "regressed" in comment["body"].lower()
    assert TOKEN not in ended["comment"].output
    assert github.written == [f"POST /repos/{REPOSITORY}/issues/{NUMBER}/comments"]


def test_the_run_of_a_push_starts_no_job(hosted: Hosted) -> None:
    assert hosted.follow(event="push") == {}
