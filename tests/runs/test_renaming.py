"""A baseline under the names that its tests have now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.runs.baseline import Baseline
from pytest_llmeval.runs.renaming import renames_of_nothing, under_new_names
from tests.runs.builders import make_run

FUNCTION = "tests/test_a.py::test_a"


def found() -> Baseline:
    run = make_run(partial=(FUNCTION,))
    return Baseline(run=run, path=Path("run"), reference="main", commit=None, how="last")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (FUNCTION, "tests/test_a.py::test_b", "tests/test_a.py::test_b"),
        ("tests/test_a.py", "evals/test_b.py", "evals/test_b.py::test_a"),
        ("tests", "evals/old", "evals/old/test_a.py::test_a"),
    ],
)
def test_whole_beginnings_of_node_ids_get_their_new_names(
    old: str, new: str, expected: str
) -> None:
    run = under_new_names(found(), [(old, new)]).run

    assert [case.id for case in run.cases] == [f"{expected}[Peru]", f"{expected}[Chad]"]
    assert {case.function for case in run.cases} == {expected} == set(run.partial)
    assert {trial.case for trial in run.trials} == {case.id for case in run.cases}


def test_it_is_said_how_many_cases_have_new_names() -> None:
    changed = under_new_names(found(), [("tests", "evals")])
    assert changed.notes == ("2 cases are paired under new names, as llm_renamed says",)


def test_one_case_can_be_renamed() -> None:
    run = under_new_names(found(), [(f"{FUNCTION}[Peru]", f"{FUNCTION}[PE]")]).run
    assert [case.id for case in run.cases] == [f"{FUNCTION}[PE]", f"{FUNCTION}[Chad]"]


def test_the_longest_beginning_counts() -> None:
    run = under_new_names(found(), [("tests", "evals"), (FUNCTION, "tests/b.py::test_b")]).run
    assert run.cases[0].function == "tests/b.py::test_b"


def test_a_part_of_a_name_is_no_beginning() -> None:
    assert under_new_names(found(), [("tests/test", "x"), (FUNCTION[:-1], "y")]) == found()


def test_two_cases_of_one_name_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"test_a\[Peru\] and .*\[Chad\] of run .* one name"):
        under_new_names(found(), [(f"{FUNCTION}[Peru]", f"{FUNCTION}[Chad]")])


def test_names_can_be_swapped() -> None:
    peru, chad = f"{FUNCTION}[Peru]", f"{FUNCTION}[Chad]"
    run = under_new_names(found(), [(peru, chad), (chad, peru)]).run
    assert [case.id for case in run.cases] == [chad, peru]


def test_entries_that_name_nothing_in_any_baseline_are_told() -> None:
    run = found().run
    other = replace(run, cases=(replace(run.cases[0], id="b.py::test", function="b.py::test"),))
    renames = [("tests", "x"), ("b.py", "y"), ("c.py", "z")]
    (note,) = renames_of_nothing([run, other], renames)
    assert note == (
        "llm_renamed names 'c.py', and no case of the baseline begins so: remove the line"
    )
    assert len(renames_of_nothing([run], renames)) == 2
    assert renames_of_nothing([], renames) == ()
