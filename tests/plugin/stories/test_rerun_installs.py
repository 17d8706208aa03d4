"""The base is tested by --llm-on-missing=rerun however the application was installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.ci.origin import run_git
from tests.conftest import NO_PLUGINS

SETUPTOOLS = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "bot"
version = "1"
"""
HATCHLING = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "bot"
version = "1"
"""
EVALS = """
import os
import bot
import pytest
from pytest_llmeval import llm_eval

def answer(messages, **_):
    with open(os.environ["ASKED"], "a") as file:
        file.write(f"{bot.__file__} {bot.VERSION}\\n")
    return messages[-1]["content"]

@pytest.mark.parametrize("case", "abcdef")
@llm_eval(repeats=1)
def test_it(llm, case):
    assert llm.ask(f"{case} {bot.VERSION}").text.endswith("base")
"""


class Installed:
    """A project whose package is installed in an environment of its own."""

    def __init__(self, folder: Path, *, package: str, pyproject: str) -> None:
        self.path = folder / "project"
        self._package = self.path / package
        self._python = folder / "venv" / "bin" / "python"
        self._asked = folder / "asked"
        self._package.mkdir(parents=True)
        (self.path / "pyproject.toml").write_text(dedent(pyproject))
        (self.path / "pytest.ini").write_text("[pytest]\nllm_model = function/test_it:answer\n")
        (self.path / ".gitignore").write_text("__pycache__/\nbuild/\n*.egg-info/\n.llmeval/\n")
        tests = self.path / "tests"
        tests.mkdir()
        (tests / "test_it.py").write_text(EVALS)
        run_git(self.path, "init", "--quiet", "--initial-branch=main")
        self.commit("base")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        site = sysconfig.get_path("purelib", vars={"base": str(folder / "venv")})
        # All but the application is that of this process.
        paths = "".join(f"import site; site.addsitedir({path!r})\n" for path in sys.path[1:])
        Path(site, "tests.pth").write_text(paths)

    def commit(self, version: str) -> str:
        (self._package / "__init__.py").write_text(f"VERSION = {version!r}\n")
        run_git(self.path, "add", "--all")
        run_git(self.path, "commit", "--quiet", "--message=change")
        return run_git(self.path, "rev-parse", "HEAD")

    def install(self, *how: str) -> None:
        quiet = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
        pip = (sys.executable, "-m", "pip", "--python", self._python, "install", *quiet)
        subprocess.run([*pip, "--disable-pip-version-check", *how], cwd=self.path, check=True)

    def gate(self) -> tuple[int, dict[str, Any], str]:
        """Hold what is checked out against main, of which there is no run."""
        options = ("--llm-baseline=main", "--llm-on-missing=rerun", "--llm-report=../report.json")
        done = subprocess.run(
            [self._python.with_name("python"), "-P", "-m", "pytest", "-q", *options],
            cwd=self.path,
            env=os.environ | {"ASKED": str(self._asked), "PYTEST_ADDOPTS": NO_PLUGINS},
            capture_output=True,
            text=True,
            check=False,
        )
        report = self.path.parent / "report.json"
        found = json.loads(report.read_text()) if report.exists() else {}
        return done.returncode, found, done.stdout + done.stderr

    def asked(self) -> list[tuple[bool, str]]:
        """What was tested, trial by trial: a package of the worktree?, and its version."""
        lines = [line.split() for line in self._asked.read_text().splitlines()]
        return [("llmeval-" in file, version) for file, version in lines]


CASES = {
    "setuptools-flat": ("bot", SETUPTOOLS + '[tool.setuptools]\npackages = ["bot"]\n', ("-e", ".")),
    "hatchling-src": ("src/bot", HATCHLING, ("-e", ".")),
    "copy": ("src/bot", HATCHLING, (".",)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_package_of_the_base_is_tested(name: str, tmp_path: Path) -> None:
    package, pyproject, how = CASES[name]
    project = Installed(tmp_path, package=package, pyproject=pyproject)
    run_git(project.path, "switch", "--quiet", "--create", "feature")
    project.commit("no")
    project.install(*how)

    status, report, output = project.gate()

    assert status == pytest.ExitCode.TESTS_FAILED, output
    assert project.asked() == [(True, "base")] * 6 + [(False, "no")] * 6
    assert report["baseline"]["how"] == "rerun"


@pytest.mark.parametrize("package", ["lib/thing", "lib/bot"])
def test_a_copy_that_the_base_cannot_take_the_place_of_is_named(
    tmp_path: Path, package: str
) -> None:
    where = f'[tool.hatch.build.targets.wheel.force-include]\n"{package}" = "bot"\n'
    project = Installed(tmp_path, package=package, pyproject=HATCHLING + where)
    run_git(project.path, "switch", "--quiet", "--create", "feature")
    project.commit("no")
    project.install(".")
    if package == "lib/bot":  # as from an index: nothing says where it was built
        (note,) = tmp_path.rglob("direct_url.json")
        note.unlink()

    status, report, output = project.gate()

    assert (status, report["verdict"]) == (pytest.ExitCode.USAGE_ERROR, "could_not_judge")
    assert re.search(r"is no baseline: it read \S+/site-packages/bot/__init__.py", output)
    assert project.asked() == [(False, "no")] * 6
