"""The README, walked by somebody who has nothing yet: ``make test-readme``.

The home is empty, and a server on this machine stands in for the vendor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks, commands, in_backticks
from tests.fresh.conftest import Reader
from tests.servers.openai_server import OpenAIServer

_, EXPORT, RECORD, SWITCH, COMPARE = commands("README.md")
(DEMO,) = (typed for typed in in_backticks("README.md") if typed.startswith("make "))
CAPITALS = {"France": "Paris", "Peru": "Lima"}


def answer(body: Mapping[str, Any], number: int) -> str:
    """Know two capitals, to whoever asks for a capital."""
    question = body["messages"][-1]["content"]
    known = [city for country, city in CAPITALS.items() if country in question]
    return known[0] if known and "capital" in question else f"no idea ({number})"


@pytest.fixture
def reader(newcomer: Reader) -> Iterator[Reader]:
    application, evals = blocks("README.md", language="python")
    without_one = blocks("docs/models.md", language="python")[0]
    (newcomer.folder / "app.py").write_text(application.text)
    (newcomer.folder / "test_capitals.py").write_text(evals.text)
    # beside the application's evals, and asked for by name alone
    (newcomer.folder / "without_an_application.py").write_text(without_one.text)
    (newcomer.folder / "pytest.ini").write_text("[pytest]\nllm_model = openai/gpt-6-luna\n")
    assert newcomer.types("git init -q -b main")[0] == 0
    newcomer.commits()
    with OpenAIServer(answer) as server:
        newcomer.types(f"export OPENAI_BASE_URL={server.url}")
        yield newcomer


def test_the_readme_works_from_the_installation_to_a_regression(reader: Reader) -> None:
    reader.types(EXPORT)
    code, output = reader.types(RECORD)
    assert code == 0, output
    assert "10 calls made" in output

    assert reader.types(SWITCH)[0] == 0
    code, output = reader.types(COMPARE)
    assert code == 0, output
    assert "0 calls made, 10 replayed" in output

    reader.edits("app.py", "Name the capital of", "Say the capital of")
    reader.commits()
    code, output = reader.types(COMPARE)
    assert code == 0, output
    assert "10 calls made" in output

    reader.edits("app.py", "Say the capital of", "Say the largest city of")
    reader.commits()
    code, output = reader.types(COMPARE)
    assert code == 1, output
    assert "REGRESSED" in output
    (read_both,) = re.findall(r"^read both replies:\s+(llmeval diff .*)$", output, re.MULTILINE)
    code, output = reader.types(read_both)
    assert code == 0, output
    assert "no idea" in output


def test_the_readme_works_without_an_application(reader: Reader) -> None:
    reader.types(EXPORT)
    code, output = reader.types(f"{RECORD} without_an_application.py")

    assert code == 0, output
    assert "15 calls made" in output
    assert "openai/gpt-6-luna" in output


def test_the_demo_of_the_readme_runs_in_a_clone(
    environment: Path, reader: Reader, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    assert reader.types(f"git clone -q {ROOT} {clone}")[0] == 0
    ready = environment / ".ready"
    ready.touch()
    os.utime(ready, (ready.stat().st_atime, ready.stat().st_mtime + 60))

    code, output = reader.types(f"{DEMO} DEMO={environment}", in_folder=clone)

    assert code == 0, output
    assert "REGRESSED" in output
