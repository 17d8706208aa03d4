"""What a trial itself is the first to import is its own, too: a mock, a seeded generator."""

from __future__ import annotations

import pytest

INI = "[pytest]\nllm_model = function/bot:answer\npythonpath = .\n"

# Trials that meet have all drawn before any of them goes on.
MODEL = """
import threading

ALL = threading.Barrier(8)


def answer(messages):
    if messages[-1]["content"].startswith("meet"):
        ALL.wait(timeout=300)
    return "yes"
"""

MOCKING = """
import app
from pytest_llmeval import llm_eval

@llm_eval(repeats=4, min_score=1)
async def test_it(async_llm, tmp_path):
    import unittest.mock as mock
    with mock.patch.object(app, "value", tmp_path):
        await async_llm.ask("first")
        assert app.value is tmp_path
        await async_llm.ask("second")
        assert app.value is tmp_path

@llm_eval(repeats=4, min_score=1)
async def test_others(async_llm):
    assert app.value == 1
    await async_llm.ask("third")
    assert app.value == 1
"""

SEEDING = """
from pytest_llmeval import llm_eval

@llm_eval(repeats=4, min_score=1)
def test_it(llm):
    import numpy
    numpy.random.seed(5)
    drawn = [numpy.random.random()]
    llm.ask("meet seeded")
    drawn.append(numpy.random.random())
    assert drawn == list(numpy.random.RandomState(5).random_sample(2))

@llm_eval(repeats=4, min_score=1)
def test_others(llm):
    import numpy
    numpy.random.random()
    llm.ask("meet others")
"""


@pytest.mark.parametrize("suite", [MOCKING, SEEDING], ids=["mock", "generator"])
def test_a_trial_that_imports_late_is_kept_apart(pytester: pytest.Pytester, suite: str) -> None:
    pytester.makepyfile(app="value = 1", bot=MODEL, test_it=suite)
    pytester.makeini(INI)

    # In a process of its own, as these modules are imported here.
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=300)

    result.assert_outcomes(passed=suite.count("@llm_eval"))
