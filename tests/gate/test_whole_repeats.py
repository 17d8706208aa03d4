"""Changed cases that share draws: whole repeats are compared where units are too few.

The application of these tests has two steps. The first asks for the label of a case, the
second for a letter of that label: cases of one label share the letter's draw, on one side
only where a label is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.records import Call, Run
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.reports.sentences import sentence
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.detection import detectable_shift
from tests.gate.builders import CallsOfTrial, a_call, a_case, a_run, compared, joined
from tests.gate.simulation import Share

ALL_RIGHT = ["00000", "11111", "22222"] * 4
# six cases have a wrong label in each repeat
HALF_WRONG = [
    "".join(str((case + ((case // 3 - at) % 4 < 2)) % 3) for at in range(5)) for case in range(12)
]


def labelling(case: int, labels: str, *, prompt: str) -> CallsOfTrial:
    """Trial i asks for the label of the case, and for the letter of the i-th label."""

    def calls(index: int) -> tuple[Call, ...]:
        first, letter = f"{prompt} {case}", f"letter {labels[index]}"
        return (
            a_call(first, f"{first}/{index}", trial=index),
            a_call(letter, f"{letter}/{index}", trial=index),
        )

    return calls


def two_step(
    labels: Sequence[str],
    *,
    prompt: str,
    lost: Sequence[tuple[int, int]] = (),
    cluster: Callable[[int], str | None] = lambda _: None,
) -> Run:
    """A run whose trials pass where the label of case n is n modulo 3."""
    cases = []
    for case, of_case in enumerate(labels):
        ends = "".join("p" if label == str(case % 3) else "m" for label in of_case)
        ends = "".join("e" if (case, at) in lost else end for at, end in enumerate(ends))
        calls = labelling(case, of_case, prompt=prompt)
        cases.append(a_case(f"{case:02}", ends, calls=calls, cluster=cluster(case)))
    return a_run(*cases)


BASELINE = two_step(ALL_RIGHT, prompt="good")
WORSE = two_step(HALF_WRONG, prompt="bad")


def first_repeats(labels: Sequence[str], count: int) -> list[str]:
    return [of_case[:count] for of_case in labels]


def test_wrong_labels_that_tie_all_cases_to_one_unit_hide_no_drop() -> None:
    found = compared(BASELINE, WORSE)
    assert (found.effect.units, found.effect.changed) == (1, 12)
    assert (found.verdict, found.row, found.effect.method) == (
        Verdict.REGRESSED,
        8,
        "whole-repeats",
    )
    assert found.evidence.p == pytest.approx(1 / 252)  # one of all ways to deal ten repeats
    assert found.evidence.statistic == pytest.approx(-6)
    assert (found.evidence.interval, found.evidence.p_within_case) == (None, None)
    assert (found.effect.effective_units, found.evidence.dof) == (1.0, None)


def test_exchanged_sides_improve() -> None:
    found = compared(WORSE, BASELINE)
    assert (found.verdict, found.evidence.p_improved) == (Verdict.IMPROVED, pytest.approx(1 / 252))


def test_claim_is_one_about_these_cases() -> None:
    (function,) = compare(BASELINE, WORSE, GateRules()).functions
    assert sentence(function, GateRules()).endswith("comparisons (these 12 cases only)")


@pytest.mark.parametrize(("repeats", "row"), [(3, 7), (4, 8)])
def test_three_repeats_a_side_are_too_few_splits(repeats: int, row: int) -> None:
    # one of 20 splits is no p below .05, one of 70 is
    baseline = two_step(first_repeats(ALL_RIGHT, repeats), prompt="good")
    run = two_step(first_repeats(HALF_WRONG, repeats), prompt="bad")
    found = compared(baseline, run)
    assert found.row == row
    if row == 7:
        assert worded(found.why).endswith("from a drop from fewer than 4 repeats on both sides")


def test_units_of_too_few_repeats_are_tested_by_signs() -> None:
    baseline = two_step(["000", "111", "222"] * 2, prompt="good")
    run = two_step(["111", "000", "222"] * 2, prompt="bad")
    assert (compared(baseline, run).effect.units, compared(baseline, run).effect.method) == (
        3,
        "sign-flip",
    )


def test_drop_within_the_margin_is_none() -> None:
    found = compared(BASELINE, WORSE, GateRules(margin=0.5, target=0.6))
    assert found.evidence.p is not None
    assert found.evidence.p < 0.05
    assert found.verdict is not Verdict.REGRESSED
    assert compared(BASELINE, WORSE, GateRules(margin=0.4, target=0.6)).row == 8


def test_draw_of_several_repeats_leaves_no_repeats_to_compare() -> None:
    def calls(index: int) -> tuple[Call, ...]:
        return (a_call("fixture", "of the branch", trial=None),)

    one = [a_case(name, "ppppp") for name in "abc"]
    run = a_run(*(a_case(name, "mmmmm", calls=calls) for name in "abc"))
    found = compared(a_run(*one), run)
    assert (found.row, found.effect.method) == (7, "none")
    assert worded(found.why).endswith("no test can tell chance from a drop")


def test_draw_of_several_repeats_on_both_sides_cancels() -> None:
    def with_fixture(run: Run) -> Run:
        call = a_call("fixture", "replayed", trial=None)
        return replace(
            run, trials=tuple(replace(one, calls=(call, *one.calls)) for one in run.trials)
        )

    assert compared(with_fixture(BASELINE), with_fixture(WORSE)).effect.method == "whole-repeats"


def test_clusters_are_no_matter_of_repeats() -> None:
    def half(case: int) -> str:
        return str(case < 6)

    found = compared(
        two_step(ALL_RIGHT, prompt="good", cluster=half),
        two_step(HALF_WRONG, prompt="bad", cluster=half),
    )
    assert found.row == 7


def test_labels_of_a_case_each_tie_nothing() -> None:
    found = compared(
        two_step(ALL_RIGHT, prompt="good", cluster=str), two_step(HALF_WRONG, prompt="bad")
    )
    assert found.effect.method == "whole-repeats"


def test_repeats_that_are_one_draw_are_not_compared() -> None:
    def fixed(run: Run) -> Run:
        trials = tuple(
            replace(one, calls=tuple(replace(call, reply_sha256="00" * 32) for call in one.calls))
            for one in run.trials
        )
        return replace(run, trials=trials)

    assert compared(fixed(BASELINE), fixed(WORSE)).row == 7


def test_trials_that_errored_cost_no_repeat_of_many_cases() -> None:
    run = two_step(HALF_WRONG, prompt="bad", lost=[(0, 0), (7, 1), (8, 2)])
    found = compared(BASELINE, run)
    assert (found.effect.method, found.evidence.p) == ("whole-repeats", pytest.approx(1 / 252))


def test_repeat_in_which_more_than_a_tenth_errored_is_left_out() -> None:
    run = two_step(HALF_WRONG, prompt="bad", lost=[(0, 0), (7, 0), (8, 0)])
    found = compared(BASELINE, run)
    assert (found.effect.method, found.evidence.p) == ("whole-repeats", pytest.approx(1 / 70))


def test_side_without_a_repeat_of_most_cases_is_not_tested() -> None:
    sides = []
    for prompt, labels in (("good", "0"), ("bad", "1")):
        calls = [labelling(0, labels * 8, prompt=f"{prompt} {case}") for case in range(2)]
        late = 4 if prompt == "bad" else 0
        sides.append(
            a_run(
                a_case("0", "pppp", calls=calls[0]),
                a_case("1", "pppp", calls=calls[1], first=late),
            )
        )
    found = compared(*sides)
    assert (found.effect.units, found.row) == (1, 7)


def test_chosen_test_of_two_units_stays() -> None:
    baseline = two_step(["00000", "11111", "22222"] * 2, prompt="good")
    run = two_step(["11111", "00000", "22222"] * 2, prompt="bad")
    assert compared(baseline, run).effect.method == "whole-repeats"
    assert compared(baseline, run, GateRules(test="sign-flip")).effect.method == "sign-flip"
    assert compared(BASELINE, WORSE, GateRules(test="sign-flip")).effect.method == "whole-repeats"


# one letter in five is another's: four of the cases are one unit
FEW_WRONG = [*ALL_RIGHT[:3], "11000", "21111", "20222"]


def test_smallest_drop_is_that_of_the_spread_of_repeats() -> None:
    found = compared(two_step(ALL_RIGHT[:6], prompt="good"), two_step(FEW_WRONG, prompt="bad"))
    assert (found.effect.method, found.verdict) == ("whole-repeats", Verdict.INCONCLUSIVE)
    totals = np.array([-2, -2, 0, 0, 0])  # those of the baseline have no spread
    error = np.sqrt(np.sum((totals - totals.mean()) ** 2) / 8 * (1 / 5 + 1 / 5)) / 6
    drop = error * detectable_shift(dof=8, alpha=0.05)
    assert found.evidence.smallest_detectable_drop == pytest.approx(drop)
    assert (found.evidence.settle_cases, found.evidence.settle_repeats) == (None, None)
    assert "cases share replies, and too few repeats were made to tell" in sentence(
        found, GateRules()
    )


def test_family_for_which_the_splits_are_too_few_has_no_drop() -> None:
    baseline, current = two_step(ALL_RIGHT[:6], prompt="good"), two_step(FEW_WRONG, prompt="bad")
    rules = GateRules(alpha=0.005)  # one of 252 splits is enough for one function, not for two
    assert compared(baseline, current, rules).evidence.smallest_detectable_drop is not None
    both = joined(baseline, renamed(baseline)), joined(current, renamed(current))
    (one, _) = compare(*both, rules).functions
    assert (one.effect.method, one.evidence.smallest_detectable_drop) == ("whole-repeats", None)


def renamed(run: Run) -> Run:
    """The same function again, under another name."""

    def other(name: str) -> str:
        return name.replace("test_f", "test_g")

    return replace(
        run,
        cases=tuple(replace(c, id=other(c.id), function=other(c.function)) for c in run.cases),
        trials=tuple(replace(one, case=other(one.case)) for one in run.trials),
    )


# false alarms and power


@pytest.mark.calibration
@pytest.mark.parametrize("cases", [10, 30])
@pytest.mark.parametrize("repeats", [(5, 5), (10, 5)], ids=["5 v 5", "10 v 5"])
@pytest.mark.parametrize(("right", "good"), [(0.5, 0.9), (0.9, 0.9), (0.98, 0.98), (0.9, 1.0)])
def test_two_steps_seldom_cry_wolf(
    cases: int, repeats: tuple[int, int], right: float, good: float
) -> None:
    share = share_of_red(cases, repeats=repeats, right=(right, right), good=good, builds=300)
    print(f"{cases} cases, {repeats}, {right} x {good}: {share}")
    assert share.value - 2 * share.error <= 0.05


@pytest.mark.calibration
@pytest.mark.parametrize("repeats", [(4, 4), (5, 5), (10, 5)], ids=["4 v 4", "5 v 5", "10 v 5"])
def test_two_steps_show_a_prompt_that_labels_half_of_the_cases(repeats: tuple[int, int]) -> None:
    share = share_of_red(30, repeats=repeats, right=(0.97, 0.5), good=0.98, builds=100)
    print(f"{repeats}: {share}")
    assert share.value >= 0.9


def share_of_red(
    cases: int, *, repeats: tuple[int, int], right: tuple[float, float], good: float, builds: int
) -> Share:
    random = np.random.default_rng(cases)
    verdicts = [
        compared(*a_build(random, cases, repeats=repeats, right=right, good=good)).verdict
        for _ in range(builds)
    ]
    return Share(found=verdicts.count(Verdict.REGRESSED), builds=builds)


def a_build(
    random: np.random.Generator,
    cases: int,
    *,
    repeats: tuple[int, int],
    right: tuple[float, float],
    good: float,
) -> list[Run]:
    """Both runs: a trial passes if its label is right and the letter of the label is good."""
    letters = random.random((3, max(repeats))) < good
    true = np.arange(cases)[:, np.newaxis] % 3
    runs = []
    for prompt, count, rate in zip(("good", "bad"), repeats, right, strict=True):
        wrong = (random.random((cases, count)) >= rate) * random.integers(1, 3, (cases, count))
        labels = (true + wrong) % 3
        hits = (wrong == 0) & letters[labels, np.arange(count)]
        runs.append(
            a_run(
                *(
                    a_case(
                        f"{case:02}",
                        "".join("p" if hit else "m" for hit in hits[case]),
                        calls=labelling(case, "".join(map(str, labels[case])), prompt=prompt),
                    )
                    for case in range(cases)
                )
            )
        )
    return runs
