"""What is advised on runs that have one trouble each, and how much it would bring."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pytest

from pytest_llmeval.gate.advice import Advice, Trouble, advise
from pytest_llmeval.gate.scoring import scores_of
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.selfcheck import SelfCheck, self_check
from tests.gate.builders import CallsOfTrial, CaseAndTrials, a_call, a_case, a_run

RULES = GateRules()


def advised(
    run: Run, rules: GateRules = RULES, *, before: Run | None = None, checks: bool = True
) -> dict[Trouble, Advice]:
    functions = scores_of(run)
    checked = [self_check(one.gains, one.units) if checks else None for one in functions]
    earlier = scores_of(before) if before else ()
    return {one.trouble: one for one in advise(functions, checked, rules, before=earlier)}


def steady(
    cases: int = 100, repeats: int = 5, *, seed: int = 1, **more: str
) -> list[CaseAndTrials]:
    """Cases of which none ends alike in each trial."""
    random = np.random.default_rng(seed)
    made = []
    for at in range(cases):
        letters = ["p", "m", *random.choice(["p", "m"], size=repeats - 2)]
        made.append(a_case(f"c{at:03}", "".join(random.permutation(letters)), **more))  # type: ignore[arg-type] - texts
    return made


def test_a_suite_that_finds_its_target_is_advised_nothing() -> None:
    assert advised(a_run(*steady(200))) == {}


def test_advice_comes_in_the_order_of_what_it_brings_and_is_at_most_five() -> None:
    run = a_run(
        *steady(12),
        *(a_case(f"c{at}", "ppppp", function="test_g", replies="same") for at in range(12)),
        *(a_case(f"c{at}", ("pmeee", "mpeee")[at % 2], function="test_h") for at in range(60)),
        *(a_case(f"c{at}", "pmpmp", function="test_i") for at in range(20)),
    )
    functions = scores_of(run)
    found = advise(functions, [self_check(one.gains) for one in functions], RULES)

    assert len(found) == 5
    gains = [one.gain for one in found]
    assert gains == sorted(gains, reverse=True)
    assert found[0].trouble is Trouble.ERRORED
    assert all(0 <= gain <= 1 for gain in gains)


def test_a_function_weighs_as_much_as_its_calls() -> None:
    lost = [a_case(f"c{at}", "ppeee", function="test_g") for at in range(25)]
    assert advised(a_run(*steady(), *lost))[Trouble.ERRORED].gain == pytest.approx(125 / 625)


def test_one_piece_of_advice_is_for_all_functions_with_its_trouble() -> None:
    run = a_run(*steady(10), *steady(20, function="test_g"), *steady(11, function="test_h"))
    found = advised(run)[Trouble.BLIND]

    assert found.scores.name == "test_g"
    assert [one.name for one in found.others] == ["test_h", "test_f"]
    assert found.gain > 0.3


# --- what cannot be judged -----------------------------------------------------------------


def test_few_errored_trials_lose_their_share_and_many_all() -> None:
    few = [*steady(), *(a_case(f"e{at}", "pmmpe") for at in range(10))]
    many = [*steady(), *(a_case(f"e{at}", "pmmee") for at in range(20))]
    one = [*steady(), a_case("e", "pmmpe")]

    assert advised(a_run(*few))[Trouble.ERRORED].gain == pytest.approx(10 / 550)
    assert advised(a_run(*many))[Trouble.ERRORED].gain == 1.0
    assert Trouble.ERRORED not in advised(a_run(*one))


def test_the_usual_reason_of_errored_trials_is_told() -> None:
    def calls(index: int) -> list[object]:
        return [a_call("A", None if index == 4 else f"d{index}", trial=index)]

    lost = [a_case(f"e{at}", "pmmpe", calls=calls) for at in range(10)]  # type: ignore[arg-type] - calls
    figures = advised(a_run(*steady(), *lost))[Trouble.ERRORED].figures
    assert (figures["errored"], figures["trials"]) == (10, 550)
    assert figures["reason"] == "no reply within 600 s (--llm-timeout)"


def test_repeats_that_drift_are_told_also_after_holm() -> None:
    found = advised(a_run(*(a_case(f"c{at}", "pmpmm") for at in range(40))))
    assert found[Trouble.DRIFTS].figures["p"] < 0.001
    assert found[Trouble.DRIFTS].gain == 1.0


def test_a_drift_that_one_of_many_functions_has_by_chance_is_none() -> None:
    functions = [one for at in range(20) for one in steady(8, seed=at, function=f"test_{at:02}")]
    by_chance = SelfCheck(
        method="paired-t", cases=8, left_out=0, deals=10, alarms=0, interval=(0.0, 0.1),
        drift_p=0.009,
    )  # fmt: skip
    scores = scores_of(a_run(*functions))
    checks = [by_chance, *(dataclasses.replace(by_chance, drift_p=0.5) for _ in scores[1:])]
    assert Trouble.DRIFTS not in {one.trouble for one in advise(scores, checks, RULES)}
    alone = advise(scores[:1], checks[:1], RULES)
    assert Trouble.DRIFTS in {one.trouble for one in alone}


def test_false_alarms_beyond_their_error_bar_are_told() -> None:
    scores = scores_of(a_run(*steady(8)))
    ill = SelfCheck(
        method="paired-t", cases=8, left_out=0, deals=5000, alarms=400, interval=(0.07, 0.09),
        drift_p=None,
    )  # fmt: skip
    found = {one.trouble: one for one in advise(scores, [ill], RULES)}
    assert found[Trouble.FALSE_ALARMS].figures == {"rate": 0.08, "level": 0.05, "repeats": 10}


# --- a run that was recorded on an odd day -------------------------------------------------


def redrawn(outcomes: str, *, draws: str, cases: int = 30, **more: str) -> Run:
    return a_run(*(a_case(f"c{at:02}", outcomes, draws=draws, **more) for at in range(cases)))  # type: ignore[arg-type] - texts


def test_a_mean_beyond_what_the_run_before_lets_expect_is_told() -> None:
    before, run = redrawn("ppmmp", draws="main"), redrawn("pppmp", draws="later")
    figures = advised(run, before=before)[Trouble.UNEXPECTED].figures

    assert (figures["mean"], figures["cases"]) == (pytest.approx(0.8), 30)
    assert figures["low"] < 0.6 < figures["high"] < 0.8


@pytest.mark.parametrize(
    ("outcomes", "draws", "more"),
    [
        ("ppmmp", "later", {}),  # as before
        ("mmpmm", "main", {}),  # the very same draws
        ("mmpmm", "later", {"request": "v2"}),  # another question
        ("mmpmm", "later", {"function": "test_g"}),
    ],
)
def test_what_was_not_asked_the_same_again_lets_nothing_be_expected(
    outcomes: str, draws: str, more: dict[str, str]
) -> None:
    run = redrawn(outcomes, draws=draws, **more)
    assert Trouble.UNEXPECTED not in advised(run, before=redrawn("ppmmp", draws="main"))


def test_cases_whose_later_requests_were_edited_let_nothing_be_expected() -> None:
    def asking(outcomes: str, *keys: str) -> Run:
        def calls(case: int) -> CallsOfTrial:
            return lambda index: tuple(
                a_call(f"{case}{k}", f"{k}{case}{keys}{index}") for k in keys
            )

        return a_run(*(a_case(f"c{at:02}", outcomes, calls=calls(at)) for at in range(30)))

    before = asking("ppmmp", "plan", "pick")
    assert Trouble.UNEXPECTED not in advised(asking("mmpmm", "plan", "terse"), before=before)


def test_a_run_before_without_spread_lets_nothing_be_expected() -> None:
    before, run = redrawn("ppppp", draws="main"), redrawn("pppmp", draws="later")
    assert Trouble.UNEXPECTED not in advised(run, before=before)


def test_cases_that_share_a_cluster_are_expected_together() -> None:
    shifts = ["ppmmp", "mmppm"]  # within a cluster all cases go the same way

    def run(draws: str, shift: int) -> Run:
        cases = [
            a_case(f"c{at}{one}", shifts[(at + shift) % 2], draws=draws, cluster=f"k{at}")
            for at in range(8)
            for one in range(6)
        ]
        return a_run(*cases)

    assert Trouble.UNEXPECTED not in advised(run("later", 1), before=run("main", 0))


@pytest.mark.unmeasured
def test_runs_that_differ_by_chance_are_beyond_as_rarely_as_the_level_says() -> None:
    random = np.random.default_rng(5)
    rates = random.choice([0.2, 0.5, 0.9], size=(25, 1))
    told = 0
    for _ in range(40):
        first, second = (
            a_run(
                *(
                    a_case(f"c{at}", "".join("p" if hit else "m" for hit in row), draws=draws)
                    for at, row in enumerate(random.random((25, 5)) < rates)
                )
            )
            for draws in ("one", "other")
        )
        told += Trouble.UNEXPECTED in advised(second, before=first, checks=False)
    assert told <= 2


# --- what trials cost that bring nothing ---------------------------------------------------


def test_trials_that_are_one_draw_cost_all_but_one() -> None:
    cases = [a_case(f"c{at}", "pppp" if at % 2 else "mmmm", replies="same") for at in range(8)]
    found = advised(a_run(*cases))[Trouble.IDENTICAL]
    assert (found.gain, found.figures) == (0.75, {"repeats": 4, "waste": 0.75})


def test_cases_that_end_alike_are_counted_with_their_calls() -> None:
    cases = [
        *steady(80),
        *(a_case(f"g{at}", "ppppp") for at in range(15)),
        *(a_case(f"b{at}", "mmmmm") for at in range(5)),
    ]
    found = advised(a_run(*cases))[Trouble.SETTLED]

    assert found.figures == {
        "cases": 100, "passed": 15, "missed": 5, "share": 0.2,
        "first": "test_suite.py::test_f[b0]",
    }  # fmt: skip
    assert found.gain == pytest.approx(0.05 + 0.15 * 3 / 5)


def test_trials_that_tell_of_no_call_weigh_like_one_call() -> None:
    cases = [a_case(f"g{at}", "ppppp", calls=lambda _: ()) for at in range(15)]
    found = advised(a_run(*cases, *steady(15)))[Trouble.SETTLED]
    assert found.figures["share"] == 0.5


def test_of_scores_of_which_lower_is_better_a_0_is_a_hit() -> None:
    cases = [
        a_case(f"g{at}", scores=[0.0] * 5, metric="errors", gate=("errors",), better="lower")
        for at in range(15)
    ]
    figures = advised(a_run(*cases))[Trouble.SETTLED].figures
    assert (figures["passed"], figures["missed"]) == (15, 0)


@pytest.mark.parametrize(
    "cases",
    [
        [a_case(f"g{at}", "pp") for at in range(15)],  # two trials end alike by chance
        [a_case(f"g{at}", scores=[3.0] * 5) for at in range(15)],  # of no known scale
        [a_case(f"g{at}", "eeeee") for at in range(15)],
        [*steady(90), *(a_case(f"g{at}", "ppppp") for at in range(10))],  # few of them
    ],
)
def test_other_cases_may_show_something(cases: Sequence[CaseAndTrials]) -> None:
    assert Trouble.SETTLED not in advised(a_run(*cases))


# --- what is too small ---------------------------------------------------------------------


def test_a_function_that_cannot_find_the_target_is_told_what_would() -> None:
    figures = advised(a_run(*steady(30)))[Trouble.BLIND].figures

    assert figures["target"] == 0.1
    assert 0.2 < figures["power"] < 0.7
    assert 10 < figures["cases"] < 100
    assert 6 < figures["repeats"] < 30
    more = advised(a_run(*steady(30 + figures["cases"] + 15)))
    assert Trouble.BLIND not in more


def test_repeats_of_one_draw_would_find_nothing_more() -> None:
    cases = [a_case(f"c{at}", "ppp", replies="same") for at in range(6)]
    figures = advised(a_run(*cases))[Trouble.BLIND].figures
    assert (figures["repeats"], figures["cases"] > 0) == (None, True)


def test_single_trials_find_nothing_that_anybody_knows() -> None:
    found = advised(a_run(*(a_case(f"c{at}", "pm"[at % 2]) for at in range(30))))
    assert Trouble.BLIND not in found
    unrepeated = found[Trouble.UNREPEATED]
    assert (unrepeated.gain, unrepeated.figures) == (0.8, {"target": 0.1})


@pytest.mark.parametrize("outcome", ["mmmmm", "eeeee"])
def test_what_cannot_fall_by_the_target_is_not_told_to_find_it(outcome: str) -> None:
    assert Trouble.BLIND not in advised(a_run(*(a_case(f"c{at}", outcome) for at in range(30))))


def seconds(at: int, spread: float) -> CallsOfTrial:
    random = np.random.default_rng(at)

    def calls(index: int) -> Iterable[object]:
        call = a_call("A", f"d{at}/{index}", trial=index)
        return [dataclasses.replace(call, seconds=float(random.lognormal(sigma=spread)))]

    return calls  # type: ignore[return-value] - calls


def test_of_seconds_the_target_is_a_ratio() -> None:
    def figures(spread: float) -> object:
        cases = [
            a_case(f"c{at}", "ppppp", calls=seconds(at, spread), gate=("seconds",))
            for at in range(20)
        ]
        found = advised(a_run(*cases)).get(Trouble.BLIND)
        return found and found.figures["power"]

    assert figures(0.01) is None
    assert 0 < figures(0.5) < 0.5  # type: ignore[operator] - a power


# --- what stands out -----------------------------------------------------------------------


def noisy(name: str, deviation: float, **more: str) -> CaseAndTrials:
    values = [0.5 + deviation * sign for sign in (-1, 1, -1, 1, 0)]
    return a_case(name, scores=values, **more)  # type: ignore[arg-type] - texts


def test_one_case_that_has_most_of_the_noise_is_named() -> None:
    cases = [noisy(f"c{at}", 0.01) for at in range(9)]
    found = advised(a_run(*cases, noisy("loud", 0.4)))[Trouble.NOISE_OF_ONE]

    assert found.figures["first"] == "test_suite.py::test_f[loud]"
    assert found.figures["share"] > 0.99
    assert (found.figures["units"], found.figures["cases"]) == (10, 1)
    assert 0.85 < found.gain < 0.9


def test_a_cluster_that_has_most_of_the_noise_is_named() -> None:
    quiet = [noisy(f"c{at}", 0.05) for at in range(9)]
    loud = [noisy(f"l{at}", 0.1, cluster="doc") for at in range(4)]
    figures = advised(a_run(*quiet, *loud))[Trouble.NOISE_OF_ONE].figures
    assert figures["first"] == "test_suite.py::test_f[l0]"
    assert (figures["cases"], figures["units"]) == (4, 10)


@pytest.mark.parametrize(
    "cases",
    [
        [noisy(f"c{at}", 0.1) for at in range(10)],
        [noisy(f"c{at}", 0.1) for at in range(4)] + [noisy("loud", 0.4)],  # of five all is of one
        [a_case(f"c{at}", "ppppp") for at in range(10)],
        [*(noisy(f"c{at}", 0.01) for at in range(9)), a_case("once", scores=[0.9])],
    ],
)
def test_noise_of_many_is_nobodys(cases: Sequence[CaseAndTrials]) -> None:
    assert Trouble.NOISE_OF_ONE not in advised(a_run(*cases))


def two_metrics(second: Callable[[float], float], cases: int = 30) -> Run:
    random = np.random.default_rng(4)
    made = []
    for at in range(cases):
        values = random.random(5)
        one = a_case(f"c{at}", scores=list(values), gate=("score", "other"))
        trials = tuple(
            dataclasses.replace(trial, scores={**trial.scores, "other": second(value)})
            for trial, value in zip(one.trials, values, strict=True)
        )
        made.append(CaseAndTrials(one.case, trials))
    return a_run(*made)


def test_metrics_that_move_together_are_told_once() -> None:
    found = advised(two_metrics(lambda value: 2 * value + 1))[Trouble.TOGETHER]

    assert found.scores.metric == "score"
    assert found.figures == {"other": "other", "kept": "score", "r": pytest.approx(1.0)}
    assert (found.others, found.gain) == ((), 0.0)


@pytest.mark.parametrize(
    "run",
    [
        two_metrics(lambda value: (1000 * value) % 1),
        two_metrics(lambda value: -value),
        two_metrics(lambda _: 1.0),
        two_metrics(lambda value: value, cases=1),
    ],
)
def test_metrics_that_part_are_two(run: Run) -> None:
    assert Trouble.TOGETHER not in advised(run)


def test_metrics_of_single_trials_show_no_way() -> None:
    run = two_metrics(lambda value: value)
    first = dataclasses.replace(run, trials=tuple(t for t in run.trials if t.index == 0))
    assert Trouble.TOGETHER not in advised(first)


def test_metrics_of_unlike_directions_move_together_where_one_falls_as_the_other_rises() -> None:
    run = two_metrics(lambda value: 1 - value)
    cases = tuple(dataclasses.replace(case, lower=("other",)) for case in run.cases)
    found = advised(dataclasses.replace(run, cases=cases))[Trouble.TOGETHER]
    assert found.figures["r"] == pytest.approx(-1.0)


def test_an_empty_run_is_advised_nothing() -> None:
    assert advised(a_run(a_case("a", calls=lambda _: ()))) == {}
