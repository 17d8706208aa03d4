"""The README, walked by somebody who has nothing yet: ``make test-readme``.

The wheel is built and installed with what it needs, in an environment of its own. The home is
empty, and a server on this machine stands in for the vendor.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks, commands
from tests.servers.openai_server import OpenAIServer

INSTALL, EXPORT, RECORD, SWITCH, COMPARE, DEMO = commands("README.md")
CAPITALS = {"France": "Paris", "Peru": "Lima"}


def answer(body: Mapping[str, Any], number: int) -> str:
    """Know two capitals, to whoever asks for a capital."""
    question = body["messages"][-1]["content"]
    known = [city for country, city in CAPITALS.items() if country in question]
    return known[0] if known and "capital" in question else f"no idea ({number})"


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
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=in_folder or self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
        )
        return done.returncode, done.stdout

    def commits(self) -> None:
        someone = "-c user.name=Someone -c user.email=someone@example.org"
        assert self.types(f"git add . && git {someone} commit -qm change")[0] == 0

    def edits(self, old: str, new: str) -> None:
        path = self.folder / "test_capitals.py"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        self.commits()


@pytest.fixture
def reader(environment: Path, tmp_path: Path) -> Iterator[Reader]:
    (evals,), (settings,) = (blocks("README.md", language=name) for name in ("python", "ini"))
    reader = Reader(environment, tmp_path)
    (reader.folder / "test_capitals.py").write_text(evals.text)
    (reader.folder / "pytest.ini").write_text(settings.text)
    assert reader.types("git init -q -b main")[0] == 0
    reader.commits()
    with OpenAIServer(answer) as server:
        reader.types(f"export OPENAI_BASE_URL={server.url}")
        yield reader


def test_the_readme_works_from_the_installation_to_a_regression(reader: Reader) -> None:
    reader.types(EXPORT)
    code, output = reader.types(RECORD)
    assert code == 0, output
    assert "10 calls made" in output

    assert reader.types(SWITCH)[0] == 0
    code, output = reader.types(COMPARE)
    assert code == 0, output
    assert "0 calls made, 10 replayed" in output

    reader.edits("Name the capital of", "Say the capital of")
    code, output = reader.types(COMPARE)
    assert code == 0, output
    assert "10 calls made" in output

    reader.edits("Say the capital of", "Say the largest city of")
    code, output = reader.types(COMPARE)
    assert code == 1, output
    assert "REGRESSED" in output
    (read_both,) = re.findall(r"^read both replies:\s+(llmeval diff .*)$", output, re.MULTILINE)
    code, output = reader.types(read_both)
    assert code == 0, output
    assert "no idea" in output


def test_the_demo_of_the_readme_runs_in_a_clone(
    environment: Path, reader: Reader, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    assert reader.types(f"git clone -q {ROOT} {clone}")[0] == 0
    ready = environment / ".ready"
    ready.touch()
    os.utime(ready, (ready.stat().st_atime, ready.stat().st_mtime + 60))

    code, output = reader.types(f"{DEMO} VENV={environment}", in_folder=clone)

    assert code == 0, output
    assert "REGRESSED" in output
