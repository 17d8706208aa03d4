"""Groups of exceptions, as task groups raise them: what a trial with one ended with."""

from __future__ import annotations

import pytest

from pytest_llmeval.records import Outcome
from pytest_llmeval.runs.run_file import read_run

PRELUDE = """
import asyncio, unittest, pytest
from pytest_llmeval import llm_eval

def grouped(*errors, nested=False):
    raised = []
    for error in errors:
        try:
            raise error
        except BaseException as exc:
            raised.append(exc)
    group = BaseExceptionGroup("parts", raised)
    raise BaseExceptionGroup("whole", [group]) if nested else group

MISS, FAIL = AssertionError("no gold"), pytest.fail.Exception("no silver")
SKIP, CASE_SKIP = pytest.skip.Exception("no lead"), unittest.SkipTest("no tin")
BUG, STOP = KeyError("gold"), pytest.exit.Exception("no more")
"""


def outcomes(pytester: pytest.Pytester, body: str) -> list[Outcome]:
    pytester.makepyfile(test_it=PRELUDE + body)
    pytester.runpytest("-p", "no:cacheprovider")
    (path,) = (pytester.path / ".llmeval" / "runs").rglob("*.jsonl.gz")
    return [trial.outcome for trial in read_run(path).trials]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("errors", "outcome"),
    [
        ("MISS", Outcome.MISSED),
        ("MISS, FAIL", Outcome.MISSED),
        ("SKIP, MISS", Outcome.MISSED),
        ("SKIP, CASE_SKIP", Outcome.SKIPPED),
        ("MISS, BUG", Outcome.CRASHED),
        ("SKIP, BUG", Outcome.CRASHED),
        ("STOP, MISS", Outcome.CRASHED),
    ],
)
def test_a_group_ends_a_trial_as_its_parts_do(
    pytester: pytest.Pytester, errors: str, outcome: Outcome, nested: bool
) -> None:
    body = f"@llm_eval(repeats=2)\ndef test_it(): grouped({errors}, nested={nested})\n"

    assert outcomes(pytester, body) == [outcome] * 2


@pytest.mark.parametrize("library", ["asyncio", "anyio"])
def test_an_assertion_in_a_task_is_a_miss(pytester: pytest.Pytester, library: str) -> None:
    body = f"""
import anyio

async def check(part):
    await asyncio.sleep(0)
    assert part == "gold"

@llm_eval(repeats=2)
def test_it():
    async def main():
        if "{library}" == "asyncio":
            async with asyncio.TaskGroup() as group:
                group.create_task(check("silver"))
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(check, "silver")
    asyncio.run(main())
"""
    assert outcomes(pytester, body) == [Outcome.MISSED] * 2


def test_the_line_of_a_group_is_that_of_its_first_part_that_is_no_skip(
    pytester: pytest.Pytester,
) -> None:
    body = "@llm_eval(repeats=2, min_score=1)\ndef test_it(): grouped(SKIP, MISS)\n"
    pytester.makepyfile(test_it=PRELUDE + body)

    result = pytester.runpytest()

    result.stdout.fnmatch_lines(["trial 0, 1: AssertionError: no gold"])
    (path,) = (pytester.path / ".llmeval" / "runs").rglob("*.jsonl.gz")
    assert read_run(path).trials[0].message.startswith("AssertionError test_it.py:")


def test_a_group_of_skips_skips_the_case(pytester: pytest.Pytester) -> None:
    body = """
@llm_eval(repeats=2)
def test_it(): grouped(SKIP, nested=True)

@pytest.fixture
def away(): grouped(SKIP)

@llm_eval(repeats=2)
def test_with_fixture(away): pass
"""
    pytester.makepyfile(test_it=PRELUDE + body)

    pytester.runpytest().assert_outcomes(skipped=2)


def test_a_part_that_was_never_raised_has_no_line_of_its_own(pytester: pytest.Pytester) -> None:
    body = "@llm_eval(repeats=2)\ndef test_it(): raise ExceptionGroup('whole', [MISS])\n"

    assert outcomes(pytester, body) == [Outcome.MISSED] * 2


def test_a_group_in_a_subtest_ends_the_subtest_alone(pytester: pytest.Pytester) -> None:
    body = """
@llm_eval(repeats=2)
def test_it(subtests):
    with subtests.test("first"): grouped(FAIL)
    raise KeyError("reached")
"""
    assert outcomes(pytester, body) == [Outcome.CRASHED] * 2


def test_a_model_that_cannot_be_asked_in_a_task_is_no_result(pytester: pytest.Pytester) -> None:
    body = """
@llm_eval(repeats=2)
def test_it(async_llm):
    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(async_llm.ask("x"))
    asyncio.run(main())
"""
    assert outcomes(pytester, body) == [Outcome.ERRORED] * 2
