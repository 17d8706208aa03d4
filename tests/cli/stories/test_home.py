"""The command looks where a session in the same folder keeps its runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_llmeval.cli.arguments import Home
from pytest_llmeval.errors import SettingsError
from tests.project import INI, Project
from tests.stories.test_cli import assert_refused, llmeval

SOMEBODY = 4242


@pytest.fixture
def deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a strange ``.llmeval`` above it."""
    folder = tmp_path / "upper" / "project" / "evals"
    folder.mkdir(parents=True)
    (tmp_path / ".llmeval").mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_without_an_ini_file_or_git_it_is_the_working_directory(deep: Path) -> None:
    assert Home(None).path == deep / ".llmeval"


def test_without_an_ini_file_it_is_the_top_of_git(deep: Path) -> None:
    (deep.parent / ".git").mkdir()
    assert Home(None).path == deep.parent / ".llmeval"


def test_without_an_ini_file_a_setup_py_makes_the_root(deep: Path) -> None:
    (deep.parent / "setup.py").touch()
    assert Home(None).path == deep.parent / ".llmeval"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", ""),
        ("pytest.toml", ""),
        ("pyproject.toml", "[tool.pytest.ini_options]"),
        ("pyproject.toml", "[project]\nname = 'x'"),
        ("tox.ini", "[pytest]"),
        ("setup.cfg", "[tool:pytest]"),
    ],
)
def test_it_lies_beside_the_ini_file(
    deep: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    (deep.parent / name).write_text(text)
    (deep.parent.parent / ".git").mkdir()
    for other in ("tox.ini", "setup.cfg", "pytest.toml.bak"):
        (deep / other).write_text("[other]")
    monkeypatch.chdir(deep)

    assert Home(None).path == deep.parent / ".llmeval"

    assert pytester.parseconfig(str(deep)).rootpath == deep.parent


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\nllm_dir = kept\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\nllm_dir = 'kept'"),
        ("pyproject.toml", "[tool.pytest]\nllm_dir = 'kept'"),
        ("pytest.toml", "[pytest]\nllm_dir = 'kept'"),
    ],
)
def test_the_ini_file_may_name_it(deep: Path, name: str, text: str) -> None:
    (deep.parent / name).write_text(text)
    assert Home(None).path == deep.parent / "kept"


@pytest.mark.parametrize("text", ["[", "tool = 1", "[tool]\npytest = 2", "\x00"])
def test_an_ini_file_that_cannot_be_read_names_nothing(deep: Path, text: str) -> None:
    (deep.parent / "pyproject.toml").write_text(text)
    assert Home(None).path == deep.parent / ".llmeval"


def test_what_is_named_is_taken_as_it_is(deep: Path) -> None:
    assert Home(Path("x")).path == deep / "x"


@pytest.fixture
def stranger(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project of this user, whose store is another one's."""
    project.run("-q", "--llm-repeats=1")
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(project.path / ".llmeval", SOMEBODY, SOMEBODY)
    monkeypatch.chdir(project.path)
    return project


def test_a_store_of_somebody_else_is_refused_by_the_command(stranger: Project) -> None:
    assert_refused(llmeval("list"), f"belongs to user {SOMEBODY}", "--dir")
    assert llmeval("list", "--dir=.llmeval").exit_code == 0
    assert llmeval("plan", "--rates=0.5,0.9").exit_code == 0  # this looks at no store


@pytest.mark.parametrize("arguments", [(), ("--llm-baseline=main",)])
def test_a_store_of_somebody_else_is_refused_by_the_session(
    stranger: Project, arguments: tuple[str, ...]
) -> None:
    result = stranger.run(*arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *.llmeval belongs to user {SOMEBODY}, *--llm-dir*"])
    assert stranger.run("--llm-dir=.llmeval", *arguments).ret == 0


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("llm_dir = .llmeval", ()),
        ("llm_dir = .llmeval", ("-n", "1")),
        ("addopts = --llm-dir=.llmeval", ()),
        ("addopts = --llm-dir=.llmeval", ("--llm-baseline=main",)),
    ],
)
def test_a_file_of_settings_cannot_say_that_somebody_else_is_trusted(
    stranger: Project, line: str, arguments: tuple[str, ...]
) -> None:
    stranger.write(pytest_ini=f"{INI}{line}\n")

    result = stranger.run(*arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines([f"ERROR: *.llmeval belongs to user {SOMEBODY}, *--llm-dir=*"]) if (
        "-n" in arguments
    ) else result.stderr.fnmatch_lines([f"ERROR: *.llmeval belongs to user {SOMEBODY}, *"])
    assert stranger.run("--llm-dir", ".llmeval", "--llm-repeats=1", *arguments).ret == 0


def test_the_command_trusts_nobody_whom_the_ini_file_names(stranger: Project) -> None:
    stranger.write(pytest_ini=f"{INI}llm_dir = .llmeval\n")
    assert_refused(llmeval("list"), f"belongs to user {SOMEBODY}", "--dir")
    assert llmeval("list", "--dir=.llmeval").exit_code == 0


def test_an_ordinary_session_does_not_look_at_a_store(stranger: Project) -> None:
    stranger.write(test_plain="def test_ordinary(): pass")
    assert stranger.run("test_plain.py").ret == 0


def test_a_store_of_the_projects_owner_will_do(stranger: Project) -> None:
    os.chown(stranger.path, SOMEBODY, SOMEBODY)
    assert llmeval("list").exit_code == 0


def test_commands_go_back_as_far_as_the_ini_file_lets_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Home(None).refs.reach == 50
    ini = tmp_path / "pytest.ini"

    ini.write_text("[pytest]\nllm_baseline_reach = 80\n")
    assert Home(None).refs.reach == 80

    ini.write_text("[pytest]\nllm_baseline_reach = far\n")
    with pytest.raises(SettingsError, match="llm_baseline_reach=far in the ini file: "):
        _ = Home(None).refs
