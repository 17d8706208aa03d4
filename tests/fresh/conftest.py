"""An environment with the wheel alone, and somebody who types commands in it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, commands

INSTALL, *_ = commands("README.md")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with the wheel, as pip installs it."""
    folder = tmp_path_factory.mktemp("fresh")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    subprocess.run([*pip, *build], check=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (wheel,) = folder.glob("*.whl")
    name = shlex.split(INSTALL)[-1]
    assert wheel.name.startswith(name.replace("-", "_"))
    typed = [str(wheel) if word == name else word for word in shlex.split(INSTALL)]
    assert typed[:2] == ["pip", "install"]
    python = folder / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "--quiet", *typed[1:]], check=True)
    return folder / "venv"


class Reader:
    """Somebody who types commands, in a repository of their own and with an empty home."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.folder = folder / "application"
        (folder / "home").mkdir()
        (folder / "home" / ".gitconfig").write_text(
            "[user]\n\tname = Someone\n\temail = someone@example.org\n"
        )
        self.folder.mkdir()
        self._environ = {
            "PATH": os.pathsep.join([str(environment / "bin"), "/usr/local/bin:/usr/bin:/bin"]),
            "HOME": str(folder / "home"),
            "COLUMNS": "100",
        }

    def types(self, command: str, *, in_folder: Path | None = None) -> tuple[int, str]:
        """Run a line in a shell; return its exit code and what it printed."""
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._environ[name] = value
            return 0, ""
        where = Path(self._environ["HOME"]) / "where"
        done = subprocess.run(
            ["bash", "-c", f"{command}\ncode=$?; pwd > {where}; exit $code"],
            cwd=in_folder or self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        if in_folder is None:
            self.folder = Path(where.read_text().rstrip("\n"))
        return done.returncode, done.stdout

    def edits(self, path: str, old: str, new: str) -> None:
        text = (self.folder / path).read_text()
        assert old in text
        (self.folder / path).write_text(text.replace(old, new))

    def commits(self) -> None:
        assert self.types("git add . && git commit -qm change")[0] == 0


@pytest.fixture
def newcomer(environment: Path, tmp_path: Path) -> Reader:
    return Reader(environment, tmp_path)
