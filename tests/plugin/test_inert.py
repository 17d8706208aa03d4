"""A session without evals behaves as if the plugin were not installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from pytest_llmeval.settings import GROUPS, OTHERS
from tests.project import Project
from tests.warm_python import PYTHON

CONFTEST = """
import json
import sys


def pytest_unconfigure():
    with open("modules.json", "w") as file:
        json.dump(sorted(sys.modules), file)
"""
SDKS = {"openai", "anthropic", "ollama", "httpx", "httpx2"}
HEAVY = {"numpy", "scipy", "asyncio", "diskcache", "genai_prices", "jinja2"} | SDKS


def modules_of_a_session(folder: Path, *arguments: str, test: str) -> set[str]:
    """Names of the top-level modules after a session, in a process with our plugin alone."""
    folder.mkdir(exist_ok=True)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(test)
    subprocess.run(
        [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=True,
        capture_output=True,
    )
    return set(json.loads((folder / "modules.json").read_text()))


def test_an_idle_session_imports_nothing_heavy(tmp_path: Path) -> None:
    names = modules_of_a_session(
        tmp_path, "-p", "pytest_llmeval.plugin", test="def test_ordinary(): pass"
    )

    assert "pytest_llmeval.plugin" in names
    assert {name.partition(".")[0] for name in names} & (HEAVY | {"msgspec"}) == set()


def test_an_idle_session_imports_only_the_doors(tmp_path: Path) -> None:
    names = modules_of_a_session(
        tmp_path, "-p", "pytest_llmeval.plugin", test="def test_ordinary(): pass"
    )

    assert {name for name in names if name.startswith("pytest_llmeval")} == {
        "pytest_llmeval",
        "pytest_llmeval.errors",
        "pytest_llmeval.fixtures",
        "pytest_llmeval.pytest_options",
        "pytest_llmeval.plugin",
        "pytest_llmeval.safe_text",
        "pytest_llmeval.settings",
        "pytest_llmeval.vendors",
    }


def test_an_idle_session_with_workers_loads_nothing_that_judges(tmp_path: Path) -> None:
    names = modules_of_a_session(
        tmp_path,
        *("-p", "pytest_llmeval.plugin", "-p", "xdist", "-n", "1"),
        test="def test_ordinary(): pass",
    )

    judging = {"controller", "session", "gate.compare", "reports.make_report", "engine.install"}
    assert "xdist.dsession" in names
    assert {f"pytest_llmeval.{name}" for name in judging} & names == set()


def test_a_worker_runs_evals_without_what_judges_them(tmp_path: Path) -> None:
    names = modules_of_a_session(
        tmp_path,
        *(*OF_EVALS, "-p", "xdist", "-n", "1"),
        test=EVAL + OF_WORKER,
    )

    assert "pytest_llmeval.controller" in names
    worker = set(json.loads((tmp_path / "worker.json").read_text()))
    assert "pytest_llmeval.eval_process" in worker
    assert {"pytest_llmeval.controller", "pytest_llmeval.reports.make_report"} & worker == set()


EVAL = """
from pytest_llmeval import llm_eval

def answer(messages):
    return "yes"

@llm_eval(repeats=2)
def test_question(llm):
    assert llm.ask("Is it?").text == "yes"
"""
OF_WORKER = """
def test_last():
    import json, sys
    with open("worker.json", "w") as file:
        json.dump(sorted(sys.modules), file)
"""
OF_EVALS = ("-p", "pytest_llmeval.plugin", "--llm-model=function/test_it:answer")


def test_numpy_and_scipy_are_for_sessions_in_which_something_changed(tmp_path: Path) -> None:
    names = modules_of_a_session(tmp_path, *OF_EVALS, "--llm-report=found.json", test=EVAL)

    assert "pytest_llmeval.gate.describe" in names
    assert "prediction" in (tmp_path / "found.json").read_text()
    assert {"numpy", "scipy"} & names == set()

    unchanged = modules_of_a_session(tmp_path, *OF_EVALS, "--llm-baseline=last", test=EVAL)

    assert "pytest_llmeval.stats.t_tests" in unchanged
    assert {"numpy", "scipy"} & unchanged == set()

    changed = EVAL.replace("Is it?", "Is it not?")
    compared = modules_of_a_session(tmp_path, *OF_EVALS, "--llm-baseline=last", test=changed)

    assert {"numpy", "scipy.special"} <= compared


def test_evals_import_no_client_that_the_application_did_not(tmp_path: Path) -> None:
    names = modules_of_a_session(tmp_path, *OF_EVALS, test=EVAL)

    assert "pytest_llmeval.models.seams.imported" in names
    assert (SDKS | {"aiohttp", "requests", "urllib3"}) & names == set()


def test_what_intercepts_clients_is_imported_once_there_are_some(tmp_path: Path) -> None:
    """Half of what it imports is ``ssl``, which takes 12 ms."""
    without = modules_of_a_session(tmp_path, *OF_EVALS, test=EVAL)
    beside = modules_of_a_session(tmp_path, *OF_EVALS, test=f"{EVAL}\nimport httpx\n")

    intercepts = {"pytest_llmeval.models.interception", "pytest_llmeval.models.http.sender"}
    assert intercepts & without == set()
    assert intercepts <= beside


def test_the_check_can_fail(tmp_path: Path) -> None:
    names = modules_of_a_session(tmp_path, test="import asyncio\ndef test_ordinary(): pass")

    assert "asyncio" in names


def test_an_idle_session_leaves_nothing_behind(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_ordinary(): pass")

    result = pytester.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1)
    assert not (pytester.path / ".llmeval").exists()
    assert "llm evals" not in str(result.stdout)


def test_a_job_of_ci_on_a_main_branch_without_evals_prints_nothing_of_them(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.path / "test_evals.py").unlink()
    project.write(test_ordinary="def test_ordinary(): pass\n")
    project.commit("no evals")
    for name, value in {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_SHA": project.git("rev-parse", "HEAD").strip(),
    }.items():
        monkeypatch.setenv(name, value)

    result = project.run("--llm-baseline=auto")

    result.assert_outcomes(passed=1)
    assert result.ret == 0
    assert "llm evals" not in str(result.stdout)


@pytest.mark.parametrize(
    "option", ["--help", "--markers", "--fixtures", "--version", "--collect-only"]
)
def test_asking_for_a_list_looks_no_baseline_up(pytester: pytest.Pytester, option: str) -> None:
    pytester.makepyfile("def test_ordinary(): pass")

    result = pytester.runpytest(option, "--llm-baseline=no-such-ref")

    assert result.ret == 0


def test_help_names_every_option_and_its_ini_twin(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--help")

    text = str(result.stdout)
    names = ("model", "repeats", "alpha", "margin", "target", "strict", "cache", "report", "dir")
    for name in names:
        assert f"--llm-{name}" in text
        assert f"llm_{name} (" in text
    assert "--llm-baseline" in text


def test_help_begins_with_six_options_of_every_day(pytester: pytest.Pytester) -> None:
    text = str(pytester.runpytest("--help").stdout)

    groups = re.findall(r"^LLM evals: (.*):\n((?:  .*\n)+)", text, re.MULTILINE)
    flags = {name: re.findall(r"^  (--llm-[a-z-]+)", rows, re.MULTILINE) for name, rows in groups}
    assert list(flags) == [*GROUPS, OTHERS]
    assert flags["Everyday"] == [
        f"--llm-{name}"
        for name in ("baseline", "on-missing", "repeats", "model", "report", "max-cost")
    ]


def test_markers_explain_the_marker(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest("--markers")

    result.stdout.fnmatch_lines(["@pytest.mark.llm_eval(repeats=5, *, min_score=None*"])


def test_the_marker_passes_strict_markers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("from pytest_llmeval import llm_eval\n@llm_eval\ndef test_it(): pass")

    pytester.runpytest("--strict-markers").assert_outcomes(passed=1)


def test_the_plugin_can_be_switched_off(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_ordinary(): pass")

    result = pytester.runpytest("-p", "no:llmeval", "--help")

    assert "--llm-baseline" not in str(result.stdout)


def test_a_fixture_of_the_users_own_plugin_is_taken_before_ours(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest("pytest_plugins = ['mine']")
    pytester.makepyfile(
        mine="""
        import pytest

        @pytest.fixture
        def llm(): return "mine"

        @pytest.fixture
        def openai_client(): return "mine too"
        """,
        test_it="""
        from pytest_llmeval import llm_eval

        def test_ordinary(llm, openai_client):
            assert (llm, openai_client) == ("mine", "mine too")

        @llm_eval(repeats=2, min_score=1)
        def test_eval(llm, openai_client):
            assert (llm, openai_client) == ("mine", "mine too")
        """,
    )

    pytester.runpytest_subprocess().assert_outcomes(passed=2)
