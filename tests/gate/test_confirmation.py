"""A fall turns a build red only where both sides, asked again, show it without the old baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.confirmation import (
    CannotConfirm,
    SecondLook,
    confirm,
    confirmed_at_last,
    suspects,
    without_asking,
)
from pytest_llmeval.gate.results import (
    Comparison,
    Confirmation,
    Fact,
    FunctionComparison,
    Verdict,
    Why,
)
from pytest_llmeval.records import CONFIRMED, Outcome, Run, Trial
from pytest_llmeval.settings import GateRules
from tests.gate.builders import a_case, a_run

RULES = GateRules()
CASES = 20
NO_KEY = Fact(Why.NOT_ASKED_AGAIN, ("no key is set",))


def suite(outcomes: str, *, function: str = "test_f", cases: int = CASES, **how: object) -> Run:
    """All cases of a function end alike."""
    ids = range(cases)
    return a_run(*(a_case(f"c{at}", outcomes, function=function, **how) for at in ids))  # type: ignore[arg-type]


def joined(*runs: Run) -> Run:
    return dataclasses.replace(
        runs[0],
        cases=tuple(case for run in runs for case in run.cases),
        trials=tuple(trial for run in runs for trial in run.trials),
    )


class Asked:
    """Draws fresh trials by the letter that each function has on each side, and counts."""

    def __init__(self, **letters: tuple[str, str]) -> None:
        self.letters = letters
        self.rounds: list[tuple[int, int]] = []  # cases, repeats
        self._made = 0

    def __call__(self, cases: Sequence[str], count: int) -> tuple[Sequence[Trial], Sequence[Trial]]:
        self.rounds.append((len(cases), count))
        first, self._made = self._made, self._made + count
        return self._side(cases, count, 0, 100 + first), self._side(cases, count, 1, 50 + first)

    def _side(self, cases: Sequence[str], count: int, side: int, first: int) -> list[Trial]:
        trials: list[Trial] = []
        for case in cases:
            function, _, rest = case.partition("::")[2].partition("[")
            letters = self.letters[function][side]
            at = int(rest.strip("c]"))
            outcomes = "".join(letters[(at + index) % len(letters)] for index in range(count))
            made = a_case(rest[:-1], outcomes, function=function, draws=f"side {side}", first=first)
            trials += made.trials
        return trials


def judged(baseline: Run, run: Run, asked: Asked, rules: GateRules = RULES) -> Comparison:
    return confirm(baseline, run, compare(baseline, run, rules), rules, asked)


def only(found: Comparison) -> tuple[FunctionComparison, Confirmation]:
    (one,) = found.functions
    assert one.confirmation is not None
    return one, one.confirmation


FINE = suite("pppppppppp")
FELL = suite("mpmpm", request="v2")


def test_a_fall_that_both_sides_show_again_is_red_after_three_repeats() -> None:
    asked = Asked(test_f=("p", "m"))
    one, found = only(judged(FINE, FELL, asked))
    assert asked.rounds == [(CASES, 3)]
    assert (one.verdict, one.fails, found.outcome) == (Verdict.REGRESSED, True, "confirmed")
    assert (found.repeats, found.baseline_mean, found.level) == (3, 1.0, 0.10)
    assert found.mean == pytest.approx(0.25)  # of 2 hits in 8 trials
    assert found.p is not None
    assert found.p < 0.02
    assert found.p_base == pytest.approx(1.0)


def test_a_base_that_falls_as_well_is_to_blame() -> None:
    asked = Asked(test_f=("mp", "mp"))
    found = judged(FINE, FELL, asked)
    one, confirmation = only(found)
    assert (one.verdict, one.fails, found.verdict) == (
        Verdict.NOT_CONFIRMED,
        False,
        Verdict.NOT_CONFIRMED,
    )
    assert confirmation.outcome == "base_fell"
    assert confirmation.level == 0.01
    assert one.evidence.interval is not None
    assert one.evidence.interval[1] >= 0
    assert judged(FINE, FELL, asked, GateRules(strict=True)).fails


def mixed(request: str, missing: str, of: int) -> Run:
    """So many of the cases have these trials; the others pass throughout."""
    fine = "p" * len(missing)
    letters = [missing if at < of else fine for at in range(CASES)]
    return a_run(*(a_case(f"c{at}", one, request=request) for at, one in enumerate(letters)))


def test_a_fall_that_is_not_there_again_was_chance() -> None:
    baseline, run = mixed("v1", "mppppppppp", 8), mixed("v2", "mpppp", 12)
    asked = Asked(test_f=("p" * 11 + "m", "p"))
    one, found = only(judged(baseline, run, asked))
    assert (found.outcome, one.verdict, one.fails) == ("chance", Verdict.NOT_CONFIRMED, False)
    assert found.p is not None
    assert found.p > 0.10


def test_all_trials_of_the_branch_count_and_more_are_asked_for_where_three_leave_it_open() -> None:
    baseline, run = mixed("v1", "mppppppppp", 8), mixed("v2", "mpppp", 18)
    asked = Asked(test_f=("p" * 11 + "m", "p" * 12 + "m"))
    _, found = only(judged(baseline, run, asked))
    assert asked.rounds == [(CASES, 3), (CASES, 5)]
    assert found.repeats == 8
    assert found.mean is not None
    assert 0.88 < found.mean < 0.93


def test_nobody_is_asked_where_nothing_fell() -> None:
    asked = Asked()
    for run in (suite("p" * 5), suite("p" * 5, request="v2")):
        found = judged(FINE, run, asked)
        assert [one.confirmation for one in found.functions] == [None]
    assert asked.rounds == []


def test_the_first_look_is_at_twice_the_level() -> None:
    """Four of five cases that fell: an exact p between one and two times the level."""
    baseline = suite("pppp", cases=1)
    run = suite("mmpp", request="v2", cases=1)
    rules = GateRules(alpha=0.15)
    comparison = compare(baseline, run, rules)
    (one,) = comparison.functions
    assert one.verdict is Verdict.INCONCLUSIVE
    assert one.evidence.p is not None
    assert 0.15 < one.evidence.p < 0.30
    assert [*suspects(comparison, rules, baseline=baseline).values()]
    one, found = only(judged(baseline, run, Asked(test_f=("p", "m")), rules))
    assert (one.verdict, one.fails, found.outcome) == (Verdict.REGRESSED, True, "confirmed")


@pytest.mark.unmeasured
def test_a_drop_that_is_ruled_out_keeps_its_verdict_unless_it_is_confirmed() -> None:
    cases = 400
    baseline = suite("p" * 10, cases=cases)
    missed = [a_case(f"c{at}", "mpppp", request="v2") for at in range(3)]
    others = [a_case(f"c{at}", "ppppp", request="v2") for at in range(3, cases)]
    run, rules = a_run(*missed, *others), GateRules(alpha=0.03)
    (first,) = compare(baseline, run, rules).functions
    assert first.verdict is Verdict.NO_SIGNIFICANT_CHANGE
    one, found = only(judged(baseline, run, Asked(test_f=("p" * 39 + "m", "p")), rules))
    assert found.outcome != "confirmed"
    assert one.verdict is Verdict.NO_SIGNIFICANT_CHANGE


def test_an_accepted_drop_is_not_asked_again() -> None:
    asked = Asked()
    rules = GateRules(accept=("test_f:pass >= 0.1",))
    (one,) = judged(FINE, FELL, asked, rules).functions
    assert one.accepted
    assert (asked.rounds, one.confirmation) == ([], None)


def test_where_only_scores_differ_nobody_is_asked() -> None:
    asked = Asked()
    (one,) = judged(suite("ppppp"), suite("mmmmm"), asked).functions
    assert one.effect.changed_kinds == {"score": CASES}
    assert (one.verdict, asked.rounds, one.confirmation) == (Verdict.REGRESSED, [], None)


def test_the_first_look_stands_where_nobody_can_be_asked() -> None:
    def refuse(*_: object) -> tuple[list[Trial], list[Trial]]:
        raise CannotConfirm(NO_KEY)

    found = confirm(FINE, FELL, compare(FINE, FELL, RULES), RULES, refuse)
    one, confirmation = only(found)
    assert (one.verdict, found.fails) == (Verdict.REGRESSED, True)
    assert (confirmation.outcome, confirmation.why) == ("impossible", NO_KEY)


def test_only_a_fall_gets_the_reason_for_which_nothing_is_asked_again() -> None:
    baseline = joined(suite("ppp"), suite("ppp", function="test_g"))
    here = joined(suite("mmm", request="n"), suite("ppp", function="test_g", request="n"))

    found = without_asking(compare(baseline, here, RULES), Fact(Why.ANCHOR))

    why = {one.function: one.confirmation and one.confirmation.why for one in found.functions}
    assert list(why.values()) == [Fact(Why.ANCHOR), None]


def test_what_three_repeats_decided_stands_where_nobody_answers_after_them() -> None:
    class Once(Asked):
        def __call__(
            self, cases: Sequence[str], count: int
        ) -> tuple[Sequence[Trial], Sequence[Trial]]:
            if self.rounds:
                raise CannotConfirm(NO_KEY)
            return super().__call__(cases, count)

    baseline = joined(FINE, suite("p" * 10, function="test_g"))
    run = joined(FELL, suite("mpppp", function="test_g", request="v2"))
    found = judged(baseline, run, Once(test_f=("p", "m"), test_g=("p" * 19 + "m", "p" * 9 + "m")))
    outcomes = {one.name: one.confirmation and one.confirmation.outcome for one in found.functions}
    assert outcomes == {"test_f": "confirmed", "test_g": "impossible"}
    assert all(one.fails for one in found.functions)  # by the first look


@pytest.mark.parametrize("side", [0, 1])
def test_too_many_lost_trials_confirm_nothing(side: int) -> None:
    letters = ("p", "m")
    letters = (letters[0] * 9 + "e", "m") if side == 0 else ("p", "m" * 9 + "e")
    one, found = only(judged(FINE, FELL, Asked(test_f=letters)))
    assert found.outcome == "impossible"
    assert found.why == Fact(Why.ERRORED_AGAIN, (6, 60, ("baseline", "here")[side], ""))
    assert one.verdict is Verdict.REGRESSED


def test_why_trials_were_lost_is_told() -> None:
    def ask(cases: Sequence[str], count: int) -> tuple[Sequence[Trial], Sequence[Trial]]:
        base, here = Asked(test_f=("p", "e"))(cases, count)
        lost = a_case("c0", "e", calls=lambda _: [_lost()]).trials[0].calls
        return base, [dataclasses.replace(trial, calls=lost) for trial in here]

    def _lost() -> object:
        from tests.gate.builders import a_call

        return a_call("v2", None)

    _, found = only(confirm(FINE, FELL, compare(FINE, FELL, RULES), RULES, ask))
    assert found.why is not None
    assert found.why.figures[:3] == (60, 60, "here")
    assert "600" in str(found.why.figures[3])


def test_what_cannot_be_compared_again_is_not_confirmed() -> None:
    """The fresh trials record no score of the metric."""
    baseline = a_run(*(a_case(f"c{at}", scores=[0.9] * 6, gate=("score",)) for at in range(9)))
    run = a_run(
        *(
            a_case(f"c{at}", scores=[0.1 + at / 100] * 5, gate=("score",), request="v2")
            for at in range(9)
        )
    )
    (first,) = compare(baseline, run, RULES).functions
    assert (first.metric, first.verdict) == ("score", Verdict.REGRESSED)
    one, found = only(judged(baseline, run, Asked(test_f=("p", "p"))))
    assert (found.outcome, found.why) == ("impossible", Fact(Why.NOT_COMPARED_AGAIN))
    assert one.verdict is Verdict.REGRESSED


def test_below_six_units_the_exact_test_looks_again() -> None:
    baseline, run = suite("p" * 10, cases=2), suite("mmmmm", request="v2", cases=2)
    one, found = only(judged(baseline, run, Asked(test_f=("p", "m"))))
    assert one.effect.method == "exact-within-case"
    assert found.outcome == "confirmed"
    assert found.p == pytest.approx(1 / 165**2)  # 3 of 11 trials, in both cases


def test_a_part_of_the_cases_that_was_typed_is_confirmed_by_these() -> None:
    asked = Asked(test_f=("p", "m"))
    some = suite("mpmpm", request="v2", cases=7)
    run = dataclasses.replace(
        some, complete=False, partial=(some.cases[0].function,), selection=("-k some",)
    )
    comparison = compare(FINE, run, RULES, typed=("-k some",))
    one, found = only(confirm(FINE, run, comparison, RULES, asked))
    assert asked.rounds == [(7, 3)]
    assert (one.partial, one.verdict, found.outcome) == (True, Verdict.REGRESSED, "confirmed")


def test_replayed_cases_are_compared_as_before_and_not_asked() -> None:
    replays = suite("p" * 10, cases=60)
    baseline = replays
    run = joined(FELL, dataclasses.replace(replays, trials=replays.trials, cases=replays.cases))
    kept = {f"test_suite.py::test_f[c{at}]" for at in range(CASES)}
    cases = tuple(case for case in replays.cases if case.id not in kept)
    trials = tuple(trial for trial in replays.trials if trial.case not in kept)
    run = dataclasses.replace(run, cases=FELL.cases + cases, trials=FELL.trials + trials)
    asked = Asked(test_f=("p", "m"))
    one, found = only(judged(baseline, run, asked))
    assert asked.rounds == [(CASES, 3)]
    assert one.effect.cases == 60
    assert found.baseline_mean == 1.0
    assert found.mean == pytest.approx(1 - 0.75 / 3)


def test_early_decisions() -> None:
    assert SecondLook(p=0.6, p_base=0.9).early(1) is False
    assert SecondLook(p=0.019, p_base=0.21).early(1) is True
    assert SecondLook(p=0.019, p_base=0.21).early(2) is None
    assert SecondLook(p=0.019, p_base=0.20).early(1) is None
    assert SecondLook(p=0.019, p_base=None).early(1) is None
    assert SecondLook(p=0.019, p_base=0.9, is_beyond_margin=False).early(1) is None
    assert SecondLook(p=0.019, p_base=0.9, highest=0.01).early(1) is None


@pytest.mark.parametrize(
    ("alpha", "others", "level"),
    [(0.05, 0, 0.10), (0.006, 0, 0.006), (0.05, 2, 0.10), (0.02, 2, 0.02 / 3)],
)
def test_what_the_first_look_leaves_below_red_needs_the_level_itself(
    alpha: float, others: int, level: float
) -> None:
    """And its share of it, where several functions were tested at the first look."""
    baseline, run = mixed("v1", "mppppppppp", 8), mixed("v2", "mpppp", 12)
    for at in range(others):
        baseline = joined(baseline, suite("p" * 10, function=f"test_{at}"))
        run = joined(run, suite("p" * 5, function=f"test_{at}", request="v2"))
    rules, asked = GateRules(alpha=alpha), Asked(test_f=("p" * 11 + "m", "p" * 12 + "m"))
    comparison = compare(baseline, run, rules)
    p = comparison.functions[0].evidence.p_adjusted
    assert p is not None
    assert (p < alpha) == (level == 0.10)
    found = confirm(baseline, run, comparison, rules, asked).functions[0].confirmation
    assert found is not None
    assert found.level == pytest.approx(level)


def test_the_last_decision_is_by_holm_each_at_its_own_level() -> None:
    looks = {
        ("f", "pass"): SecondLook(p=0.03, p_base=0.5),  # .3 of its level, times 3
        ("g", "pass"): SecondLook(p=0.0049, p_base=0.04),  # .49 of .01, times 2
        ("h", "pass"): SecondLook(p=0.0101, p_base=0.04),
    }
    assert {name for name, _ in confirmed_at_last(looks, family=3)} == {"f", "g"}
    assert {name for name, _ in confirmed_at_last(looks, family=4)} == set()
    excused = {("f", "pass"): SecondLook(p=0.001, p_base=0.5, is_beyond_margin=False)}
    assert not confirmed_at_last(excused, family=1)


def test_a_measured_metric_is_looked_at_again_by_its_ratio() -> None:
    def slow(factor: float, **how: object) -> Run:
        run = suite("ppppp", gate=("seconds",), **how)
        trials = (
            dataclasses.replace(
                trial,
                calls=tuple(
                    dataclasses.replace(call, seconds=factor * (1 + trial.index / 10))
                    for call in trial.calls
                ),
            )
            for trial in run.trials
        )
        return dataclasses.replace(run, trials=tuple(trials))

    baseline, run = slow(1.0), slow(2.0, request="v2")

    def ask(cases: Sequence[str], count: int) -> tuple[Sequence[Trial], Sequence[Trial]]:
        sides = []
        for side, factor in (("base", 1.0), ("here", 2.0)):
            more = slow(factor, request="v2", draws=side)
            sides.append([trial for trial in more.trials if trial.index < count])
        base, here = sides
        return (
            [dataclasses.replace(trial, index=100 + trial.index) for trial in base],
            [dataclasses.replace(trial, index=50 + trial.index) for trial in here],
        )

    one, found = only(confirm(baseline, run, compare(baseline, run, RULES), RULES, ask))
    assert (one.scale, found.outcome) == ("log", "confirmed")
    assert all(trial.outcome is Outcome.PASSED for trial in run.trials)


def test_fresh_trials_that_joined_the_baseline_since_are_not_compared_with_themselves() -> None:
    """Who judges the same again has the fresh trials of the base in the baseline, too."""
    asked = Asked(test_f=("mp", "m"))
    _, alone = only(judged(FINE, FELL, asked))
    base, _ = Asked(test_f=("mp", "m"))([case.id for case in FINE.cases], 8)
    more = [dataclasses.replace(one, index=CONFIRMED + one.index) for one in base]
    both = dataclasses.replace(FINE, trials=(*FINE.trials, *more))
    _, found = only(judged(both, FELL, Asked(test_f=("mp", "m"))))
    assert found.p_base == alone.p_base
