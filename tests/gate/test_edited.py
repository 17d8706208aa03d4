"""A case whose parameters were edited is no regression, and hides none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import FunctionComparison
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from tests.gate.builders import CaseAndTrials, a_call, a_case, a_run, compared, joined

CASES = 20


def suite(*edited: CaseAndTrials, request: str = "v1", trials: str = "ppp") -> Run:
    """Twenty cases c0 to c19, the first of which are others."""
    rest = range(len(edited), CASES)
    return a_run(
        *edited, *(a_case(f"c{at}", trials, parameters="old", request=request) for at in rest)
    )


def mended(count: int, trials: str = "mmm", **given: object) -> list[CaseAndTrials]:
    """So many cases of other parameters, from c0 on."""
    return [a_case(f"c{at}", trials, **{"parameters": "new", **given}) for at in range(count)]


def ids(found: FunctionComparison) -> list[str]:
    return [one.case.partition("[")[2].rstrip("]") for one in found.edited]


BASELINE = suite()


# (a) a label was mended


@pytest.mark.parametrize("count", [1, 2, 11, CASES])
def test_cases_whose_draws_are_the_baselines_own_are_out_of_the_test_without_a_limit(
    count: int,
) -> None:
    found = compared(BASELINE, suite(*mended(count)))

    assert (found.verdict, found.row, found.fails) == ("unchanged", 6, False)
    assert found.effect.cases == CASES - count
    assert [(one.is_replayed, one.baseline_mean, one.mean) for one in found.edited] == [
        (True, 1.0, 0.0)
    ] * count
    assert found.only_in_baseline == found.only_here == found.mismatched == ()


@pytest.mark.parametrize("further", ["pp", "mm"])
def test_both_means_of_a_mended_label_are_of_the_same_replies(further: str) -> None:
    def run(trials: str, parameters: str) -> Run:
        return a_run(a_case("c0", trials, parameters=parameters), *many)

    many = [a_case(f"d{at}", "ppp") for at in range(9)]
    for before, after in ((f"ppm{further}", "mmp"), ("ppm", f"mmp{further}")):
        (one,) = compared(run(before, "old"), run(after, "new")).edited
        assert (one.is_replayed, one.baseline_mean, one.mean) == (
            True,
            pytest.approx(2 / 3),
            pytest.approx(1 / 3),
        )


def test_mended_labels_leave_the_others_to_be_judged() -> None:
    worse = suite(*mended(2, "ppp"), request="v2", trials="mmm")
    found = compared(BASELINE, worse)
    assert (found.verdict, ids(found), found.effect.cases) == ("regressed", ["c0", "c1"], 18)


@pytest.mark.parametrize("positional", [False, True])
def test_one_rule_holds_with_ids_of_ones_own_and_without(positional: bool) -> None:
    def rows(edited: int, request: str = "v1") -> Run:
        given = {"positional": positional}
        new = [
            a_case(f"c{at}", "mmm", parameters=f"new{at}", request=request, **given)
            for at in range(edited)
        ]
        old = [
            a_case(f"c{at}", "ppp", parameters=f"old{at}", **given) for at in range(edited, CASES)
        ]
        return a_run(*new, *old)

    for edited, request, row in ((3, "v1", 6), (2, "v2", 6), (3, "v2", 5)):
        found = compared(rows(0), rows(edited, request))
        assert (found.row, len(found.edited), found.mismatched) == (row, edited, ())


def test_an_edit_that_changes_the_id_is_one_too() -> None:
    same = a_case("c0", "ppp").trials
    edited = a_case("mail-legal", "mmm", parameters="new", calls=lambda at: same[at].calls)
    new = a_case("mail-other", "mmm", parameters="another")

    found = compared(BASELINE, suite(edited, new))

    assert [(one.case, one.was) for one in found.edited] == [
        ("test_suite.py::test_f[mail-legal]", "test_suite.py::test_f[c0]")
    ]
    assert found.only_here == ("test_suite.py::test_f[mail-other]",)
    assert found.only_in_baseline == ("test_suite.py::test_f[c1]",)
    assert found.verdict == "unchanged"


@pytest.mark.parametrize("lost", [("epp", "mmm"), ("ppp", "emm")])
def test_an_edit_that_changes_the_id_is_found_where_a_trial_got_no_reply(
    lost: tuple[str, str],
) -> None:
    def a_side(name: str, outcomes: str) -> Run:
        draws = [None if outcome == "e" else f"d{at}" for at, outcome in enumerate(outcomes)]
        case = a_case(
            name,
            outcomes,
            parameters=name,
            calls=lambda at: [a_call("v1", draws[at], trial=at)],
        )
        return joined(a_run(case), BASELINE)

    found = compared(a_side("c99", lost[0]), a_side("mail", lost[1]))
    assert [one.was for one in found.edited] == ["test_suite.py::test_f[c99]"]


def test_of_two_cases_that_share_their_draws_each_is_paired_once() -> None:
    def calls(at: int) -> object:
        return a_case("shared", "ppp").trials[at].calls

    def twice(*names: str, parameters: str) -> list[CaseAndTrials]:
        return [a_case(one, "ppp", parameters=parameters, calls=calls) for one in names]

    before = a_run(*twice("a", "b", parameters="old"), a_case("z", "ppp"))
    after = a_run(*twice("c", "d", parameters="new"), a_case("z", "ppp"))
    found = compared(before, after)
    assert {one.was[-2]: one.case[-2] for one in found.edited} == {"a": "c", "b": "d"}


def test_a_case_that_was_renamed_and_not_edited_is_gone() -> None:
    same = a_case("c0", "ppp").trials
    renamed = a_case("d0", "ppp", parameters="old", calls=lambda at: same[at].calls)
    found = compared(BASELINE, suite(renamed))
    assert (found.edited, found.only_in_baseline) == ((), ("test_suite.py::test_f[c0]",))


def test_a_mended_label_of_which_a_trial_crashed_before_it_asked_is_limited() -> None:
    silent = mended(3, "mcm", calls=lambda at: a_case("c0", "ppp").trials[at].calls if at else ())
    assert compared(BASELINE, suite(*silent)).row == 5


# (b) what is asked was edited


@pytest.mark.parametrize(("count", "row"), [(1, 6), (2, 6), (3, 5), (10, 5)])
def test_cases_that_ask_otherwise_are_counted_with_those_that_are_gone(
    count: int, row: int
) -> None:
    found = compared(BASELINE, suite(*mended(count, request="v2")))
    assert (found.row, found.effect.cases) == (row, CASES - count)
    assert {one.is_replayed for one in found.edited} == {False}


def test_edited_and_gone_cases_share_one_limit() -> None:
    one_gone = suite(*mended(2, request="v2"))
    one_gone = replace(
        one_gone,
        cases=one_gone.cases[:-1],
        trials=tuple(t for t in one_gone.trials if t.case != one_gone.cases[-1].id),
    )
    found = compared(BASELINE, one_gone)
    assert (found.row, found.why and found.why.figures) == (5, (3, 20, 10.0, 2, 0.15, 1))


def test_the_limit_holds_where_a_part_was_asked_for() -> None:
    run = suite(*mended(3, request="v2"))
    part = replace(run, partial=("test_suite.py::test_f",), complete=False)
    assert compare(BASELINE, part, GateRules(), typed=("-k c",)).functions[0].row == 5


def test_draws_that_are_not_the_baselines_own_make_no_mended_label() -> None:
    assert compared(BASELINE, suite(*mended(3, draws="another day"))).row == 5


def test_what_was_edited_on_main_counts_for_nothing_against_an_anchor() -> None:
    edited = suite(*mended(5, request="v2"))
    assert compare(BASELINE, edited, GateRules()).functions[0].row == 5
    (found,) = compare(BASELINE, edited, GateRules(), main=edited).functions
    assert (found.row, found.effect.cases, found.edited) == (6, CASES - 5, ())
    elsewhere = a_run(a_case("c9", "ppp", function="test_g"))
    assert compare(BASELINE, edited, GateRules(), main=elsewhere).functions[0].row == 5
    more = suite(*mended(5, request="v2"), *mended(8, request="v3")[5:])
    assert compare(BASELINE, more, GateRules(), main=edited).functions[0].row == 5


# (c) the parameters hold what is under test


def test_where_more_than_half_differ_they_are_compared() -> None:
    found = compared(BASELINE, suite(*mended(11, request="v2")))
    assert (found.verdict, found.effect.cases, found.edited) == ("regressed", CASES, ())
    assert len(found.inputs_changed) == 11


def test_exactly_half_is_not_more() -> None:
    found = compared(BASELINE, suite(*mended(10, request="v2")), GateRules(max_gone=0.5))
    assert (found.verdict, len(found.edited)) == ("unchanged", 10)


def test_mended_labels_among_them_stay_out_of_the_test() -> None:
    labels, prompts = mended(12)[:6], mended(12, request="v2")[6:]
    found = compared(BASELINE, suite(*labels, *prompts))
    assert (len(found.edited), len(found.inputs_changed), found.verdict) == (6, 6, "regressed")


# today's way


def test_the_ini_file_may_ask_for_all_to_be_compared() -> None:
    for edited in (mended(8), mended(8, request="v2")):
        found = compared(BASELINE, suite(*edited), GateRules(edited="compare"))
        assert (found.verdict, found.edited) == ("regressed", ())
        assert len(found.inputs_changed) == 8


def test_a_gone_case_and_a_new_one_that_share_a_draw_alone_are_no_edit() -> None:
    first = a_case("c0", "ppp").trials
    calls = lambda at: first[0].calls if at == 0 else ()  # noqa: E731
    other = a_case("d0", "mmm", parameters="new", calls=calls)
    silent = a_case("quiet", "ppp", parameters="old", calls=lambda _: ())
    before = a_run(*(a_case(f"c{at}", "ppp", parameters="old") for at in range(20)), silent)
    found = compared(before, suite(other))
    assert (found.edited, len(found.only_in_baseline)) == ((), 2)


@pytest.mark.parametrize("digests", [(None, "new"), ("old", None), (None, None)])
def test_parameters_without_a_digest_tell_no_edit(digests: tuple[str | None, str | None]) -> None:
    before, after = (
        a_run(*(a_case(f"c{at}", trials, parameters=one) for at in range(8)))
        for one, trials in zip(digests, ("ppp", "mmm"), strict=True)
    )
    found = compared(before, after)
    assert (found.verdict, found.edited, found.inputs_changed) == ("regressed", (), ())


def test_every_metric_leaves_the_same_cases_out() -> None:
    def scored(values: list[float], **given: str) -> list[CaseAndTrials]:
        return [
            a_case(f"c{at}", "pp", scores=values, gate=("pass", "score"), **given)
            for at in range(8)
        ]

    before = a_run(*scored([0.5, 0.5], parameters="old"))
    after = a_run(scored([0.1, 0.1], parameters="new")[0], *scored([0.5, 0.5])[1:])
    found = compare(before, after, GateRules())
    assert [(one.metric, ids(one)) for one in found.functions] == [
        ("pass", ["c0"]),
        ("score", ["c0"]),
    ]
    (one,) = found.functions[1].edited
    assert (one.baseline_mean, one.mean) == (0.5, pytest.approx(0.1))
    assert not found.fails


# ways in which a worse prompt could pass


def test_a_worse_prompt_is_not_hidden_by_edits_of_the_cases_that_fail() -> None:
    fail = mended(8, request="worse")
    rest = [a_case(f"c{at}", "ppp", parameters="old", request="worse") for at in range(8, CASES)]
    found = compared(BASELINE, a_run(*fail, *rest))
    assert (found.row, found.fails) == (5, True)


def test_a_worse_prompt_is_not_hidden_by_edits_of_all_cases() -> None:
    found = compared(BASELINE, suite(*mended(CASES, request="worse")))
    assert (found.verdict, found.fails) == ("regressed", True)


def test_new_cases_do_not_make_half_of_more_than_half() -> None:
    new = [a_case(f"n{at}", "ppp", parameters="new") for at in range(30)]
    found = compared(BASELINE, suite(*mended(15, request="worse"), *new[15:]))
    assert found.fails


def test_a_case_that_failed_and_is_edited_under_a_new_id_is_gone() -> None:
    edited = [a_case(f"d{at}", "mmm", parameters="new", request="worse") for at in range(3)]
    assert compared(BASELINE, suite(*edited)).row == 5
