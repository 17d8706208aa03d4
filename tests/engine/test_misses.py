"""Misses in pytest's summary, and cases that fail by them."""

from __future__ import annotations

import pytest

EVALS = """
import itertools
import pytest
from pytest_llmeval import llm_eval

TRIALS = itertools.count()


def test_ordinary():
    pass


@llm_eval(repeats=3)
def test_good():
    print("all is well")


@llm_eval(repeats=3)
def test_mixed():
    draw = next(TRIALS)
    print(f"printed in {draw}")
    assert draw % 3 == 0, f"wrong in {draw}"


@llm_eval(repeats=2, min_score=1)
def test_strict():
    assert False, "too low"
"""
M_LINE = "m: 1 case passed with wrong answers; -rm shows them, --llm-fail-on-miss fails such a case"
IN_ORDER = [
    "*test_mixed*",
    "*- Trial 1 missed -*",
    "*> * assert draw % 3 == 0, f*",
    "E * AssertionError: wrong in 1",
    "*- Captured stdout ?trial 1? call -*",
    "printed in 1",
    "*- Trial 2 missed -*",
    "E * AssertionError: wrong in 2",
    "*- Captured stdout ?trial 2? call -*",
    "printed in 2",
]


@pytest.fixture
def evals(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_it=EVALS)
    return pytester


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])
@pytest.mark.parametrize(("asked", "heading"), [("-rA", "PASSES"), ("-rm", "MISSES")])
def test_every_miss_is_printed_once(
    evals: pytest.Pytester, asked: str, heading: str, workers: tuple[str, ...]
) -> None:
    result = evals.runpytest(asked, *workers)

    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines([f"*= {heading} =*", *IN_ORDER])
    printed = result.stdout.str()
    assert printed.count("E       AssertionError: wrong in 1") == 1
    assert printed.count("Trial 1 missed") == 1  # that of test_strict is as its failure says
    assert "trial 0, 1: AssertionError: too low" in printed
    assert "Trial 0" not in printed  # it passed, or is shown as the failure of test_strict


def test_misses_that_tell_the_same_are_printed_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "from pytest_llmeval import llm_eval\n\n"
        "class Answer:\n    pass\n\n"
        "DRAWS = iter('abaabz')\n\n"
        "@llm_eval(repeats=6)\ndef test_it():\n"
        "    answer, other = Answer(), next(DRAWS)\n"
        "    print('said', other)\n"
        "    assert other == 'z' or [answer, other] == []\n"
    )

    result = pytester.runpytest("-rm")

    result.stdout.fnmatch_lines(
        ["*- Trial 0, 2, 3 missed -*", "said a", "*- Trial 1, 4 missed -*", "said b"]
    )
    printed = result.stdout.str()
    assert printed.count(">       assert other == 'z' or [answer, other] == []") == 2
    assert printed.count("said a") == 3


def test_a_replay_miss_is_printed_once_a_case(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        app="def answer(prompt):\n    return prompt\n",
        test_it="from pytest_llmeval import llm_eval\n\n"
        "@llm_eval(repeats=3)\ndef test_it(llm):\n    llm.ask('?')\n",
    )

    result = pytester.runpytest("--llm-model=function/app:answer", "--llm-cache=replay")

    result.stdout.fnmatch_lines(
        ["trial 0, 1, 2: ReplayMiss: no reply is stored for call 0/0, 1/0, 2/0 of request *"]
    )
    assert result.stdout.str().count("trial 0") == 1


@pytest.mark.parametrize("prompt", ["x", "{0}b{0}", "{0}{0}{0}bb{0}"])
def test_what_pays_for_a_replay_miss_is_told_whole(pytester: pytest.Pytester, prompt: str) -> None:
    long = "a word or two, and so on " * 5
    eval_of = (
        "from pytest_llmeval import llm_eval\n\n"
        "@llm_eval(repeats=1)\ndef test_it(llm):\n    llm.ask({!r})\n"
    )
    model = "--llm-model=function/app:answer"
    pytester.makepyfile(
        app="def answer(prompt):\n    return 'yes'\n",
        test_it=eval_of.format(f"{long}a{long}"),
    )
    pytester.runpytest(model).assert_outcomes(passed=1)
    pytester.makepyfile(test_it=eval_of.format(prompt.format(long)))

    printed = pytester.runpytest(model, "--llm-cache=replay").stdout.str()

    first = " ".join(printed.partition("first of them")[2].split())
    assert "; the nearest stored one differs in " in first
    assert "Pay for it once: pytest --llm-cache=auto (--llm-cache=replay makes no call;" in first


def test_a_traceback_holds_no_character_that_steers_a_terminal(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "from pytest_llmeval import llm_eval\n\n"
        "GOOD = iter('y')\n\n@llm_eval(repeats=3)\ndef test_it():\n"
        "    assert next(GOOD, ''), '\\x1b[2J\\n::error::x'"
    )

    printed = pytester.runpytest("-rm").stdout.str()

    assert "Trial 1, 2 missed" in printed
    assert "\x1b[2J" not in printed
    assert "\n::error::x" not in printed


@pytest.mark.parametrize("asked", ["-rA", "-rm"])
def test_tracebacks_stay_where_output_is_not_to_be_shown(
    evals: pytest.Pytester, asked: str
) -> None:
    result = evals.runpytest(asked, "--show-capture=no")

    result.stdout.fnmatch_lines(["*= MISSES =*", "*- Trial 1 missed -*", "*- Trial 2 missed -*"])
    result.stdout.no_fnmatch_line("printed in 1")


@pytest.mark.parametrize("options", [(), ("-rm", "--tb=no")], ids=["not asked", "no traceback"])
def test_no_miss_is_printed_else(evals: pytest.Pytester, options: tuple[str, ...]) -> None:
    result = evals.runpytest(*options)

    result.stdout.no_fnmatch_line("*MISSES*")
    result.stdout.no_fnmatch_line("*Trial 1 missed*")


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])
def test_the_letter_is_explained_where_it_was_printed(
    evals: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    evals.runpytest(*workers).stdout.fnmatch_lines([M_LINE])


@pytest.mark.parametrize("options", [("-v",), ("-k", "good")], ids=["words", "no miss"])
def test_no_letter_is_explained_that_was_not_printed(
    evals: pytest.Pytester, options: tuple[str, ...]
) -> None:
    evals.runpytest(*options).stdout.no_fnmatch_line("m: *")


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "worker"])
def test_any_miss_fails_its_case(evals: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = evals.runpytest("--llm-fail-on-miss", *workers)

    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*trials: --llm-fail-on-miss: 1 passed, 2 missed*",
            "*trials: mean pass 0.000 is below min_score=1: 2 missed*",
        ]
    )


def test_the_session_stops_at_a_miss_and_runs_it_again(evals: pytest.Pytester) -> None:
    first = evals.runpytest("--llm-fail-on-miss", "-x")
    again = evals.runpytest("--llm-fail-on-miss", "--lf")

    first.assert_outcomes(passed=2, failed=1)
    again.assert_outcomes(failed=1)


def test_a_miss_that_xfail_expects_stays_expected(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\nfrom pytest_llmeval import llm_eval\n\n"
        "@pytest.mark.xfail\n@llm_eval(repeats=2)\ndef test_it(): assert False"
    )

    pytester.runpytest("--llm-fail-on-miss").assert_outcomes(xfailed=1)


class Debugger:
    """Goes on at once."""

    quitting = False

    def __init__(self, **_: object) -> None: ...
    def reset(self) -> None: ...
    def interaction(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("options", "misses"),
    [(["--llm-fail-on-miss"], 4), (["--llm-repeats=3"], 5)],
    ids=["case of it fails", "case of it may pass"],
)
def test_the_debugger_stops_once_at_each_miss(
    evals: pytest.Pytester, options: list[str], misses: int
) -> None:
    debugger = ("--pdb", "--pdbcls=tests.engine.test_misses:Debugger")

    printed = evals.runpytest("-p", "no:cacheprovider", *debugger, *options).stdout.str()

    assert printed.count("> entering PDB >") == misses
    before_failures = printed.partition("= FAILURES =")[0]
    assert before_failures.count("E       AssertionError: wrong in 2") == 1
