"""Recorded outcomes of real models, replayed through the whole plugin.

The data lie beside the repository and are never part of it. ``.ci/run`` requires them
(LLMEVAL_REQUIRE_REAL_INPUT=1); elsewhere the tests are skipped without them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.project import Project

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

MODEL = '''
import gzip
import json
from pathlib import Path

DATA = Path({data!r})


def read(name):
    messages = json.loads((DATA / "aqua_prompts.messages.json").read_text())
    recorded = {{}}
    with gzip.open(DATA / f"aqua_prompts.{{name}}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            system = messages[row["prompt_name"]][0]["content"]
            recorded[system, row["prompt"], row["repeat"]] = row["response"]
    return recorded


RECORDED = read({name!r})


def answer(messages, *, draw, **params):
    """Answers with the completion that was recorded for this repeat."""
    response = RECORDED[messages[0]["content"], messages[-1]["content"], draw.trial]
    if response is None:
        raise ConnectionError("the recorded call failed")
    return response
'''

EVALS = """
import gzip
import json
import re
from pathlib import Path

import pytest
from pytest_llmeval import llm_eval

DATA = Path({data!r})
WORDING = Path(__file__).with_name("wording.txt").read_text().strip()
MESSAGES = json.loads((DATA / "aqua_prompts.messages.json").read_text())[WORDING]


def rows():
    with gzip.open(DATA / "aqua_prompts.{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if row["prompt_name"] == WORDING and row["repeat"] == 0:
                yield pytest.param(row["prompt"], row["target"], id=row["case_id"])


@llm_eval(repeats=10)
@pytest.mark.parametrize(("prompt", "target"), rows())
def test_answers_right(llm, prompt, target):
    reply = llm.chat([*MESSAGES, {{"role": "user", "content": prompt}}])
    found = re.search(r'Answer\\("([^"]*)"\\)', reply.text)
    assert found
    assert found.group(1)[:1].upper() == target
"""


@pytest.fixture
def data() -> Path:
    if not DATA.is_dir():
        if os.environ.get("LLMEVAL_REQUIRE_REAL_INPUT"):
            pytest.fail(f"the recorded outcomes are required here, and {DATA} is missing")
        pytest.skip(f"the recorded outcomes are not here: {DATA}")
    return DATA


def gated(project: Project, data: Path, name: str, wording: str) -> tuple[int, dict[str, Any]]:
    """Record chain_of_thought as main, gate another wording; return exit code and figures."""
    project.write(
        model=MODEL.format(data=str(data), name=name),
        test_evals=EVALS.format(data=str(data), name=name),
    )
    (project.path / "wording.txt").write_text("chain_of_thought\n")
    project.commit("main")
    project.run("-q")
    project.git("switch", "-qc", wording)
    (project.path / "wording.txt").write_text(f"{wording}\n")
    project.commit(wording)
    result, report = project.gate("-q", "--llm-baseline=main")
    (function,) = report["functions"]
    return int(result.ret), function


def test_a_concise_prompt_made_gpt_35_worse(project: Project, data: Path) -> None:
    status, function = gated(project, data, "gpt-35-turbo", "concise")

    assert status == 1
    assert function["verdict"] == "regressed"
    assert function["method"] == "paired-t"
    assert function["dof"] == 99
    assert function["difference"] == pytest.approx(-0.154333, abs=5e-7)
    assert function["t"] == pytest.approx(-5.880436, abs=5e-7)
    assert function["baseline_trials"]["errored"] == 7
    assert function["baseline_mean"] == pytest.approx(0.584333, abs=5e-7)
    assert function["mean"] == pytest.approx(0.430000, abs=5e-7)


def test_a_composite_prompt_is_no_regression_of_gpt_35(project: Project, data: Path) -> None:
    status, function = gated(project, data, "gpt-35-turbo", "composite")

    assert status == 0
    assert function["verdict"] != "regressed"
    assert function["difference"] == pytest.approx(-0.023333, abs=5e-7)
    assert function["t"] == pytest.approx(-1.231042, abs=5e-7)


def test_a_concise_prompt_is_no_regression_of_gpt_4(project: Project, data: Path) -> None:
    status, function = gated(project, data, "gpt-4", "concise")

    assert status == 0
    assert function["verdict"] != "regressed"
    assert function["difference"] == pytest.approx(-0.018000, abs=5e-7)
    assert function["t"] == pytest.approx(-1.109097, abs=5e-7)
