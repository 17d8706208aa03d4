"""No sentence decides: without its words the package comes to the same verdicts and exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.forms import outcomes_of_forms
from tests.hashed_words import Hashing

ROOT = Path(__file__).parents[2]
WITHOUT_WORDS = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}

MODEL = """
def answer(messages):
    return "yes" if "kindly" in messages[-1]["content"] else "no"
"""
EVALS = """
import pytest
from pytest_llmeval import llm_eval

@pytest.mark.parametrize("case", range(8))
@llm_eval(repeats=3)
def test_NAME(llm, case):
    assert llm.ask(f"PROMPT {case}").text == "yes"
"""
KIND, RUDE = "Say yes kindly to", "Say yes at once to"


def test_a_message_is_replaced_and_a_name_and_a_field_are_not() -> None:
    hashed, other = Hashing("gate").hashed, Hashing("runs").hashed
    message = "no complete run recorded for {} or its {} nearest ancestors"
    assert [len(part) for part in hashed(message).split("{}")] == [8, 8, 8]
    assert hashed(message) == hashed(message) != other(message)
    assert hashed("partial: ") != "partial: "
    assert hashed("not_comparable") == "not_comparable"
    assert hashed("regressed") == "regressed"


def test_every_form_of_a_comparison_comes_to_the_same_without_words() -> None:
    program = "import tests.hashed_words, tests.forms; tests.forms.main()"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT, env=WITHOUT_WORDS, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    without = json.loads(ended.stdout)

    assert without["said"] != json.loads(json.dumps(outcomes_of_forms()))["said"]
    assert without["forms"] == json.loads(json.dumps(outcomes_of_forms()))["forms"]


class Session:
    """Sessions of a folder, in a package without words."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "model.py").write_text(MODEL)
        (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
        self.write()

    def write(self, name: str = "kind", prompt: str = KIND) -> None:
        evals = EVALS.replace("NAME", name).replace("PROMPT", prompt)
        (self.folder / "test_evals.py").write_text(evals)

    def run(self, *arguments: str, model: str = "function/model:answer") -> dict[str, Any]:
        command = ["-m", "pytest", "-p", "tests.hashed_words", "-p", "no:cacheprovider", "-q"]
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        asked = (f"--llm-model={model}", f"--llm-report={report}", *arguments)
        environment = {
            name: text for name, text in WITHOUT_WORDS.items() if not name.endswith("_API_KEY")
        }
        ended = subprocess.run(
            [sys.executable, *command, *asked],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "INTERNALERROR" not in ended.stdout, ended.stdout
        found = json.loads(report.read_text())
        return {
            "exit": ended.returncode,
            "verdict": found["verdict"],
            "rows": [one.get("row") for one in found["functions"]],
            "capped": found["run"] and found["run"]["calls"]["capped"],
            "run": found["run"] and found["run"]["id"],
        }


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, str]:
    session = Session(tmp_path_factory.mktemp("without-words"))
    first = session.run()
    assert (first["exit"], first["verdict"]) == (0, "not_gated")
    return session, first["run"]


NEW = {"prompt": "Say yes, kindly, to"}
GATED = {
    "the same": ({}, (), (0, "unchanged", [6], 0)),
    "worse": ({"prompt": RUDE}, (), (1, "regressed", [8], 0)),
    "another": (NEW, (), (0, "inconclusive", [11], 0)),
    "renamed": ({"name": "other"}, (), (1, "not_comparable", [1, 2], 0)),
    "capped": (
        NEW | {"prompt": "Kindly say yes kindly to"},
        ("--llm-max-calls=2",),
        (1, "not_comparable", [4], 22),
    ),
    "only replayed": (
        {"prompt": "Yes, kindly, to"},
        ("--llm-cache=replay",),
        (1, "not_comparable", [3], 0),
    ),
}


@pytest.mark.parametrize(("written", "typed", "expected"), GATED.values(), ids=GATED)
def test_a_session_ends_without_words_as_with_them(
    recorded: tuple[Session, str],
    written: dict[str, str],
    typed: tuple[str, ...],
    expected: tuple[Any, ...],
) -> None:
    session, baseline = recorded
    session.write(**written)
    ended = session.run(f"--llm-baseline={baseline}", *typed)
    assert (ended["exit"], ended["verdict"], ended["rows"], ended["capped"]) == expected


def test_a_session_without_a_baseline_is_refused_without_words(
    recorded: tuple[Session, str],
) -> None:
    session, _ = recorded
    session.write()
    assert session.run("--llm-baseline=nowhere")["exit"] == 4


def test_cases_without_a_key_are_told_apart_without_words(recorded: tuple[Session, str]) -> None:
    session, baseline = recorded
    session.write(prompt="Yes kindly to")
    ended = session.run(f"--llm-baseline={baseline}", model="openai/gpt")
    assert (ended["exit"], ended["verdict"], ended["capped"]) == (1, "not_comparable", 0)
