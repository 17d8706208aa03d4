from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.records import Outcome, Slot, Trial, crashed_too_soon, too_many_errored
from pytest_llmeval.runs.lookup.best_run import (
    covers,
    crashed_functions,
    remarks_on,
    shortcomings,
    unusable_trials,
)
from pytest_llmeval.runs.run_lines import RunHeader
from tests.runs.builders import make_call, make_run, make_trials


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ([], []),
        ([], ["tests/a"]),
        (["."], ["tests/a"]),
        (["tests"], ["tests/a", "tests/b/test_c.py"]),
        (["tests/"], ["tests"]),
        (["./tests"], ["tests/a"]),
        (["tests/a", "tests/b"], ["tests/b", "tests/a/test_c.py"]),
        (["tests/a.py"], ["tests/a.py::test_x"]),
        (["tests/a.py::Test"], ["tests/a.py::Test::test_x"]),
        (["tests/a.py::test_x"], ["tests/a.py::test_x", "tests/a.py::test_x[1]"]),
        ([], ["-k a"]),
        (["-k a"], ["-k a"]),
        (["-m not slow", "--ignore=b"], ["--ignore=b", "-k a", "-m not slow"]),
        (["tests", "-k a"], ["tests/a.py", "-k a"]),
    ],
)
def test_a_selection_covers_what_lies_below_it(wide, narrow):
    assert covers(wide, narrow=narrow)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (["tests/a"], []),
        (["tests/a"], ["tests/b"]),
        (["tests/a"], ["tests"]),
        (["tests/a"], ["tests/abc"]),
        (["tests/a"], ["tests/a", "tests/b"]),
        (["tests/a.py::test_x"], ["tests/a.py"]),
        (["tests/a.py::test_x"], ["tests/a.py::test_xy"]),
        (["-k a"], []),
        (["-k a"], ["tests/a.py"]),
        (["-k a"], ["-k a or b"]),
        (["tests/a.py"], ["-k a"]),
        (["--ignore=b", "--ignore=c"], ["--ignore=b"]),
    ],
)
def test_a_selection_does_not_cover_anything_else(wide, narrow):
    assert not covers(wide, narrow=narrow)


def test_a_complete_and_clean_run_has_no_shortcomings():
    assert shortcomings(make_run(), trials=4) == ()


def test_what_is_short_is_said():
    dirty, incomplete = shortcomings(make_run(dirty=True, complete=False), trials=3)
    assert dirty == "dirty: tracked files differed from the commit"
    assert incomplete == "incomplete: 3 of 4 trials"


def test_files_that_git_did_not_look_at_are_named():
    (dirty,) = shortcomings(make_run(dirty=True, unseen=("a.py", "b.py")), trials=4)
    assert dirty == "dirty: git did not look at a.py and 1 more"


def test_a_run_from_the_future_says_so():
    (ahead,) = shortcomings(make_run(id="20991231T000000-fffaaa"), trials=4)
    assert ahead == "dated 2099-12-31, ahead of this machine's clock"


def test_a_run_that_stopped_early_is_incomplete_and_says_so():
    run = make_run(complete=False, looks={"tests/test_a.py::test_a": 1}, stopped=True)
    assert shortcomings(run, trials=2) == ("incomplete: 2 of 4 trials, as it stopped early",)


def test_a_run_of_a_part_of_the_cases_is_incomplete_with_all_trials():
    (incomplete,) = shortcomings(make_run(complete=False), trials=4)
    assert incomplete == "incomplete: not everything was collected"


def test_a_run_that_was_made_to_confirm_a_fall_says_so():
    (incomplete,) = shortcomings(make_run(complete=False, made="confirm"), trials=4)
    assert incomplete == "incomplete: some cases, asked again to confirm a fall"


def test_one_trial_or_a_twentieth_of_them_may_be_errored_and_no_more():
    assert not any(too_many_errored(1, ran=n) for n in range(1, 20))
    assert not any(too_many_errored(n, ran=20 * n) for n in range(2000))
    assert all(too_many_errored(n + 1, ran=20 * n) for n in range(1, 2000))


def trial(end: str, index: int = 0) -> Trial:
    """A trial: ``p`` passed, ``s`` skipped, and crashed: ``c`` after, ``b`` before it asked;
    ``f`` in a fixture, with a call of a wider one.
    """
    outcomes = {"p": Outcome.PASSED, "s": Outcome.SKIPPED}
    shared = make_call(slot=Slot(None, 0))
    return Trial(
        case="tests/test_a.py::test_a[Peru]",
        index=index,
        outcome=outcomes.get(end, Outcome.CRASHED),
        calls={"b": (), "f": (shared,), "s": ()}.get(end, (make_call(index),)),
        message="OSError a.py:3",
        in_setup=end == "f",
    )


@pytest.mark.parametrize(
    ("ends", "number"),
    [
        ("ccccc", 5),  # a bug, not a rate
        ("cccccs", 5),
        ("ccccp", 0),  # on a reply
        ("bbpppppppp", 2),
        ("bbppppppppp", 0),
        ("bpp", 0),  # a single one may be an accident
        ("fbccp", 2),
        ("ffccp", 2),
        ("sss", 0),
        ("", 0),
    ],
)
def test_a_function_that_crashed_before_it_asked_is_no_baseline(ends: str, number: int) -> None:
    trials = [trial(end, index) for index, end in enumerate(ends)]
    assert len(crashed_too_soon(trials)) == number


def test_what_never_asks_is_no_baseline_for_what_its_fixtures_do() -> None:
    def silent(**changes: object) -> Trial:
        return replace(trial("b"), **changes)  # type: ignore[arg-type]

    passed = silent(outcome=Outcome.PASSED)
    assert not crashed_too_soon([silent(), silent(), passed])
    assert len(crashed_too_soon([silent(in_setup=True), silent(in_setup=True), passed])) == 2


def test_such_functions_are_told_with_their_exception() -> None:
    def told(ends: str) -> tuple[str, ...]:
        trials = tuple(trial(end, index) for index, end in enumerate(ends))
        return crashed_functions(make_run(trials=trials))

    assert told("ccc") == ("3 of 3 trials of test_a crashed (OSError a.py:3)",)
    early = "2 of 4 trials of test_a crashed before they asked anything (OSError a.py:3)"
    assert told("bbpp") == (early,)
    assert told("ppp") == ()


def test_trials_that_errored_and_functions_that_crashed_make_no_baseline() -> None:
    def told(*trials: Trial) -> tuple[str, ...]:
        return unusable_trials(make_run(trials=trials))

    assert told(*make_trials(20, errored=3, skipped=2)) == ("3 of 18 trials errored",)
    assert told(*make_trials(20)) == ()
    crashed = ("3 of 3 trials of test_a crashed (OSError a.py:3)",)
    assert told(*(trial("c", index) for index in range(3))) == crashed


def test_remarks_on_a_run_name_each_reason_once() -> None:
    run = make_run(dirty=True, typed_model="openai/gpt-6-sol", selection=("-k a",))
    header = RunHeader(run=run, trials=20, errored=3, skipped=2, models=())
    assert remarks_on(header) == (
        *shortcomings(run, trials=20),
        "3 of 18 trials errored",
        "--llm-model=openai/gpt-6-sol was typed",
        "of '-k a' alone",
    )
