"""``llmeval init``: what it writes works, and overwrites nothing."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pytest_llmeval.cli import main
from tests.ci.test_recipes import GITHUB, GITLAB, blocks
from tests.project import Project, make_project

EXAMPLE = ("evals/test_team.py", "evals/example_model.py")


def init() -> Result:
    return CliRunner().invoke(main, ["init"])


def recipe(path: str) -> str:
    """The first file of this path that the pages show."""
    return next(block.text for block in blocks() if block.path == path)


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A repository with nothing of ours in it, whose origin is at GitHub."""
    project = make_project(pytester)
    for path in (*project.path.glob("*.py"), project.path / "pytest.ini"):
        path.unlink()
    project.git("remote", "add", "origin", "https://github.com/somebody/something.git")
    monkeypatch.chdir(project.path)
    return project


def test_the_example_goes_from_green_to_red(repository: Project) -> None:
    result = init()
    assert result.exit_code == 0, result.output
    repository.commit("evals")

    assert repository.run("evals").ret == 0
    example = repository.path / EXAMPLE[0]
    lines = example.read_text().splitlines(keepends=True)
    example.write_text("".join(line for line in lines if not line.startswith("A refund")))
    ended = repository.run("evals", "--llm-baseline=main")

    assert ended.ret == 1
    ended.stdout.fnmatch_lines(["REGRESSED: 1 function vs main@*"])
    assert "pytest evals --llm-baseline=main" in result.output


def test_the_workflows_are_those_of_the_pages(repository: Project) -> None:
    (repository.path / "pyproject.toml").write_text("[project]\nname = 'app'\n")
    init()
    assert (repository.path / GITHUB).read_text() == recipe(GITHUB)

    repository.git("remote", "set-url", "origin", "git@gitlab.com:somebody/something.git")
    (repository.path / GITHUB).unlink()
    (repository.path / ".github" / "workflows").rmdir()
    (repository.path / ".github").rmdir()
    init()
    assert (repository.path / GITLAB).read_text() == recipe(GITLAB)


def test_the_workflow_knows_the_default_branch_and_what_to_install(repository: Project) -> None:
    repository.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
    repository.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
    (repository.path / "requirements.txt").write_text("")

    assert "--llm-baseline=trunk" in init().output

    workflow = (repository.path / GITHUB).read_text()
    assert "branches: [trunk]" in workflow
    assert "pip install -r requirements.txt pytest-llm-baseline\n" in workflow


def test_nothing_is_overwritten(repository: Project) -> None:
    init()
    for path in (*EXAMPLE, "pytest.ini", GITHUB):
        (repository.path / path).write_text("[pytest]\nllm_model = mine\n")

    result = init()

    assert result.exit_code == 0
    assert "wrote" not in result.output
    for path in (*EXAMPLE, "pytest.ini", GITHUB):
        assert (repository.path / path).read_text() == "[pytest]\nllm_model = mine\n"


def test_an_ini_file_that_is_there_is_left_alone(repository: Project) -> None:
    (repository.path / "tox.ini").write_text("[pytest]\naddopts = -q\n")

    output = init().output

    assert "add to tox.ini:\n  pythonpath = evals\n  llm_model = function/exam" in output
    assert not (repository.path / "pytest.ini").exists()


def test_a_pyproject_gets_a_table_at_its_end(repository: Project) -> None:
    (repository.path / "pyproject.toml").write_text("[project]\nname = 'app'")

    init()

    written = tomllib.loads((repository.path / "pyproject.toml").read_text())
    assert written["project"] == {"name": "app"}
    assert written["tool"]["pytest"]["ini_options"]["llm_model"] == "function/example_model:answer"
    assert written["tool"]["pytest"]["ini_options"]["llm_sequential"] is True
    assert "end of pyproject.toml" not in init().output


@pytest.mark.parametrize("table", ["tool.pytest", "tool.pytest.ini_options"])
def test_the_lines_to_add_can_be_pasted_as_they_are(repository: Project, table: str) -> None:
    below = repository.path / "services" / "shop"
    below.mkdir(parents=True)
    pyproject = repository.path / "pyproject.toml"
    pyproject.write_text(f'[{table}]\ntestpaths = ["tests"]\n')
    os.chdir(below)

    lines = init().output.splitlines()

    at = lines.index(f"add to {Path('..', '..', 'pyproject.toml')}:")
    assert lines[at + 4] == "  and services/shop/evals to its testpaths"
    with pyproject.open("a") as file:
        file.write("\n".join(line.strip() for line in lines[at + 1 : at + 4]))
    table_of = tomllib.loads(pyproject.read_text())["tool"]["pytest"]
    known = table_of.get("ini_options", table_of)
    assert known["pythonpath"] == ["services/shop/evals"]
    assert known["llm_model"] == "function/example_model:answer"
    assert known["llm_sequential"] is True
    assert (repository.path / GITHUB).is_file()


def test_a_setting_that_is_there_is_to_be_kept(repository: Project) -> None:
    (repository.path / "tox.ini").write_text("[pytest]\npythonpath = src\n")

    assert "  pythonpath = evals    (besides what is there)\n  llm_model =" in init().output


@pytest.mark.parametrize("paths", ["evals", "tests evals/", "."])
def test_paths_that_are_there_already_are_not_named(repository: Project, paths: str) -> None:
    (repository.path / "tox.ini").write_text(f"[pytest]\ntestpaths = {paths}\npythonpath = evals\n")

    output = init().output

    assert "add to tox.ini:\n  llm_model = function/example_model:answer\n  llm_seq" in output
    assert "testpaths" not in output


def test_a_folder_of_a_repository_gets_an_ini_file_of_its_own(repository: Project) -> None:
    below = repository.path / "services"
    below.mkdir()
    pyproject = repository.path / "pyproject.toml"
    pyproject.write_text("[project]\nname = 'another'\n")
    os.chdir(below)

    output = init().output

    assert pyproject.read_text() == "[project]\nname = 'another'\n"
    assert "wrote pytest.ini" in output
    assert f"no workflow: jobs start in {repository.path}" in output
    assert not (repository.path / ".github").exists()


def test_ends_of_lines_stay_as_they_are(repository: Project) -> None:
    (repository.path / "pyproject.toml").write_bytes(b"[project]\r\nname = 'app'\r\n")

    init()

    content = (repository.path / "pyproject.toml").read_bytes()
    assert content.count(b"\n") == content.count(b"\r\n") == 7


def test_a_file_where_the_folder_should_be_is_no_example(repository: Project) -> None:
    (repository.path / "evals").write_text("")

    result = init()

    assert result.exit_code == 4
    assert "evals: File exists" in result.stderr
    assert "left as it is" not in result.output


@pytest.mark.parametrize(
    ("address", "workflow"),
    [
        ("git@github.com:o/r.git", GITHUB),
        ("ssh://git@gitlab.example.com:2222/o/r.git", GITLAB),
        ("https://github:token@dev.azure.com/github/p/_git/r", None),
        ("/srv/github/r.git", None),
    ],
)
def test_the_host_is_that_of_the_address(
    repository: Project, address: str, workflow: str | None
) -> None:
    repository.git("remote", "set-url", "origin", address)
    repository.git("switch", "-c", 'odd"]')

    init()

    written = {path for path in (GITHUB, GITLAB) if (repository.path / path).exists()}
    assert written == ({workflow} if workflow else set())
    if workflow == GITHUB:
        assert r'branches: ["odd\"]"]' in (repository.path / GITHUB).read_text()


def test_without_a_host_there_is_no_workflow(repository: Project) -> None:
    repository.git("remote", "remove", "origin")

    assert "no workflow: no remote is GitHub's or GitLab's" in init().output
    assert not (repository.path / ".github").exists()


def test_without_a_repository_it_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = init()

    assert result.exit_code == 4
    assert result.output.strip().endswith("runs are recorded for commits:  git init")
    assert not list(tmp_path.iterdir())
