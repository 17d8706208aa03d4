"""The decision table, row by row: verdict, exit and the sentence that says why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.describe import describe
from pytest_llmeval.gate.results import Comparison, FunctionComparison, Verdict
from pytest_llmeval.gate.scoring import cases_not_run
from pytest_llmeval.records import Run, bare
from pytest_llmeval.reports.reasons import why_failed, worded
from pytest_llmeval.reports.sentences import sentence
from pytest_llmeval.settings import GateRules, Settings
from tests.gate.builders import (
    CaseAndTrials,
    a_case,
    a_run,
    compared,
    joined,
    notes,
    runs,
    scored_runs,
)

STRICT = GateRules(strict=True)
SESSION = Settings(session="s", directory=Path())
STRICT_SESSION = dataclasses.replace(SESSION, gate=STRICT)


def outcome(found: FunctionComparison) -> tuple[int, str, bool]:
    return found.row, found.verdict.value, found.fails


def fails_if_strict(baseline: Run, run: Run, rules: GateRules | None = None) -> bool:
    rules = rules or GateRules()
    lenient, strict = compared(baseline, run, rules), compared(baseline, run, STRICT)
    assert lenient.verdict is strict.verdict
    assert not lenient.fails
    return strict.fails


def many(
    outcomes: Sequence[str], *, request: str = "v1", cluster: str | None = None
) -> list[CaseAndTrials]:
    return [
        a_case(f"c{at}", one, request=request, cluster=cluster) for at, one in enumerate(outcomes)
    ]


# row 1: new


def test_row_1_function_that_the_baseline_does_not_have_is_new() -> None:
    old = a_case("a", "pp", function="test_old")
    baseline, run = a_run(old), a_run(old, a_case("x", "pm"))
    _, new = compare(baseline, run, STRICT).functions
    assert outcome(new) == (1, "new", False)
    assert (new.effect.cases, new.effect.baseline_cases, new.effect.difference) == (0, 0, None)
    assert (new.trials["scored"], new.trials["missed"]) == (2, 1)
    assert new.only_here == ("test_suite.py::test_f[x]",)


def test_row_1_a_new_function_shows_its_mean_as_without_a_baseline() -> None:
    new = compared(a_run(), a_run(a_case("x", "pm"), a_case("y", "pp")), STRICT)
    (alone,) = describe(a_run(a_case("x", "pm"), a_case("y", "pp")))
    assert new.effect.mean == alone.mean == 0.75
    assert new.effect.mean_interval == alone.interval
    skipped = compared(a_run(), a_run(a_case("x", "ss")), STRICT)
    assert (skipped.effect.mean, skipped.effect.mean_interval) == (None, None)


def test_new_cases_of_a_function_show_their_mean_too() -> None:
    old, new = a_case("a", "pp"), [a_case("x", "pm"), a_case("y", "pp")]
    found = compared(a_run(old), a_run(old, *new))
    (alone,) = describe(a_run(*new))
    assert (found.only_here_mean, found.only_here_interval) == (alone.mean, alone.interval)
    scored = [a_case(name, scores=[0.5]) for name in "ab"]
    one = compared(a_run(scored[0]), a_run(*scored))
    assert (one.only_here_mean, one.only_here_interval) == (0.5, None)
    assert compared(a_run(old), a_run(old)).only_here_mean is None
    assert compared(a_run(old), a_run(old, a_case("z", "ss"))).only_here_mean is None


# row 2: gone

SAME = a_case("x", "pm")
OLD = a_case("a", "pp", function="test_old")


def test_row_2_a_function_that_is_gone_is_not_comparable() -> None:
    # it passed: a gate that one could leave by renaming its tests
    _, gone = compare(a_run(SAME, OLD), a_run(SAME), GateRules()).functions
    assert outcome(gone) == (2, "not_comparable", True)
    assert gone.function == "test_suite.py::test_old"
    assert (gone.effect.baseline_cases, gone.baseline_trials["scored"]) == (1, 2)
    assert gone.only_in_baseline == ("test_suite.py::test_old[a]",)


def test_row_2_names_both_ways_to_say_that_it_was_meant() -> None:
    renamed = a_case("a", "pp", function="test_new")
    for run, new in (
        (a_run(SAME), "NEW_NODE_ID"),
        (a_run(SAME, renamed), "test_suite.py::test_new"),
    ):
        gone = compare(a_run(SAME, OLD), run, GateRules()).functions[-1]
        assert worded(gone.why).startswith(
            "the baseline has it (cases: 1), and it was not collected here"
        )
        assert f"llm_renamed = test_suite.py::test_old -> {new} " in worded(gone.why)
        assert "llm_accept_gone = test_suite.py::test_old " in worded(gone.why)


def test_row_2_says_once_what_to_do_about_a_function_with_several_metrics() -> None:
    old = a_case("a", "pp", function="test_old", gate=("pass", "tone"))
    first, second = compare(a_run(SAME, old), a_run(SAME), GateRules()).functions[-2:]
    assert "llm_renamed = " in worded(first.why)
    told = "its whole function is missing here; the line of pass says what to do"
    assert worded(second.why) == told
    assert outcome(second) == outcome(first) == (2, "not_comparable", True)


@pytest.mark.parametrize(
    "entry", ["test_old", "test_suite.py::test_old", "test_o*", "*::test_old", "test_suite.py"]
)
@pytest.mark.parametrize("strict", [False, True])
def test_row_2_a_function_that_was_given_up_is_gone(entry: str, strict: bool) -> None:
    rules = GateRules(accept_gone=(entry,), strict=strict)
    found = compare(a_run(SAME, OLD), a_run(SAME), rules)
    assert outcome(found.functions[1]) == (2, "gone", False)
    assert (found.fails, notes(found)) == (False, ())


@pytest.mark.parametrize("entry", ["test_ol", "old", "test_suite", "test_old:pass", "test_f"])
def test_row_2_another_name_gives_nothing_up_and_is_told(entry: str) -> None:
    found = compare(a_run(SAME, OLD), a_run(SAME), GateRules(accept_gone=(entry,)))
    assert outcome(found.functions[1]) == (2, "not_comparable", True)
    assert notes(found) == (
        f"llm_accept_gone names '{entry}', and nothing of that name is gone: remove the line",
    )


def test_row_2_what_main_gave_up_before_is_not_asked_of_an_anchor() -> None:
    release, tone = a_run(SAME, OLD), {"scores": [0.5], "metric": "tone"}
    assert (
        compare(release, a_run(SAME), GateRules(), main=a_run(SAME)).functions[1].verdict == "gone"
    )
    assert compare(release, a_run(SAME), GateRules(), main=release).fails
    gated, not_gated = (a_run(a_case("a", **tone, gate=gate)) for gate in (("tone", "pass"), ()))
    for main, metrics in ((not_gated, ["pass"]), (gated, ["pass", "tone"])):
        found = compare(gated, not_gated, GateRules(), main=main).functions
        assert [one.metric for one in found] == metrics


@pytest.mark.parametrize(
    ("known", "entry", "typed"),
    [
        ("test_old", "test_old", "test_suite.py::test_old"),
        ("test_suite.py::test_old", "test_suite.py::test_old", "test_old"),
        ("test_o*", "test_o*", "test_suite.py::test_old"),
    ],
)
def test_row_2_a_line_that_main_had_already_gives_nothing_up(
    known: str, entry: str, typed: str
) -> None:
    # a pull request that deleted test_old had nothing of it in its diff
    baseline = dataclasses.replace(a_run(SAME, OLD), rules={"accept_gone": (known,)})
    found = compare(baseline, a_run(SAME), GateRules(accept_gone=(entry,)))
    assert outcome(found.functions[1]) == (2, "not_comparable", True)
    assert f"llm_accept_gone = {typed}  if" in worded(found.functions[1].why)
    assert notes(found)[0].startswith(
        f"llm_accept_gone names {entry!r}, which has no effect: the baseline's ini file had "
    )
    meant = GateRules(accept_gone=(entry, typed))
    assert not compare(baseline, a_run(SAME), meant).fails
    # each comparison asks its own baseline, as for llm_accept
    main, rules = a_run(SAME, OLD), GateRules(accept_gone=(entry,))
    assert compare(baseline, a_run(SAME), rules, main=main).fails
    assert not compare(main, a_run(SAME), rules, main=baseline).fails


def test_row_2_where_every_form_is_in_main_the_node_id_is_named() -> None:
    known = ("test_old", "test_suite.py::test_old")
    baseline = dataclasses.replace(a_run(SAME, OLD), rules={"accept_gone": known})
    gone = compare(baseline, a_run(SAME), GateRules(accept_gone=known)).functions[1]
    assert "llm_accept_gone = test_suite.py::test_old  if" in worded(gone.why)


def test_a_metric_that_main_gave_up_already_stays_gated() -> None:
    tone = {"scores": [0.5], "metric": "tone"}
    gated, not_gated = (a_run(a_case("a", **tone, gate=gate)) for gate in (("tone", "pass"), ()))
    baseline = dataclasses.replace(gated, rules={"accept_gone": ("test_suite.py::test_f:tone",)})
    rules = GateRules(accept_gone=("test_suite.py::test_f:tone",))
    found = compare(baseline, not_gated, rules)
    assert {one.metric for one in found.functions} == {"tone", "pass"}
    assert notes(found)[0].endswith("llm_accept_gone = test_f:tone")


@pytest.mark.parametrize("entry", ["test_*", "[!x]*", "t*", "*.py::*", "test_?*"])
def test_row_2_a_pattern_of_every_function_gives_nothing_up(entry: str) -> None:
    found = compare(a_run(SAME, OLD), a_run(SAME), GateRules(accept_gone=(entry,)))
    assert outcome(found.functions[1]) == (2, "not_comparable", True)
    assert notes(found) == (
        f"llm_accept_gone names {entry!r}, which has no effect: it fits every function of the "
        "baseline: name what is gone",
    )


@pytest.mark.parametrize(
    ("entry", "metrics"),
    [("t*:*", ["pass", "tone"]), ("test_*:tone", ["pass"]), ("test_f:*", ["pass"])],
)
def test_a_pattern_of_every_gated_metric_gives_nothing_up(entry: str, metrics: list[str]) -> None:
    tone = {"scores": [0.5], "metric": "tone"}
    gated, not_gated = (a_run(a_case("a", **tone, gate=gate)) for gate in (("tone", "pass"), ()))
    found = compare(gated, not_gated, GateRules(accept_gone=(entry,)))
    assert [one.metric for one in found.functions] == metrics
    assert any("fits every gated metric" in note for note in notes(found)) is (len(metrics) > 1)


@pytest.mark.parametrize("entry", ["test_f[a]", "test_suite.py::test_f[a]"])
def test_an_entry_for_a_single_case_is_told_what_counts_there(entry: str) -> None:
    baseline = a_run(a_case("a", "pp"), a_case("b", "pp"))
    found = compare(baseline, a_run(a_case("b", "pp")), GateRules(accept_gone=(entry,)))
    assert notes(found) == (
        f"llm_accept_gone names {entry!r}, and cases within a function go by llm_max_gone: "
        "remove the line",
    )


def at(*functions: str, ids: str = "a") -> Run:
    """A run of functions, named by node id, with a case for each letter."""
    made = [(name, a_case(id_, "p")) for name in functions for id_ in ids]
    return a_run(
        *(
            CaseAndTrials(
                dataclasses.replace(one.case, id=f"{name}[{one.case.id}]", function=name),
                tuple(dataclasses.replace(t, case=f"{name}[{one.case.id}]") for t in one.trials),
            )
            for name, one in made
        )
    )


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        # a folder, a file, a class moved
        (["e/a.py::f", "e/b.py::f"], ["c/a.py::f", "c/b.py::f"], ["e -> c"] * 2),
        (["e/a.py::f", "e/a.py::g"], ["e/b.py::f", "e/b.py::g"], ["e/a.py -> e/b.py"] * 2),
        (["a.py::A::f", "a.py::A::g"], ["a.py::B::f", "a.py::B::g"], ["a.py::A -> a.py::B"] * 2),
        # one of two stayed, a folder that main has, the root
        (["e/a.py::f", "e/b.py::g"], ["c/a.py::f", "e/b.py::g"], ["e/a.py::f -> c/a.py::f"]),
        (
            ["e/o/a.py::f", "e/o/a.py::g", "e/b.py::h"],
            ["e/a.py::f", "e/a.py::g", "e/b.py::h"],
            ["e/o/a.py::f -> e/a.py::f", "e/o/a.py::g -> e/a.py::g"],
        ),
        (
            ["e/a.py::f", "e/a.py::g"],
            ["a.py::f", "a.py::g"],
            ["e/a.py::f -> a.py::f", "e/a.py::g -> a.py::g"],
        ),
        # two renamed in their files, and in one; one name in two places
        (
            ["a.py::f", "b.py::g"],
            ["a.py::x", "b.py::y"],
            ["a.py::f -> a.py::x", "b.py::g -> b.py::y"],
        ),
        (
            ["a.py::f", "a.py::g"],
            ["a.py::x", "a.py::y"],
            ["a.py::f -> NEW_NODE_ID", "a.py::g -> NEW_NODE_ID"],
        ),
        (["a.py::f"], ["b.py::f", "c.py::f"], ["a.py::f -> NEW_NODE_ID"]),
        (["a.py::f"], ["b.py::x"], ["a.py::f -> b.py::x"]),
    ],
)
def test_row_2_names_what_became_of_a_function(
    old: list[str], new: list[str], lines: list[str]
) -> None:
    found = compare(at(*old), at(*new), GateRules())
    told = [worded(one.why) for one in found.functions if one.row == 2]
    assert [why.partition("llm_renamed = ")[2].partition("  if")[0] for why in told] == lines


def not_judged(
    run: Run, typed: Sequence[str] | None, *, selection: tuple[str, ...] = ()
) -> list[tuple[str, str | float, str]]:
    """What is not judged of a baseline with test_f and test_old."""
    baseline = a_run(SAME, OLD, selection=selection)
    found = compare(baseline, run, GateRules(), typed=typed)
    assert found.fails is (not found.not_judged)
    told = [(*one.figures, one.why) for one in found.not_judged]
    return [(bare(str(name)), cases, why) for name, cases, why in told]


DESELECTED = [("test_old", 1, "deselected")]


@pytest.mark.parametrize(
    ("paths", "missing"),
    [
        ((), []),
        ((".",), []),
        (("test_suite.py",), []),
        (("test_suite.py::test_old",), []),
        (("test_suite.py::test_old[a]",), []),
        (("test_suite.py::test_f",), DESELECTED),
        (("other",), DESELECTED),
        (("other", "test_suite.py"), []),
        (("test_su",), DESELECTED),
    ],
)
def test_row_2_what_typed_paths_leave_out_is_not_judged(
    paths: tuple[str, ...], missing: list[tuple[str, int, str]]
) -> None:
    run = a_run(SAME, selection=paths)
    assert not_judged(run, paths) == missing
    assert not_judged(run, None) == missing
    assert not_judged(run, ()) == []  # they stand in addopts


def test_row_2_path_of_a_folder_selects_what_is_in_it() -> None:
    moved = dataclasses.replace(OLD.case, function="evals/test_a.py::test_old")
    baseline = a_run(SAME, CaseAndTrials(moved, OLD.trials))
    for selection, expected in (("evals",), 2), (("eval",), 1):
        run = a_run(SAME, selection=selection)
        assert len(compare(baseline, run, GateRules()).functions) == expected


@pytest.mark.parametrize("option", ["-k test_f", "-m not slow", "--deselect=test_suite.py::test_o"])
def test_row_2_what_typed_options_deselect_is_not_judged(option: str) -> None:
    run = dataclasses.replace(
        a_run(SAME, selection=(option,)), partial=("test_suite.py::test_old",)
    )
    assert not_judged(run, (option,)) == DESELECTED
    assert not_judged(run, ()) == []  # they stand in addopts
    # nor may a function be missing that the same option let through in the baseline
    assert not_judged(run, (option,), selection=(option,)) == []
    # one that is not even there to be deselected was removed
    assert not_judged(a_run(SAME, selection=(option,)), (option,)) == []


@pytest.mark.parametrize(
    ("option", "missing"),
    [
        ("--ignore=test_suite.py", DESELECTED),
        ("--ignore-glob=*_suite.py", DESELECTED),
        ("--ignore-glob=other*", []),
    ],
)
def test_row_2_what_typed_options_ignore_is_not_judged(
    option: str, missing: list[tuple[str, int, str]]
) -> None:
    assert not_judged(a_run(SAME, selection=(option,)), (option,)) == missing


@pytest.mark.parametrize("option", ["--lf", "--stepwise"])
def test_row_2_what_failed_last_is_all_that_was_asked_for(option: str) -> None:
    assert not_judged(a_run(SAME, complete=False), (option,)) == DESELECTED
    assert not_judged(a_run(SAME, complete=False), ()) == []


def test_row_2_of_a_recorded_run_all_that_it_left_out_was_meant() -> None:
    assert not_judged(a_run(SAME, complete=False), None) == DESELECTED


def test_row_2_a_stopped_session_names_what_it_never_came_to() -> None:
    run = a_run(SAME, a_case("a", "", function="test_old"), complete=False)
    assert not_judged(run, ()) == [("test_old", 1, "not run")]


@pytest.mark.parametrize("typed", [("--lf",), ("test_suite.py::test_f",), None])
def test_row_2_nothing_typed_leaves_out_what_is_in_no_file(typed: tuple[str, ...] | None) -> None:
    selection = typed if typed and "::" in typed[0] else ()
    baseline, run = a_run(SAME, OLD), a_run(SAME, selection=selection)
    found = compare(baseline, run, GateRules(), typed=typed, lost={"test_suite.py"})
    assert (found.not_judged, found.verdict) == ((), "not_comparable")


def test_row_2_what_is_not_judged_fails_a_strict_gate() -> None:
    baseline, run = a_run(SAME, OLD), a_run(SAME, selection=("test_suite.py::test_f",))
    found = compare(baseline, run, STRICT, typed=run.selection)
    assert (found.fails, found.verdict) == (True, "unchanged")
    by_hand = dataclasses.replace(STRICT_SESSION, session="")
    for settings, typed in ((STRICT_SESSION, "--llm-strict"), (by_hand, "--strict")):
        why = f"test functions of the baseline not judged: 1 ({typed})"
        assert why_failed(found, settings) == why


def test_what_is_judged_in_part_fails_a_strict_gate() -> None:
    baseline = a_run(*many(["pp"] * 4), OLD)
    run = dataclasses.replace(a_run(*many(["pp"] * 3), OLD), partial=("test_suite.py::test_f",))
    for selection, why in (
        (("-k 0 or 1 or 2",), "partial: 3 of 4 cases of test_f (--llm-strict)"),
        ((), ""),
    ):
        part = dataclasses.replace(run, selection=selection)
        found = compare(baseline, part, dataclasses.replace(STRICT, max_gone=1), typed=selection)
        assert (why_failed(found, STRICT_SESSION), found.fails) == (why, bool(why))
    whole = dataclasses.replace(baseline, complete=False, partial=run.partial)  # --lf, and all ran
    assert not compare(baseline, whole, STRICT, typed=("--lf",)).fails


def test_collected_cases_without_trials_are_named_by_function() -> None:
    run = a_run(a_case("a", "p"), a_case("b", ""), a_case("c", "", function="test_old"), OLD)
    assert cases_not_run(run) == {"test_suite.py::test_f": 1, "test_suite.py::test_old": 1}
    assert cases_not_run(a_run(a_case("a", ""), a_case("b", ""))) == {"test_suite.py::test_f": 2}
    assert cases_not_run(a_run(a_case("a", "s"))) == {}
    found = dataclasses.replace(compare(run, run, GateRules()), not_run=cases_not_run(run))
    assert why_failed(found, SESSION) == (
        "not run: 1 case of test_f, 1 case of test_old: a conftest or a plugin passed over them, "
        "or ended the session"
    )


def test_row_2_an_entry_for_what_was_not_judged_may_still_be_needed() -> None:
    baseline, run = a_run(SAME, OLD), a_run(SAME, selection=("test_suite.py::test_f",))
    for entry in ("test_old", "test_old:pass"):
        assert notes(compare(baseline, run, GateRules(accept_gone=(entry,)))) == ()


# row 3: no common case


def test_row_3_without_a_common_id_nothing_is_comparable() -> None:
    found = compared(a_run(a_case("a", "pp"), a_case("b", "pp")), a_run(a_case("x", "pp")))
    assert outcome(found) == (3, "not_comparable", True)
    assert (found.effect.cases, found.effect.units, found.effect.effective_units) == (0, 0, 0.0)
    assert worded(found.why).startswith("no id of the 1 cases here is among the 2 of the baseline")


def test_row_3_says_that_ids_count_positions() -> None:
    baseline = a_run(a_case("t0", "pp", positional=True, parameters="d1"))
    other = a_case("t0", "pp", positional=True, parameters="d2", request="v2")
    found = compared(baseline, a_run(other))
    assert outcome(found) == (3, "not_comparable", True)
    assert "1 ids are made from positions" in worded(found.why)
    assert "ids=" in worded(found.why)


def test_row_3_says_where_no_trial_was_scored() -> None:
    found = compared(a_run(a_case("a", "pp")), a_run(a_case("a", "ee")))
    assert outcome(found) == (3, "not_comparable", True)
    assert "0 of 2 trials have a score here, 2 of 2 in the baseline" in worded(found.why)


# row 4: trials lost


def test_row_4_one_errored_trial_is_always_allowed() -> None:
    assert compared(a_run(a_case("a", "ppp")), a_run(a_case("a", "ppe"))).row == 6


def test_row_4_too_many_errored_trials_here() -> None:
    found = compared(a_run(a_case("a", "pppp")), a_run(a_case("a", "ppee")))
    assert outcome(found) == (4, "not_comparable", True)
    assert worded(found.why).startswith("2 of 4 trials errored here, more than 5 %: run again")


def test_row_4_too_many_errored_trials_in_the_baseline() -> None:
    found = compared(a_run(a_case("a", "ppee")), a_run(a_case("a", "pppp")))
    assert outcome(found) == (4, "not_comparable", True)
    assert worded(found.why).startswith(
        "2 of 4 trials errored in the baseline, more than 5 %: record"
    )


@pytest.mark.parametrize(("errored", "row"), [(2, 6), (3, 4)])
def test_row_4_five_percent_of_the_trials_may_be_errored(errored: int, row: int) -> None:
    full = many(["ppppp"] * 8)
    some = many(["ppppe"] * errored + ["ppppp"] * (8 - errored))
    assert compared(a_run(*full), a_run(*some)).row == row


def test_row_4_skipped_trials_are_not_among_those_that_count() -> None:
    # 3 of 60 would do, 3 of 50 do not
    full = many(["ppppp"] * 12)
    current = many(["ppppe"] * 3 + ["ppppp"] * 7) + many(["ppppp"] * 10 + ["sssss"] * 2)[10:]
    assert compared(a_run(*full), a_run(*current), GateRules(max_gone=1.0)).row == 4


def test_row_4_touched_cases_are_counted_by_themselves() -> None:
    # 2 of 110 trials, but 2 of the 10 that were asked anew
    full = many(["ppppp"] * 22)
    current = many(["ppppe"] * 2, request="v2") + many(["ppppp"] * 22)[2:]
    found = compared(a_run(*full), a_run(*current))
    assert outcome(found) == (4, "not_comparable", True)
    assert worded(found.why).startswith("2 of 10 trials of the changed cases errored here")


def test_row_4_touched_cases_of_the_baseline_are_counted_too() -> None:
    full = many(["ppppe"] * 2 + ["ppppp"] * 20)
    current = many(["ppppp"] * 2, request="v2") + many(["ppppp"] * 22)[2:]
    found = compared(a_run(*full), a_run(*current))
    assert worded(found.why).startswith(
        "2 of 10 trials of the changed cases errored in the baseline"
    )


@pytest.mark.parametrize(
    ("without", "trials", "row"), [(1, 20, 6), (2, 20, 4), (2, 40, 6), (3, 40, 4)]
)
def test_row_4_five_percent_of_the_scored_trials_may_lack_a_value(
    without: int, trials: int, row: int
) -> None:
    full = a_run(a_case("a", scores=[0.5] * trials))
    some = a_run(a_case("a", scores=[0.5] * (trials - without) + [None] * without))
    assert compared(full, some).row == row
    assert compared(some, full).row == row


def test_row_4_says_that_values_are_missing() -> None:
    baseline = a_run(a_case("a", scores=[0.5, 0.5]))
    why = compared(baseline, a_run(a_case("a", scores=[0.5, None]))).why
    assert worded(why).startswith(
        "1 of 2 scored trials here have no value for score, more than 5 %"
    )


def test_row_4_figures_that_need_no_test_are_there() -> None:
    found = compared(a_run(a_case("a", "pppp")), a_run(a_case("a", "pmee", request="v2")))
    assert (found.row, found.effect.cases, found.effect.changed, found.effect.units) == (4, 1, 1, 1)
    assert (found.effect.difference, found.effect.baseline_mean, found.effect.mean) == (
        -0.5,
        1.0,
        0.5,
    )
    assert (
        found.effect.method,
        found.evidence.p,
        found.evidence.p_adjusted,
        found.evidence.p_within_case,
    ) == (
        "none",
        None,
        None,
        None,
    )
    assert (
        found.evidence.interval,
        found.evidence.smallest_detectable_drop,
        found.evidence.family_size,
    ) == (None, None, 0)


def test_row_4_in_a_partial_run_looks_at_the_cases_that_ran() -> None:
    baseline = a_run(*many(["ppppp"] * 2 + ["pppee"] * 10))
    run = a_run(*many(["ppppp"] * 2), partial=("test_f",))
    assert compared(baseline, run).row == 6


@pytest.mark.parametrize("strict", [False, True])
def test_row_4_a_baseline_that_crashed_throughout_is_none(strict: bool) -> None:
    baseline, run = a_run(*many(["ccc"] * 9)), a_run(*many(["ppp"] * 9, request="v2"))
    found = compared(baseline, run, GateRules(strict=strict))
    assert outcome(found) == (4, "not_comparable", True)
    assert worded(found.why).startswith("27 of 27 trials in the baseline crashed")


def test_a_function_that_crashes_throughout_here_fell() -> None:
    baseline, run = a_run(*many(["ppp"] * 9)), a_run(*many(["ccc"] * 9, request="v2"))
    assert compared(baseline, run).row == 8


ASKED = ("ppp", "ppm", "mpp")


def silent(outcomes: Sequence[str]) -> list[CaseAndTrials]:
    return [a_case(f"c{at}", one, calls=lambda _: ()) for at, one in enumerate(outcomes)]


@pytest.mark.parametrize("strict", [False, True])
def test_row_4_a_function_that_asked_a_model_and_asks_none_here(strict: bool) -> None:
    baseline, run = a_run(*many(ASKED)), a_run(*silent(["ppp", "ppp", "pps"]))
    found = compared(baseline, run, GateRules(strict=strict))
    assert outcome(found) == (4, "not_comparable", True)
    assert worded(found.why).startswith("3 of the 3 cases that made calls in the baseline made")
    assert worded(found.why).endswith("llm_accept_gone = test_suite.py::test_f")


@pytest.mark.parametrize(
    ("here", "row"),
    [
        ([*many(ASKED[:2]), *silent(ASKED)[2:]], 10),  # an application may answer some itself
        (silent(["ccc"] * 3), 8),  # a bug: none came to ask
        (silent(["eee"] * 3), 3),
    ],
    ids=["most-ask", "all-crash", "all-errored"],
)
def test_other_functions_are_judged_though_they_ask_less(
    here: list[CaseAndTrials], row: int
) -> None:
    baseline = a_run(*many(ASKED))
    found = compared(baseline, a_run(*here), GateRules(target=0.9))
    assert found.row == row


def test_row_4_half_of_the_cases_ask_no_model_any_more() -> None:
    """A mock that was left on for some of them would raise the mean of the others."""
    here = [*many(["ppp", "ppm"]), *silent(["ppp"] * 4)[2:]]
    found = compared(a_run(*many(["ppm"] * 4)), a_run(*here))
    assert outcome(found) == (4, "not_comparable", True)
    assert worded(found.why).startswith("2 of the 4 cases")


FUNCTION = "test_suite.py::test_f"


@pytest.mark.parametrize(("before", "row"), [({}, 4), ({FUNCTION: {"llm": "ab"}}, 10)])
def test_row_4_one_case_asks_no_model_where_the_fixture_was_replaced(
    before: Mapping[str, Mapping[str, str]], row: int
) -> None:
    baseline = dataclasses.replace(a_run(*many(ASKED)), fixtures=before)
    here = [*many(ASKED[:2]), *silent(ASKED)[2:]]
    run = dataclasses.replace(a_run(*here), fixtures={FUNCTION: {"llm": "cd", "own": "ef"}})
    result = compare(baseline, run, GateRules(target=0.9))
    assert result.functions[0].row == row
    assert [fact.figures for fact in result.notes] == [(FUNCTION, "llm")] * (row == 4)


def test_what_asked_nothing_in_the_baseline_may_ask_nothing_here() -> None:
    found = compared(a_run(*silent(ASKED)), a_run(*silent(ASKED)), GateRules(target=0.9))
    assert found.row == 10


@pytest.mark.parametrize(("skipped", "row"), [(2, 6), (3, 4)])
def test_row_4_five_percent_of_the_trials_may_be_skipped_anew(skipped: int, row: int) -> None:
    full = many(["ppppp"] * 8)
    some = many(["pppps"] * skipped + ["ppppp"] * (8 - skipped))
    assert compared(a_run(*full), a_run(*some)).row == row


def test_row_4_trials_that_skip_themselves_hide_no_drop() -> None:
    full = many(["ppppp"] * 10)
    found = compared(a_run(*full), a_run(*many(["pppss"] * 10, request="v2")))
    assert outcome(found) == (4, "not_comparable", True)
    assert worded(found.why).startswith(
        "20 of 50 trials of the common cases are skipped here and 0 in the baseline"
    )


def test_row_4_trials_that_the_baseline_skips_as_often_count_for_nothing() -> None:
    full = many(["ppsss"] * 10)
    assert compared(a_run(*full), a_run(*many(["sspps"] * 10))).row != 4


def test_row_4_more_repeats_that_skip_the_same_share_count_for_nothing() -> None:
    first_alone = many(["pssss"] * 10)
    assert compared(a_run(*first_alone), a_run(*many(["psssssssss"] * 10))).row == 6
    assert compared(a_run(*many(["psssssssss"] * 10)), a_run(*first_alone)).row == 6


# row 5: cases lost


@pytest.mark.parametrize(("gone", "row"), [(1, 6), (2, 5)])
def test_row_5_ten_percent_of_the_cases_may_be_gone(gone: int, row: int) -> None:
    full = many(["pp"] * 10)
    found = compared(a_run(*full), a_run(*full[gone:]))
    assert found.row == row
    if row == 5:
        assert outcome(found) == (5, "not_comparable", True)
        assert worded(found.why).startswith(
            "2 of the 10 cases scored in the baseline are gone or skipped here, "
            "more than the 10 % of llm_max_gone"
        )


@pytest.mark.parametrize(("skipped", "row"), [(1, 6), (2, 5)])
def test_row_5_skipped_cases_count_like_those_that_are_gone(skipped: int, row: int) -> None:
    full = many(["pp"] * 10)
    current = many(["ss"] * skipped + ["pp"] * (10 - skipped))
    assert compared(a_run(*full), a_run(*current)).row == row


def test_row_5_share_that_may_be_gone_is_an_option() -> None:
    full = many(["pp"] * 10)
    baseline, run = a_run(*full), a_run(*full[3:])
    assert compared(baseline, run, GateRules(max_gone=0.3)).row == 6
    assert compared(baseline, run, GateRules(max_gone=0.29)).row == 5
    assert compared(a_run(*full), a_run(*full[1:]), GateRules(max_gone=0.0)).row == 5


def test_row_5_share_is_not_spoilt_by_rounding() -> None:
    full = many(["p"] * 100)  # 0.29 * 100 is a little less than 29 in floating point
    assert compared(a_run(*full), a_run(*full[29:]), GateRules(max_gone=0.29)).row == 6


def test_row_5_cases_that_were_not_scored_in_the_baseline_do_not_count() -> None:
    full = many(["pp"] * 20 + ["ss"] * 5)
    assert compared(a_run(*full), a_run(*full[:20])).row == 6


def test_row_5_cases_of_positions_that_stand_for_others_are_gone() -> None:
    def cases(*rows: str) -> list[CaseAndTrials]:
        placed = [
            a_case(f"t{at}", "pp", positional=True, parameters=row, request=row)
            for at, row in enumerate(rows)
        ]
        return placed + many(["pp"] * 8)

    found = compared(a_run(*cases("d1", "d2")), a_run(*cases("d0", "d1")))
    assert (found.row, len(found.mismatched), found.edited) == (5, 2, ())


def test_row_5_gone_cases_of_a_partial_run_do_not_matter() -> None:
    full = many(["pp"] * 10)
    found = compared(a_run(*full), a_run(*full[5:], partial=("test_f",)))
    assert (found.row, found.partial) == (6, True)
    # left out is not gone
    assert found.only_in_baseline == ()
    assert found.deselected == tuple(case.id for case in a_run(*full[:5]).cases)
    assert "only in the baseline" not in sentence(found, GateRules())


def test_row_5_cases_gone_from_a_function_that_a_stop_cut_short_do_matter() -> None:
    full = many(["pp"] * 10)
    stopped = [*full[2:9], a_case("c9", "")]
    assert compared(a_run(*full), a_run(*stopped, complete=False)).row == 5
    assert compared(a_run(*full), a_run(*full[1:9], a_case("c9", ""), complete=False)).row == 6


@pytest.mark.parametrize(("unscored", "row"), [(1, 8), (2, 5)])
def test_row_5_ten_percent_of_the_touched_cases_may_be_without_a_score(
    unscored: int, row: int
) -> None:
    baseline = a_run(*many(["ppp"] * 15))
    run = a_run(*many(["e"] * unscored + ["mmm"] * (15 - unscored), request="v2"))
    found = compared(baseline, run)
    assert found.effect.touched == 15
    assert found.row == row
    if row == 5:
        assert outcome(found) == (5, "not_comparable", True)
        assert worded(found.why).startswith("2 of the 15 changed cases have no scored trial here")


def test_row_5_touched_cases_that_all_time_out_are_not_unchanged() -> None:
    replays = many(["ppppp"] * 40)
    baseline = a_run(*replays, a_case("x", "p"))
    found = compared(baseline, a_run(*replays, a_case("x", "e", request="v2")))
    assert outcome(found) == (5, "not_comparable", True)
    assert (found.effect.changed, found.effect.touched) == (0, 1)


@pytest.mark.parametrize(("typed", "row"), [(None, 6), (("-k c0",), 6), ((), 5)])
def test_row_5_cases_that_addopts_leave_out_are_gone(
    typed: tuple[str, ...] | None, row: int
) -> None:
    full = many(["pp"] * 10)
    current = dataclasses.replace(
        a_run(*full[:1], selection=("-k c0",)), partial=("test_suite.py::test_f",)
    )
    (found,) = compare(a_run(*full), current, GateRules(), typed=typed).functions
    assert (found.row, found.partial) == (row, row == 6)


# row 6: unchanged


def test_row_6_a_replayed_run_is_unchanged() -> None:
    cases = many(["ppppp", "pmpmp", "mmmmm"])
    found = compared(a_run(*cases), a_run(*cases), STRICT)
    assert outcome(found) == (6, "unchanged", False)
    assert (found.effect.changed, found.effect.touched, found.effect.changed_kinds) == (0, 0, {})
    assert (found.effect.difference, found.effect.difference_changed) == (0.0, None)
    assert (found.evidence.interval, found.evidence.interval_level) == ((0.0, 0.0), None)
    assert (found.effect.method, found.evidence.t, found.evidence.dof, found.evidence.p) == (
        "none",
        None,
        None,
        None,
    )
    assert (found.evidence.p_improved, found.evidence.smallest_detectable_drop) == (None, None)
    assert (found.effect.units, found.effect.effective_units) == (0, 0.0)


# row 7: one unit


def test_row_7_several_changed_cases_in_one_unit_are_inconclusive() -> None:
    baseline = a_run(*many(["ppppp"] * 3, cluster="x"))
    run = a_run(*many(["mmmmm"] * 3, request="v2", cluster="x"))
    found = compared(baseline, run)
    assert outcome(found) == (7, "inconclusive", False)
    assert "the 3 changed cases are a single independent unit" in worded(found.why)
    assert fails_if_strict(baseline, run)


def test_row_7_cannot_hurt_where_pass_scores_of_few_cases_changed() -> None:
    replays = [a_case(f"r{at}", "ppppp") for at in range(30)]
    baseline = a_run(*many(["ppppp"] * 3, cluster="x"), *replays)
    run = a_run(*many(["mmmmm"] * 3, request="v2", cluster="x"), *replays)
    found = compared(baseline, run)
    assert outcome(found) == (10, "no_significant_change", False)
    assert (found.evidence.ruled_out_by, found.effect.method, found.evidence.p) == (
        "share",
        "none",
        None,
    )


def test_row_7_other_scores_know_no_range_that_would_rule_a_drop_out() -> None:
    replays = [a_case(f"r{at}", scores=[0.5, 0.5]) for at in range(30)]
    baseline = [a_case(f"c{at}", scores=[0.5, 0.5], cluster="x") for at in range(2)]
    current = [a_case(f"c{at}", scores=[0.1, 0.1], request="v2", cluster="x") for at in range(2)]
    assert compared(a_run(*baseline, *replays), a_run(*current, *replays)).row == 7


# row 8: regressed


def test_row_8_a_significant_drop_is_a_regression() -> None:
    found = compared(*runs([("ppppp", "ppmmm")] * 6 + [("ppppp", "pmmmm")] * 6))
    assert outcome(found) == (8, "regressed", True)


def test_row_8_adjusted_p_decides() -> None:
    # p = 1 / 70 alone, four of them are not below 0.05
    names = [f"test_{at}" for at in range(4)]
    baseline = a_run(*(a_case("x", "pppp", function=name) for name in names))
    run = a_run(*(a_case("x", "mmmm", function=name, request="v2") for name in names))
    assert [one.row for one in compare(baseline, run, GateRules()).functions] == [11] * 4
    one = a_run(a_case("x", "pppp", function="test_0"))
    other = a_run(a_case("x", "mmmm", function="test_0", request="v2"))
    assert compared(one, other).row == 8


def test_row_8_p_must_be_below_alpha_not_equal() -> None:
    baseline, run = runs([("pppp", "mmmm")])
    p = compared(baseline, run).evidence.p
    assert p is not None
    assert compared(baseline, run, GateRules(alpha=p)).row != 8
    assert compared(baseline, run, GateRules(alpha=p + 1e-9)).row == 8


def test_row_8_below_six_units_the_drop_must_exceed_the_margin() -> None:
    baseline, run = runs([("ppppp", "mmmmm")], replayed=3)  # D = -0.25
    assert compared(baseline, run, GateRules(margin=0.24, target=0.5)).row == 8
    assert compared(baseline, run, GateRules(margin=0.25, target=0.5)).row != 8


def test_row_8_from_six_units_the_test_itself_holds_the_margin() -> None:
    six = [("p" * 20, "p" * 15 + "m" * 5)] * 5 + [("p" * 20, "p" * 14 + "m" * 6)]
    baseline, run = runs(six)  # D = -0.258, with hardly any spread
    assert compared(baseline, run, GateRules(margin=0.2, target=0.5)).row == 8
    assert compared(baseline, run, GateRules(margin=0.25, target=0.5)).row != 8


def test_row_8_p_within_case_is_never_gated_on_from_six_units() -> None:
    found = compared(*runs([("p" * 10, "ppppp")] * 7 + [("p" * 10, "mmmmm")]))
    assert found.effect.method == "paired-t"
    assert found.evidence.p_within_case is not None
    assert found.evidence.p_within_case < 0.001
    assert found.row == 11


# row 9: improved


def test_row_9_a_significant_rise_is_an_improvement() -> None:
    found = compared(*runs([("ppmmm", "ppppp")] * 6 + [("pmmmm", "ppppp")] * 6), STRICT)
    assert outcome(found) == (9, "improved", False)


def test_row_9_adjusted_p_decides() -> None:
    names = [f"test_{at}" for at in range(4)]
    baseline = a_run(*(a_case("x", "mmmm", function=name) for name in names))
    run = a_run(*(a_case("x", "pppp", function=name, request="v2") for name in names))
    assert [one.row for one in compare(baseline, run, GateRules()).functions] == [11] * 4


def test_row_9_p_must_be_below_alpha_not_equal() -> None:
    baseline, run = runs([("mmmm", "pppp")])
    p = compared(baseline, run).evidence.p_improved
    assert p is not None
    assert compared(baseline, run, GateRules(alpha=p)).row != 9
    assert compared(baseline, run, GateRules(alpha=p + 1e-9)).row == 9


# row 10: no significant change


def test_row_10_an_interval_above_the_target_rules_it_out() -> None:
    found = compared(*runs([("p" * 20, "p" * 19 + "m"), ("p" * 19 + "m", "p" * 20)] * 6), STRICT)
    assert outcome(found) == (10, "no_significant_change", False)
    assert (found.effect.method, found.evidence.ruled_out_by) == ("paired-t", "interval")


def test_row_10_the_lower_end_of_the_interval_counts() -> None:
    baseline, run = runs([("p" * 20, "p" * 19 + "m"), ("p" * 19 + "m", "p" * 20)] * 6)
    interval = compared(baseline, run).evidence.interval
    assert interval is not None
    assert compared(baseline, run, GateRules(target=-interval[0] + 1e-9)).row == 10
    assert compared(baseline, run, GateRules(target=-interval[0] - 1e-9)).row == 11


def test_row_10_t_is_judged_by_its_interval_alone() -> None:
    # the target would be caught in 4 of 5 builds, yet the interval reaches beyond it
    baseline = [a_case(f"c{at}", scores=[0.5, 0.5]) for at in range(40)]
    current = [
        a_case(f"c{at}", scores=[0.45 + (-1) ** at * 0.198] * 2, request="v2") for at in range(40)
    ]
    found = compared(a_run(*baseline), a_run(*current))
    assert found.evidence.smallest_detectable_drop is not None
    assert found.evidence.smallest_detectable_drop < 0.1
    assert found.evidence.p is not None
    assert found.evidence.p >= 0.05
    assert found.row == 11


# misses in each case on both sides: what misses here leaves room for more than would show
FIVE_OF_20 = [("p" * 15 + "m" * 5, "p" * 15 + "m" * 5)] * 5


def test_row_10_a_smallest_drop_within_the_target_rules_it_out() -> None:
    baseline, run = runs(FIVE_OF_20)
    found = compared(baseline, run, GateRules(strict=True, target=0.18))
    assert outcome(found) == (10, "no_significant_change", False)
    assert (found.effect.method, found.evidence.ruled_out_by) == (
        "exact-within-case",
        "smallest_drop",
    )
    drop = found.evidence.smallest_detectable_drop
    assert drop is not None
    assert compared(baseline, run, GateRules(target=drop)).row == 10
    assert compared(baseline, run, GateRules(target=drop - 1e-9)).row == 11


def test_row_10_margin_is_added_to_the_smallest_drop() -> None:
    baseline, run = runs(FIVE_OF_20)
    drop = compared(baseline, run).evidence.smallest_detectable_drop
    assert drop is not None
    assert compared(baseline, run, GateRules(margin=0.02, target=drop + 0.021)).row == 10
    assert compared(baseline, run, GateRules(margin=0.02, target=drop + 0.019)).row == 11


def test_row_10_same_shift_is_judged_by_one_case_more_that_fell() -> None:
    found = compared(*runs([("p" * 20, "p" * 20)] * 8))
    assert (found.row, found.effect.method, found.evidence.ruled_out_by) == (
        10,
        "same-shift",
        "interval",
    )


@pytest.mark.parametrize(("trials", "cases"), [(1, 27), (2, 13), (3, 9), (5, 6)])
@pytest.mark.parametrize("letter", ["p", "m"])
def test_row_10_so_many_cases_of_which_none_moved_rule_the_target_out(
    trials: int, cases: int, letter: str
) -> None:
    same = (letter * trials, letter * trials)
    assert compared(*runs([same] * cases)).row == 10
    if cases > 6:
        assert compared(*runs([same] * (cases - 1))).row == 11


@pytest.mark.parametrize("cases", [1, 5])
def test_row_10_below_six_units_a_mean_falls_by_no_more_than_it_is(cases: int) -> None:
    # the upper limit of no pass in so many trials
    found = compared(*runs([("m" * 40, "m" * 40)] * cases), STRICT)
    assert (found.row, found.evidence.ruled_out_by) == (10, "ends")
    limit = 1 - 0.05 ** (1 / (40 * cases))
    assert compared(*runs([("m" * 40, "m" * 40)] * cases), GateRules(target=limit + 1e-9)).row == 10
    assert compared(*runs([("m" * 40, "m" * 40)] * cases), GateRules(target=limit - 1e-9)).row == 11


def test_row_10_below_six_units_a_mean_falls_by_no_more_than_what_misses_here() -> None:
    # graded scores have no end
    assert compared(*runs([("p" * 10, "p" * 40)] * 2)).row == 10
    assert compared(*scored_runs([[0.5] * 10] * 2, [[0.5] * 40] * 2)).row == 11


def test_row_10_hits_are_hits_whatever_their_name_and_direction() -> None:
    for better, letters in (("lower", (0.0, 1.0)), ("higher", (1.0, 0.0))):
        before, after = (
            a_run(
                *(
                    a_case(str(at), scores=[letters[0]] * 40, better=better, request=request)
                    for at in range(2)
                )
            )
            for request in ("v1", "v2")
        )
        found = compared(before, after)
        assert (found.row, found.metric) == (10, "score")


def test_row_10_a_drop_as_large_as_the_target_is_not_ruled_out() -> None:
    # identical replies, judged unlike: the exact test sees the first trials, D all of them
    names = "abcde"
    baseline = a_run(*(a_case(name, "ppppp", replies="yes") for name in names))
    run = a_run(*(a_case(name, "pmmmm", replies="no", request="v2") for name in names))
    found = compared(baseline, run, GateRules(target=0.81))
    assert (found.row, found.evidence.p) == (10, 1.0)
    assert found.effect.difference == pytest.approx(-0.8)
    assert found.evidence.smallest_detectable_drop is not None
    assert found.evidence.smallest_detectable_drop <= 0.79
    assert compared(baseline, run, GateRules(target=0.8)).row == 11
    assert compared(baseline, run, GateRules(target=0.79)).row == 11


def test_row_10_a_small_p_by_itself_is_not_ruled_out() -> None:
    five = [("p" * 20, "p" * 20)] * 4 + [("p" * 20, "p" * 14 + "m" * 6)]
    baseline, run = runs(five)
    others = [a_case("x", "pp", function=f"test_{at}") for at in range(5)]
    changed = [a_case("x", "pp", function=f"test_{at}", request="v2") for at in range(5)]
    first = compare(
        joined(baseline, a_run(*others)), joined(run, a_run(*changed)), GateRules()
    ).functions[0]
    assert first.evidence.p is not None
    assert first.evidence.p < 0.05
    assert first.evidence.p_adjusted is not None
    assert first.evidence.p_adjusted >= 0.05
    assert first.evidence.smallest_detectable_drop is not None
    assert first.evidence.smallest_detectable_drop <= 0.1
    assert first.row == 11


def test_row_10_a_p_of_alpha_is_no_small_p() -> None:
    baseline, run = runs([("p" * 20, "p" * 20)] * 4 + [("p" * 20, "p" * 14 + "m" * 6)])
    p = compared(baseline, run).evidence.p
    assert p is not None
    found = compared(baseline, run, GateRules(alpha=p, target=0.3))
    assert (found.row, found.evidence.ruled_out_by) == (10, "smallest_drop")


def test_row_10_few_changed_cases_of_pass_scores_cannot_reach_the_target() -> None:
    found = compared(*runs([("pp", "pm")], replayed=10), STRICT)
    assert outcome(found) == (10, "no_significant_change", False)
    assert found.evidence.ruled_out_by == "share"


def test_row_10_share_of_changed_cases_must_be_below_the_target() -> None:
    assert compared(*runs([("pp", "mm")], replayed=9)).row == 11


def test_row_10_share_says_nothing_about_other_scores() -> None:
    replays = [a_case(f"r{at}", scores=[0.5, 0.5]) for at in range(30)]
    baseline = a_run(a_case("a", scores=[0.5, 0.5]), *replays)
    run = a_run(a_case("a", scores=[0.4, 0.5], request="v2"), *replays)
    assert compared(baseline, run).row == 11


# row 11: inconclusive


def test_row_11_what_could_not_be_ruled_out_is_inconclusive() -> None:
    baseline, run = runs([("ppp", "ppm")] * 3)
    assert outcome(compared(baseline, run)) == (11, "inconclusive", False)
    assert fails_if_strict(baseline, run)


# all functions together


def verdicts(**there_and_here: tuple[str | None, str | None, str]) -> Comparison:
    baseline = [a_case("x", one, function=f) for f, (one, _, _) in there_and_here.items() if one]
    current = [
        a_case("x", other, function=f, request=request)
        for f, (_, other, request) in there_and_here.items()
        if other
    ]
    return compare(a_run(*baseline), a_run(*current), GateRules(accept_gone=("test_gone",)))


REGRESSED = ("p" * 6, "m" * 6, "v2")
NOT_COMPARABLE = ("pppp", "eeee", "v2")
INCONCLUSIVE = ("pp", "pm", "v2")
IMPROVED = ("m" * 6, "p" * 6, "v2")
UNCHANGED = ("pp", "pp", "v1")
GONE = ("pp", None, "v1")
NEW = (None, "pp", "v1")


def test_overall_verdict_is_the_first_present() -> None:
    every = {
        "test_regressed": REGRESSED,
        "test_not_comparable": NOT_COMPARABLE,
        "test_inconclusive": INCONCLUSIVE,
        "test_improved": IMPROVED,
        "test_unchanged": UNCHANGED,
        "test_gone": GONE,
        "test_new": NEW,
    }
    expected = [name.removeprefix("test_") for name in every]
    for at, name in enumerate(expected):
        left = dict(list(every.items())[at:])
        assert verdicts(**left).verdict == name


def test_no_significant_change_stands_between_improved_and_unchanged() -> None:
    order = list(Verdict)
    at = order.index(Verdict.NO_SIGNIFICANT_CHANGE)
    assert order[at - 1 : at + 2 : 2] == [Verdict.IMPROVED, Verdict.UNCHANGED]


def test_one_failing_function_fails_the_comparison() -> None:
    found = verdicts(test_a=UNCHANGED, test_b=REGRESSED)
    assert (found.fails, why_failed(found, SESSION)) == (True, "")
    assert not verdicts(test_a=UNCHANGED, test_b=INCONCLUSIVE).fails


def test_functions_stand_in_order_of_collection_and_those_gone_come_last() -> None:
    found = verdicts(test_z=UNCHANGED, test_gone=GONE, test_n=NEW, test_a=UNCHANGED)
    names = [one.function.removeprefix("test_suite.py::") for one in found.functions]
    assert names == ["test_z", "test_n", "test_a", "test_gone"]


def test_nothing_compared_fails() -> None:
    found = verdicts(test_a=NOT_COMPARABLE, test_b=NEW)
    assert found.fails
    assert why_failed(found, SESSION) == "nothing was judged: 1 not comparable, 1 new"


def test_only_new_functions_beside_one_that_is_gone_fail() -> None:
    found = verdicts(test_a=NEW, test_gone=GONE)
    assert (found.fails, found.verdict) == (True, Verdict.GONE)
    assert why_failed(found, SESSION) == "nothing was judged: 1 new, 1 gone"


def test_only_new_functions_pass() -> None:
    found = verdicts(test_a=NEW)
    assert (found.fails, why_failed(found, SESSION)) == (False, "")
    assert found.verdict is Verdict.NEW


def test_partial_run_of_new_functions_passes_as_nothing_is_gone_from_it() -> None:
    baseline = a_run(a_case("a", "pp", function="test_old"))
    run = a_run(a_case("b", "pp"), complete=False)
    assert not compare(baseline, run, GateRules()).fails


@pytest.mark.parametrize("rules", [GateRules(), STRICT])
def test_session_without_any_case_fails(rules: GateRules) -> None:
    found = compare(a_run(a_case("a", "pp")), a_run(complete=False), rules)
    assert (found.fails, found.verdict, found.functions) == (True, Verdict.NOT_COMPARABLE, ())
    assert (
        why_failed(found, SESSION) == "nothing was judged: no test function of the baseline was run"
    )


def test_function_that_a_stopped_session_never_came_to_is_left_out() -> None:
    baseline = a_run(a_case("a", "pp"), a_case("b", "pp", function="test_g"))
    run = a_run(a_case("a", "pp"), a_case("b", "", function="test_g"), complete=False)
    found = compare(baseline, run, GateRules())
    assert [one.function for one in found.functions] == ["test_suite.py::test_f"]
    assert not found.fails


def test_row_10_a_handful_of_hits_near_the_ceiling_rules_nothing_out() -> None:
    # the t interval is narrow for lack of misses; at a rate of .9 this happens in .18 of builds
    baseline = many(["ppp"] * 10)
    current = many(["ppp"] * 9 + ["ppm"], request="v2")
    found = compared(a_run(*baseline), a_run(*current))
    assert found.evidence.interval is not None
    assert found.evidence.interval[0] < -0.1
    assert found.verdict == "inconclusive"


def test_row_10_enough_hits_near_the_ceiling_rule_the_target_out() -> None:
    found = compared(
        a_run(*many(["ppppp"] * 20)), a_run(*many(["ppppp"] * 19 + ["ppppm"], request="v2"))
    )
    assert (found.verdict, found.evidence.ruled_out_by) == ("no_significant_change", "interval")
