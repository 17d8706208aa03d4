"""A run that was looked at while it was made, compared with its baseline and with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmeval.gate.compare import compare, compare_halves, compare_together
from pytest_llmeval.gate.results import FunctionComparison, Row, Verdict
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from tests.gate.builders import FILE, CaseAndTrials, a_case, a_run, compared
from tests.gate.test_early_stopping import EXAMPLES, suite_of

REPEATS = 5


def looked_at(
    run: Run,
    at: int,
    *,
    baseline: Run | None = None,
    repeats: int = REPEATS,
    end: int | None = None,
) -> Run:
    """The run as a session leaves it that stopped all functions there, or went on to the end.

    Args:
        run: with all trials.
        at: the repeats after which it stopped.
        baseline: of the session.
        repeats: that were planned.
        end: the trials of each case that ran, if these are more.
    """
    kept = at if end is None else end
    return replace(
        run,
        cases=tuple(replace(case, repeats=repeats) for case in run.cases),
        trials=tuple(one for one in run.trials if one.index < kept),
        looks={case.function: at for case in run.cases},
        compared_with=baseline.id if baseline else None,
        complete=kept == repeats,
    )


def suite(
    before: str, after: Sequence[str], *, function: str = "test_f", size: int = 60
) -> tuple[list[CaseAndTrials], list[CaseAndTrials]]:
    """A baseline of like cases, and the outcomes of this run in turn over them."""
    names = [f"c{number}" for number in range(size)]
    return (
        [a_case(name, before, function=function) for name in names],
        [
            a_case(name, after[at % len(after)], function=function, request="v2")
            for at, name in enumerate(names)
        ],
    )


def pair_of(before: str, after: Sequence[str], **more: Any) -> tuple[Run, Run]:
    old, new = suite(before, after, **more)
    return a_run(*old), a_run(*new)


def of_two(
    first: tuple[Sequence[CaseAndTrials], Sequence[CaseAndTrials]],
    second: tuple[Sequence[CaseAndTrials], Sequence[CaseAndTrials]],
) -> tuple[Run, Run]:
    return a_run(*first[0], *second[0]), a_run(*first[1], *second[1])


def figures(one: FunctionComparison) -> tuple[Any, ...]:
    return one.looks, one.stopped_at, one.evidence, one.effect, one.verdict


MIXED = ("ppmpm", "pmppp", "ppppp", "mppmp", "ppppm")


@pytest.mark.parametrize("given_", EXAMPLES, ids=lambda one: str(one["name"]))
def test_a_suite_that_was_worked_out_elsewhere_is_judged_at_its_last_look(
    given_: dict[str, Any],
) -> None:
    baseline, run = suite_of(given_)
    steps = given_["steps"]
    at = steps[-1]["repeats"]
    rules = GateRules(alpha=given_["alpha"], target=given_["target"])
    one = compared(baseline, looked_at(run, at, baseline=baseline), rules)
    assert [look.repeats for look in one.looks] == [step["repeats"] for step in steps]
    for look, step in zip(one.looks, steps, strict=True):
        assert look.limit == pytest.approx(step["limit"], abs=1e-4)
        # the consent counts the observed outcome by half, so a p may be less
        assert look.p <= step["p"] * (1 + 1e-4)
    assert one.stopped_at == (None if at == REPEATS else at)
    assert one.evidence.p == one.looks[-1].sequential_p
    assert one.evidence.p <= steps[-1]["sequential_p"] + 1e-4
    assert one.effect.difference == pytest.approx(steps[-1]["difference"], abs=1e-6)
    if given_["functions"] == 1:
        wanted = {"red": {Row.REGRESSED}, "calm": {Row.RULED_OUT}}
        assert one.row in wanted.get(steps[-1]["decision"], {Row.RULED_OUT, Row.OPEN})


def test_trials_beyond_the_last_whole_look_enter_no_figure() -> None:
    baseline, run = pair_of("ppppppppmm", MIXED)
    exact, ahead = (
        compared(baseline, looked_at(run, 2, baseline=baseline, end=end)) for end in (2, 4)
    )
    assert exact == ahead
    assert exact.stopped_at == 2
    assert exact.trials["scored"] == 120


def test_what_was_interrupted_within_a_round_is_judged_at_the_last_whole_one() -> None:
    baseline, run = pair_of("ppppppppmm", MIXED)
    stopped = looked_at(run, REPEATS, baseline=baseline, end=3)
    ahead = {case.id for case in run.cases[:9]}
    cut = replace(
        stopped,
        trials=tuple(one for one in run.trials if one.index < (4 if one.case in ahead else 3)),
    )
    one = compared(baseline, cut)
    assert figures(one) == figures(compared(baseline, stopped))
    assert ([look.repeats for look in one.looks], one.stopped_at) == ([2, 3], None)


def test_before_the_first_whole_round_there_was_no_look() -> None:
    baseline, run = pair_of("ppppppppmm", MIXED)
    cut = looked_at(run, REPEATS, baseline=baseline, end=1)
    one = compared(baseline, cut)
    assert one == compared(baseline, replace(cut, looks={}))
    assert one.looks == ()


def test_errored_and_skipped_trials_count_as_ended() -> None:
    baseline, run = pair_of("ppppppppmm", ["peppp", *MIXED * 11, "psppp"])
    one = compared(baseline, looked_at(run, 2, baseline=baseline))
    assert [look.repeats for look in one.looks] == [2]


def test_the_limits_of_the_last_look_make_the_interval_and_the_smallest_drop_wider() -> None:
    baseline, run = pair_of("ppppppppmm", MIXED, size=15)
    ended = looked_at(run, REPEATS, baseline=baseline)
    one, plain = compared(baseline, ended), compared(baseline, replace(ended, looks={}))
    assert one.evidence.interval is not None
    assert plain.evidence.interval is not None
    assert one.evidence.interval[0] < plain.evidence.interval[0] < 0
    assert one.evidence.interval[1] > plain.evidence.interval[1]
    assert one.evidence.smallest_detectable_drop > plain.evidence.smallest_detectable_drop  # type: ignore[operator]
    assert one.evidence.interval_level == plain.evidence.interval_level
    stopped = compared(baseline, looked_at(run, 2, baseline=baseline))
    assert stopped.evidence.interval[0] < one.evidence.interval[0]  # type: ignore[index]


def test_a_red_look_keeps_its_p_where_later_trials_are_better() -> None:
    """A session that went on after it is as red as one that stopped."""
    baseline, run = pair_of("pppppppppp", ["mmppp", "ppppp", "pmppp"])
    early, late = (compared(baseline, looked_at(run, at, baseline=baseline)) for at in (2, REPEATS))
    assert early.verdict is late.verdict is Verdict.REGRESSED
    assert late.evidence.p == min(look.sequential_p for look in late.looks)
    assert late.evidence.p <= early.evidence.p  # type: ignore[operator]


def test_the_same_goes_for_an_improvement() -> None:
    baseline, run = pair_of("mmmmmmmmmm", ["ppmmm", "mmmmm", "mpmmm"])
    early, late = (compared(baseline, looked_at(run, at, baseline=baseline)) for at in (2, REPEATS))
    assert early.verdict is late.verdict is Verdict.IMPROVED
    assert late.evidence.p_improved <= early.evidence.p_improved  # type: ignore[operator]


def test_what_fell_at_first_and_rose_in_the_end_is_no_regression() -> None:
    """Such as a function of which another metric went on; and the other way round."""
    fell, rose = ["mmppp", "ppppp", "pmppp"], ["ppmmm", "mpmmm", "mpmmm"]
    for before, after, verdict in (
        ("ppppppppmm", fell, Verdict.REGRESSED),
        ("mmmmmmmppp", rose, Verdict.IMPROVED),
    ):
        baseline, run = pair_of(before, after)
        early, late = (
            compared(baseline, looked_at(run, at, baseline=baseline)) for at in (2, REPEATS)
        )
        assert early.verdict is verdict
        assert late.looks[0] == early.looks[0]
        assert late.verdict is not verdict


def test_cases_that_all_fell_alike_are_looked_at_too() -> None:
    baseline, run = pair_of("pppppppppp", ["mmmmm"], size=20)
    one = compared(baseline, looked_at(run, 2, baseline=baseline))
    assert (one.effect.method, one.verdict) == ("same-shift", Verdict.REGRESSED)
    assert one.looks[0].p == 0.5**20


def test_cases_of_several_functions_are_compared_together_without_looks() -> None:
    baseline, run = pair_of("ppppppppmm", MIXED)
    ended = looked_at(run, 2, baseline=baseline)
    ids = {case.id for case in run.cases}
    (one,) = compare_together(baseline, ended, ids, "pass", GateRules()).functions
    assert (one.looks, one.stopped_at) == ((), None)


def test_the_halves_of_a_run_that_stopped_are_of_the_trials_that_it_has() -> None:
    baseline, run = pair_of("ppppppppmm", MIXED)
    (halves,) = compare_halves(looked_at(run, 4, baseline=baseline, end=5), alpha=0.05)
    assert (halves.baseline_trials["scored"], halves.trials["scored"]) == (120, 120)


def test_each_function_is_one_of_the_family_as_of_its_own_last_look() -> None:
    fell = suite("pppppppppp", ["mmppp", "ppppp"], function="test_fell")
    calm = suite("ppppppppmm", MIXED, function="test_calm")
    baseline, run = of_two(fell, calm)
    looks = {f"{FILE}::test_fell": 2, f"{FILE}::test_calm": REPEATS}
    run = replace(looked_at(run, REPEATS, baseline=baseline), looks=looks)
    first, second = compare(baseline, run, GateRules()).functions
    assert (first.stopped_at, second.stopped_at) == (2, None)
    assert first.evidence.family_size == second.evidence.family_size == 2
    assert first.evidence.p_adjusted == pytest.approx(2 * first.looks[-1].sequential_p)
    alone = compared(a_run(*fell[0]), looked_at(a_run(*fell[1]), 2, baseline=baseline))
    assert first.looks == alone.looks


@pytest.mark.parametrize("size", [3, 5])
def test_below_six_units_there_is_one_test_at_the_end(size: int) -> None:
    baseline, run = pair_of("pppppppppp", ["mmmmm"], size=size)
    ended = looked_at(run, REPEATS, baseline=baseline)
    one = compared(baseline, ended)
    assert one == compared(baseline, replace(ended, looks={}))
    assert one.effect.method == "exact-within-case"


def test_what_can_be_tested_from_the_second_look_on_keeps_the_limits_as_planned() -> None:
    """Its cases changed late, so that there were too few of them before."""
    names = [f"c{number}" for number in range(20)]
    baseline = a_run(*(a_case(name, "pppppppppp") for name in names))

    def case(number: int) -> CaseAndTrials:
        late, now = a_case(names[number], "ppmpm"), a_case(names[number], "mpmpm", request="v2")
        if number < 4:
            return now
        trials = (*late.trials[:2], *now.trials[2:])
        return replace(late, trials=trials)

    run = looked_at(a_run(*map(case, range(20))), REPEATS, baseline=baseline)
    one = compared(baseline, run)
    assert [look.repeats for look in one.looks] == [3, 5]
    assert one.looks[0].limit == pytest.approx(2.125, abs=1e-3)


def test_with_another_baseline_the_last_look_alone_is_one_and_keeps_its_limit() -> None:
    baseline, run = pair_of("pppppppppp", ["mmppp", "ppppp", "ppppp"], size=24)
    own = compared(baseline, looked_at(run, 3, baseline=baseline))
    other = compared(baseline, looked_at(run, 3))
    assert [look.repeats for look in own.looks] == [2, 3]
    assert [look.repeats for look in other.looks] == [3]
    assert other.looks[0][:4] == own.looks[-1][:4]
    assert other.stopped_at == 3
    assert other.evidence.p > own.evidence.p  # type: ignore[operator]


def test_the_anchor_was_looked_at_as_often_as_the_baseline() -> None:
    anchor, run = pair_of("pppppppppp", ["mmppp", "ppppp", "pmppp"])
    main = replace(anchor, id="20261120T084100-1a2b3c")
    run = looked_at(run, 3, baseline=main)
    (one,) = compare(anchor, run, GateRules(), main=main).functions
    assert [look.repeats for look in one.looks] == [2, 3]


def test_cases_of_unlike_repeats_are_looked_at_as_far_as_each_has_trials() -> None:
    baseline, run = pair_of("ppppppppmm", MIXED)
    few = {case.id for case in run.cases[:7]}
    ended = looked_at(run, REPEATS, baseline=baseline)
    uneven = replace(
        ended,
        cases=tuple(replace(c, repeats=3 if c.id in few else REPEATS) for c in ended.cases),
        trials=tuple(one for one in ended.trials if one.index < 3 or one.case not in few),
    )
    assert [look.repeats for look in compared(baseline, uneven).looks] == [2, 3, 5]


def test_a_run_that_stopped_lacks_no_case_that_the_ini_file_leaves_out_of_both() -> None:
    baseline, run = pair_of("ppppppppmm", MIXED)
    given = {"selection": ("-k one",), "partial": (run.cases[0].function,)}
    baseline, run = (replace(one, **given) for one in (baseline, run))  # type: ignore[arg-type]
    stopped = replace(looked_at(run, 2, baseline=baseline), stopped=True)
    assert not compared(baseline, stopped).partial
    assert compared(baseline, replace(stopped, stopped=False)).partial


def test_a_function_is_gone_also_where_another_one_stopped() -> None:
    kept, gone = suite("ppppppppmm", MIXED), suite("p" * 10, ["ppppp"], function="test_gone")
    baseline, run = a_run(*kept[0], *gone[0]), a_run(*kept[1])
    stopped = replace(looked_at(run, 2, baseline=baseline), stopped=True)
    found = compare(baseline, stopped, GateRules())
    assert [one.row for one in found.functions] == [Row.RULED_OUT, Row.ONLY_IN_BASELINE]
    assert found.fails


def test_a_function_that_is_new_stopped_and_is_new() -> None:
    baseline, _ = pair_of("pppppppppp", ["ppppp"], function="test_other")
    _, run = pair_of("pppppppppp", ["ppppp"])
    found = compare(baseline, looked_at(run, 2, baseline=baseline), GateRules()).functions
    (new,) = [one for one in found if one.row is Row.NEW]
    assert (new.looks, new.stopped_at) == ((), 2)


def test_a_stop_that_is_no_planned_look_has_no_limits() -> None:
    baseline, run = pair_of("ppppppppmm", MIXED)
    forged = looked_at(run, 1, baseline=baseline)
    plain = compared(baseline, replace(forged, looks={}))
    assert compared(baseline, forged) == replace(plain, stopped_at=1)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text("pm", min_size=5, max_size=5), min_size=1, max_size=12))
def test_the_order_of_cases_and_trials_changes_nothing(outcomes: list[str]) -> None:
    baseline, run = pair_of("ppppppppmm", outcomes, size=12)
    run = looked_at(run, 3, baseline=baseline, end=4)
    turned = replace(run, cases=run.cases[::-1], trials=run.trials[::-1])
    assert figures(compared(baseline, run)) == figures(compared(baseline, turned))
