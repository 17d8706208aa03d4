"""The loop at a prompt: ``--llm-missed`` runs the cases that missed or moved last time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import EVALS, Project, made_once

ONE_BAD = EVALS.replace('"yes"', '"yes" and case != "case-3"').replace("range(20)", "range(6)")
ORDINARY = "\n\ndef test_ordinary():\n    pass\n"


def begin(project: Project) -> None:
    project.write(test_evals=ONE_BAD + ORDINARY, app='PROMPT = "Say yes to {case}. rate=1"\n')
    project.commit()
    project.run()


@pytest.fixture
def looped(pytester: pytest.Pytester, originals: Path) -> Project:
    """Six cases were run on main; one of them missed."""
    return made_once(originals / "missed", pytester, begin)


def test_only_the_case_that_missed_runs(looped: Project) -> None:
    result, report = looped.gate("--llm-missed", "--llm-baseline=main", "-v")

    result.assert_outcomes(passed=1, deselected=6)
    result.stdout.fnmatch_lines(
        ["llm evals: 1 of 7 tests: the cases that missed a trial or moved when they last ran*"]
    )
    assert result.ret == 0
    (function,) = report["functions"]
    assert (function["cases"], function["partial"]) == (1, True)
    assert report["run"]["complete"] is False
    assert report["verdict"] == "unchanged"


def test_what_missed_is_remembered_when_other_tests_run(looped: Project) -> None:
    looped.run("-k", "case-1")
    looped.run("--llm-missed").assert_outcomes(passed=1, deselected=6)


def test_a_case_that_moved_runs(looped: Project) -> None:
    looped.git("switch", "-qc", "branch")
    looped.write(test_evals=ONE_BAD.replace("case-3", "case-4"))
    looped.run("--llm-baseline=main")
    looped.commit()
    looped.write(test_evals=ONE_BAD.replace("case-3", "none"))

    looped.run("--llm-missed").assert_outcomes(passed=2, deselected=4)  # one rose


def test_a_function_left_out_as_a_whole_is_no_lost_one(looped: Project) -> None:
    looped.write(test_other=EVALS.replace("says_yes", "other").replace("range(20)", "range(2)"))
    looped.commit()
    looped.run()
    looped.git("switch", "-qc", "branch")
    looped.git("commit", "-q", "--allow-empty", "-m", "branch")

    result = looped.run("--llm-missed", "--llm-baseline=main")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["not judged: test_other (2 cases, deselected)"])


@pytest.mark.parametrize(
    ("typed", "ran"), [((), {"passed": 7}), (("--lfnf=none",), {"deselected": 7})], ids=str
)
def test_where_none_missed_pytests_own_option_decides(
    looped: Project, typed: tuple[str, ...], ran: dict[str, int]
) -> None:
    looped.write(test_evals=ONE_BAD.replace("case-3", "none") + ORDINARY)
    looped.run()

    result = looped.pytester.runpytest("--llm-missed", *typed)
    result.assert_outcomes(**ran)
    result.stdout.fnmatch_lines(["llm evals: *: no case missed a trial or moved when it last ran*"])


def test_without_a_run_all_tests_run(looped: Project) -> None:
    result = looped.run("--llm-missed", "--llm-dir=elsewhere")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["llm evals: all tests: no run of this branch is stored*"])


def test_ordinary_tests_alone_run_as_without_it(looped: Project) -> None:
    looped.write(test_evals=ORDINARY)
    looped.run("--llm-missed").assert_outcomes(passed=1)


def test_a_worker_of_xdist_has_the_line_told_in_the_section(looped: Project) -> None:
    result = looped.run("--llm-missed", "-n", "2")

    told = "note: 1 of 7 tests: the cases that missed a trial or moved when they last ran"
    assert sum(line.startswith(told) for line in result.outlines) == 1
