"""The gate reads the same run, however it was run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.forked import ForkedSession
from tests.project import MODEL, Project

EVALS = """
import pytest
from pytest_llmeval import llm_eval
from app import PROMPT

CASES = pytest.mark.parametrize("case", [f"case-{i}" for i in range(10)])


@llm_eval(repeats=4)
@CASES
def test_says_yes(llm, case):
    assert llm.ask(PROMPT.format(case=case)).text == "yes"


@pytest.mark.xdist_group("alone")
@llm_eval(repeats=4)
@CASES
def test_scores(llm, llm_score, case):
    text = llm.ask(PROMPT.format(case=case) + " ").text
    llm_score(len(text) / 3)
    if case == "case-3":
        pytest.skip("not measured")


@llm_eval(repeats=4)
@CASES
def test_unchanged(llm, case):
    assert llm.ask(f"{case} rate=0.5").text == "yes"


def test_ordinary():
    assert True
"""

# One trial gets no reply, on either side.
FAILS_ONCE = """
    if question.startswith("Say yes to case-7") and draw.trial == 2:
        raise ConnectionError("the provider is down")
    rate ="""

MODES = {
    "overlapping": (),
    "worksteal": ("-n", "2", "--dist=worksteal"),
}

# Ids, times, whether a worker reached a draw before another, and how it was run.
_OF_ITS_OWN = {"id", "created", "seconds", "age", "path", "draw", "draws", "concurrency", "serial"}


def judged(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the branch against main; give the status and the report, its fields in their order."""
    options = ["--llm-baseline=main", "--llm-report=out/report.json", *arguments]
    plugins = ["-p", "no:cacheprovider", "-p", "no:randomly"]
    session = ForkedSession(folder, *plugins, *options, output=folder.with_suffix(".txt"))
    status = session.wait(timeout=300)
    report = json.loads((folder / "out" / "report.json").read_text())
    report["ungated"] = [one for one in report["ungated"] if one["metric"] != "seconds"]
    return status, json.dumps(without_what_differs(report, str(folder)), indent=1)


def without_what_differs(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {
            key: without_what_differs(entry, folder)
            for key, entry in value.items()
            if key not in _OF_ITS_OWN
        }
    if isinstance(value, list):
        return [without_what_differs(entry, folder) for entry in value]
    if isinstance(value, str):
        return re.sub(r"\d{8}T\d{6}-[0-9a-f]{6}", "RUN", value.replace(folder, "FOLDER"))
    return value


@pytest.fixture
def branches(project: Project, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Copies of a project with a baseline on main and a worse prompt on a branch."""
    model = MODEL.replace("\n    rate =", FAILS_ONCE)
    project.write(test_evals=EVALS, model=model)
    project.commit("three functions")
    project.run("--llm-concurrency=1").assert_outcomes(passed=30, skipped=1)
    project.git("checkout", "-qb", "worse")
    project.write(app='PROMPT = "Say yes to {case}, please. rate=0.3"\n')
    project.commit("worse prompt")
    folders = [tmp_path_factory.mktemp(name) / "project" for name in ("inline", *MODES)]
    return [Path(shutil.copytree(project.path, folder)) for folder in folders]


def test_the_report_of_the_gate_is_the_same_in_every_mode(branches: list[Path]) -> None:
    inline, *others = branches
    status, written = judged(inline, "--llm-concurrency=1")
    expected = json.loads(written)

    assert (status, expected["verdict"]) == (1, "regressed")
    assert {function["verdict"] for function in expected["functions"]} >= {"unchanged"}
    assert [function["trials"]["errored"] for function in expected["functions"]] == [1, 1, 0]
    calls = len((inline / "calls.log").read_text().splitlines())
    for folder, (mode, arguments) in zip(others, MODES.items(), strict=True):
        assert judged(folder, *arguments) == (status, written), mode
        assert len((folder / "calls.log").read_text().splitlines()) == calls, mode
