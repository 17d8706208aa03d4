"""Tests that decide by the reports of earlier ones run after these, and not ahead of them."""

from __future__ import annotations

import pytest

from tests.project import Project

# As pytest-dependency does, in a conftest or as a plugin.
DECIDER = """
import pytest

PASSED = set()


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(name): a test that is to have passed before")


def pytest_runtest_setup(item):
    mark = item.get_closest_marker("needs")
    if mark is not None and mark.args[0] not in PASSED:
        pytest.skip(f"needs {mark.args[0]}")


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        PASSED.add(report.nodeid.partition("::")[2])
"""
EVALS = """
import pytest
from pytest_llmeval import llm_eval



@llm_eval(repeats=2, min_score=1)
def test_first(llm):
    llm.ask("first rate=1")


@pytest.mark.needs("test_first")
@llm_eval(repeats=2, min_score=1)
def test_second(llm):
    llm.ask("second rate=1")


@pytest.mark.needs("test_second")
@llm_eval(repeats=2, min_score=1)
async def test_third(async_llm):
    await async_llm.ask("third rate=1")


@pytest.mark.needs("test_nowhere")
@llm_eval(repeats=2, min_score=1)
def test_last(llm):
    llm.ask("last rate=1")
"""


@pytest.mark.parametrize("place", ["conftest", "plugin"])
def test_an_eval_that_needs_another_runs_after_its_report(project: Project, place: str) -> None:
    project.write(test_evals=EVALS, **{place: DECIDER})
    if place != "conftest":
        project.write(conftest=f"pytest_plugins = ['{place}']")

    result = project.run()

    result.assert_outcomes(passed=3, skipped=1)
