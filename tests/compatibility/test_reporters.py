"""The reports of pytest-json-report, allure and pytest-html: `make test-plugins`."""

from __future__ import annotations

import html
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("pytest_jsonreport", "allure_pytest", "pytest_html"))),
    reason="needs the plugins that make test-plugins installs",
)

PLAIN = ("-p", "no:cacheprovider", "-p", "no:randomly")
EVALS = """
import pytest
from pytest_llmeval import llm_eval


def answer(messages):
    return "yes"


@pytest.mark.parametrize("n", ["a", "b", "c"])
@llm_eval(repeats=4)
def test_it(llm, n):
    assert llm.ask(n).text == "yes"
    assert n != "b", "b is wrong"


@llm_eval(repeats=2, min_score=1)
def test_strict(llm):
    assert llm.ask("d").text == "no"


def test_ordinary():
    pass
"""
OUTCOMES = {"test_it[a]": "passed", "test_it[b]": "passed", "test_it[c]": "passed"} | {
    "test_strict": "failed",
    "test_ordinary": "passed",
}
OPTIONS = {
    "json": ("--json-report",),
    "allure": ("--alluredir=allure",),
    "html": ("--html=out.html", "--self-contained-html"),
}
ALL = sum(OPTIONS.values(), ())


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_it=EVALS)
    pytester.makeini("[pytest]\nllm_model = function/test_it:answer\npythonpath = .")
    return pytester


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    return suite.runpytest_subprocess(*PLAIN, *options, timeout=300)


def items_of_json(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / ".report.json").read_text())["tests"]


def results_of_allure(folder: Path) -> list[dict[str, Any]]:
    found = (folder / "allure").glob("*-result.json")
    return [json.loads(path.read_text()) for path in found]


@pytest.mark.parametrize(
    "options",
    [
        *OPTIONS.values(),
        ALL,
        (*ALL, "-n", "2"),
        (*ALL, "--reruns", "1"),
        (*ALL, "--llm-concurrency=1"),
    ],
    ids=[*OPTIONS, "all", "workers", "reruns", "serial"],
)
def test_evals_end_as_they_do_without(suite: pytest.Pytester, options: tuple[str, ...]) -> None:
    result = run(suite, *options)

    result.assert_outcomes(passed=4, failed=1)
    if "--json-report" in options:
        tests = {t["nodeid"].partition("::")[2]: t["outcome"] for t in items_of_json(suite.path)}
        assert tests == OUTCOMES
    if "--alluredir=allure" in options:
        results = results_of_allure(suite.path)
        assert {one["name"]: one["status"] for one in results} == OUTCOMES


def test_what_a_test_tells_allure_is_in_its_own_result(suite: pytest.Pytester) -> None:
    told = """
    with allure.step("ask " + n):
        pass
    allure.attach("a text", name="reply " + n)
"""
    suite.makepyfile(test_it="import allure\n" + EVALS.replace('"b is wrong"\n', '""\n' + told))

    result = run(suite, *OPTIONS["allure"])

    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["4 cases ran serially: allure (4)"])
    by_name = {one["name"]: one for one in results_of_allure(suite.path)}
    for n in "ac":
        assert [step["name"] for step in by_name[f"test_it[{n}]"]["steps"]] == [f"ask {n}"] * 4
        attached = [one["name"] for one in by_name[f"test_it[{n}]"]["attachments"]]
        assert attached == [f"reply {n}"] * 4


def test_metadata_of_a_trial_is_in_the_json_report(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_it=EVALS.replace("(llm, n):", "(llm, n, json_metadata):\n    json_metadata['n'] = n")
    )

    run(suite, *OPTIONS["json"]).assert_outcomes(passed=4, failed=1)

    assert [one.get("metadata") for one in items_of_json(suite.path)][:3] == [
        {"n": "a"},
        {"n": "b"},
        {"n": "c"},
    ]


GATED = """
import pytest
from pytest_llmeval import llm_eval


def answer(messages):
    return "yes"


@pytest.mark.parametrize("n", range(12))
@llm_eval(repeats=4)
def test_it(llm, n):
    assert llm.ask(f"QUESTION {n}").text == "yes"
"""
WORSE = GATED.replace("QUESTION", "Another question").replace('"yes"\n\n', '"no"\n\n')


@pytest.fixture(scope="module")
def regressed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports of a session whose gate fails."""
    folder = tmp_path_factory.mktemp("regressed")
    (folder / "pytest.ini").write_text(
        "[pytest]\nllm_model = function/test_it:answer\npythonpath = ."
    )
    command = [sys.executable, "-m", "pytest", *PLAIN, "-q"]
    for evals, options in ((GATED, ()), (WORSE, ("--llm-baseline=last", *ALL))):
        (folder / "test_it.py").write_text(evals)
        done = subprocess.run([*command, *options], cwd=folder, capture_output=True, check=False)
        assert done.returncode == (1 if options else 0), done.stdout.decode()
    return folder


def test_the_json_report_has_scores_and_the_gate(regressed: Path) -> None:
    report = json.loads((regressed / ".report.json").read_text())

    assert report["exitcode"] == 1
    assert report["summary"] == {"passed": 12, "regressed": 1, "total": 13, "collected": 12}
    items = {one["nodeid"]: one for one in report["tests"]}
    failed = items["llmeval::test_it.py::test_it"]
    assert failed["call"]["longrepr"].startswith("test_it fell by 1.000 (1.000 -> 0.000)")
    properties = items["test_it.py::test_it[0]"]["user_properties"]
    assert {"llm_pass": "0"} in properties
    assert any("llm_pass_interval" in one for one in properties)


def test_the_html_report_has_scores_and_the_gate(regressed: Path) -> None:
    report = html.unescape((regressed / "out.html").read_text())

    assert r"test_it.py::test_it[0] \u00b7 0/4 passed" in report
    assert "llmeval::test_it.py::test_it" in report
    assert "test_it fell by 1.000" in html.unescape(report)


def test_the_results_of_allure_are_those_of_the_cases(regressed: Path) -> None:
    assert len(results_of_allure(regressed)) == 12
