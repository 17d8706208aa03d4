"""A failing gate in the reports of others: JUnit, pytest's last line, annotations of GitHub."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.plugin.test_gating import WORSE, record_few
from tests.project import Project, made_once

NAME = "llmeval::test_evals.py::test_says_yes"
JUNIT = ("--junitxml=out.xml", "--llm-baseline=main")


CONFTEST = """
def pytest_sessionfinish(session):
    print(f"ends with {int(session.exitstatus)}, {session.testsfailed} failed")
"""


@pytest.fixture
def main(pytester: pytest.Pytester, originals: Path) -> Project:
    """Main, recorded, and a branch begun."""
    return made_once(originals / "few", pytester, record_few)


def make_worse(project: Project) -> None:
    record_few(project)
    project.write(app=WORSE, conftest=CONFTEST)
    project.commit()


@pytest.fixture
def worse(pytester: pytest.Pytester, originals: Path) -> Project:
    """The branch asks another question, to which the answer is worse."""
    return made_once(originals / "worse", pytester, make_worse)


def make_told(project: Project) -> None:
    make_worse(project)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_ACTIONS", "true")
        options = (*JUNIT, "--color=yes", "-x", "--ff", "--sw", "-s")
        lines = project.pytester.runpytest(*options).outlines
    (project.path / "lines.txt").write_text("\n".join(lines))


@pytest.fixture
def told(pytester: pytest.Pytester, originals: Path) -> Project:
    """All that a session left whose gate failed; what it printed is in lines.txt."""
    return made_once(originals / "told", pytester, make_told)


def lines_of(told: Project) -> list[str]:
    return (told.path / "lines.txt").read_text().splitlines()


def check_annotated(lines: list[str]) -> None:
    commands = [line for line in lines if line.startswith("::")]
    assert len(commands) == 1
    place, _, message = commands[0].removeprefix("::").partition("::")
    assert place.startswith("error file=test_evals.py,line=7,title=llm evals%3A test_says_yes%3A")
    assert message.startswith("test_says_yes fell by 0.")
    assert "%0Atest_says_yes[case-" in message


def junit(project: Project) -> ET.Element:
    suite = ET.parse(project.path / "out.xml").getroot().find("testsuite")  # noqa: S314
    assert suite is not None
    return suite


def junit_cases(suite: ET.Element) -> dict[str, ET.Element]:
    return {f"{one.get('classname')}::{one.get('name')}": one for one in suite.iter("testcase")}


def properties(test_case: ET.Element) -> dict[str | None, str | None]:
    return {one.get("name"): one.get("value") for one in test_case.iter("property")}


def test_a_regression_is_a_failed_test_case(told: Project) -> None:
    check_junit(told)


def test_workers_report_a_regression_once(worse: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    result = worse.run(*JUNIT, "-n", "1")

    assert result.ret == 1
    assert "1 regressed" in result.outlines[-1]
    check_annotated(result.outlines)
    check_junit(worse)


def check_junit(project: Project) -> None:
    suite = junit(project)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("11", "1", "0")
    failed = junit_cases(suite)["llmeval.test_evals.py::test_says_yes"]
    figures = properties(failed)
    assert "regressed" in (figures["llm_pass_verdict"] or "")
    assert float(figures["llm_pass_difference"] or 0) < -0.2
    assert (figures["llm_pass_interval"] or "").startswith("[-0.")
    failure = failed.find("failure")
    assert failure is not None
    lines = (failure.text or "").splitlines()
    assert lines[0].startswith("test_says_yes fell by 0.")
    assert any(line.startswith("test_says_yes[case-") and " -> " in line for line in lines)


def test_a_case_has_its_score_among_its_properties(main: Project) -> None:
    main.run("--junitxml=out.xml")

    figures = properties(junit_cases(junit(main))["test_evals::test_says_yes[case-0]"])
    passed = int((figures["llm_eval"] or "0").split()[0])
    assert float(figures["llm_pass"] or -1) == passed / 2
    low, high = json.loads(figures["llm_pass_interval"] or "")
    assert 0 <= low < passed / 2 + 0.001 < high + 0.002


def test_hits_of_any_metric_have_their_interval(main: Project) -> None:
    main.pytester.makepyfile(
        """
        from pytest_llmeval import llm_eval

        @llm_eval(gate=["hit", "grade"], repeats=4)
        def test_graded(llm, llm_score):
            draw = llm.ask("rate=0.5").text
            llm_score(1.0 if draw == "yes" else 0.0, "hit")
            llm_score(0.5, "grade")
        """
    )
    main.run("--junitxml=out.xml", "-k", "graded")

    (case,) = junit_cases(junit(main)).values()
    figures = properties(case)
    low, high = json.loads(figures["llm_hit_interval"] or "")
    assert low <= float(figures["llm_hit"] or -1) <= high
    assert figures["llm_grade"] == "0.5"
    assert not {"llm_grade_interval", "llm_pass"} & {*figures}


def test_no_score_is_computed_where_no_file_is_made(main: Project) -> None:
    main.pytester.makeconftest(
        "def pytest_runtest_logreport(report): print(sorted(dict(report.user_properties)))"
    )

    result = main.run("-s", "-k", "case-0")

    result.stdout.fnmatch_lines(["*'llm_eval'*"])
    result.stdout.no_fnmatch_line("*llm_pass*")


def test_the_last_line_is_red_and_says_so(told: Project) -> None:
    last = lines_of(told)[-1]

    assert "1 regressed" in last
    assert "failed" not in last
    assert last.startswith("\x1b[31m=")


def test_a_session_that_passes_gains_no_test_case(main: Project) -> None:
    result = main.run(*JUNIT, "--llm-repeats=10", "--color=yes")

    assert result.ret == 0
    assert len(junit_cases(junit(main))) == 10
    assert result.outlines[-1].startswith("\x1b[32m=")


def test_a_session_that_could_not_judge_is_a_failed_test_case(main: Project) -> None:
    main.write(test_plain="def test_plain(): pass\n")
    main.commit()

    result = main.run(*JUNIT, "test_plain.py")

    assert result.ret == 1
    failed = junit_cases(junit(main))["llmeval::gate"]
    failure = failed.find("failure")
    assert failure is not None
    assert (failure.text or "").startswith("could not judge: ")
    assert "1 not judged" in result.outlines[-1]


def test_what_chooses_tests_by_failures_is_told_nothing(told: Project) -> None:
    cache = told.path / ".pytest_cache" / "v" / "cache"

    assert "stopping after" not in "\n".join(lines_of(told))
    assert not (cache / "lastfailed").exists()
    assert json.loads((cache / "stepwise").read_text())["last_failed"] is None


def test_other_plugins_find_the_exit_code_as_it_will_be(told: Project) -> None:
    assert any("ends with 1, 0 failed" in line for line in lines_of(told))


def test_github_shows_a_regression_at_its_line(told: Project) -> None:
    check_annotated(lines_of(told))


def test_no_command_is_printed_outside_of_github(
    worse: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "false")

    worse.run("--llm-baseline=main").stdout.no_fnmatch_line("::*")
