"""A baseline under the names that its tests have now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.reshaping import idle_renames, renames_to_nothing, under_new_names
from tests.runs.builders import make_run

FUNCTION = "tests/test_a.py::test_a"


def found() -> Baseline:
    run = make_run(partial=(FUNCTION,), looks={FUNCTION: 1})
    return Baseline(run=run, path=Path("run"), reference="main", how="last")


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
    assert run.looks == {expected: 1}
    assert {trial.case for trial in run.trials} == {case.id for case in run.cases}


def test_it_is_said_how_many_cases_have_new_names() -> None:
    changed = under_new_names(found(), [("tests", "evals")])
    assert changed.notes == ("2 cases are paired under new names, as llm_renamed says",)


def test_cases_that_were_not_collected_here_are_not_counted() -> None:
    for here, notes in (
        ("evals", ("1 case is paired under a new name, as llm_renamed says",)),
        ("other", ()),
    ):
        collected = [f"{here}/{FUNCTION.partition('/')[2]}[Peru]"]
        changed = under_new_names(found(), [("tests", "evals")], here=collected)
        assert changed.notes == notes


def test_one_case_can_be_renamed() -> None:
    renamed = under_new_names(found(), [(f"{FUNCTION}[Peru]", f"{FUNCTION}[PE]")])
    run = renamed.run
    assert renamed.notes == ("1 case is paired under a new name, as llm_renamed says",)
    assert [case.id for case in run.cases] == [f"{FUNCTION}[PE]", f"{FUNCTION}[Chad]"]


def test_the_longest_beginning_counts() -> None:
    run = under_new_names(found(), [("tests", "evals"), (FUNCTION, "tests/b.py::test_b")]).run
    assert run.cases[0].function == "tests/b.py::test_b"


def test_a_part_of_a_name_is_no_beginning() -> None:
    assert under_new_names(found(), [("tests/test", "x"), (FUNCTION[:-1], "y")]) == found()


def with_case(id_: str) -> Baseline:
    baseline = found()
    case = replace(baseline.run.cases[0], id=id_, function=id_.partition("[")[0])
    return replace(baseline, run=replace(baseline.run, cases=(*baseline.run.cases, case)))


def test_two_cases_of_one_name_are_refused() -> None:
    renames = [("tests", "evals"), ("x.py", "evals/test_a.py")]
    with pytest.raises(SettingsError, match=r"test_a\[Peru\] and x.py::.* of run .* one name"):
        under_new_names(with_case("x.py::test_a[Peru]"), renames)


@pytest.mark.parametrize("new", ["evals", "evals/test_b.py::test_a", "evals/test_b.py"])
def test_an_entry_whose_new_name_the_baseline_has_was_left_behind(new: str) -> None:
    merged = with_case("evals/test_b.py::test_a[Rome]")
    old = {"evals": "tests", "evals/test_b.py": "tests/test_a.py"}.get(new, FUNCTION)
    assert under_new_names(merged, [(old, new)]) == merged
    assert idle_renames([merged.run], [(old, new)]) == ()


def test_entries_that_lead_to_no_test_are_told() -> None:
    renames = [("a.py", "b.py"), ("c.py::f", "NEW_NODE_ID"), ("d.py", "e.py")]
    assert renames_to_nothing(["b.py::test", "NEW_NODE_ID"], renames) == (
        "llm_renamed says a.py -> b.py, and b.py::test is not here: correct the line",
        "llm_renamed says c.py::f -> NEW_NODE_ID, and NEW_NODE_ID is not here: correct the line",
    )


def test_an_entry_left_behind_keeps_its_name_from_others() -> None:
    merged, last = with_case("b.py::test[x]"), with_case("b.py::test[x]").run.cases[-1]
    more = replace(merged.run.cases[0], id="c.py::test[x]", function="c.py::test")
    run = replace(merged.run, cases=(*merged.run.cases[:-1], last, more))
    chain = [(FUNCTION, "b.py::test"), ("b.py::test", "c.py::test")]
    assert under_new_names(replace(merged, run=run), chain).run == run
    assert under_new_names(merged, chain).run.cases[-1].id == "c.py::test[x]"


def test_names_can_be_swapped() -> None:
    peru, chad = f"{FUNCTION}[Peru]", f"{FUNCTION}[Chad]"
    run = under_new_names(found(), [(peru, chad), (chad, peru)]).run
    assert [case.id for case in run.cases] == [chad, peru]


def test_entries_that_name_nothing_in_any_baseline_are_told() -> None:
    run = found().run
    other = replace(run, cases=(replace(run.cases[0], id="b.py::test", function="b.py::test"),))
    renames = [("tests", "x"), ("b.py", "y"), ("c.py", "z")]
    (note,) = idle_renames([run, other], renames)
    assert note == (
        "llm_renamed names 'c.py', and the baseline has no such folder, file, class, function or "
        "case: remove the line"
    )
    assert len(idle_renames([run], renames)) == 2
    assert idle_renames([], renames) == ()


@pytest.mark.parametrize(
    ("selection", "told"),
    [(("-k label",), 0), (("evals/test_a.py",), 0), (("tests",), 1), ((".",), 1), ((), 1)],
)
def test_of_what_a_baseline_of_a_part_may_leave_out_nothing_is_said(
    selection: tuple[str, ...], told: int
) -> None:
    part = replace(found().run, selection=selection)
    assert len(idle_renames([part], [("tests/gone.py", "tests/new.py")])) == told


@pytest.mark.parametrize(
    ("old", "told"),
    [
        (FUNCTION[:-1], f"It takes whole names; 2 cases begin with a part of one, as {FUNCTION}["),
        ("other.py", "or case: remove the line"),
    ],
)
def test_an_entry_that_is_a_part_of_names_is_told_what_it_takes(old: str, told: str) -> None:
    (note,) = idle_renames([found().run], [(old, "x")])
    assert told in note


# many cases by one line


def named(*parameters: str, function: str = FUNCTION) -> Baseline:
    baseline = found()
    cases = [
        replace(baseline.run.cases[0], id=f"{function}[{one}]", function=function)
        for one in parameters
    ]
    trial = baseline.run.trials[0]
    trials = [replace(trial, case=case.id) for case in cases]
    return replace(baseline, run=replace(baseline.run, cases=tuple(cases), trials=tuple(trials)))


def parameters(baseline: Baseline) -> list[str]:
    return [case.id.partition("[")[2].rstrip("]") for case in baseline.run.cases]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[t", "[ticket-", ["ticket-1", "ticket-2", "other"]),
        ("[t*]", "[ticket-*]", ["ticket-1", "ticket-2", "other"]),
        ("[*1]", "[*one]", ["tone", "t2", "other"]),
        ("[", "[en-", ["en-t1", "en-t2", "en-other"]),
        ("[t1", "[x*", ["x*", "t2", "other"]),
    ],
)
def test_cases_are_renamed_by_prefix_or_pattern(old: str, new: str, expected: list[str]) -> None:
    pair = f"{FUNCTION}{old}", f"{FUNCTION}{new}"
    before = named("t1", "t2", "other")
    renamed = under_new_names(before, [pair])
    assert parameters(renamed) == expected
    # main has them, and the line was left behind
    assert under_new_names(renamed, [pair]) == renamed
    assert idle_renames([renamed.run], [pair]) == ()
    assert idle_renames([before.run], [pair]) == ()


def test_files_are_renamed_by_a_pattern_of_one_name() -> None:
    pair = "tests/test_*.py", "evals/check_*.py"
    (case, _) = under_new_names(found(), [pair]).run.cases
    assert case.function == "evals/check_a.py::test_a"
    deeper = named("x", function="tests/test_dir/a.py::test_a")
    assert under_new_names(deeper, [pair]) == deeper


def test_a_pattern_that_leads_to_a_case_of_the_baseline_renames_nothing() -> None:
    pair = f"{FUNCTION}[t*]", f"{FUNCTION}[x*]"
    both = named("t1", "x1")
    assert under_new_names(both, [pair]) == both


# what is still here


def case_ids(function: str, *names: str) -> set[str]:
    return {f"{function}[{name}]" for name in names}


@pytest.mark.parametrize("left", [("Peru", "Chad"), ("Peru",), ("other",)])
def test_a_function_that_is_still_here_cannot_be_renamed_away(left: tuple[str, ...]) -> None:
    copy = "tests/test_a.py::test_old"
    here = case_ids(FUNCTION, *left) | case_ids(copy, "Peru", "Chad")
    note = f"llm_renamed renames {FUNCTION}, which is still here: it keeps its name"
    for pair in ((FUNCTION, copy), (f"{FUNCTION}[*]", f"{copy}[*]")):
        kept = under_new_names(found(), [pair], here=here)
        assert kept.run == found().run
        assert kept.notes == (
            f"{left[0]} {note}".partition(" ")[2].replace(
                FUNCTION, f"{FUNCTION}[Peru]" if "Peru" in left else FUNCTION
            ),
        )
    assert (
        under_new_names(found(), [(FUNCTION, copy)], here=case_ids(copy, "Peru")).run != found().run
    )


def test_a_case_that_is_still_here_keeps_its_name() -> None:
    pair = f"{FUNCTION}[Peru]", f"{FUNCTION}[PE]"
    here = case_ids(FUNCTION, "Peru", "PE")
    assert under_new_names(found(), [pair], here=here).run == found().run
    assert parameters(under_new_names(found(), [pair], here=case_ids(FUNCTION, "PE"))) == [
        "PE",
        "Chad",
    ]


def test_functions_and_cases_can_be_swapped_though_both_are_here() -> None:
    peru, chad = f"{FUNCTION}[Peru]", f"{FUNCTION}[Chad]"
    run = under_new_names(found(), [(peru, chad), (chad, peru)], here={peru, chad}).run
    assert [case.id for case in run.cases] == [chad, peru]

    other = "tests/test_a.py::test_b"
    both = with_case(f"{other}[Rome]")
    swapped = under_new_names(
        both, [(FUNCTION, other), (other, FUNCTION)], here={f"{FUNCTION}[Rome]", f"{other}[Peru]"}
    )
    assert [case.function for case in swapped.run.cases] == [other, other, FUNCTION]


def test_a_swap_of_which_one_half_is_void_is_void() -> None:
    copy, third = "tests/test_a.py::test_old", "tests/test_a.py::test_c"
    baseline = with_case(f"{third}[Rome]")
    lines = [(FUNCTION, copy), (third, FUNCTION)]
    here = case_ids(FUNCTION, "Peru", "Chad") | case_ids(copy, "Peru") | case_ids(third, "Rome")
    assert under_new_names(baseline, lines, here=here).run == baseline.run
