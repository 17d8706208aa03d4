from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Case, Outcome, Run, Trial
from pytest_llmeval.runs.reshaping import conditions, gated_on, parse_selection, recording
from tests.runs.builders import make_run

PATH = "tests/test_a.py"


def run_of(*ids: str, **changes: object) -> Run:
    """A run with one trial of each ``function[parameters]``."""
    cases = tuple(
        Case(id=f"{PATH}::{id_}", function=f"{PATH}::{id_.partition('[')[0]}", repeats=1)
        for id_ in ids
    )
    trials = tuple(
        Trial(case=case.id, index=0, outcome=Outcome.PASSED, scores={"tone": 1.0}) for case in cases
    )
    return replace(make_run(), cases=cases, trials=trials, **changes)


def held(
    run: Run, first: str, second: str, other: Run | None = None
) -> tuple[list[str], list[str]]:
    selections = parse_selection(first), parse_selection(second)
    sides = conditions(run, other or run, selections)
    for side in sides:
        assert [trial.case for trial in side.trials] == [case.id for case in side.cases]
    there, here = ([case.id.removeprefix(f"{PATH}::") for case in side.cases] for side in sides)
    return there, here


def test_two_conditions_are_paired_by_the_remaining_parameters() -> None:
    run = run_of("test[a-Peru]", "test[b-Peru]", "test[a-Chad]", "test[b-Chad]", "other[a]")
    assert held(run, "test[a]", "test[b]") == (["test[Peru]", "test[Chad]"],) * 2


def test_looks_stay_with_their_function() -> None:
    run = run_of("test[a-Peru]", "test[b-Peru]", "other[a]")
    run = replace(run, looks={f"{PATH}::test": 1, f"{PATH}::other": 1})
    for first, second in (("test[a]", "test[b]"), ("other", "test[b]"), ("test", "test")):
        sides = conditions(run, run, (parse_selection(first), parse_selection(second)))
        assert [side.looks for side in sides] == [{f"{PATH}::test": 1}] * 2
    narrow = conditions(run_of("test[a]"), run, (parse_selection("test"), parse_selection("test")))
    assert narrow[0].looks == {}


def test_a_condition_may_be_any_of_the_parameters_and_hold_dashes() -> None:
    run = run_of("test[Peru-gpt-4-x]", "test[Peru-gpt-3-x]", "test[Peru-gpt-3]", "test[gpt-4]")
    assert held(run, "test[gpt-3]", "test[gpt-4]") == (
        ["test[Peru-x]", "test[Peru]"],
        ["test[Peru-x]", "test"],
    )


def test_a_part_of_an_id_is_no_condition() -> None:
    run = run_of("test[ab]", "test[b]")
    assert held(run, "test[b]", "test[ab]") == (["test"], ["test"])
    longer = run_of("test[a]", "test[ab]")
    assert held(longer, "test[a]", "test[ab]") == (["test"], ["test"])


def test_a_star_says_where_the_other_parameters_are() -> None:
    run = run_of("test[a-b]", "test[b-a]", "test[a-a]", "test[b-b]")

    with pytest.raises(SettingsError, match=r"leaves the same of .*a-b\] and .*b-a\]"):
        held(run, "test[a]", "test[b]")
    assert held(run, "test[a-*]", "test[b-*]") == (["test[b]", "test[a]"], ["test[a]", "test[b]"])
    assert held(run, "test[*-a]", "test[*-b]") == (["test[b]", "test[a]"], ["test[a]", "test[b]"])


def test_two_functions_are_paired_by_their_parameters() -> None:
    run = run_of("test_old[Peru]", "test_new[Peru]", partial=(f"{PATH}::test_old",))

    assert held(run, "test_old", "test_new") == (["test_new[Peru]"],) * 2
    old, _ = conditions(run, run, (parse_selection("test_old"), parse_selection("test_new")))
    assert old.partial == (f"{PATH}::test_new",)
    assert old.cases[0].function == f"{PATH}::test_new"


def test_the_same_condition_of_two_runs_keeps_its_ids() -> None:
    run = run_of("test[a-Peru]", "test[b-Peru]")
    assert held(run, "test[a]", f"{PATH}::test[a]", run) == (["test[a-Peru]"],) * 2


def test_the_digest_of_all_parameters_is_dropped() -> None:
    run = run_of("test[a]", "test[b]")
    run = replace(run, cases=tuple(replace(case, parameters=case.id) for case in run.cases))
    there, here = conditions(run, run, (parse_selection("test[a]"), parse_selection("test[b]")))
    assert there.cases[0].parameters is here.cases[0].parameters is None


@pytest.mark.parametrize(
    ("typed", "part"),
    [
        ("tset[a]", "no test function 'tset'. Did you mean test?"),
        ("zzz", "It has test, twin, t1, t2, t3 and 1 more"),
        ("test[c]", "no case ::test[c]. tests/test_a.py::test has [a-x], [b-x]; name whole ids"),
        ("test[a-x*a-x]", "no case"),
        ("twin[c]", "twin has no parameters"),
        ("[a]", "write a test function and its parameters"),
        ("", "write a test function"),
    ],
)
def test_a_mistyped_condition_is_told_what_there_is(typed: str, part: str) -> None:
    run = run_of("test[a-x]", "test[b-x]", "twin", "t1", "t2", "t3", "t4")
    with pytest.raises(SettingsError) as caught:
        held(run, "test[a]", typed)
    assert part in str(caught.value)


def test_a_name_that_two_functions_have_is_refused() -> None:
    run = run_of("TestA::test", "TestB::test")
    with pytest.raises(SettingsError, match=r"2 functions test: name one, as in ::tests/test_a.py"):
        held(run, "test", "test")
    assert held(run, "TestA::test", "TestB::test") == (["TestB::test"],) * 2


def test_a_run_can_be_gated_on_another_metric_and_direction() -> None:
    run = run_of("test[a]")

    assert gated_on(run, metric=None) == run
    changed = gated_on(run, metric="tone", better={"": "lower"}).cases[0]
    assert (changed.gate, changed.direction("tone")) == (("tone",), "lower")
    turned = gated_on(run, metric=None, better={"tone": "lower"}).cases[0]
    assert (turned.direction("tone"), turned.direction("score")) == ("lower", "higher")
    assert gated_on(run, metric="pass").cases[0].gate == ("pass",)
    with pytest.raises(SettingsError, match=r"--metric=tune: no trial .* it has pass, tone"):
        gated_on(run, metric="tune")
    with pytest.raises(SettingsError, match=r"--better=lower has nothing to turn: pass has"):
        gated_on(run, metric="pass", better={"": "lower"})


def test_functions_that_record_a_metric_on_a_side_stay_on_both() -> None:
    bare = replace(run_of("f[a]", "f[b]"), trials=())
    there, here = recording("tone", run_of("f[a]"), bare)
    assert [case.id for case in here.cases] == [case.id for case in bare.cases]
    assert len(there.trials) == 1


def test_functions_that_record_a_metric_on_neither_side_are_left_out() -> None:
    run = run_of("f[a]", "g[a]")
    silent = replace(run, trials=(run.trials[0], replace(run.trials[1], scores={"pass": 1.0})))
    for side in recording("tone", silent, silent):
        assert [case.id for case in side.cases] == [trial.case for trial in side.trials]
        assert [case.id for case in side.cases] == [f"{PATH}::f[a]"]
    assert recording("pass", silent, silent) == (silent, silent)
