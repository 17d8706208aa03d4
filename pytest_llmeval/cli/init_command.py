"""``llmeval init``: an example to begin with, its ini file, and the workflow for CI."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path, PurePosixPath

import click

from pytest_llmeval.cli.arguments import ini_words, root_and_ini, settings_of
from pytest_llmeval.runs.git import ask, read_state
from pytest_llmeval.runs.lookup.wanted_commit import default_of_origin
from pytest_llmeval.safe_text import printable

_FOLDER = "evals"
_EXAMPLE = {"test_team.py": "test_team.py.txt", "example_model.py": "example_model.py.txt"}
_MODEL = "function/example_model:answer"
_GITHUB, _GITLAB = Path(".github/workflows/evals.yml"), Path(".gitlab-ci.yml")
_HOST = re.compile(r"(?:\w+://)?(?:[^@/]*@)?([^/:]+)[/:]")  # of the address of a remote
_INSTALL = "pip install -e . pytest-llm-baseline"  # as the recipes have it
_NEXT = """
next:
  git add . && git commit -m evals
  pytest {folder}    records a run
  git switch -c shorter    then take the line on refunds out of {example}
  pytest {folder} --llm-baseline={branch}    is it worse, or was that noise?"""


@click.command("init")
def init_command() -> None:
    """Write an example eval, its ini lines and a CI workflow.

    The workflow is for GitHub or GitLab. Nothing is overwritten. In the example a Python function
    takes the place of a model: it needs no key and costs nothing.
    """
    here = Path.cwd()
    git = read_state(here)
    branch = (git.top and default_of_origin(git.top)) or git.branch or "main"
    if git.top is None:
        raise click.UsageError(
            "there is no git repository here, and runs are recorded for commits:  git init"
        )
    for name, starter in _EXAMPLE.items():
        _write(here / _FOLDER / name, _starter(starter))
    _write_settings(here)
    workflow, starter = _host(git.top)
    if root_and_ini(here)[0] != git.top:
        click.echo(f"no workflow: jobs start in {git.top}, the evals are below (docs/ci.md)")
    elif workflow is None:
        click.echo("no workflow: no remote is GitHub's or GitLab's (docs/ci.md has both)")
    else:
        quoted = branch if re.fullmatch("[a-z]{4,}", branch) else json.dumps(branch)
        text = _starter(starter).replace("branches: [main]", f"branches: [{quoted}]")
        _write(git.top / workflow, text.replace(_INSTALL, _install(git.top)))
    example = f"{_FOLDER}/test_team.py"
    click.echo(_NEXT.format(folder=_FOLDER, example=example, branch=shlex.quote(branch)))


def _write(path: Path, text: str) -> None:
    """Write a file that is not there, and say so."""
    shown = printable(os.path.relpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        click.echo(f"left as it is: {shown}")
    else:
        click.echo(f"wrote {shown}")


def _write_settings(here: Path) -> None:
    """Write the ini lines if an ini file has room for them, or print these lines."""
    _, ini = root_and_ini(here)
    settings = None if ini is None else settings_of(ini)
    if ini is None or (settings is None and ini.parent != here):  # leave other projects alone
        text = f"[pytest]\npythonpath = {_FOLDER}\nllm_model = {_MODEL}\nllm_sequential = true\n"
        _write(here / "pytest.ini", text)
        return
    folder = (here / _FOLDER).relative_to(ini.parent).as_posix()
    wanted = {"pythonpath": folder, "llm_model": _MODEL}
    if ini.suffix == ".toml":
        wanted = {"pythonpath": json.dumps([folder]), "llm_model": json.dumps(_MODEL)}
    wanted["llm_sequential"] = "true"
    has = {name: _reaches(ini_words(name), folder) for name in ("pythonpath", "testpaths")}
    lines = [f"{name} = {value}" for name, value in wanted.items() if not has.get(name)]
    if settings is None and ini.name == "pyproject.toml":
        newline = "\r\n" if b"\r\n" in ini.read_bytes() else "\n"
        with ini.open("a", encoding="utf-8", newline=newline) as file:
            file.write("\n".join(["", "[tool.pytest.ini_options]", *lines, ""]))
        click.echo(f"wrote [tool.pytest.ini_options] at the end of {ini.name}")
    elif settings is None or "llm_model" not in settings:
        click.echo(printable(f"add to {os.path.relpath(ini)}:"))
        for line in lines:
            besides = "    (besides what is there)" if line.split()[0] in (settings or ()) else ""
            click.echo(f"  {line}{besides}")
        if "testpaths" in (settings or ()) and not has["testpaths"]:
            click.echo(f"  and {folder} to its testpaths")


def _reaches(paths: Sequence[str], folder: str) -> bool:
    return any(PurePosixPath(folder).is_relative_to(path) for path in paths)


def _host(top: Path) -> tuple[Path | None, str]:
    """Find the host of the repository, by its remote or by files for a host."""
    found = _HOST.match(ask(top, "remote", "get-url", "origin") or "")
    host = found[1] if found else ""
    if (top / _GITHUB.parts[0]).is_dir() or "github" in host:
        return _GITHUB, "github.yml"
    if (top / _GITLAB).is_file() or "gitlab" in host:
        return _GITLAB, "gitlab.yml"
    return None, ""


def _install(top: Path) -> str:
    """Write the command that installs the project and this package in a job."""
    if (top / "pyproject.toml").is_file() or (top / "setup.py").is_file():
        return _INSTALL
    requirements = "-r requirements.txt " if (top / "requirements.txt").is_file() else ""
    return f"pip install {requirements}pytest-llm-baseline"


def _starter(name: str) -> str:
    return files(__package__).joinpath("starters", name).read_text(encoding="utf-8")
