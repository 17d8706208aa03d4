"""``llmeval init``: an example to begin with, its ini file, and the workflow for CI."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path

import click

from pytest_llmeval.cli.arguments import root_and_ini, settings_of
from pytest_llmeval.runs.git import ask, read_state
from pytest_llmeval.runs.lookup.wanted_commit import default_of_origin

_FOLDER = "evals"
_EXAMPLE = {"test_team.py": "test_team.py.txt", "example_model.py": "example_model.py.txt"}
_SETTINGS = {"pythonpath": _FOLDER, "llm_model": "function/example_model:answer"}
_GITHUB, _GITLAB = Path(".github/workflows/evals.yml"), Path(".gitlab-ci.yml")
_INSTALL = "pip install -e . pytest-llm-baseline"  # as the recipes have it
_NEXT = """
next:
  git add . && git commit -m evals
  pytest {folder}    records a run
  git switch -c shorter    then take the line on refunds out of {example}
  pytest {folder} --llm-baseline={branch}    is it worse, or was that noise?"""


@click.command("init")
def init_command() -> None:
    """Write an example eval, the ini lines for it, and the workflow for GitHub or GitLab.

    Nothing is overwritten. The example asks a function that stands in for a model: no key is
    needed, and nothing is paid.
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
    if workflow is None:
        click.echo("no workflow: no remote is GitHub's or GitLab's (docs/ci.md has both)")
    else:
        text = _starter(starter).replace("branches: [main]", f"branches: [{branch}]")
        _write(git.top / workflow, text.replace(_INSTALL, _install(here)))
    example = f"{_FOLDER}/test_team.py"
    click.echo(_NEXT.format(folder=_FOLDER, example=example, branch=shlex.quote(branch)))


def _write(path: Path, text: str) -> None:
    """Write a file that is not there, and say so."""
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        click.echo(f"left as it is: {shown}")
    else:
        click.echo(f"wrote {shown}")


def _write_settings(here: Path) -> None:
    """Write the ini lines where there is a place for them, or say which they are."""
    _, ini = root_and_ini(here)
    lines = "\n".join(f"{name} = {value}" for name, value in _SETTINGS.items())
    if ini is None:
        _write(here / "pytest.ini", f"[pytest]\n{lines}\n")
    elif ini.name == "pyproject.toml" and settings_of(ini) is None:
        quoted = "\n".join(f'{name} = "{value}"' for name, value in _SETTINGS.items())
        with ini.open("a", encoding="utf-8") as file:
            file.write(f"\n[tool.pytest.ini_options]\n{quoted}\n")
        click.echo(f"wrote [tool.pytest.ini_options] at the end of {ini.name}")
    elif "llm_model" not in (settings_of(ini) or {}):
        click.echo(f"add to {ini.name}:")
        click.echo(f"  {lines.replace(chr(10), f'{chr(10)}  ')}")


def _host(top: Path) -> tuple[Path | None, str]:
    """Find the host of the repository, by its remote or by what is there for it."""
    remote = ask(top, "remote", "get-url", "origin") or ""
    if (top / _GITHUB.parts[0]).is_dir() or "github" in remote:
        return _GITHUB, "github.yml"
    if (top / _GITLAB).is_file() or "gitlab" in remote:
        return _GITLAB, "gitlab.yml"
    return None, ""


def _install(here: Path) -> str:
    """Write what installs the project in a job, and this package with it."""
    if (here / "pyproject.toml").is_file() or (here / "setup.py").is_file():
        return _INSTALL
    requirements = "-r requirements.txt " if (here / "requirements.txt").is_file() else ""
    return f"pip install {requirements}pytest-llm-baseline"


def _starter(name: str) -> str:
    return files(__package__).joinpath("starters", name).read_text(encoding="utf-8")
