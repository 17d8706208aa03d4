from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.gate.early_stopping import (
    examined_after,
    family_size,
    is_settled,
    settled,
)
from pytest_llmeval.gate.looks import looked
from pytest_llmeval.gate.significance import Examined
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.early_looks import information, sequential_p
from tests.gate.builders import a_case, a_run

# whole suites whose figures were worked out elsewhere
EXAMPLES: list[Any] = json.loads(Path(__file__).with_name("early_examples.json").read_text())
LOOKS = (2, 3, 5)
DECISIONS = {"on": "", "end": "", "red": "red", "calm": "calm"}


def outcomes(hits: int, of: int) -> str:
    return "p" * hits + "m" * (of - hits)


def rounds(*hits: int) -> str:
    """The trials of a case that has so many hits after each look."""
    letters, before, ran = "", 0, 0
    for now, repeats in zip(hits, LOOKS, strict=True):
        letters += outcomes(now - before, repeats - ran)
        before, ran = now, repeats
    return letters


def suite_of(given: dict[str, Any]) -> tuple[Run, Run]:
    size = given["baseline_repeats"]
    names = [f"c{number}" for number in range(len(given["baseline_hits"]))]
    before = [
        a_case(name, outcomes(hits, size))
        for name, hits in zip(names, given["baseline_hits"], strict=True)
    ]
    after = [
        a_case(name, rounds(*hits), request="v2")
        for name, *hits in zip(names, *given["hits"], strict=True)
    ]
    same = [f"same{number}" for number in range(given["unchanged"])]
    before += [a_case(name, "p" * size) for name in same]
    after += [a_case(name, "ppppp") for name in same]
    return a_run(*before), a_run(*after)


@pytest.mark.parametrize("given", EXAMPLES, ids=lambda one: str(one["name"]))
def test_a_suite_that_was_worked_out_elsewhere_is_decided_alike(given: dict[str, Any]) -> None:
    """Figures and decisions, but for the exact test, which counts the observed outcome by half."""
    baseline, run = suite_of(given)
    rules = GateRules(alpha=given["alpha"], target=given["target"])
    shares = information(given["baseline_repeats"], LOOKS)
    elsewhere = sequential_p(shares, [step["z"] for step in given["steps"]])
    looks: dict[int, Examined | None] = {}
    for at, step in enumerate(given["steps"]):
        (tested,) = examined_after(baseline, run, rules, repeats=step["repeats"]).values()
        assert tested is not None
        looks[step["repeats"]] = tested
        found = looked(looks, planned=LOOKS, alpha=rules.alpha)
        assert found is not None
        exact, last = tested.pairing.exact, found.looks[-1]
        assert exact is not None
        assert exact.worse == pytest.approx(step["exact"], rel=1e-4)
        assert last.p == pytest.approx(step["p"], rel=1e-4) or last.p >= exact.mid_p.worse
        assert last.p <= step["p"] * (1 + 1e-4)
        assert last.limit == pytest.approx(step["limit"], abs=1e-4)
        assert elsewhere[at] == pytest.approx(step["sequential_p"], abs=1e-4)
        decision = settled(looks, planned=LOOKS, rules=rules, family=given["functions"])
        assert decision == DECISIONS[step["decision"]]


def test_a_comparison_without_a_look_is_not_settled() -> None:
    looks = {2: None}
    assert looked(looks, planned=LOOKS, alpha=0.05) is None
    assert settled(looks, planned=LOOKS, rules=GateRules(), family=1) == ""


def of_rates(before: str, after: str, *, cases: int = 12, function: str = "test_f") -> list[Any]:
    return [
        a_case(f"c{number}", letters, function=function, request=request)
        for number in range(cases)
        for letters, request in [(before, "v1")] * (after == "") + [(after, "v2")] * (after != "")
    ]


def test_a_function_is_settled_once_each_of_its_metrics_is() -> None:
    baseline = a_run(*of_rates("pppppppppp", "", cases=60))
    broken, same = (a_run(*of_rates("", letters, cases=60)) for letters in ("mmmmm", "ppppp"))
    rules = GateRules()
    assert family_size(baseline, broken, rules) == 1
    assert is_settled(baseline, broken, rules, repeats=(2,), family=1)
    for only_calm in (False, True):
        assert is_settled(baseline, same, rules, repeats=(2, 3), family=1, only_calm=only_calm)
    assert not is_settled(baseline, broken, rules, repeats=(2,), family=1, only_calm=True)
    wobbled = [
        a_case(f"c{number}", "mpppp" if number < 4 else "ppppp", request="v2")
        for number in range(60)
    ]
    assert not is_settled(baseline, a_run(*wobbled), rules, repeats=(2,), family=1)


def test_what_may_be_looked_at_a_second_time_runs_all_its_repeats() -> None:
    """Its p is between one and two times the level by the first look, and it is calm later."""
    baseline = a_run(*of_rates("pppppppmmm", "", cases=20))
    wobbled = [
        a_case(f"c{number}", "mpppp" if number % 2 else "pmppp", request="v2")
        for number in range(20)
    ]
    run, rules = a_run(*wobbled), GateRules(target=0.3)
    assert is_settled(baseline, run, rules, repeats=(2, 3), family=1)
    assert not is_settled(baseline, run, rules, repeats=(2, 3), family=1, only_calm=True)


def test_below_six_units_nothing_is_settled_early() -> None:
    baseline = a_run(*of_rates("pppppppppp", "", cases=5))
    assert not is_settled(
        baseline, a_run(*of_rates("", "mmmmm", cases=5)), GateRules(), repeats=(2, 3), family=1
    )


def test_what_has_not_moved_after_the_first_look_goes_on() -> None:
    """Of 40 cases that fell from 1 to .98, 80 trials all pass in .20 of builds."""
    baseline = a_run(*of_rates("pppppppppp", "", cases=40))
    run = a_run(*of_rates("", "ppppp", cases=40))
    assert not is_settled(baseline, run, GateRules(), repeats=(2,), family=1)
    assert is_settled(baseline, run, GateRules(), repeats=(2, 3), family=1)


@pytest.mark.parametrize(
    ("cases", "moved", "stop"), [(9, 0, 5), (10, 0, 3), (14, 1, 3), (15, 1, 2)]
)
def test_equal_labels_are_one_draw_if_a_drop_would_hardly_leave_so_many(
    cases: int, moved: int, stop: int
) -> None:
    """After a drop of .10 from 1 all of 28 trials pass in .052 of builds, all of 30 in .042."""
    baseline, run = (
        a_run(
            *(
                a_case(f"c{at}", "mmmmm" if at < fell else "ppppp", replies="same", request=v)
                for at in range(cases)
            )
        )
        for v, fell in (("v1", 0), ("v2", moved))
    )
    for at, repeats in ((2, (2,)), (3, (2, 3))):
        assert is_settled(baseline, run, GateRules(), repeats=repeats, family=1) is (at >= stop)


def test_trials_of_later_rounds_enter_no_figure_of_a_look() -> None:
    baseline = a_run(*of_rates("pppppppppp", ""))
    ahead = a_run(*of_rates("", "ppmmm"))
    whole = examined_after(baseline, ahead, GateRules(), repeats=2)
    cut = replace(ahead, trials=tuple(one for one in ahead.trials if one.index < 2))
    assert [one.found for one in whole.values() if one] == [
        one.found for one in examined_after(baseline, cut, GateRules(), repeats=2).values() if one
    ]


def test_a_function_that_the_baseline_lacks_is_not_settled() -> None:
    baseline = a_run(*of_rates("pppppppppp", "", function="test_other"))
    new = a_run(*of_rates("", "ppppp"))
    assert not is_settled(baseline, new, GateRules(), repeats=(2,), family=1)
