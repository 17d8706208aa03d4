"""A case that asks nothing and misses throughout: an ordinary test under a mark."""

from __future__ import annotations

import pytest

from tests.project import INI, MODEL
from tests.servers.openai_server import OpenAIServer

PRELUDE = """
import itertools, json, os, subprocess, sys, threading, time, urllib.request
import pytest
from pytest_llmeval import llm_eval

TRIALS = itertools.count()
"""


def run(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(model=MODEL, test_it=PRELUDE + body)
    pytester.makeini(INI)
    return pytester.runpytest("-p", "no:cacheprovider", *options)


@pytest.mark.parametrize("miss", ["assert 1 + 1 == 3", "pytest.fail('no')"])
@pytest.mark.parametrize("repeats", [1, 3])
def test_it_fails_as_one_and_is_named(pytester: pytest.Pytester, miss: str, repeats: int) -> None:
    body = f"""
@llm_eval(repeats={repeats})
@pytest.mark.parametrize("n", [1, 2])
def test_plain(n): {miss}
"""
    result = run(pytester, body)

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["note: cases that made no call, *alike: 2 (test_plain[[]1], test_plain[[]2]). They fail*"]
    )


@pytest.mark.parametrize(
    "body",
    [
        "assert next(TRIALS) == 7",  # a model inside the process
        "assert next(TRIALS) % 3 == 1",
        "if next(TRIALS) % 3: pytest.skip('no')\n    assert 0",
        "assert llm.ask('rate=0').text == 'yes'",
    ],
)
def test_what_differs_or_asks_stays_an_eval(pytester: pytest.Pytester, body: str) -> None:
    result = run(pytester, f"@llm_eval(repeats=3)\ndef test_it(llm):\n    {body}\n")

    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*ordinary tests*")


def test_what_opens_a_connection_stays_an_eval_in_later_cases_too(
    pytester: pytest.Pytester,
) -> None:
    body = """
@llm_eval(repeats=2)
@pytest.mark.parametrize("n", [1, 2])
def test_it(n):
    if n == 1:  # and is kept for those that follow
        urllib.request.urlopen("{url}/models").read()
    assert 0
"""
    with OpenAIServer() as server:
        result = run(pytester, body.replace("{url}", server.url), "--llm-concurrency=1")

    result.assert_outcomes(passed=2)


def test_so_does_what_differed_in_an_earlier_case(pytester: pytest.Pytester) -> None:
    body = """
@llm_eval(repeats=2)
@pytest.mark.parametrize("n", [1, 2])
def test_it(n): assert n == 1 and next(TRIALS)
"""
    run(pytester, body, "--llm-concurrency=1").assert_outcomes(passed=2)


def test_an_xfail_mark_expects_it(pytester: pytest.Pytester) -> None:
    body = "@pytest.mark.xfail\n@llm_eval(repeats=2)\ndef test_plain(): assert 0\n"

    run(pytester, body).assert_outcomes(xfailed=1)


def test_cases_with_calls_that_miss_throughout_are_named_where_a_run_is_recorded(
    pytester: pytest.Pytester,
) -> None:
    body = """
@llm_eval(repeats=2)
@pytest.mark.parametrize("rate", [0, 1])
def test_asks(llm, rate): assert llm.ask(f"rate={rate}").text == "yes"
"""
    result = run(pytester, body)

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["note: cases that missed in every trial: 1 (test_asks[[]0])"])
