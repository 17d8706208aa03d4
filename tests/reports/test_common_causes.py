"""A change that several functions have is told once, with what became of all their cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports.common_causes import common_causes, other_differences, told_changes
from pytest_llmeval.reports.json_report import dumped
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.provenance import Difference, differences
from pytest_llmeval.reports.telling import lead
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.transcripts.common_change import RequestChange
from pytest_llmeval.transcripts.word_diff import MessageDiff, Piece
from tests.reports.judgements import (
    BRANCH,
    BROKEN,
    LABEL,
    LABELLED,
    MAIN,
    ORDER,
    ORDERS,
    POLICIES,
    REFUND,
    TICKETS,
    another_model,
    function_of,
    judgement_of,
    regressed,
    section_of,
    suite,
)

SWAPPED = "openai/gpt-6-luna -> openai/gpt-6.1-terra in 3 functions: over their 22 cases "


def sentence(judgement: Judgement) -> str:
    (cause,) = common_causes(judgement, differences(judgement))
    return cause.sentence


def test_a_swap_is_one_line_above_the_verdict() -> None:
    lines = [line.text for line in section_of(another_model(), Page(width=400))]

    assert lines[0] == (
        f"{SWAPPED}0.918 -> 0.973 (+0.055, between -0.040 and +0.140); cost x2.7, seconds x1; "
        "no function fell"
    )
    assert lines[1].startswith("inconclusive: 3 functions")
    others = "\n".join(lines[1:])
    assert "gpt-6-luna" not in others
    assert "what changed" not in others


def test_what_it_tells_is_told_by_nothing_else() -> None:
    report = make_report(another_model())

    assert {one.fact for one in report.differences} == {"model", "served"}
    assert other_differences(report) == []
    assert [*told_changes(report)] == []
    assert lead(report, report.side.compared)[0] == report.common_causes[0].sentence


def test_json_has_it_as_data() -> None:
    (cause,) = dumped(make_report(another_model()))["common_causes"]

    assert cause["changes"] == [
        {"field": "model", "baseline": "openai/gpt-6-luna", "here": "openai/gpt-6.1-terra"}
    ]
    assert cause["functions"] == [LABEL, REFUND, ORDER]
    score, *others = cause["figures"]
    assert (score["metric"], score["cases"], score["interval_level"]) == ("pass", 22, 0.9)
    assert {one["metric"]: one["ratio"] for one in others}["cost"] == pytest.approx(2.7)
    assert {one["function"] for one in cause["figures"]} == {"all cases"}
    assert cause["worst"] == {"function": ORDER, "difference": 0.0}


def swapped(outcomes: tuple[str, ...], *, order: str = "openai/new") -> Judgement:
    """All but perhaps one function ask another model; the first one's trials ended so."""
    sides = []
    for commit, model, letters in (
        (MAIN, "openai/old", LABELLED),
        (BRANCH, "openai/new", outcomes),
    ):
        of_order = "openai/old" if commit is MAIN else order
        label, refund, finds = (
            function_of(name, cases, ended, prompt=asked, replayed=False, model=asked)
            for name, cases, ended, asked in (
                (LABEL, TICKETS, letters, model),
                (REFUND, POLICIES, ("ppppp",) * 6, model),
                (ORDER, ORDERS, ("ppppp",) * 4, of_order),
            )
        )
        sides.append(suite(commit, refund, finds, label=label))
    before, after = sides
    return replace(judgement_of(after, baseline=before), request_changes=())


def test_the_function_that_fell_is_named() -> None:
    assert sentence(swapped(("mmmmm",) * 12)).endswith("; test_label fell most, by 0.950")


def test_a_fall_that_chance_explains_is_no_function_that_fell() -> None:
    outcomes = ("ppppm", *LABELLED[1:])

    assert sentence(swapped(outcomes)).endswith(
        "; no function fell by more than 0.017 (test_label)"
    )


def test_cases_of_functions_that_did_not_change_do_not_count() -> None:
    judgement = swapped(LABELLED, order="openai/old")

    told = sentence(judgement)
    assert told.startswith("openai/old -> openai/new in 2 functions: over their 18 cases ")
    report = make_report(judgement)
    assert {one.fact for one in other_differences(report)} == set()


def test_one_function_has_no_cause_in_common() -> None:
    judgement = regressed()

    assert [*common_causes(judgement, differences(judgement))] == []


def changed(role: str, *functions: str, cases: int = 22) -> RequestChange:
    parts = (MessageDiff(role, (Piece("-", "a"), Piece("+", "b"))),)
    return RequestChange(cases, 22, functions, f"{LABEL}[gift]", parts)


@pytest.mark.parametrize(
    ("role", "noun"),
    [
        ("tools[0].function.name", "tools"),
        ("params.tools[0].type", "tools"),
        ("toolConfig.tools[0].toolSpec.name", "tools"),
        ("system", "prompt"),
        ("generationConfig.maxOutputTokens", "maxOutputTokens"),
    ],
)
def test_a_part_of_the_requests_can_be_the_cause(role: str, noun: str) -> None:
    judgement = replace(regressed_everywhere(), request_changes=(changed(role, *EVERY),))

    assert sentence(judgement).startswith(f"the {noun} changed in 3 functions: over their 22 ")
    assert [*told_changes(make_report(judgement))]  # which words, it does not tell


EVERY = (LABEL, REFUND, ORDER)


def regressed_everywhere() -> Judgement:
    names, cases = EVERY, (TICKETS, POLICIES, ORDERS)
    ended = (BROKEN, ("ppppp",) * 6, ("ppppp",) * 4)
    label, *others = (
        function_of(*one, prompt="v2", replayed=False)
        for one in zip(names, cases, ended, strict=True)
    )
    return judgement_of(suite(BRANCH, *others, label=label), baseline=suite())


def test_a_change_that_not_all_of_the_cases_have_is_no_cause() -> None:
    judgement = replace(
        regressed_everywhere(), request_changes=(changed("tools", *EVERY, cases=9),)
    )

    assert [*common_causes(judgement, differences(judgement))] == []


def test_two_changes_of_the_same_functions_are_one_cause() -> None:
    judgement = replace(another_model(), request_changes=(changed("tools", *EVERY),))

    assert sentence(judgement).startswith(
        "openai/gpt-6-luna -> openai/gpt-6.1-terra, the tools changed in 3 functions"
    )


@pytest.mark.parametrize("role", ["temperature", "params.temperature", "options.temperature"])
def test_a_parameter_is_told_once_wherever_the_vendor_has_it(role: str) -> None:
    judgement = replace(regressed_everywhere(), request_changes=(changed(role, *EVERY),))
    differing = [Difference("temperature", ("0.7",), ("0.2",))]

    (cause,) = common_causes(judgement, differing)

    assert cause.sentence.startswith("temperature 0.7 -> 0.2 in 3 functions: over their 22 cases ")
