"""What sessions say is the same with workers; tests of what it is run one process."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.plugin.stories.test_selection import FLAKY, TWO, begin, configure
from tests.project import Project, made_once

WORKERS = ("-n", "2")


def record(project: Project) -> None:
    begin(project)
    assert project.pytester.runpytest(*WORKERS).ret == 0
    project.git("switch", "-qc", "branch")


@pytest.fixture
def main(pytester: pytest.Pytester, originals: Path) -> Project:
    """Four functions of evals in two files, recorded, and a branch begun."""
    return made_once(originals / "workers", pytester, record)


def usage_error(result: pytest.RunResult) -> str:
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.outlines + result.errlines if line.startswith("ERROR: ")]
    assert len(lines) == 1, result.outlines + result.errlines
    assert "Traceback" not in str(result.stdout) + str(result.stderr)
    return lines[0]


def verdicts(report: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    return {one["function"]: (one["verdict"], one["partial"]) for one in report["functions"]}


# --- refused ------------------------------------------------------------------------------------


def test_what_every_worker_refuses_is_one_line(project: Project) -> None:
    project.write(test_evals="import pytest\n@pytest.mark.llm_eval(repeats=0)\ndef test_it(): pass")

    line = usage_error(project.run(*WORKERS))

    assert "::test_it: @llm_eval: repeats must be a whole number of 1 or more, not 0" in line


def test_a_model_that_only_a_worker_would_import_is_refused(project: Project) -> None:
    line = usage_error(project.run("--llm-model=function/nowhere:answer", *WORKERS))

    assert "nowhere" in line
    assert project.calls() == 0


def test_no_worker_is_started_without_the_baseline(project: Project) -> None:
    project.git("switch", "-qc", "branch")
    project.write(app='PROMPT = "other"\n')
    project.commit()

    result = project.run("--llm-baseline=main", *WORKERS)

    assert usage_error(result).startswith("ERROR: --llm-baseline=main: no ")
    assert "workers" not in str(result.stdout)


def test_workers_set_up_and_show_without_a_record(main: Project) -> None:
    runs = main.runs()

    result = main.run("--setup-plan", "-v", *WORKERS)

    assert result.ret == 0, str(result.stdout)
    assert main.runs() == runs
    assert "llm evals" not in str(result.stdout)
    assert " passed" not in str(result.stdout)


# --- left out -----------------------------------------------------------------------------------


def test_what_was_typed_is_left_out_of_what_workers_ran(main: Project) -> None:
    result, report = main.gate("--llm-baseline=main", "-k", "not test_one", *WORKERS)

    assert (result.ret, report["verdict"]) == (0, "unchanged")
    one = {
        "function": "test_evals.py::test_one",
        "name": "test_one",
        "cases": 4,
        "why": "deselected",
    }
    assert report["not_judged"] == [one]


def test_what_the_branch_kept_from_the_workers_is_gone(main: Project) -> None:
    main.write(
        conftest="""
        def pytest_collection_modifyitems(config, items):
            away = [item for item in items if item.name in ("test_one[a]", "test_four[f]")]
            items[:] = [item for item in items if item not in away]
            config.hook.pytest_deselected(items=[item for item in away if "four" in item.name])
        """
    )
    configure(main, "addopts = -k 'not test_two'")

    result, report = main.gate("--llm-baseline=main", *WORKERS)

    assert (result.ret, report["not_judged"]) == (1, [])
    assert verdicts(report) == {
        "test_evals.py::test_one": ("not_comparable", False),
        "test_evals.py::test_two": ("not_comparable", False),
        "evals/test_slow.py::test_three": ("unchanged", False),
        "evals/test_slow.py::test_four": ("unchanged", True),  # that was announced
    }
    assert report["run"]["complete"] is False


def test_what_workers_passed_over_fails_the_session(main: Project) -> None:
    main.write(
        conftest="""
        def pytest_runtest_protocol(item):
            return True if item.name in ("test_one[a]", "test_one[b]") else None
        """
    )
    main.commit()

    result, report = main.gate("--llm-baseline=main", *WORKERS)

    assert (result.ret, report["why"][:28]) == (1, "not run: 2 cases of test_one")


def test_what_failed_in_workers_is_run_by_workers(main: Project) -> None:
    main.write(test_evals=FLAKY.replace("repeats=2", "repeats=2, min_score=0.5"))
    main.pytester.runpytest(*WORKERS).assert_outcomes(failed=1, passed=11)
    main.write(test_evals=TWO)

    arguments = ("--lf", "--llm-baseline=main", "--llm-report=out/report.json", *WORKERS)
    result = main.pytester.runpytest(*arguments)

    assert result.ret == 0, str(result.stdout)
    report = json.loads((main.path / "out" / "report.json").read_text())
    assert verdicts(report) == {"test_evals.py::test_one": ("unchanged", True)}
    assert report["functions"][0]["cases"] == 1


# --- recorded -----------------------------------------------------------------------------------


def test_a_module_that_only_workers_import_makes_the_run_dirty(main: Project) -> None:
    main.write(test_evals=TWO.replace("    assert", "    import wording\n    assert"))
    main.commit()
    main.write(wording="TONE = 'rude'")

    result = main.run("-q", "--llm-repeats=1", *WORKERS)

    with gzip.open(main.runs()[-1], "rt") as lines:
        header = json.loads(next(lines))
    assert (header["dirty"], header["unseen"]) == (True, ["wording.py"])
    result.stdout.fnmatch_lines(
        ["recorded * (not usable as a baseline: * which git does not know: git add it*"]
    )
