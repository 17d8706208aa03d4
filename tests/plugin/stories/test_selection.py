"""What a session left out, and by whom it may be compared for it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.project import APP, INI, Project, made_once

TWO = """
import pytest
from pytest_llmeval import llm_eval
from app import PROMPT


@llm_eval(repeats=2)
@pytest.mark.parametrize("case", ["a", "b", "c", pytest.param("d", marks=pytest.mark.slow)])
def test_one(llm, case):
    assert llm.ask(PROMPT.format(case=case)).text == "yes"


@llm_eval(repeats=2)
@pytest.mark.parametrize("case", ["e", "f"])
def test_two(llm, case):
    assert llm.ask(PROMPT.format(case=case)).text == "yes"
"""
SLOW = TWO.replace("test_one", "test_three").replace("test_two", "test_four")
MARKED = INI + "markers = slow\n"


def begin(project: Project) -> None:
    (project.path / "evals").mkdir()
    (project.path / "evals" / "test_slow.py").write_text(SLOW)
    project.write(test_evals=TWO, pytest_ini=MARKED, app=APP.replace("0.8", "1"))
    project.commit()


@pytest.fixture
def bare(pytester: pytest.Pytester, originals: Path) -> Project:
    """Two files of evals, of which no run is recorded."""
    return made_once(originals / "selection", pytester, begin)


def header(project: Project) -> dict[str, Any]:
    with gzip.open(project.runs()[-1], "rt") as lines:
        found: dict[str, Any] = json.loads(next(lines))
    return found


def configure(project: Project, line: str) -> None:
    project.write(pytest_ini=f"{MARKED}\n{line}\n")
    project.commit()


SELECTIONS = {
    "k": ("-k", "test_one   or test_two", "-k test_one or test_two"),
    "m": ("-m", "not slow", "-m not slow"),
    "ignore": ("--ignore", "evals", "--ignore=evals"),
    "ignore-glob": ("--ignore-glob", "evals/*_slow.py", "--ignore-glob=evals/*_slow.py"),
    "deselect": ("--deselect", "test_evals.py::test_one", "--deselect=test_evals.py::test_one"),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_what_options_leave_out_is_a_selection_and_the_run_is_complete(
    bare: Project, name: str
) -> None:
    option, value, recorded = SELECTIONS[name]

    result = bare.run(option, value)

    assert result.ret == 0
    assert header(bare)["selection"] == [recorded]
    assert header(bare)["complete"] is True


@pytest.mark.parametrize("where", ["ini", "environment"])
def test_the_same_selection_on_both_sides_is_complete_wherever_it_is_set(
    bare: Project, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where == "ini":
        configure(bare, "addopts = -m 'not slow'")
    else:
        monkeypatch.setenv("PYTEST_ADDOPTS", "-m 'not slow'")
    bare.run()
    bare.git("switch", "-qc", "branch")

    result, report = bare.gate("--llm-baseline=main")

    assert result.ret == 0
    assert report["verdict"] == "unchanged"
    assert not any(function["partial"] for function in report["functions"])
    assert header(bare)["complete"] is True


def test_cases_gone_from_both_selections_are_not_forgiven(bare: Project) -> None:
    configure(bare, "addopts = -m 'not slow'")
    bare.run()
    bare.git("switch", "-qc", "branch")
    bare.write(test_evals=TWO.replace('"b", ', ""))

    result, report = bare.gate("--llm-baseline=main")

    assert result.ret == 1
    assert report["verdict"] == "not_comparable"


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_baseline_of_a_selection_does_not_cover_a_session_without_it(
    bare: Project, name: str
) -> None:
    option, value, recorded = SELECTIONS[name]
    bare.run(option, value)
    bare.git("switch", "-qc", "branch")

    result = bare.run("--llm-baseline=main")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    shown = str(result.stderr)
    assert recorded in shown
    assert "this session everything" in shown


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_baseline_of_everything_covers_any_selection(bare: Project, name: str) -> None:
    option, value, _ = SELECTIONS[name]
    bare.run()
    bare.git("switch", "-qc", "branch")

    result, report = bare.gate("--llm-baseline=main", option, value)

    assert result.ret == 0
    assert report["verdict"] == "unchanged"
    assert "gone" not in {function["verdict"] for function in report["functions"]}


def test_a_further_option_narrows_a_selection(bare: Project) -> None:
    configure(bare, "addopts = -m 'not slow'")
    bare.run()
    bare.git("switch", "-qc", "branch")

    result, report = bare.gate("--llm-baseline=main", "-k", "test_one and not c]")

    assert result.ret == 0
    (function,) = report["functions"]
    assert function["partial"] is True
    assert function["cases"] == 2


FLAKY = TWO.replace('.text == "yes"', '.text == "yes"\n    assert case != "a"')


@pytest.fixture
def failed(bare: Project) -> Project:
    """Main was recorded; on a branch a case failed last time, and passes now."""
    bare.pytester.runpytest()
    bare.git("switch", "-qc", "branch")
    bare.write(test_evals=FLAKY.replace("repeats=2", "repeats=2, min_score=0.5"))
    bare.pytester.runpytest()
    bare.write(test_evals=TWO)
    return bare


def test_the_cases_that_failed_last_are_judged_like_any_part(failed: Project) -> None:
    arguments = ("--lf", "--llm-baseline=main", "--llm-report=out/report.json")
    result = failed.pytester.runpytest(*arguments)
    report = json.loads((failed.path / "out" / "report.json").read_text())

    assert result.ret == 0, str(result.stdout)
    assert report["verdict"] == "unchanged"
    (function,) = report["functions"]
    assert function["partial"] is True
    assert function["cases"] == 1
    assert report["run"]["complete"] is False


@pytest.mark.parametrize("option", ["--ff", "--nf"])
def test_another_order_is_no_selection(failed: Project, option: str) -> None:
    failed.pytester.runpytest(option, "--llm-report=out/report.json")

    assert header(failed)["complete"] is True
    assert header(failed)["selection"] == []
    assert header(failed)["partial"] == []


@pytest.mark.parametrize("option", ["--lf", "--sw"])
def test_what_goes_by_the_last_session_is_never_a_baseline(failed: Project, option: str) -> None:
    failed.pytester.runpytest(option)

    assert header(failed)["complete"] is False


@pytest.mark.parametrize("announce", [False, True], ids=["silently", "announced"])
def test_items_that_a_plugin_drops_leave_a_partial_run_or_are_gone_if_it_does_not_say_so(
    bare: Project, announce: bool
) -> None:
    bare.run()
    bare.git("switch", "-qc", "branch")
    announced = "config.hook.pytest_deselected(items=dropped)" if announce else ""
    bare.write(
        conftest=f"""
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(config, items):
            dropped = [item for item in items if item.name in ("test_one[a]", "test_one[b]")]
            items[:] = [item for item in items if item not in dropped]
            {announced}
        """
    )
    bare.commit()

    result, report = bare.gate("--llm-baseline=main")

    assert report["run"]["complete"] is False
    found = {f["function"]: (f["verdict"], f["partial"]) for f in report["functions"]}
    assert found["test_evals.py::test_two"] == ("unchanged", False)
    if announce:
        assert (result.ret, found["test_evals.py::test_one"]) == (0, ("unchanged", True))
    else:
        assert (result.ret, found["test_evals.py::test_one"]) == (1, ("not_comparable", False))
        result.stdout.fnmatch_lines(["test_one: not comparable: 2 of the 4 cases *gone*"])


@pytest.mark.parametrize("option", ["--setup-only", "--setup-plan"])
def test_only_setting_up_records_nothing_and_claims_nothing(bare: Project, option: str) -> None:
    result = bare.run(option, "-v", "--llm-report=out/report.json")

    assert result.ret == 0, str(result.stdout)
    assert bare.runs() == []
    assert not (bare.path / "out").exists()
    assert "llm evals" not in str(result.stdout)
    assert " passed" not in str(result.stdout)


def test_only_setting_up_looks_for_no_baseline(bare: Project) -> None:
    assert bare.run("--setup-plan", "--llm-baseline=nowhere").ret == 0


def test_shards_have_in_common_what_was_collected(bare: Project) -> None:
    """Digested before anything is deselected, in whatever order workers or plugins put it."""
    wholes = [("-k", "test_one"), ("-k", "not test_one"), ("-k", "test_two", "-n2"), ("-p", "turn")]
    bare.write(turn="def pytest_collection_modifyitems(items):\n    items.reverse()\n")
    found = []
    for arguments in wholes:
        bare.run(*arguments)
        found.append(header(bare)["collected"])
    assert found[0]["cases"] == 12
    assert found == [found[0]] * 4

    bare.run("test_evals.py")
    part = header(bare)["collected"]
    assert part["cases"] == 6
    assert part["sha256"] != found[0]["sha256"]


def test_a_run_says_which_job_recorded_it(bare: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.run()
    assert "ci" not in header(bare)

    job = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_REPOSITORY": "octo/bot",
        "GITHUB_RUN_ID": "9000",
    }
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    bare.run()
    assert header(bare)["ci"] == {
        "provider": "github",
        "event": "push",
        "url": "https://github.com/octo/bot/actions/runs/9000",
    }


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_session_that_is_interrupted_after_its_evals_knows_of_a_file_that_it_lacks(
    bare: Project, is_broken: bool
) -> None:
    bare.write(test_z="def test_interrupted():\n    raise KeyboardInterrupt")
    if is_broken:
        bare.write(test_broken="raise OSError")

    bare.pytester.runpytest_subprocess("-p", "no:cacheprovider", "--continue-on-collection-errors")

    assert header(bare)["complete"] is not is_broken
