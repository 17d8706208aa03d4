"""What docs/coming-from.md shows is run; what it says of other tools has a link."""

from __future__ import annotations

import json
import re
import shlex
import sys
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.docs.pages import blocks, commands, text_of
from tests.project import Project
from tests.servers.openai_server import OpenAIServer, Received, Scripted, serving

PAGE = "docs/coming-from.md"
TEXT, _, _ = text_of(PAGE).partition("\n[oa-end]: ")
DEFINED = dict(re.findall(r"^\[([a-z-]+)\]: (\S+)$", text_of(PAGE), re.MULTILINE))
ROWS = re.findall(r"^\| (.*?) \| (.*) \|$", TEXT, re.MULTILINE)
FILES = {
    block.text.partition("\n")[0].removeprefix("# "): block.text
    for language in ("python", "yaml")
    for block in blocks(PAGE, language=language)
}
(TICKETS,) = (block.text for block in blocks(PAGE, language="json"))
CASES = [json.loads(line) for line in TICKETS.splitlines()]
# what the page asks of DeepEval, in the form that its release was seen to have
DEEPEVAL = {
    "__init__": "",
    "metrics": """
class ExactMatchMetric:
    def measure(self, case):
        return float(case.actual_output == case.expected_output)
""",
    "test_case": """
class LLMTestCase:
    def __init__(self, *, input, actual_output, expected_output):
        self.actual_output, self.expected_output = actual_output, expected_output
""",
}


class Models(OpenAIServer):
    """Knows the team of each ticket, and the runs of an eval whose second one was worse."""

    def __init__(self) -> None:
        super().__init__(self._say)
        self.knows = True

    def _say(self, body: Mapping[str, Any], number: int) -> str:
        asked = body["messages"][-1]["content"]
        return next(row["team"] for row in CASES if row["text"] == asked) if self.knows else "sales"

    def take(self, received: Received) -> Scripted:
        if "/evals" not in received.path:
            return super().take(received)
        self.requests.append(received)
        path = received.path.partition("?")[0]
        if received.method == "POST":
            body: dict[str, Any] = {"id": "eval_1", "object": "eval"}
        elif path.endswith("/runs"):
            body = _listed([{"id": "evalrun_1"}, {"id": "evalrun_2"}])
        else:
            passed = "evalrun_1" in path
            body = _listed([_output(number % 8, passed=passed) for number in range(16)])
        return Scripted(body=body)


def _listed(data: list[dict[str, Any]]) -> dict[str, Any]:
    return {"object": "list", "data": data, "has_more": False}


def _output(case: int, *, passed: bool) -> dict[str, Any]:
    item = {"ticket": f"t-{case}", "text": "Where is it?", "team": "orders"}
    result = {"name": "team", "passed": passed, "score": float(passed)}
    return {"id": f"item_{case}", "datasource_item": item, "results": [result], "status": "pass"}


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[Models]:
    yield from serving(Models(), monkeypatch)


@pytest.fixture
def suite(project: Project, models: Models, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The suite of the page, committed."""
    monkeypatch.chdir(project.path)
    monkeypatch.syspath_prepend(project.path)
    (project.path / "test_evals.py").unlink()
    (project.path / "tickets.jsonl").write_text(TICKETS)
    for name in ("app.py", "test_tickets.py"):
        (project.path / name).write_text(FILES[name])
    project.commit("main")
    return project


def run_script(name: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    exec(compile(FILES[name], name, "exec"), {})  # noqa: S102 - the manual's own lines


def compared(one: str, other: str) -> str:
    done = CliRunner().invoke(main, ["compare", f"scores.csv::{one}", f"scores.csv::{other}"])
    assert done.exit_code == 1, done.output
    return done.output


def typed(suite: Project, command: str) -> int:
    program, *arguments = shlex.split(command)
    if program == "git":
        suite.git(*arguments)
        return 0
    return int(suite.run(*arguments).ret)


def test_the_suite_runs_and_a_branch_is_compared_with_main(suite: Project, models: Models) -> None:
    record, switch, gate, _ = commands(PAGE)

    assert [typed(suite, command) for command in (record, switch, gate)] == [0, 0, 0]
    assert len(models.requests) == 15
    app = (suite.path / "app.py").read_text()
    suite.write(app=app.replace("Name the team", "Guess the team"))
    models.knows = False
    result, report = suite.gate(*shlex.split(gate)[1:])
    (function,) = report["functions"]
    assert function["difference"] == -1
    result.stdout.fnmatch_lines(["*fell most  test_tickets?t-001?  5/5 -> 0/5*"])


def test_a_metric_of_deepeval_is_a_score_of_the_trial(suite: Project) -> None:
    (suite.path / "deepeval").mkdir()
    for name, text in DEEPEVAL.items():
        (suite.path / "deepeval" / f"{name}.py").write_text(text)
    (suite.path / "test_match.py").write_text(FILES["test_match.py"])

    result = suite.run("test_match.py")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["test_match (match) * 1.000 *"])


def test_the_config_for_openai_is_one_that_its_sdk_sends(
    suite: Project, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_script("evals.py", monkeypatch=monkeypatch)

    created, run = models.requests
    assert created.path.endswith("/evals")
    assert run.path.endswith("/evals/eval_1/runs")
    assert set(created.json["data_source_config"]["item_schema"]["properties"]) == set(CASES[0])


def test_results_of_openai_are_kept_as_a_table(
    suite: Project, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_script("keep_evals.py", "eval_1", "ticket", monkeypatch=monkeypatch)

    assert "REGRESSED" in compared("evalrun_1", "evalrun_2")
    table = (suite.path / "scores.csv").read_text().splitlines()
    assert len(table) == 1 + 2 * 16
    assert table[-1] == "evalrun_2,t-7,1,team,0.0"
    kept = (suite.path / "tickets.jsonl").read_text().splitlines()
    assert [set(json.loads(line)) for line in kept] == [set(CASES[0])] * 8


def test_logs_of_inspect_are_compared_as_they_are(suite: Project) -> None:
    assert "$ llmeval compare logs/FIRST.eval logs/SECOND.eval" in TEXT
    for name, value in (("FIRST", "C"), ("SECOND", "I")):
        samples = [
            {"id": f"t-{case}", "epoch": epoch, "scores": {"exact": {"value": value}}}
            for case in range(8)
            for epoch in (1, 2)
        ]
        with zipfile.ZipFile(suite.path / f"{name}.eval", "w") as log:
            log.writestr("summaries.json", json.dumps(samples))

    result = CliRunner().invoke(main, ["compare", "FIRST.eval", "SECOND.eval"])

    assert result.exit_code == 1
    assert "scores (exact) fell by 1.000" in result.output


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".py")])
def test_each_file_of_python_can_be_read(name: str) -> None:
    compile(FILES[name], name, "exec")


def test_the_config_for_promptfoo_has_the_same_cases() -> None:
    config = yaml.safe_load(FILES["promptfooconfig.yaml"])

    assert [one["vars"] for one in config["tests"]] == [
        {"text": row["text"], "team": row["team"]} for row in CASES
    ]


def test_each_link_is_defined_and_used() -> None:
    assert set(DEFINED) == set(re.findall(r"\]\[([a-z-]+)\]", TEXT))
    assert all(address.startswith("https://") for address in DEFINED.values())
    assert len(set(DEFINED.values())) == len(DEFINED)


@pytest.mark.parametrize(
    "there", [there for there, _ in ROWS if there not in ("there", "---")], ids=str
)
def test_what_a_row_says_of_another_tool_has_a_link(there: str) -> None:
    assert re.search(r"\]\[[a-z-]+\]", there)


@pytest.mark.parametrize("part", re.findall(r"^No counterpart: .*?\n\n", TEXT, re.S | re.M))
def test_what_does_not_map_has_a_link(part: str) -> None:
    assert re.search(r"\]\[[a-z-]+\]", part)


def test_the_page_says_when_it_was_written() -> None:
    assert re.search(r"written\s+on\s+\d+\s+\w+\s+20\d\d", TEXT)
