"""`llmeval push` and `llmeval fetch`, and sessions that read what was pushed."""

from __future__ import annotations

import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

from pytest_llmeval.engine import earlier_runs
from pytest_llmeval.runs.run_file import read_run, write_run
from tests.project import EVALS, Project, made_once
from tests.stories.test_cli import assert_refused, llmeval

STORE = "git+refs://origin"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the project lies that was made first."""
    return tmp_path_factory.mktemp("store") / "project"


def record(project: Project) -> None:
    project.write(test_evals=EVALS.replace("repeats=5", "repeats=1"))
    project.commit()
    project.run()


@pytest.fixture
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("origin") / "origin.git"


@pytest.fixture
def project(
    recorded: Path, origin: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A project with a run of main, and a bare repository as its origin."""
    project = made_once(recorded, pytester, record)
    project.git("clone", "-q", "--bare", str(project.path), str(origin))
    project.git("remote", "add", "origin", str(origin))
    monkeypatch.chdir(project.path)
    return project


@pytest.fixture
def pushed(project: Project) -> str:
    """The id of main's run, which is in the store and no longer here."""
    result = push("--from-laptop")
    assert result.exit_code == 0, result.output
    (file,) = project.runs()
    shutil.rmtree(project.path / ".llmeval")
    return file.name.removesuffix(".jsonl.gz")


def push(*arguments: object) -> Result:
    return llmeval("push", *arguments)


def refs(project: Project) -> list[str]:
    return project.git("ls-remote", "origin", "refs/llmeval/*").split()[1::2]


def as_github(monkeypatch: pytest.MonkeyPatch, event: str, commit: str) -> None:
    variables = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": event, "GITHUB_SHA": commit}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def changed(project: Project, **changes: object) -> Path:
    """Let the run of the project have been recorded otherwise."""
    (file,) = project.runs()
    write_run(replace(read_run(file), **changes), file)
    return file


# --- push --------------------------------------------------------------------------------


def test_the_run_of_this_commit_is_sent_and_to_send_it_again_changes_nothing(
    project: Project,
) -> None:
    (file,) = project.runs()
    run_id, head = file.name.removesuffix(".jsonl.gz"), project.git("rev-parse", "HEAD")
    first, second = push("--from-laptop"), push("--from-laptop", f"--store={STORE}")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stdout == f"sent run {run_id} of {head[:7]}, {STORE}\n"
    assert second.stdout == f"there already: run {run_id} of {head[:7]}, {STORE}\n"
    assert refs(project) == [
        f"refs/llmeval/{head}/{project.git('rev-parse', 'HEAD^{tree}')}/{run_id}"
    ]
    assert project.runs() == [file]


def test_outside_of_ci_and_in_jobs_of_requests_nothing_is_sent(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_refused(push(), "outside of CI", "llmeval push --from-laptop")
    as_github(monkeypatch, "pull_request", project.git("rev-parse", "HEAD"))
    assert_refused(push("--from-laptop"), "the event of this job is pull_request")
    as_github(monkeypatch, "push", "ab" * 20)
    assert_refused(push(), "the job is for abababa: check that commit out")
    assert refs(project) == []


def test_the_record_job_sends_the_artifact_of_its_own_event(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    as_github(monkeypatch, "push", project.git("rev-parse", "HEAD"))
    result = push()
    assert result.exit_code == 1
    assert "it was recorded at no job of CI, this job is of github push" in result.stderr
    shutil.rmtree(project.path / ".llmeval")
    project.run()
    shutil.move(project.path / ".llmeval", tmp_path / "artifact")
    assert push(tmp_path / "artifact").exit_code == 0
    assert len(refs(project)) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"complete": False}, "incomplete"),
        ({"dirty": True}, "dirty"),
        ({"tree": "ab" * 20}, "its tree is not that of its commit"),
        ({"made": "rerun"}, "it was made for a comparison (rerun)"),
    ],
)
def test_a_run_that_is_refused_is_told_and_stays(
    project: Project, changes: dict[str, object], said: str
) -> None:
    file = changed(project, **changes)
    before = file.read_bytes()
    result = push("--from-laptop")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert f"is not sent: {said}" in line
    assert line.endswith(f"It stays in {file}")
    assert (refs(project), file.read_bytes()) == ([], before)


def test_beside_a_good_run_a_bad_one_is_passed_over_unless_it_was_named(project: Project) -> None:
    project.run("-k", "case-1", "test_evals.py::test_says_yes")
    assert push("--from-laptop").exit_code == 0
    assert len(refs(project)) == 1
    assert push("--from-laptop", project.path / ".llmeval").exit_code == 1


def test_a_file_that_was_changed_is_not_sent(project: Project) -> None:
    (file,) = project.runs()
    file.write_bytes(file.read_bytes()[:-30])
    result = push("--from-laptop")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert "is cut off before its end" in line
    assert (refs(project), project.runs()) == ([], [file])


def test_without_a_run_there_is_nothing_to_send(project: Project) -> None:
    shutil.rmtree(project.path / ".llmeval")
    assert_refused(push("--from-laptop"), "no run of ", ".llmeval/runs")


@pytest.mark.parametrize("store", ["git+refs://upstream", "git+refs:///nowhere/x.git"])
def test_a_remote_that_cannot_be_reached_is_one_line_and_the_run_stays(
    project: Project, store: str
) -> None:
    result = push("--from-laptop", f"--store={store}")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert f"not sent to {store}: " in line
    assert len(project.runs()) == 1
    assert_refused(llmeval("fetch", f"--store={store}"))


def test_who_may_not_push_is_told_so_and_the_run_stays(project: Project, origin: Path) -> None:
    hook = origin / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    result = push("--from-laptop")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert "pre-receive hook declined" in line
    assert len(project.runs()) == 1


def test_the_store_can_stand_in_the_ini_file(project: Project, origin: Path) -> None:
    ini = project.path / "pytest.ini"
    project.git("remote", "add", "team", str(origin))
    ini.write_text(ini.read_text() + "llm_store = git+refs://team\n")
    assert "git+refs://team" in push("--from-laptop").stdout
    ini.write_text(ini.read_text().replace("git+refs://", "s3://"))
    assert_refused(
        push("--from-laptop"), "llm_store=s3://team in the ini file", "git+refs://origin"
    )
    assert_refused(push("--from-laptop", "--store=origin"), "--store=origin: must be git+refs://")


def test_a_repository_in_the_commit_is_no_store(
    project: Project, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hooks would run in the job that may write, and its runs stand for those of main."""
    shutil.copytree(origin, project.path / "assets")
    hook = project.path / "assets" / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {project.path}/ran\n")
    hook.chmod(0o755)
    ini = project.path / "pytest.ini"
    ini.write_text(ini.read_text() + "llm_store = git+refs://./assets\n")

    for command in (push("--from-laptop"), llmeval("fetch")):
        assert_refused(command, "llm_store=git+refs://./assets in the ini file: an address holds")
    assert not (project.path / "ran").exists()
    result = project.run("--llm-baseline=main")
    assert result.ret == 4
    said = "ERROR: llm_store=git+refs://./assets in the ini file*: an address holds only where it*"
    result.stderr.fnmatch_lines([said])
    in_addopts = "addopts=--llm-store=git+refs://./assets"
    assert project.run("--llm-baseline=main", "-o", in_addopts, "-o", "llm_store=").ret == 4
    assert project.run("--llm-baseline=main", f"--llm-store=git+refs://{origin}").ret == 0


def test_the_token_of_an_address_is_shown_nowhere(project: Project) -> None:
    store = "git+refs://http://user:s3cretTOKEN@127.0.0.1:9/r.git"
    push_result = push("--from-laptop", f"--store={store}")
    shutil.rmtree(project.path / ".llmeval" / "runs")
    project.git("switch", "-qc", "branch")
    project.git("commit", "-q", "--allow-empty", "-m", "here")
    result, report = project.gate("--llm-baseline=main", f"--llm-store={store}")
    misspelt = push("--from-laptop", f"--store=git+{store}")

    texts = (push_result.stderr, str(result.stdout), str(result.stderr), misspelt.stderr)
    assert all("http://***@127.0.0.1:9/r.git" in text for text in (*texts[:1], *texts[2:]))
    assert "s3cret" not in "".join((*texts, json.dumps(report)))


# --- fetch -------------------------------------------------------------------------------


def test_runs_are_brought_home(project: Project, pushed: str) -> None:
    result = llmeval("fetch")
    assert result.exit_code == 0
    folder = project.path / ".llmeval" / "runs"
    assert result.stdout == f"fetched 1 run into {folder}, 0 there already\n"
    assert [file.name for file in project.runs()] == [f"{pushed}.jsonl.gz"]
    assert llmeval("fetch").stdout.startswith("fetched 0 runs ")
    assert pushed in llmeval("list").stdout
    assert llmeval("show", "last").exit_code == 0


@pytest.mark.parametrize("name", ["main", "HEAD", "ID"])
def test_runs_of_one_name_are_brought_home(project: Project, pushed: str, name: str) -> None:
    assert_refused(llmeval("fetch", "nowhere"), f"{STORE} has no run of nowhere")
    result = llmeval("fetch", pushed if name == "ID" else name)
    assert result.stdout.startswith("fetched 1 run ")


def test_a_forged_name_is_passed_over(project: Project, pushed: str) -> None:
    [ref] = refs(project)
    project.git("commit", "-q", "--allow-empty", "-m", "later")
    head = project.git("rev-parse", "HEAD")
    project.git("push", "-q", "origin", "main")
    commit = project.git("ls-remote", "origin", ref).split()[0]
    project.git("fetch", "-q", "origin", ref)
    _, _, _, tree, run_id = ref.split("/")
    project.git("push", "-q", "origin", f"{commit}:refs/llmeval/{head}/{tree}/{run_id}")

    result = llmeval("fetch", "main")
    assert result.exit_code == 0
    assert "its header is not what the name of its ref says" in result.stderr
    assert project.runs() == []


# --- sessions ----------------------------------------------------------------------------


def test_a_session_finds_the_baseline_of_the_team(project: Project, pushed: str) -> None:
    project.git("switch", "-qc", "branch")
    project.write(app='PROMPT = "Say yes to {case}, please. rate=0.2"\n')
    project.commit()
    result, report = project.gate("--llm-baseline=main", f"--llm-store={STORE}")

    assert result.ret == 1
    assert (report["verdict"], report["baseline"]["id"]) == ("regressed", pushed)
    assert len(project.runs()) == 1  # its own: the team's is no run of this directory
    assert refs(project)[0].endswith(pushed)
    assert len(refs(project)) == 1  # sessions only read


def test_the_run_of_an_equal_tree_is_found_in_the_store(project: Project, pushed: str) -> None:
    tree, head = project.git("rev-parse", "HEAD^{tree}"), project.git("rev-parse", "HEAD")
    squashed = project.git("commit-tree", tree, "-m", "of other parents")
    project.git("reset", "-q", "--hard", squashed)
    project.git("switch", "-qc", "branch")
    project.git("commit", "-q", "--allow-empty", "-m", "here")
    _, report = project.gate("--llm-baseline=main", f"--llm-store={STORE}")
    assert (report["baseline"]["id"], report["baseline"]["commit"]) == (pushed, head)
    assert report["baseline"]["how"] == "equal tree"


def test_where_no_run_is_found_the_store_is_named_too(project: Project, pushed: str) -> None:
    [ref] = refs(project)
    project.git("push", "-q", "--delete", "origin", ref)
    result = project.run("--llm-baseline=main", f"--llm-store={STORE}")
    assert result.ret == 4
    assert f"in .llmeval/runs or {STORE}." in result.stderr.str()


def test_a_store_is_not_asked_for_what_is_here_and_named_where_it_cannot_be(
    project: Project, origin: Path
) -> None:
    origin.rename(origin.with_name("moved.git"))
    project.git("switch", "-qc", "branch")
    project.git("commit", "-q", "--allow-empty", "-m", "here")
    result, report = project.gate("--llm-baseline=main", f"--llm-store={STORE}")
    assert result.ret == 0
    assert report["baseline"]["notes"] == []

    shutil.rmtree(project.path / ".llmeval")
    result = project.run("--llm-baseline=main", f"--llm-store={STORE}")
    assert result.ret == 4
    assert f"{STORE} cannot be read" in result.stderr.str()


@pytest.mark.parametrize(("ci", "seconds"), [("", 0.2), ("true", 0.3)])
def test_a_store_that_says_nothing_is_waited_for_longer_in_ci(
    project: Project, monkeypatch: pytest.MonkeyPatch, ci: str, seconds: float
) -> None:
    monkeypatch.setattr(earlier_runs, "_SECONDS_ON_LAPTOP", 0.2)
    monkeypatch.setattr(earlier_runs, "SECONDS", 0.3)
    monkeypatch.setenv("CI", ci)
    shutil.rmtree(project.path / ".llmeval")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, nobody answers
        port = silent.getsockname()[1]
        project.git("remote", "set-url", "origin", f"git://127.0.0.1:{port}/x")
        result = project.run("--llm-baseline=HEAD", f"--llm-store={STORE}", "--no-llm-fetch")
    said = f"no answer within {seconds:g} s"
    assert said in result.stderr.str() + result.stdout.str()


def test_a_mistaken_store_is_one_line_and_exit_4(project: Project) -> None:
    result = project.run("--llm-store=origin", "--llm-baseline=main")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: --llm-store=origin: must be git+refs:// and the name*"])


def test_merged_shards_are_held_against_the_baseline_of_the_team(
    project: Project, pushed: str
) -> None:
    project.git("switch", "-qc", "branch")
    project.git("commit", "-q", "--allow-empty", "-m", "here")
    project.run("--llm-dir=shards/1")
    merge = ("merge", "shards/1", "--baseline=main", "--report=out/r.json")
    assert_refused(llmeval(*merge), "--baseline=main: no complete run recorded")
    assert llmeval(*merge, f"--store={STORE}").exit_code == 0
    document = json.loads((project.path / "out" / "r.json").read_text())
    assert document["baseline"]["id"] == pushed


def test_runs_that_git_tracks_are_no_runs_of_a_team(project: Project, pushed: str) -> None:
    borrowed = project.path / ".llmeval" / "borrowed" / "x.jsonl.gz"
    borrowed.parent.mkdir(parents=True)
    borrowed.write_bytes(b"")
    project.git("add", "-f", str(borrowed))
    assert_refused(llmeval("fetch"), "git tracks .llmeval/borrowed/x.jsonl.gz")
    assert_refused(push("--from-laptop"), "git tracks")
