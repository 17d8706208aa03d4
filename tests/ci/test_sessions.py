"""Sessions end as they should, however CI or a user checked the repository out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.records import Run
from pytest_llmeval.runs.store import RunStore, new_run_id
from pytest_llmeval.settings import default_directory
from tests.ci.hosts import github_push, on_laptop
from tests.ci.laptops import LAPTOPS
from tests.ci.origin import PROJECT, WORSE, Origin, git_environ, run_git
from tests.ci.pipelines import PIPELINES, second_queue_entry
from tests.ci.pull_requests import (
    PULL_REQUESTS,
    pull_request_by_head_sha_of_depth_one,
    stacked_pull_request,
)
from tests.ci.situation import Situation, add_feature
from tests.forked import ForkedSession
from tests.servers.git_server import GitServer
from tests.warm_python import warm_python

# Which commit is meant in these is told by test_which_commit.py; what a session makes of it is
# shown by the other ones.
ALIKE = {
    "pull_request_of_depth_one_by_name_at_origin", "pull_request_of_depth_one_by_first_parent",
    "pull_request_in_full", "pull_request_by_head_sha",
    "pull_request_by_head_sha_that_is_a_merge", "pull_request_of_a_fork_by_head_sha",
    "pull_request_of_a_fork_that_was_deleted", "stacked_pull_request_against_main",
    "pull_request_after_a_force_push", "pull_request_whose_branch_merged_main",
    "pull_request_into_a_release", "pull_request_that_was_merged", "queue_entry_by_squash",
    "queue_entry_by_rebase_of_three", "push_of_a_squash_merge", "merge_request_of_a_branch",
    "merge_request_of_a_branch_in_full", "laptop_with_a_stale_main_that_does_not_matter",
    "laptop_with_a_main_that_was_not_pushed", "laptop_whose_main_was_renamed",
    "laptop_after_a_force_push", "laptop_whose_parent_was_squashed",
    "laptop_with_a_criss_cross", "pull_request_that_is_stale", "pull_request_of_a_fork",
    "pull_request_whose_parent_was_squashed", "pull_request_with_an_octopus",
    "queue_entry_by_merge", "merge_request_of_merged_results", "laptop_on_a_branch",
    "laptop_whose_main_was_renamed_by_auto",
}  # fmt: skip
EVERY = (*PULL_REQUESTS, *PIPELINES, *LAPTOPS)
SITUATIONS = [make for make in EVERY if make.__name__ not in ALIKE]


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that has ended.

    Attributes:
        exit: its exit code.
        report: what it wrote by ``--llm-report``.
        output: what it printed.
    """

    exit: int
    report: Mapping[str, Any]
    output: str


def run_session(rootdir: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> Ended:
    """Run pytest with two repeats of each case."""
    report, output = rootdir / "out" / "report.json", rootdir / "out.txt"
    output.unlink(missing_ok=True)  # to which it would be added
    session = ForkedSession(
        rootdir,
        *("-p", "no:cacheprovider", "--llm-repeats=2", f"--llm-report={report}", *arguments),
        output=output,
        environment=git_environ() | {"WARM_PYTHON": warm_python()} | dict(environ or {}),
    )
    code = session.wait(300)
    return Ended(code, json.loads(report.read_text()), output.read_text())


@dataclass(frozen=True, slots=True)
class Recorded:
    """The runs of both prompts, and the replies that they paid for."""

    good: Run
    worse: Run
    cache: Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    runs = []
    for files in (PROJECT, WORSE):
        for name, text in files.items():
            (folder / name).write_text(text)
        # Both prompts are equally long, and may be written in one second: Python would take the
        # byte code of the first for that of the second.
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        run_session(folder)
        newest = RunStore(folder / ".llmeval").newest()
        assert newest is not None
        runs.append(newest.run)
    return Recorded(*runs, folder / ".llmeval" / "cache")


def prompt_at(host: Path, commit: str, root: str) -> str:
    """Return the application at a commit of the repository at the host."""
    return run_git(host, "show", f"{commit}:{Path(root, 'app.py').as_posix()}")


def record(situation: Situation, recorded: Recorded, *, host: Path, root: str) -> None:
    """Put runs of these commits into the store, as if they had been brought from main."""
    store = RunStore(default_directory(situation.path, has_ini=True))
    for commit in situation.recorded:
        is_worse = prompt_at(host, commit, root) == WORSE["app.py"].strip()
        store.save(
            replace(
                recorded.worse if is_worse else recorded.good,
                id=new_run_id(datetime.now(UTC)),
                commit=commit,
                tree=run_git(host, "rev-parse", f"{commit}^{{tree}}"),
                root=root,
                dirty=False,
            )
        )
    if situation.recorded:
        shutil.copytree(recorded.cache, store.directory / "cache")


@pytest.mark.parametrize("make", SITUATIONS, ids=lambda make: make.__name__)
def test_a_session_is_held_against_the_right_run(
    make: Callable[[Path], Situation], recorded: Recorded, tmp_path: Path
) -> None:
    situation = make(tmp_path)
    host = tmp_path / "host" / "origin.git"
    root = run_git(situation.path, "rev-parse", "--show-prefix").rstrip("/") or "."
    record(situation, recorded, host=host, root=root)

    ended = run_session(
        situation.path, f"--llm-baseline={situation.ref}", environ=situation.environ
    )

    verdict, baseline = ended.report["verdict"], ended.report["baseline"]
    if situation.baseline is None:
        assert (ended.exit, verdict, baseline) == (0, "not_gated", None)
        why, *_ = ended.report["notes"]
        assert why.endswith("This run will be the first")
        assert ended.report["run"]["complete"]
    else:
        here = (situation.path / "app.py").read_text().strip()
        is_same = here == prompt_at(host, situation.baseline, root)
        assert (baseline["commit"], baseline["wanted"]) == (situation.baseline, situation.wanted)
        assert (ended.exit, verdict) == ((0, "unchanged") if is_same else (1, "regressed"))
        trees = {
            run_git(host, "rev-parse", f"{commit}^{{tree}}")
            for commit in (situation.baseline, situation.wanted)
        }
        is_on_ref_itself = situation.wanted == ended.report["run"]["commit"]
        assert baseline["substitute"] == (len(trees) > 1 and not is_on_ref_itself)
    assert situation.note in ended.output


def test_the_ini_file_says_how_far_and_how_old_a_baseline_may_be(
    recorded: Recorded, tmp_path: Path
) -> None:
    """The run is of the commit before main's, and more than eight days old."""
    origin = Origin(tmp_path / "host")
    add_feature(origin, on=2)
    path = on_laptop(origin, tmp_path / "clone", branch="feature").path
    then = datetime.now(UTC) - timedelta(days=8, hours=1)
    old = replace(
        recorded.good, id=new_run_id(then), created=then.isoformat(timespec="seconds"), dirty=False
    )
    RunStore(path / ".llmeval").save(replace(old, commit=origin.main[1]))

    named = run_session(path, "--llm-baseline=main")
    unnamed = run_session(path, "--llm-baseline=main", "-o", "llm_baseline_age=8")
    refused = run_session(path, "--llm-baseline=main", "-o", "llm_baseline_reach=0")

    assert (named.exit, unnamed.exit, refused.exit) == (1, 1, 4)
    assert "the baseline is 8 days old" in named.output
    assert "days old" not in unnamed.output
    assert refused.report["why"].startswith("--llm-baseline=main: no complete run recorded for")


# --- history that is not fetched ----------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [pull_request_by_head_sha_of_depth_one, stacked_pull_request, second_queue_entry],
    ids=lambda make: make.__name__,
)
def test_where_nothing_may_be_fetched_the_error_names_the_cure(
    make: Callable[[Path], Situation], recorded: Recorded, tmp_path: Path
) -> None:
    situation = make(tmp_path)
    record(situation, recorded, host=tmp_path / "host" / "origin.git", root=".")

    asked = (f"--llm-baseline={situation.ref}", "--no-llm-fetch")
    ended = run_session(situation.path, *asked, environ=situation.environ)

    assert (ended.exit, ended.report["verdict"]) == (4, "could_not_judge")
    for cure in ("fetch-depth: 0", "GIT_DEPTH: 0", "--llm-fetch"):
        assert cure in ended.report["why"]
    assert not (situation.path / ".llmeval" / "git").exists()


def test_a_shallow_clone_on_a_laptop_is_completed_if_that_is_asked_for(
    recorded: Recorded, tmp_path: Path
) -> None:
    situation = pull_request_by_head_sha_of_depth_one(tmp_path)
    record(situation, recorded, host=tmp_path / "host" / "origin.git", root=".")

    unasked = run_session(situation.path, "--llm-baseline=main")
    asked = run_session(situation.path, "--llm-baseline=main", "--llm-fetch")

    assert (unasked.exit, unasked.report["verdict"]) == (4, "could_not_judge")
    assert (asked.exit, asked.report["verdict"]) == (1, "regressed")
    assert asked.report["baseline"]["commit"] == situation.wanted


def test_an_origin_that_cannot_be_reached_is_said_in_one_line(
    recorded: Recorded, tmp_path: Path
) -> None:
    situation = pull_request_by_head_sha_of_depth_one(tmp_path)
    record(situation, recorded, host=tmp_path / "host" / "origin.git", root=".")
    url = "http://octo:s3cret-t0ken@127.0.0.1:9/bot.git"
    run_git(situation.path, "remote", "set-url", "origin", url)

    ended = run_session(situation.path, "--llm-baseline=main", environ=situation.environ)

    assert (ended.exit, ended.report["verdict"]) == (4, "could_not_judge")
    assert "origin gave no history: fatal: unable to access" in ended.report["why"]
    assert "fetch-depth: 0" in ended.report["why"]
    written = (path for path in situation.path.joinpath(".llmeval").rglob("*") if path.is_file())
    for text in (ended.output, str(ended.report), *(path.read_text("latin-1") for path in written)):
        assert "s3cret" not in text


def test_a_base_that_only_a_host_has_is_fetched_whole_and_run(tmp_path: Path) -> None:
    """The host insists on the header that the checkout has, which is written nowhere."""
    situation = pull_request_by_head_sha_of_depth_one(tmp_path)
    run_git(tmp_path / "host" / "origin.git", "config", "uploadpack.allowFilter", "true")
    known = "eC1hY2Nlc3MtdG9rZW46czNjcjN0"
    config = situation.path / ".git" / "config"
    with GitServer(tmp_path / "host", header=f"AUTHORIZATION: basic {known}") as server:
        run_git(situation.path, "remote", "set-url", "origin", f"{server.url}/origin.git")
        header = f"http.{server.url}/.extraheader"
        run_git(situation.path, "config", header, f"AUTHORIZATION: basic {known}")
        before = config.read_bytes()
        asked = ("--llm-baseline=main", "--llm-on-missing=rerun")

        ended = run_session(situation.path, *asked, environ=situation.environ)

    assert (ended.exit, ended.report["verdict"]) == (1, "regressed")
    assert ended.report["baseline"]["commit"] == situation.wanted
    assert config.read_bytes() == before
    written = (path for path in situation.path.joinpath(".llmeval").rglob("*") if path.is_file())
    for text in (ended.output, str(ended.report), *(path.read_text("latin-1") for path in written)):
        assert known not in text


# --- a commit that is not known ---------------------------------------------------------------


DIFFERENT_OWNER = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
SAFE = "git config --global --add safe.directory"
IN_IMAGE = "install git before the checkout, and do not name .git in .dockerignore"


def project(folder: Path) -> Path:
    for name, text in PROJECT.items():
        (folder / name).write_text(text)
    return folder


@dataclass(frozen=True, slots=True)
class Bare:
    """A job without a commit: where it runs, with which variables, and what is said of it."""

    path: Path
    environ: Mapping[str, str]
    said: str


def without_git(folder: Path) -> Bare:
    return Bare(project(folder), {"CI": "true", "PATH": str(folder)}, "git cannot be run")


def without_repository(folder: Path) -> Bare:
    told = {"CI": "1", "GITHUB_ACTIONS": "true", "GITHUB_SHA": "5" * 40}
    return Bare(project(folder), told, f"git init, and commit. In an image: {IN_IMAGE}")


def without_commit(folder: Path) -> Bare:
    subprocess.run(["git", "init", "-q", str(project(folder))], check=True)
    return Bare(folder, {"CI": "true", "GITLAB_CI": "true"}, "this repository has no commit yet")


def of_another_user(folder: Path) -> Bare:
    job = github_push(Origin(folder / "host", commits=1), folder / "job")
    return Bare(job.path, {**job.environ, **DIFFERENT_OWNER}, SAFE)


BARES = (without_git, without_repository, without_commit, of_another_user)
bares = pytest.mark.parametrize("begin", BARES)


@pytest.mark.parametrize(
    ("begin", "workers"), [*((begin, ()) for begin in BARES), (of_another_user, ("-n", "1"))]
)
def test_a_job_of_no_known_commit_runs_and_says_so(
    tmp_path: Path, begin: Callable[[Path], Bare], workers: tuple[str, ...]
) -> None:
    job = begin(tmp_path)

    ended = run_session(job.path, *workers, environ=job.environ)

    assert (ended.exit, ended.report["run"]["commit"]) == (0, None)
    (note,) = (one for one in ended.report["notes"] if "commit is not known" in one)
    assert job.said in note
    assert (job.path / "calls.log").exists()


@bares
@pytest.mark.parametrize("on_missing", ["error", "warn", "rerun"])
def test_a_branch_as_baseline_needs_the_commit(
    tmp_path: Path, begin: Callable[[Path], Bare], on_missing: str
) -> None:
    job = begin(tmp_path)
    asked = ("--llm-baseline=main", f"--llm-on-missing={on_missing}")

    ended = run_session(job.path, *asked, environ=job.environ)

    assert (ended.exit, ended.report["verdict"]) == (4, "could_not_judge")
    assert job.said in ended.report["why"]
    assert not (job.path / "calls.log").exists()


@bares
def test_a_run_that_is_named_itself_needs_no_commit(
    tmp_path: Path, begin: Callable[[Path], Bare]
) -> None:
    job = begin(tmp_path)
    run_session(job.path, environ=job.environ)

    ended = run_session(job.path, "--llm-baseline=last", environ=job.environ)

    assert (ended.exit, ended.report["verdict"]) == (0, "unchanged")


@bares
def test_a_push_needs_the_commit(tmp_path: Path, begin: Callable[[Path], Bare]) -> None:
    job = begin(tmp_path)
    names = {"PATH": os.environ["PATH"], **git_environ(), **job.environ}
    command = [sys.executable, "-m", "pytest_llmeval", "push", "--from-laptop"]

    done = subprocess.run(
        command, cwd=job.path, env=names, capture_output=True, text=True, check=False
    )

    assert done.returncode == 4
    assert job.said in done.stderr


def test_without_git_a_laptop_records_all_the_same(tmp_path: Path) -> None:
    ended = run_session(project(tmp_path), environ={"PATH": str(tmp_path)})
    assert (ended.exit, ended.report["run"]["commit"]) == (0, None)
    assert not any("commit is not known" in note for note in ended.report["notes"])
