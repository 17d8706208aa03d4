"""The sentences and cells for ratios, wordings and several comparisons."""

from __future__ import annotations

import dataclasses
import math

import pytest

from pytest_llmeval.gate.results import (
    CaseComparison,
    Comparison,
    EditedCase,
    Effect,
    Evidence,
    Fact,
    FunctionComparison,
    Row,
    Verdict,
    Why,
    ratio_of,
)
from pytest_llmeval.gate.scoring import Scored
from pytest_llmeval.records import Run
from pytest_llmeval.reports import remarks as remarks_of
from pytest_llmeval.reports.notation import (
    decimals,
    digits,
    figure,
    hits,
    mean_with_ends,
    number,
)
from pytest_llmeval.reports.remarks import accepting_line, claims, family_words, remarks
from pytest_llmeval.reports.sentences import (
    count_moved,
    difference_interval,
    drop_as_factor,
    sentence,
    unchanged_words,
    within_case_remark,
)
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.settings import GateRules
from tests.gate.builders import a_call, a_case, a_run, compared
from tests.reports.judgements import FORMS, section_of

RULES = GateRules()
SECONDS = FunctionComparison(
    function="tests/test_a.py::TestA::test_it",
    metric="seconds",
    better="lower",
    scale="log",
    verdict=Verdict.REGRESSED,
    row=Row.REGRESSED,
    effect=Effect(
        changed_kinds={"request": 9},
        changed=9,
        cases=9,
        method="log-ratio",
        difference=-0.2,
        baseline_mean=0.5,
        mean=0.61,
    ),
    evidence=Evidence(
        ratio=1.2214,
        interval=(-0.3, -0.1),
        ratio_interval=(1.105, 1.35),
        smallest_detectable_drop=0.1,
        p_adjusted=0.01,
    ),
)


def altered(comparison: FunctionComparison, **changes: object) -> FunctionComparison:
    """The comparison with other values, each in the record that it belongs to."""
    for part in ("effect", "evidence"):
        record = getattr(comparison, part)
        own = {name: changes.pop(name) for name in list(changes) if hasattr(record, name)}
        changes[part] = dataclasses.replace(record, **own)
    return dataclasses.replace(comparison, **changes)  # type: ignore[arg-type]


def test_an_interval_without_a_drop_is_not_said_to_fall_by_nothing() -> None:
    one = altered(
        SECONDS,
        verdict=Verdict.NO_SIGNIFICANT_CHANGE,
        ruled_out_by="interval",
        interval=(0.0, 0.35),
        scale="linear",
    )
    assert sentence(one, RULES).endswith("is ruled out (95% sure), and so is any smaller one")


@pytest.mark.parametrize("is_replayed", [True, False])
def test_new_replies_of_an_edited_case_are_not_called_replayed(*, is_replayed: bool) -> None:
    edited = EditedCase(
        case="t[a]", was="t[a]", is_replayed=is_replayed, baseline_mean=1.0, mean=0.0
    )
    one = altered(SECONDS, verdict=Verdict.UNCHANGED, edited=(edited,))
    assert unchanged_words([one]) in sentence(one, RULES)
    assert ("all replayed" in sentence(one, RULES)) is is_replayed
    assert ("all that was compared was replayed" in sentence(one, RULES)) is not is_replayed


def test_a_worse_ratio_is_a_factor() -> None:
    assert sentence(SECONDS, RULES) == (
        "test_it (seconds) worsened by a factor of 1.22 (0.5 -> 0.61); "
        "chance alone would do this in 1 of 100 comparisons"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"verdict": Verdict.NO_SIGNIFICANT_CHANGE, "ruled_out_by": "interval"},
            "no significant change: a change for the worse by a factor of 1.1 or more is ruled "
            "out (95% sure), one by a factor of up to 1.35 is not",
        ),
        (
            {"verdict": Verdict.INCONCLUSIVE},
            "inconclusive: it may be worse by a factor of up to 1.35",
        ),
    ],
)
def test_what_is_open_is_a_factor_too(changes: dict[str, object], expected: str) -> None:
    assert sentence(altered(SECONDS, **changes), RULES) == expected


OPEN = altered(
    SECONDS, verdict=Verdict.INCONCLUSIVE, interval=None, ratio_interval=None, method="same-shift"
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"difference": 0.0},
            "no case moved; a change by a factor of 1.11 or more would have been caught in 4 of 5 "
            "builds if all cases fall alike, in 2 to 3 of 5 if only a third of them falls",
        ),
        (
            {"scale": "linear", "ratio": None, "smallest_detectable_drop": 0.174},
            "all cases moved alike; a drop of 0.17 or more would have been caught in 4 of 5 builds "
            "if all cases fall alike, in 2 to 3 of 5 if only a third of them falls",
        ),
        (
            {"method": "exact-within-case", "smallest_detectable_drop": None},
            "9 cases are too few to tell",
        ),
    ],
)
def test_without_an_interval_it_is_said_what_would_have_been_caught(
    changes: dict[str, object], expected: str
) -> None:
    found = sentence(altered(OPEN, **changes), RULES)
    assert found == f"inconclusive: {expected}"


@pytest.mark.parametrize(
    ("value", "ends", "log", "expected"),
    [
        (0.8611, (0.8249, 0.894), False, "0.861 [0.82, 0.89]"),
        (0.8, None, False, "0.800"),
        (12.34, (9.876, 15.0), True, "12.3 [9.88, 15]"),
        (None, None, False, ""),
    ],
)
def test_a_mean_stands_beside_its_interval(
    value: float | None, ends: tuple[float, float] | None, log: bool, expected: str
) -> None:
    assert mean_with_ends(value, ends, log=log) == expected


def test_the_drop_that_could_be_caught_points_to_the_worse() -> None:
    assert drop_as_factor(0.1, "lower") == "x1.11"
    assert drop_as_factor(0.1, "higher") == "x0.905"


def test_an_interval_is_one_of_ratios_where_there_are_some() -> None:
    assert difference_interval((-0.3, -0.1), (1.105, 1.35)) == "[x1.1, x1.35]"
    assert difference_interval((-0.3, -0.1), None) == "[-0.300, -0.100]"


@pytest.mark.parametrize("equal", [True, False])
def test_repeats_are_of_no_use_only_as_long_as_replies_are_equal(equal: bool) -> None:
    open_ = altered(SECONDS, verdict=Verdict.INCONCLUSIVE, row=Row.OPEN, why=None)
    one = altered(open_, settle_cases=9, identical_repeats=equal)
    ending = "would not, as long as their replies are equal" if equal else "hardly would"
    assert sentence(one, RULES).endswith(f", more repeats {ending}")


def test_cases_are_not_said_to_fall_where_lower_is_better() -> None:
    open_ = altered(SECONDS, verdict=Verdict.INCONCLUSIVE, row=Row.OPEN, p_within_case=0.01, p=0.2)
    assert within_case_remark(open_, RULES).startswith("these cases worsened by more than chance")


def a_function(name: str, **changes: object) -> FunctionComparison:
    return altered(SECONDS, function=f"test_a.py::{name}", metric="pass", **changes)


def scope(*functions: FunctionComparison) -> list[str]:
    return claims(functions)


def test_cases_are_counted_once_for_all_metrics() -> None:
    one = a_function("test_a")
    both = scope(one, altered(one, metric="seconds"), a_function("test_b", cases=3))
    assert both == ["the verdict is about these 12 cases and this wording"]
    assert scope() == []
    assert scope(a_function("test_new", cases=0)) == []


def test_each_function_with_wordings_has_its_own_scope() -> None:
    assert scope(
        a_function("test_a", method="crossed", wordings=5),
        a_function("test_b", wordings=2),
        a_function("test_c", wordings=1),
        a_function("test_d"),
    ) == [
        "test_a: the verdict is about cases and wordings like these (5 wordings)",
        "test_b: the verdict is about these 9 cases and these 2 wordings only",
        "test_c: the verdict is about these 9 cases and this wording only",
        "test_d: the verdict is about these 9 cases and this wording only",
    ]


def test_a_function_speaks_of_wordings_in_general_only_if_all_its_metrics_do() -> None:
    one = a_function("test_a", method="crossed", wordings=5)
    assert scope(one, altered(one, metric="x", method="paired-t")) == [
        "test_a: the verdict is about these 9 cases and these 5 wordings only"
    ]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (RULES, "p: Holm over 3 functions and metrics"),
        (GateRules(multiplicity="bh"), "p: Benjamini-Hochberg over 3 functions and metrics"),
    ],
)
def test_how_the_error_rate_is_shared_is_said(rules: GateRules, expected: str) -> None:
    one = altered(SECONDS, family_size=3)
    found = Comparison(verdict=Verdict.REGRESSED, fails=True, functions=(one,))
    assert family_words(found, rules) == expected
    alone = dataclasses.replace(found, functions=(altered(one, family_size=1),))
    assert family_words(alone, rules) == ""


def said_of(function: FunctionComparison, *, unrun: int = 0) -> str:
    judgement = FORMS["regressed"]()
    assert judgement.comparison is not None
    missing = tuple(Fact(Why.DESELECTED, (f"t.py::t{n}", 1)) for n in range(unrun))
    comparison = dataclasses.replace(judgement.comparison, not_judged=missing)
    return "\n".join(remarks(dataclasses.replace(judgement, comparison=comparison), function))


@pytest.mark.parametrize(("worse", "word"), [(True, "REGRESSED"), (False, "improved")])
def test_a_verdict_that_several_comparisons_prevent_is_named(worse: bool, word: str) -> None:
    judgement = FORMS["no_significant_change"]()
    assert judgement.comparison is not None
    open_one = judgement.comparison.functions[0]
    sides = {"p": 0.03, "p_adjusted": 0.09, "p_improved": 0.97, "p_improved_adjusted": 1.0}
    if not worse:
        sides = dict(zip(sides, [0.97, 1.0, 0.03, 0.09], strict=True))

    found = altered(open_one, family_size=3, interval=(-0.1, 0.0), **sides)
    assert (
        f"by itself this would be {word} (p = 0.030), but 3 comparisons share the level, and so "
        "its interval reaches 0"
    ) in said_of(found)
    assert "share the level" not in said_of(altered(found, p_adjusted=0.2, p=0.1, p_improved=0.2))


def test_of_a_part_of_a_function_no_drop_is_offered_to_accept() -> None:
    judgement = FORMS["regressed"]()
    assert judgement.comparison is not None
    regressed = judgement.comparison.functions[0]
    assert accepting_line(judgement, regressed).startswith("llm_accept = test_label:pass >= ")
    assert accepting_line(judgement, dataclasses.replace(regressed, partial=True)) == ""


def test_a_verdict_that_the_whole_suite_may_not_give_is_said_to_be_of_a_part() -> None:
    one = altered(SECONDS, p=0.02, p_adjusted=0.02, family_size=1)
    assert (
        "the level is shared with 2 test functions that did not run: with them this may not be "
        "REGRESSED"
    ) in said_of(one, unrun=2)
    assert "the level is shared" not in said_of(one)
    assert "the level is shared" not in said_of(altered(one, p=0.001, p_adjusted=0.001), unrun=2)


def asked_again(count: int, *, changed: int) -> FunctionComparison:
    """Seconds of cases that asked the same anew, half as long again, beside others."""
    side = Scored((), (0.0,))
    cases = tuple(
        CaseComparison(
            case=f"c{at}",
            kind="redrawn" if at < count else "request",
            difference=-math.log(1.5) if at < count else 0.0,
            scale="log",
            **dict.fromkeys(("every_baseline", "every_current", "baseline", "current"), side),
        )
        for at in range(changed)
    )
    return altered(SECONDS, changed=changed, cases=changed, compared=cases)


def test_of_cases_that_sent_others_later_no_more_is_said_than_that_the_first_were_the_same() -> (
    None
):
    def asking(world: str, later: str) -> Run:
        calls = [a_call(key, f"{world} {key}") for key in ("plan", later)]
        same = [a_call("plan", f"{world} alone")]
        return a_run(
            a_case("a", "pp", calls=lambda _: calls), a_case("b", "pp", calls=lambda _: same)
        )

    found = said_of(compared(asking("main", "pick"), asking("here", "choose")))

    assert "1 case sent the same requests but got new replies" in found
    assert "1 case sent the same first requests but got new replies" in found
    assert "), and later requests differ" in found


MARGIN = "on another day all cases differ in seconds (provider, machine), and no test can tell"


@pytest.mark.parametrize(("count", "changed", "is_told"), [(6, 9, 1), (5, 9, 0), (9, 9, 0)])
def test_cases_that_asked_the_same_anew_tell_the_shift_of_the_day(
    count: int, changed: int, is_told: int
) -> None:
    found = said_of(asked_again(count, changed=changed))
    line = f"{count} of its cases sent the same requests again, and their seconds changed by x1.5: "
    assert (line in found, MARGIN in found) == (bool(is_told), not is_told)


def test_a_margin_is_offered_for_what_calls_took_alone() -> None:
    assert f"{MARGIN} that from your change" in said_of(SECONDS)
    assert "as in --llm-margin=0.30 --llm-target=0.60; it holds for all" in said_of(SECONDS)
    assert MARGIN not in said_of(altered(SECONDS, metric="score"))
    assert MARGIN not in said_of(altered(SECONDS, method="none"))
    judgement = FORMS["regressed"]()
    settings = dataclasses.replace(judgement.settings, gate=GateRules(margin=0.1), session="")
    assert MARGIN not in "\n".join(
        remarks(dataclasses.replace(judgement, settings=settings), SECONDS)
    )


@pytest.mark.parametrize("tie", [0.6125, 0.0005, 1.0005, 12.345, 0.25])
def test_a_figure_reads_alike_in_whatever_order_it_was_summed(tie: float) -> None:
    near = [math.nextafter(tie, 0), tie, math.nextafter(tie, 99)]
    for write in (
        decimals,
        digits,
        number,
        lambda value: decimals(value, signed=True),
        lambda value: figure(value, "score"),
        lambda value: figure(value, "seconds"),
        lambda value: mean_with_ends(value, (value, value), log=False),
        lambda value: mean_with_ends(value, (value, value), log=True),
        lambda value: hits([value, value, value], "score", are_hits=False),
    ):
        assert len(set(map(write, near))) == 1


def test_what_calls_took_has_no_usual_size() -> None:
    assert figure(0.000184, "seconds") == "0.000184"
    assert figure(1234.5678, "tokens") == "1235"
    assert figure(0.1234, "score") == "0.123"


RESCORED = altered(
    SECONDS,
    metric="pass",
    better="higher",
    scale="linear",
    verdict=Verdict.IMPROVED,
    changed_kinds={"score": 9},
    method="paired-t",
    difference=0.03,
    baseline_mean=0.84,
    mean=0.87,
    ratio=None,
    ratio_interval=None,
    interval=(0.01, 0.05),
    p_improved_adjusted=0.0001,
    p_within_case=0.001,
)
OTHERWISE = (
    "the same replies got other scores (9 cases): the test or the application changed, "
    "not the model"
)


@pytest.mark.parametrize(
    ("verdict", "difference", "expected"),
    [
        (Verdict.IMPROVED, 0.03, "test_it rose by 0.030 (0.840 -> 0.870)"),
        (Verdict.REGRESSED, -0.03, "test_it fell by 0.030 (0.840 -> 0.870)"),
        (Verdict.INCONCLUSIVE, -0.03, "inconclusive: fell by 0.030 (0.840 -> 0.870)"),
        (Verdict.NO_SIGNIFICANT_CHANGE, 0.0, "no significant change: no change overall"),
    ],
)
def test_a_changed_scorer_is_no_changed_model_and_no_chance(
    verdict: Verdict, difference: float, expected: str
) -> None:
    found = altered(RESCORED, verdict=verdict, difference=difference)
    assert sentence(found, RULES) == f"{expected}; {OTHERWISE}"
    assert within_case_remark(found, RULES) == ""


def test_one_case_that_was_asked_anew_brings_chance_back() -> None:
    found = altered(RESCORED, changed_kinds={"score": 8, "request": 1})
    assert sentence(found, RULES) == (
        "test_it rose by 0.030 (0.840 -> 0.870); "
        "chance alone would do this in fewer than 1 of 1000 comparisons"
    )


@pytest.mark.parametrize(("left_out", "is_told"), [(0, False), (1, True)])
def test_only_a_function_that_lacks_cases_is_called_partial(
    left_out: int, *, is_told: bool
) -> None:
    """With --lf nobody knows beforehand what is left out; it may be nothing."""
    one = altered(SECONDS, partial=True, only_in_baseline=("t[a]",) * left_out)
    comparison = Comparison(verdict=one.verdict, fails=False, functions=(one,))
    told = " ".join(remarks_of.scope(comparison, FORMS["partial"]().settings))
    assert ("partial" in told) is is_told


def test_functions_that_were_not_judged_are_counted_from_the_sixth_on() -> None:
    functions = [Fact(Why.NOT_RUN, (f"t.py::t{n}", n)) for n in range(1, 8)]
    judgement = FORMS["partial"]()
    assert judgement.comparison is not None
    comparison = dataclasses.replace(
        judgement.comparison,
        not_judged=(Fact(Why.DESELECTED, ("t.py::t0", 2)), *functions),
    )
    lines = section_of(dataclasses.replace(judgement, comparison=comparison), Page(width=200))
    assert [line.text for line in lines if line.text.startswith("not judged: ")] == [
        "not judged: t0 (2 cases, deselected), t1 (1 case, not run), t2 (2 cases, not run), "
        "t3 (3 cases, not run), t4 (4 cases, not run) and 3 more"
    ]


def test_new_cases_show_their_mean() -> None:
    found = altered(
        RESCORED,
        verdict=Verdict.UNCHANGED,
        changed=0,
        changed_kinds={},
        only_here=("a", "b", "c"),
        only_here_mean=0.8,
        only_here_interval=(0.61, 0.91),
    )
    assert sentence(found, RULES).endswith(
        "with 3 cases only here (mean 0.800 [0.61, 0.91]): not compared"
    )


def test_few_cases_that_fell_far_are_told_apart_from_those_that_chance_moved():
    noise = [-0.1] * 7 + [0.1] * 6 + [0.0] * 83

    assert count_moved([-1.0, -0.9, -0.9, -1.0, *noise], "higher") == (
        "of 100 cases 11 fell, 6 rose; the 4 that fell furthest lower the mean by 0.038"
    )
    assert count_moved([-1.0, *noise], "higher") == "of 97 cases 8 fell, 6 rose"
    assert count_moved(noise, "lower") == "of 96 cases 7 worsened, 6 improved"


def test_the_share_of_a_ratio_is_a_factor():
    twice = [-math.log(2)] * 2 + [-0.1] * 8

    told = "of 10 cases 10 worsened, 0 improved; the 2 that worsened furthest worsen the mean x1.15"
    assert count_moved(twice, "lower", scale="log") == told


def test_a_logarithm_beyond_all_numbers_is_the_largest_factor() -> None:
    assert ratio_of(0.0) == 1.0
    assert ratio_of(5000.0) == ratio_of(709.0) < float("inf")
