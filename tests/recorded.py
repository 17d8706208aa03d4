"""Recorded answers, replayed through the whole plugin: real ones, and a sample that is made here.

A folder of them has, as the real ones lie, the messages of each wording in one file, and one of
lines for each model.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.project import Project, made_once

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


def record(project: Project, data: Path, name: str) -> None:
    """Record chain_of_thought as main."""
    project.write(
        model=MODEL.format(data=str(data), name=name),
        test_evals=EVALS.format(data=str(data), name=name),
    )
    (project.path / "wording.txt").write_text("chain_of_thought\n")
    project.commit("main")
    project.run("-q")


class Recorded:
    """A folder of recorded answers."""

    def __init__(self, data: Path, originals: Path, pytester: pytest.Pytester) -> None:
        self.data = data
        self._originals = originals
        self._pytester = pytester

    def gate(self, name: str, wording: str) -> tuple[int, dict[str, Any]]:
        """Compare another wording with main, of one model; return exit code and figures."""
        make = partial(record, data=self.data, name=name)
        project = made_once(self._originals / f"recorded-{name}", self._pytester, make)
        project.git("switch", "-qc", wording)
        (project.path / "wording.txt").write_text(f"{wording}\n")
        project.commit(wording)
        result, report = project.gate("-q", "--llm-baseline=main")
        (function,) = report["functions"]
        return int(result.ret), function


def compare(data: Path, file: str, before: str, here: str, *options: str) -> dict[str, Any]:
    """Compare two conditions of a file as a table of scores."""
    names = [f"{data / file}::{condition}" for condition in (before, here)]
    result = CliRunner().invoke(main, ["compare", *names, "--json", *options])
    document = json.loads(result.stdout)
    assert result.exit_code == int(document["fails"])
    (function,) = document["functions"]
    return dict(function)


# --- the sample -------------------------------------------------------------------------------

MADE_UP = "made-up"
SAMPLE = f"aqua_prompts.{MADE_UP}.jsonl.gz"
CASES, REPEATS = 40, 10
# by how much a wording is better than the first one, and what it tells the model
WORDINGS = {
    "chain_of_thought": (0.0, "Think step by step."),
    "concise": (-0.25, "Think step by step. Be concise."),
    "composite": (0.0, "Recite, think, criticise."),
}


def write_sample(folder: Path) -> None:
    """Write a sample: the same one each time, with unreadable answers and failed calls."""
    messages = {
        wording: [{"role": "system", "content": told}] for wording, (_, told) in WORDINGS.items()
    }
    (folder / "aqua_prompts.messages.json").write_text(json.dumps(messages))
    with gzip.open(folder / SAMPLE, "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in sample_rows())


def sample_rows() -> Iterator[Mapping[str, Any]]:
    """Make the rows of all trials, with the columns of the real ones."""
    drawn = random.Random(0)  # noqa: S311 - nothing is secret
    rates = [drawn.uniform(0.3, 0.95) for _ in range(CASES)]
    for wording, (better, _) in WORDINGS.items():
        for number, rate in enumerate(rates):
            for repeat in range(REPEATS):
                target = "ABCDE"[number % 5]
                is_right = drawn.random() < rate + better
                answer = target if is_right else "ABCDE"[(number + 1 + repeat % 4) % 5]
                yield {
                    "condition": f"{MADE_UP}|{wording}",
                    "prompt_name": wording,
                    "case_id": f"case-{number:02}",
                    "repeat": repeat,
                    "target": target,
                    "prompt": f"Question {number}\nChoices: A to E",
                    **_replied(answer, is_right=is_right, kind=drawn.random()),
                }


def _replied(answer: str, *, is_right: bool, kind: float) -> Mapping[str, Any]:
    """Make a failed call of one in a hundred, and of two an answer that cannot be read."""
    if kind < 0.01:
        return {"response": None, "score": None}
    if kind < 0.03:
        return {"response": "I cannot tell.", "score": 0}
    return {"response": f'I think.\nAction: Answer("{answer}")', "score": int(is_right)}
