"""What would settle a comparison that was left inconclusive: what is named settles it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from pytest_llmeval.gate.remedies import spaced
from pytest_llmeval.gate.results import FunctionComparison, Verdict
from pytest_llmeval.records import Run
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.settings import GateRules
from tests.gate.builders import a_case, a_run, compared, runs, scored_runs
from tests.gate.worked import SPREAD, among

Outcomes = list[tuple[str, str]]


def remedies(found: FunctionComparison) -> tuple[int | None, int | None]:
    assert found.verdict is Verdict.INCONCLUSIVE
    return found.evidence.settle_cases, found.evidence.settle_repeats


def times(outcomes: Outcomes, cases: int) -> Outcomes:
    """So many cases like these."""
    return spaced(sorted(outcomes, key=lambda pair: pair[1].count("p") - pair[0].count("p")), cases)


def repeated(outcomes: Outcomes, repeats: int) -> Outcomes:
    """So many repeats on both sides, that went as those at hand did."""
    return [
        (
            "".join(spaced(sorted(before), max(repeats, len(before)))),
            "".join(spaced(sorted(after), max(repeats, len(after)))),
        )
        for before, after in outcomes
    ]


def test_settled_comparison_names_no_remedy() -> None:
    found = compared(*runs([("p" * 10, "p" * 10)] * 40))
    assert found.verdict is Verdict.NO_SIGNIFICANT_CHANGE
    assert (found.evidence.settle_cases, found.evidence.settle_repeats) == (None, None)


@pytest.mark.parametrize(
    ("outcomes", "repeats"),
    [
        ([("ppp", "mmm")], 4),  # 1/20, 1/70
        ([("ppm", "mmm")], 10),  # 4/6 and 0/6 is 1/33, but one pass more or less is chance
        ([("p", "m")], 4),
        ([("mmm", "ppp")], 4),
    ],
)
def test_the_repeats_that_are_named_settle_it(outcomes: Outcomes, repeats: int) -> None:
    assert remedies(compared(*runs(outcomes)))[1] == repeats
    found = compared(*runs(repeated(outcomes, repeats)))
    assert found.verdict is not Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    "outcomes",
    [
        [("ppp", "mmm")],
        [("pppmm", "ppppp")],
        [("ppp", "ppp")] * 5,
        [("p", "p")] * 20,
        [("m", "m")] * 9,
        [("p", "m"), ("m", "p"), *[("p", "p")] * 9, *[("m", "m")] * 9],
        [*[("p", "m")] * 3, *[("p", "p")] * 30, *[("m", "m")] * 17],
        [("ppppm", "pppmm"), ("ppmmm", "ppppm"), ("ppppp", "ppppp")] * 3,
        [("ppp", "pppmpppp"), ("ppm", "ppmppmmp"), ("mmp", "mmmmpmmm")] * 3,
    ],
)
def test_the_cases_that_are_named_settle_it(outcomes: Outcomes) -> None:
    cases, _ = remedies(compared(*runs(outcomes)))
    assert cases is not None
    found = compared(*runs(times(outcomes, len(outcomes) + cases)))
    assert found.verdict is not Verdict.INCONCLUSIVE


@pytest.mark.unmeasured
@pytest.mark.parametrize("letter", ["p", "m"])
@pytest.mark.parametrize(("trials", "enough"), [(1, 27), (2, 13), (3, 9)])
def test_where_nothing_moved_more_cases_at_hand_need_fewer_more(
    letter: str, trials: int, enough: int
) -> None:
    for cases in (6, enough - 1):
        assert remedies(compared(*runs([(letter * trials, letter * trials)] * cases)))[0] == (
            enough - cases
        )
    assert compared(*runs([(letter * trials, letter * trials)] * 200)).row == 10


@pytest.mark.parametrize("cases", [2, 5])
def test_cases_that_moved_alike_by_luck_scatter_all_the_same(cases: int) -> None:
    # all cases moved alike, so their standard error is 0; that of 60 cases like these is .045
    wanted, _ = remedies(compared(*runs([("pppmm", "pppmm")] * cases)))
    assert wanted is not None
    assert 60 < cases + wanted < 90
    certain, _ = remedies(compared(*runs([("ppppp", "ppppp")] * cases)))
    assert certain == 6 - cases


def test_repeats_are_named_with_the_price_of_several_functions() -> None:
    # 1/70 is not below .05 of 5 comparisons, 1/252 is
    assert among(4, *runs([("ppp", "mmm")])).evidence.settle_repeats == 5


@pytest.mark.unmeasured
def test_more_cases_settle_what_is_too_weak_for_so_large_a_family() -> None:
    five: Outcomes = [("p" * 20, "p" * 20)] * 4 + [("p" * 20, "p" * 14 + "m" * 6)]
    cases, repeats = remedies(among(5, *runs(five)))
    assert cases is not None
    assert repeats is not None
    assert among(5, *runs(times(five, 5 + cases))).verdict is not Verdict.INCONCLUSIVE
    assert among(5, *runs(repeated(five, repeats))).verdict is not Verdict.INCONCLUSIVE


@pytest.mark.unmeasured
def test_more_cases_keep_the_share_of_changed_ones() -> None:
    outcomes: Outcomes = [("ppp", "ppp")] * 6
    alone = compared(*runs(outcomes))
    among_replays = compared(*runs(outcomes, replayed=6), GateRules(target=0.05))
    assert remedies(alone)[0] == 3
    assert remedies(among_replays)[0] == 5  # of 17 cases 9 would be changed, rounded


@pytest.mark.unmeasured
def test_a_margin_and_a_target_are_looked_at() -> None:
    outcomes: Outcomes = [("ppppp", "ppppm"), ("ppppp", "ppppp"), ("ppppm", "ppppp")] * 5
    strict, _ = remedies(compared(*runs(outcomes), GateRules(target=0.03)))
    lenient, _ = remedies(compared(*runs(outcomes), GateRules(target=0.05)))
    assert strict is not None
    assert lenient is not None
    assert lenient < strict


def test_more_repeats_shrink_what_is_chance_within_the_cases() -> None:
    baseline = [[0.9, 0.5], [0.7, 0.3], [0.6, 0.9], [0.3, 0.6], [0.8, 0.8], [0.5, 0.2]]
    current = [[0.5, 0.5], [0.3, 0.9], [0.9, 0.7], [0.1, 0.3], [0.9, 0.9], [0.4, 0.3]]
    found = compared(*scored_runs(baseline, current))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.evidence.settle_repeats is not None
    assert 2 < found.evidence.settle_repeats < 30


def test_repeats_that_the_baseline_has_already_need_no_more_there() -> None:
    # none moved: 5 on both sides are enough for 6 cases, 20 in the baseline do not matter
    assert remedies(compared(*runs([("ppp", "ppp")] * 6)))[1] == 5
    assert remedies(compared(*runs([("p" * 20, "ppp")] * 6)))[1] == 5


@pytest.mark.unmeasured
def test_of_single_hits_all_that_varies_may_be_chance() -> None:
    found = compared(*runs([("p", "m"), ("m", "p"), *[("p", "p")] * 10, *[("m", "m")] * 8]))
    assert remedies(found)[1] == 5


def test_more_repeats_do_not_help_where_the_cases_differ_among_themselves() -> None:
    baseline = [[0.5, 0.5]] * 8
    current = [[0.5 + (-1) ** at * 0.3] * 2 for at in range(8)]
    cases, repeats = remedies(compared(*scored_runs(baseline, current)))
    assert cases is not None
    assert repeats is None


@pytest.mark.parametrize("reply", ["yes", None])
def test_more_repeats_do_not_help_where_they_are_all_one_draw(reply: str | None) -> None:
    baseline = a_run(*(a_case(name, "ppppp", replies=reply) for name in "abc"))
    run = a_run(*(a_case(name, "ppppp", replies=reply, request="v2") for name in "abc"))
    found = compared(baseline, run, GateRules(target=0.05))
    assert found.evidence.settle_cases is not None
    assert (found.evidence.settle_repeats is None) is (reply is not None)


def test_units_of_several_cases_name_no_remedy_below_six() -> None:
    names = "abcde"
    baseline = a_run(*(a_case(n, "ppppp", cluster=str(n < "c")) for n in names))
    run = a_run(*(a_case(n, "ppppm", request="v2", cluster=str(n < "c")) for n in names))
    found = compared(baseline, run)
    assert (found.verdict, found.effect.method) == (Verdict.INCONCLUSIVE, "sign-flip")
    assert (found.evidence.settle_cases, found.evidence.settle_repeats) == (None, None)


def test_more_clusters_like_these_are_named_as_cases() -> None:
    def side(outcomes: Sequence[str], request: str) -> Run:
        return a_run(
            *(
                a_case(f"{at}", one, request=request, cluster=str(at // 2))
                for at, one in enumerate(outcomes)
            )
        )

    found = compared(side(["ppp"] * 14, "v1"), side(["ppm", "ppp"] * 2 + ["ppp"] * 10, "v2"))
    cases, _ = remedies(found)
    assert cases is not None
    assert cases > 0


def test_nothing_is_named_where_no_number_would_do() -> None:
    # scores of one number have no spread to go by
    found = compared(*scored_runs([[0.9]] * 3, [[0.9]] * 3))
    assert remedies(found) == (None, None)


def test_shared_draws_are_imagined_without_the_exact_test() -> None:
    from tests.gate.test_units import drawing

    names = [str(at) for at in range(14)]
    baseline, run = (
        a_run(
            *(
                a_case(
                    name,
                    outcomes,
                    calls=drawing(*(f"{world}{int(name) // 2}{trial}" for trial in range(3))),
                )
                for name in names
            )
        )
        for world, outcomes in (("main", "ppp"), ("branch", "ppm"))
    )
    found = compared(baseline, run)
    assert found.effect.units == 7
    assert math.isfinite(found.evidence.p or math.nan)


def test_that_not_even_the_worst_would_show_is_the_reason() -> None:
    found = compared(*runs([("ppp", "mmm")]))
    assert worded(found.why).startswith("3 repeats of 1 case can show no drop")
    assert "1 of 20" in worded(found.why)
    assert "among 5 comparisons" in worded(among(4, *runs([("ppp", "mmm")])).why)
    assert compared(*SPREAD).why is None
    assert compared(*runs([("ppppp", "ppppm")])).why is None


def test_repeats_that_were_made_are_counted_though_equal_replies_count_once() -> None:
    sides = [
        [a_case(str(at), of * 2, request=request, replies=request) for at in range(3)]
        for of, request in (("p", "v1"), ("m", "v2"))
    ]
    found = compared(*(a_run(*cases) for cases in sides))
    assert worded(found.why).startswith(
        "2 repeats of 3 cases can show no drop, as equal replies count once: chance alone"
    )
