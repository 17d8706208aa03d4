"""How the trials of a case fold into the outcome of its one item."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tests.forked import run_forked

PRELUDE = """
import itertools
import pytest
from pytest_llmeval import llm_eval

TRIALS = itertools.count()
"""


@pytest.fixture
def evals(pytester: pytest.Pytester):
    def write(body: str) -> pytest.Pytester:
        pytester.makepyfile(test_it=PRELUDE + body)
        return pytester

    return write


MIXED = """
@llm_eval(repeats=5)
def test_mixed():
    assert next(TRIALS) % 5 != 3
"""


def test_a_missed_trial_does_not_fail_the_case(evals) -> None:
    result = evals(MIXED).runpytest("-v")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*::test_mixed 4/5 passed*"])


def test_a_missed_trial_shows_as_m(evals) -> None:
    result = evals(MIXED).runpytest()

    result.stdout.fnmatch_lines(["test_it.py m*"])


def test_all_trials_passed_shows_as_a_dot(evals) -> None:
    result = evals("@llm_eval(repeats=2)\ndef test_good(): pass").runpytest()

    result.stdout.fnmatch_lines(["test_it.py .*"])


def test_missing_in_every_trial_is_a_rate_of_zero_not_a_failure(evals) -> None:
    body = "@llm_eval(repeats=3)\ndef test_bad(): assert next(TRIALS) == 3"
    result = evals(body).runpytest("-v")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*0/3 passed*"])


def test_pytest_fail_is_a_miss(evals) -> None:
    body = "@llm_eval(repeats=3)\ndef test_bad(): pytest.fail(f'no {next(TRIALS)}')"
    result = evals(body).runpytest("-v")

    result.stdout.fnmatch_lines(["*0/3 passed*"])


def test_crashing_in_every_trial_fails(evals) -> None:
    result = evals("@llm_eval(repeats=3)\ndef test_bug(): {}['missing']").runpytest()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*KeyError: 'missing'*", "*trials: every scored trial crashed: 3 crashed*"]
    )


def test_crashing_in_some_trials_is_a_score_of_zero(evals) -> None:
    body = """
    @llm_eval(repeats=4)
    def test_sometimes():
        if next(TRIALS) == 1:
            raise RuntimeError("boom")
    """
    result = evals("\n".join(line[4:] for line in body.splitlines())).runpytest("-v")

    result.stdout.fnmatch_lines(["*3/4 passed*"])


@pytest.mark.parametrize(("minimum", "outcome"), [("0.8", "passed"), ("0.81", "failed")])
def test_min_score_is_held_against_the_mean(evals, minimum: str, outcome: str) -> None:
    result = evals(MIXED.replace("repeats=5", f"repeats=5, min_score={minimum}")).runpytest()

    result.assert_outcomes(**{outcome: 1})


def test_min_score_says_what_it_saw_and_shows_a_missed_trial(evals) -> None:
    result = evals(MIXED.replace("repeats=5", "repeats=5, min_score=0.9")).runpytest()

    result.stdout.fnmatch_lines(
        [
            "*assert*",
            "*mean pass 0.800 is below min_score=0.9: 4 passed, 1 missed*",
            "trial 3: *assert*",
        ]
    )


def test_min_score_allows_for_rounding(evals) -> None:
    body = """
@llm_eval(repeats=3, min_score=0.3)
def test_scored(llm_score):
    llm_score(0.1 + 0.2 - 1e-10)
"""
    evals(body).runpytest().assert_outcomes(passed=1)


def test_min_score_looks_at_the_score_that_the_test_records(evals) -> None:
    body = """
@llm_eval(repeats=3, min_score=0.5)
def test_scored(llm_score):
    llm_score(0.4)
"""
    result = evals(body).runpytest()

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*mean score 0.400 is below min_score=0.5: 3 passed*"])


def test_min_score_of_a_gated_metric(evals) -> None:
    body = """
@llm_eval(repeats=3, min_score=0.5, gate="tone")
def test_scored(llm_score):
    llm_score(0.9)
    llm_score(0.4, "tone")
"""
    result = evals(body).runpytest()

    result.stdout.fnmatch_lines(["*mean tone 0.400 is below min_score=0.5*"])


def test_a_failing_setup_in_every_trial_is_an_error(evals) -> None:
    body = """
@pytest.fixture
def broken():
    raise RuntimeError("no database")

@llm_eval(repeats=3)
def test_uses(broken): pass
"""
    result = evals(body).runpytest()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR at setup of test_uses*", "*RuntimeError: no database*"])


def test_a_fixture_that_does_not_exist_is_an_error_that_names_it(evals) -> None:
    result = evals(
        """
@pytest.fixture(scope="session")
def of_all(): pass

@llm_eval(repeats=2)
def test_good(of_all): pass

@llm_eval(repeats=2)
def test_uses(of_all, mispelt): pass
"""
    ).runpytest()

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*def test_uses(of_all, mispelt)*", "E *'mispelt' not found"])


def test_a_failing_setup_in_one_trial_is_a_crashed_trial(evals) -> None:
    body = """
@pytest.fixture
def flaky():
    if next(TRIALS) == 0:
        raise RuntimeError("no database")

@llm_eval(repeats=3)
def test_uses(flaky): pass
"""
    result = evals(body).runpytest("-v")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*2/3 passed*"])


def test_a_teardown_error_keeps_the_scores(evals) -> None:
    body = """
@pytest.fixture
def leaky():
    yield
    if next(TRIALS) == 1:
        raise RuntimeError("leak")

@llm_eval(repeats=3)
def test_uses(leaky): pass
"""
    result = evals(body).runpytest("-v")

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*3/3 passed*", "*ERROR at teardown*", "*leak*"])


def test_several_teardown_errors_come_as_a_group(evals) -> None:
    body = """
@pytest.fixture
def leaky():
    yield
    raise RuntimeError("leak")

@llm_eval(repeats=3)
def test_uses(leaky): pass
"""
    result = evals(body).runpytest()

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*3 of 3 trials failed in teardown*"])


def test_skipping_in_every_trial_skips(evals) -> None:
    evals("@llm_eval(repeats=3)\ndef test_no(): pytest.skip('later')").runpytest(
        "-rs"
    ).assert_outcomes(skipped=1)


def test_skipping_in_setup_of_every_trial_skips(evals) -> None:
    body = """
@pytest.fixture
def absent():
    pytest.skip("no key")

@llm_eval(repeats=3)
def test_no(absent): pass
"""
    result = evals(body).runpytest("-rs")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no key*"])


def test_skipping_in_some_trials_leaves_the_others(evals) -> None:
    body = """
@llm_eval(repeats=4)
def test_some():
    if next(TRIALS) % 2: pytest.skip("odd")
"""
    result = evals(body).runpytest("-v")

    result.stdout.fnmatch_lines(["*2/2 passed*"])


@pytest.mark.parametrize(
    ("mark", "body", "outcome"),
    [
        ("skip", "assert False", "skipped"),
        ("xfail", "assert next(TRIALS) % 3", "xfailed"),
        ("xfail", "pass", "xpassed"),
        ("xfail(strict=True)", "pass", "failed"),
        ("xfail(strict=True)", "assert next(TRIALS) % 3", "xfailed"),
        ("xfail(run=False)", "raise SystemExit", "xfailed"),
        ("xfail(raises=KeyError)", "{}['x']", "xfailed"),
        ("xfail(raises=KeyError)", "[][0]", "failed"),
        ("xfail(False, reason='no')", "assert next(TRIALS) % 3", "passed"),
        ("skipif(False, reason='no')", "pass", "passed"),
    ],
)
def test_marks_mean_what_they_mean(evals, mark: str, body: str, outcome: str) -> None:
    result = evals(
        f"@llm_eval(repeats=3)\n@pytest.mark.{mark}\ndef test_marked():\n    {body}\n"
    ).runpytest()

    result.assert_outcomes(**{outcome: 1})


def test_runxfail_ignores_the_mark(evals) -> None:
    body = "@llm_eval(repeats=3)\n@pytest.mark.xfail\ndef test_marked():\n    {}['x']\n"

    evals(body).runpytest("--runxfail").assert_outcomes(failed=1)


def test_output_of_trials_that_missed_is_named(evals) -> None:
    body = """
import logging
@llm_eval(repeats=3, min_score=1)
def test_talks():
    n = next(TRIALS)
    print(f"this is {n}")
    logging.getLogger().warning("log of %s", n)
    assert n != 1
"""
    result = evals(body).runpytest()

    result.stdout.fnmatch_lines(
        [
            "*Captured stdout ?trial 1? call*",
            "this is 1",
            "*Captured log ?trial 1? call*",
            "*log of 1*",
        ]
    )
    result.stdout.no_fnmatch_line("this is 0")


def test_junit_sees_one_test_case(evals) -> None:
    pytester = evals(MIXED + "\n@llm_eval(repeats=2)\ndef test_bug(): {}['x']\n")

    pytester.runpytest("--junitxml=out.xml")

    cases = ET.parse(pytester.path / "out.xml").getroot().findall(".//testcase")  # noqa: S314
    assert [case.get("name") for case in cases] == ["test_mixed", "test_bug"]
    assert cases[0].find("failure") is None
    assert cases[1].find("failure") is not None
    properties = {p.get("name"): p.get("value") for p in cases[0].iter("property")}
    assert properties["llm_eval"] == "4 passed, 1 missed"


def test_record_property_reaches_junit(evals) -> None:
    body = "@llm_eval(repeats=2)\ndef test_p(record_property): record_property('colour', 'red')\n"
    pytester = evals(body)

    pytester.runpytest("--junitxml=out.xml", "-o", "junit_family=xunit1")

    root = ET.parse(pytester.path / "out.xml").getroot()  # noqa: S314
    values = [p.get("value") for p in root.iter("property") if p.get("name") == "colour"]
    assert values == ["red"]


CRASH_THEN_GOOD = """
@llm_eval(repeats=2)
def test_a(): {}['x']

@llm_eval(repeats=2)
def test_b(): pass

def test_c(): pass
"""


def test_x_stops_after_the_first_failing_case(evals) -> None:
    result = evals(CRASH_THEN_GOOD).runpytest("-x")

    result.assert_outcomes(failed=1)
    assert result.ret == 1


def test_k_selects_cases(evals) -> None:
    evals(CRASH_THEN_GOOD).runpytest("-k", "test_b").assert_outcomes(passed=1, deselected=2)


def test_lf_runs_the_failed_case(evals) -> None:
    pytester = evals(CRASH_THEN_GOOD)
    pytester.runpytest().assert_outcomes(failed=1, passed=2)

    pytester.runpytest("--lf").assert_outcomes(failed=1)


@pytest.mark.usefixtures("reruns_plugin")
def test_reruns_run_fresh_trials_and_the_first_attempt_is_recorded(evals) -> None:
    body = """
@llm_eval(repeats=2, min_score=1)
def test_second_time_lucky():
    assert next(TRIALS) >= 2
"""
    result = evals(body).runpytest("--reruns", "2", "-v")

    result.assert_outcomes(passed=1)
    assert "1 rerun" in str(result.stdout)
    result.stdout.fnmatch_lines(
        ["test_second_time_lucky * 1 * 2 * 0 *", "note: cases were run again by another plugin*"]
    )


def test_the_duration_is_that_of_all_trials(evals) -> None:
    body = """
import time
@llm_eval(repeats=4)
def test_slow(): time.sleep(0.05)
"""
    result = evals(body).runpytest("--durations=0", "--durations-min=0.19")

    result.stdout.fnmatch_lines(["*s call*test_slow"])


def test_a_score_that_is_none_shows_no_frame_of_ours(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pytest_llmeval import llm_eval

        @llm_eval
        def test_it(llm_score): llm_score("high")
        """
    )

    result = run_forked(pytester, "-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(["E *ScoreError: llm_score('high'): a score must be a finite*"])
    assert "ledger.py" not in str(result.stdout)


def test_the_last_lines_of_pytest_say_why_no_trial_got_an_answer(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2)
        def test_asks(llm):
            llm.ask("Peru?")
        """
    )
    result = pytester.runpytest()

    result.stdout.fnmatch_lines(
        ["ERROR *::test_asks - no answer to score (2 errored): SettingsError: no model is named.*"]
    )
    assert "trial 0, 1: " not in str(result.stdout)  # the same, a second time
