"""The commands of docs/sharing.md, typed in the jobs and on the machines that it speaks of."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import commands
from tests.project import Project
from tests.stories.test_cli import llmeval

SPLIT, MERGE, GATE, PUSH, FETCH, THIN_OUT = commands("docs/sharing.md")
# what pytest-split does
CONFTEST = """
    def pytest_addoption(parser):
        parser.addoption("--splits", type=int)
        parser.addoption("--group", type=int)

    def pytest_collection_modifyitems(config, items):
        splits, group = config.getoption("splits"), config.getoption("group")
        if splits:
            mine = items[group - 1 :: splits]
            config.hook.pytest_deselected(items=[item for item in items if item not in mine])
            items[:] = mine
"""


@pytest.fixture
def project(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    project.write(conftest=CONFTEST)
    project.commit("main")
    monkeypatch.chdir(project.path)
    return project


def words(command: str) -> list[str]:
    return shlex.split(command)[1:]


def test_a_suite_in_four_jobs_is_judged_once(project: Project) -> None:
    project.run()
    for group in "1234":
        split = [word if word != "1" else group for word in words(SPLIT)]
        assert project.run(*split, f"--llm-dir=shards/{group}").ret == 0
    shards = sorted(map(str, Path("shards").iterdir()))
    typed = [name for word in words(MERGE) for name in (shards if "*" in word else [word])]

    result = llmeval(*typed)

    assert result.exit_code == 0, result.output
    assert "20 cases" in result.stdout


def test_a_run_goes_to_the_store_and_comes_home(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = tmp_path_factory.mktemp("origin") / "origin.git"
    project.git("clone", "-q", "--bare", str(project.path), str(origin))
    project.git("remote", "add", "origin", str(origin))
    with monkeypatch.context() as job:
        commit = project.git("rev-parse", "HEAD")
        facts = {"ACTIONS": "true", "EVENT_NAME": "push", "SHA": commit}
        for name, text in facts.items():
            job.setenv(f"GITHUB_{name}", text)
        project.run()
        assert llmeval(*words(PUSH)).exit_code == 0
    shutil.rmtree(".llmeval")
    project.git("switch", "-qc", "branch")
    project.git("commit", "-q", "--allow-empty", "-m", "nothing")

    result = project.run(*words(GATE), "--llm-store=git+refs://origin")
    fetched = llmeval(*words(FETCH), "--store=git+refs://origin")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*baseline main@*"])
    assert fetched.exit_code == 0, fetched.output
    assert subprocess.run(THIN_OUT, shell=True, check=False).returncode == 0  # noqa: S602
    assert not project.git("ls-remote", "origin", "refs/llmeval/*")


def test_what_is_thinned_out_is_the_oldest_whatever_its_commit_is_called(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    origin = tmp_path_factory.mktemp("origin") / "origin.git"
    project.git("clone", "-q", "--bare", str(project.path), str(origin))
    project.git("remote", "add", "origin", str(origin))
    for letter, day in zip("fab", (1, 2, 3), strict=True):
        name = f"refs/llmeval/{letter * 40}/{'0' * 40}/2026110{day}T000000-000000"
        project.git("push", "-q", "origin", f"HEAD:{name}")

    command = THIN_OUT.replace("head -100", "head -2")
    assert subprocess.run(command, shell=True, check=False).returncode == 0  # noqa: S602

    [left] = project.git("ls-remote", "origin", "refs/llmeval/*").splitlines()
    assert left.endswith("20261103T000000-000000")
