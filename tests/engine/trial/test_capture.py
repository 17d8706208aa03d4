"""What is printed around the phases of a trial is shown, though capture stays on."""

from __future__ import annotations

import pytest

EVAL = """
import pytest
from pytest_llmeval import llm_eval

@pytest.fixture
def narrow():
    print("in setup")
    yield
    print("in teardown")

@llm_eval(repeats=1, min_score=1)
def test_it(narrow):
    print("in the body")
    assert False
"""
HOOK = """
def pytest_runtest_makereport(item, call):
    print(f"hook after {call.when}")
"""


@pytest.mark.parametrize("concurrency", [1, 2])
def test_what_phases_and_hooks_print_is_shown_with_the_case(
    pytester: pytest.Pytester, concurrency: int
) -> None:
    pytester.makepyfile(EVAL)
    pytester.makeconftest(HOOK)

    result = pytester.runpytest("-p", "no:cacheprovider", f"--llm-concurrency={concurrency}")

    result.assert_outcomes(failed=1)
    for place in ("in setup", "in the body", "in teardown", "hook after setup", "hook after call"):
        result.stdout.fnmatch_lines([place])
    assert result.stdout.str().count("hook after teardown") == 2  # of the trial and of the case
