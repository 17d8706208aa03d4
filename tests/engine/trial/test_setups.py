"""A fixture that can be made once for a test id is refused in one line, and gives no score."""

from __future__ import annotations

import pytest

from tests.project import Project

BAG = """
import pytest

SEEN = {}


@pytest.fixture
def bag(request):
    if request.node.nodeid in SEEN:
        raise KeyError(f"bag of {request.node.nodeid} is there already")
    return SEEN.setdefault(request.node.nodeid, {})


@pytest.fixture
def filled(bag):
    return bag
"""
EVALS = """
import pytest
from pytest_llmeval import llm_eval


@llm_eval(repeats=3)
@pytest.mark.parametrize("n", range(2))
def test_classifier(llm, filled, n):
    llm.ask(f"Is 1 = {n}?")
"""
FLAKY = """
import pytest
from pytest_llmeval import llm_eval

LEFT = [KeyError, KeyError, None, None]


@pytest.fixture
def flaky():
    error = LEFT.pop()
    if error is not None:
        raise error


@llm_eval(repeats=4)
def test_half_of_them(llm, flaky):
    llm.ask("anything rate=1")
"""
JUDGING = """
import pytest
from pytest_llmeval import llm_eval

PASSED = [None]
WANTED = "yes"


@pytest.fixture
def answered(llm):
    if PASSED:
        return PASSED.pop()
    {judged}


@llm_eval(repeats=4)
def test_a(llm, answered):
    pass
"""


@pytest.mark.parametrize("concurrency", ["8", "1"])
def test_a_fixture_that_can_be_made_once_is_an_error_of_its_case(
    project: Project, concurrency: str
) -> None:
    project.write(conftest=BAG, test_evals=EVALS)

    result, report = project.gate(f"--llm-concurrency={concurrency}")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(errors=2)
    assert project.calls() == 2
    shown = " ".join(str(result.stdout).split())
    assert "fixture bag could not be set up for trials 1, 2 (KeyError: " in shown
    assert "it can be made once per test id, which the trials share." in shown
    (function,) = report["functions"]
    assert not function.get("current", {}).get("scored")


def test_a_fixture_that_fails_now_and_then_stays_a_crash(project: Project) -> None:
    project.write(test_evals=FLAKY)

    result = project.run("--llm-concurrency=1")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*2 crashed*"])


@pytest.mark.parametrize(
    "judged",
    [
        "assert llm.ask('q rate=0').text == 'yes'",
        "raise KeyError(llm.ask('q rate=0').text)",
        "assert not WANTED",
        "pytest.fail(WANTED)",
    ],
)
def test_what_a_fixture_says_of_a_reply_is_a_score(project: Project, judged: str) -> None:
    """One trial of four passed: as a fixture that can be made once looks, and yet by chance."""
    project.write(test_evals=JUDGING.format(judged=judged))

    result = project.run("--llm-concurrency=1")

    result.stdout.fnmatch_lines(["*3 crashed*"])
    assert "once per test id" not in str(result.stdout)


def test_a_function_whose_fixture_judges_replies_is_a_baseline(project: Project) -> None:
    project.write(test_evals=JUDGING.format(judged="assert llm.ask('q rate=0').text == 'yes'"))
    project.commit()
    project.run("--llm-concurrency=1")

    _, report = project.gate("--llm-concurrency=1", "--llm-baseline=HEAD")

    (function,) = report["functions"]
    assert function["verdict"] == "inconclusive"  # it is comparable
