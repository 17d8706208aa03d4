"""Every way in which a trial, a case or an ordinary test does not pass."""

import logging
import sys

import pytest

from pytest_llmeval import llm_eval

REPEATS = 5
EVENTS = []


def explain(llm, what):
    """Print, log and ask; give the index of the trial."""
    print(f"out: {what}")
    trial = int(llm.ask(f"meet: {what}").text)
    print(f"err: {what} {trial}", file=sys.stderr)
    logging.getLogger("suite").warning("log: %s %s", what, trial)
    return trial


@pytest.fixture
def breaks_setup(llm):
    explain(llm, "breaks setup")
    raise OSError("no setup")


@pytest.fixture
def breaks_setup_of_3(llm):
    if explain(llm, "breaks setup of 3") == 3:
        raise OSError("no setup of 3")


@pytest.fixture
def breaks_teardown(llm):
    yield
    explain(llm, "breaks teardown")
    raise OSError("no teardown")


@pytest.fixture
def breaks_teardown_of_3(llm):
    yield
    EVENTS.append("torn down")
    if explain(llm, "breaks teardown of 3") == 3:
        raise OSError("no teardown of 3")


@pytest.fixture
def skips(llm):
    explain(llm, "skips in setup")
    pytest.skip("skipped by a fixture")


@pytest.fixture(scope="module")
def breaks_wide_setup():
    EVENTS.append("wide")
    raise OSError("no wide setup")


@llm_eval(repeats=REPEATS)
def test_misses_some(llm):
    assert explain(llm, "misses some") in (0, 2, 4)


@llm_eval(repeats=REPEATS, min_score=0.8)
def test_misses_too_many(llm):
    trial = explain(llm, "misses too many")
    assert trial < 2, "too many"


@llm_eval(repeats=REPEATS, min_score=1)
def test_misses_in_different_ways(llm):
    trial = explain(llm, "misses differently")
    if trial == 1:
        pytest.fail("gave up")
    if trial == 2:
        raise KeyError("lost")
    assert trial == 0


@llm_eval(repeats=REPEATS)
def test_crashes(llm):
    raise ValueError(f"crash {explain(llm, 'crashes') % 2}")


@llm_eval(repeats=REPEATS)
def test_gets_no_reply(llm):
    print("before the call")
    llm.ask("broken")


@llm_eval(repeats=REPEATS)
def test_gets_no_reply_in_3(llm):
    llm.ask("broken" if explain(llm, "no reply in 3") == 3 else "alone: whole")


@pytest.mark.xfail(strict=True, reason="known")
@llm_eval(repeats=REPEATS)
def test_fails_as_expected(llm):
    assert explain(llm, "fails as expected") < 3


@pytest.mark.xfail(strict=True, reason="known")
@llm_eval(repeats=REPEATS)
def test_passes_against_expectation(llm):
    explain(llm, "passes against expectation")


@pytest.mark.xfail(strict=False, reason="known")
@llm_eval(repeats=REPEATS)
def test_may_pass(llm):
    explain(llm, "may pass")


@pytest.mark.xfail(raises=ZeroDivisionError, strict=True, reason="known")
@llm_eval(repeats=REPEATS)
def test_raises_as_expected(llm):
    return 1 / (explain(llm, "raises as expected") * 0)


@pytest.mark.xfail(raises=ZeroDivisionError, strict=True, reason="known")
@llm_eval(repeats=REPEATS)
def test_raises_another(llm):
    raise KeyError(explain(llm, "raises another") * 0)


@pytest.mark.xfail(run=False, reason="not even tried")
@llm_eval(repeats=REPEATS)
def test_is_not_run(llm):
    raise AssertionError


@pytest.mark.skip(reason="by a mark")
@llm_eval(repeats=REPEATS)
def test_skipped_by_mark(llm):
    raise AssertionError


@pytest.mark.skipif(sys.platform != "nowhere", reason="by a condition")
@llm_eval(repeats=REPEATS)
def test_skipped_by_condition(llm):
    raise AssertionError


@llm_eval(repeats=REPEATS)
def test_skips_in_the_body(llm):
    pytest.skip(f"in trial {explain(llm, 'skips') * 0}")


@llm_eval(repeats=REPEATS)
def test_skips_in_some(llm):
    if explain(llm, "skips some") > 2:
        pytest.skip("not this one")


@llm_eval(repeats=REPEATS)
def test_skipped_by_fixture(llm, skips):
    raise AssertionError


@llm_eval(repeats=REPEATS)
def test_setup_fails(llm, breaks_setup):
    raise AssertionError


@llm_eval(repeats=REPEATS)
def test_setup_fails_in_3(llm, breaks_setup_of_3):
    explain(llm, "after setup of 3")


@llm_eval(repeats=REPEATS)
def test_teardown_fails(llm, breaks_teardown):
    explain(llm, "before teardown")


@llm_eval(repeats=REPEATS)
def test_teardown_fails_in_3(llm, breaks_teardown_of_3):
    assert explain(llm, "before teardown of 3") != 1


def test_after_teardown():
    assert EVENTS.count("torn down") == REPEATS


@llm_eval(repeats=REPEATS)
@pytest.mark.parametrize("number", [1, 2])
def test_wide_setup_fails(llm, breaks_wide_setup, number):
    raise AssertionError


def test_after_wide_setup():
    assert EVENTS.count("wide") == 1


def test_ordinary_failure():
    print("ordinary output")
    assert [1, 2] == [1, 3]


@pytest.mark.xfail(strict=True)
def test_ordinary_expected_failure():
    raise AssertionError


def test_ordinary():
    print("nothing to see")
