"""A subtest that fails is a failure of its trial: pytest 9's fixture, and pytest-subtests'."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    not (hasattr(pytest, "Subtests") or find_spec("pytest_subtests")),
    reason="needs pytest 9, or the plugin pytest-subtests",
)

EVALS = """
import pytest
from pytest_llmeval import llm_eval


def answer(messages, draw):
    return str(draw.trial)


@llm_eval(repeats=3{arguments})
def test_it(llm, subtests):
    trial = llm.ask("which?").text
{body}
    llm.ask("after it")
"""
ONE_OF_THREE = """
    with subtests.test("odd", n=1):
        assert trial != "1", "one is wrong"
    with subtests.test("ended"):
        pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini("[pytest]\nllm_model = function/test_it:answer\npythonpath = .")
    return pytester


def run(suite: pytest.Pytester, body: str, *options: str, arguments: str = "") -> pytest.RunResult:
    suite.makepyfile(test_it=EVALS.format(body=body, arguments=arguments))
    return suite.runpytest("-p", "no:cacheprovider", *options)


@pytest.mark.parametrize("options", [(), ("--llm-concurrency=1",), ("-s",)])
def test_one_failed_subtest_in_three_trials_is_a_missed_trial(
    suite: pytest.Pytester, options: tuple[str, ...]
) -> None:
    result = run(suite, ONE_OF_THREE, *options)

    assert result.ret == 0
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_it *1 * 0.667*", "*6 calls made*"])
    result.stdout.no_fnmatch_line("*SUBFAIL*")


def test_the_failure_is_shown_with_the_name_of_the_subtest(suite: pytest.Pytester) -> None:
    result = run(suite, ONE_OF_THREE, arguments=", min_score=1")

    assert result.ret == 1
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E * one is wrong", "E *in subtest [[]odd[]] (n=1)", "trial 1: AssertionError: one is*"]
    )


@pytest.mark.parametrize(
    ("body", "score"),
    [
        ("    with subtests.test():\n        pytest.skip('no')", "3/3 passed"),
        ("    with subtests.test():\n        pytest.xfail('no')", "3/3 passed"),
        ("    with subtests.test():\n        pytest.fail('no')\n    pytest.skip()", "0/3 passed"),
        ("    with subtests.test():\n        assert 0\n    assert trial == '0'", "0/3 passed"),
    ],
    ids=["skip", "xfail", "skipped-later", "failed-later"],
)
def test_what_a_subtest_does_to_its_trial(suite: pytest.Pytester, body: str, score: str) -> None:
    result = run(suite, body, "-v")

    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*::test_it {score}*"])


def test_a_crash_in_every_subtest_fails_the_case(suite: pytest.Pytester) -> None:
    result = run(suite, "    with subtests.test():\n        raise OSError")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*every scored trial crashed: 3 crashed*"])


def test_an_exit_in_a_subtest_ends_the_session(suite: pytest.Pytester) -> None:
    result = run(suite, "    with subtests.test():\n        pytest.exit('enough')")

    result.stdout.fnmatch_lines(["*Exit: enough*"])


def test_subtests_of_an_ordinary_test_are_reported_as_ever(suite: pytest.Pytester) -> None:
    ordinary = (
        "\n\ndef test_ordinary(subtests):\n    with subtests.test('own'):\n        assert 0\n"
    )
    suite.makepyfile(test_it=EVALS.format(body=ONE_OF_THREE, arguments="") + ordinary)

    result = suite.runpytest("-p", "no:cacheprovider")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*SUBFAIL* *test_ordinary*"])
