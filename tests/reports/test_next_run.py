"""What is inconclusive comes with the command that decides it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.markdown import render
from pytest_llmeval.reports.next_run import to_decide
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.settings import GateRules
from tests.reports.judgements import (
    FORMS,
    LABEL,
    ORDER,
    REFUND,
    SEARCH,
    another_model,
    section_of,
)

BOTH = "--llm-baseline=main --llm-on-missing=rerun-always --llm-repeats="
COMMAND = f"pytest {LABEL} {BOTH}"


def deciding(repeats: int | None, **changes: object) -> Judgement:
    """The inconclusive function would be settled by so many repeats."""
    judgement = FORMS["inconclusive"]()
    comparison = judgement.comparison
    assert comparison is not None
    functions = [
        replace(one, evidence=replace(one.evidence, settle_repeats=repeats))
        for one in comparison.functions
    ]
    found = replace(judgement, comparison=replace(comparison, functions=tuple(functions)))
    return replace(found, **changes)  # type: ignore[arg-type]


def test_the_command_runs_both_sides_with_as_many_repeats() -> None:
    command = to_decide(deciding(9))

    assert command == (
        f"to decide it, type this once, as more looks are more false alarms:  {COMMAND}9"
    )


def test_every_face_has_it() -> None:
    judgement = deciding(9)
    report = make_report(judgement)

    assert f"`{COMMAND}9`" in render(report)
    assert any(line.text.endswith(f"{COMMAND}9") for line in section_of(judgement, Page(width=400)))


def test_what_was_typed_is_typed_again() -> None:
    typed = deciding(9, typed=("evals", "-k not slow"))
    comparison = typed.comparison
    assert comparison is not None
    is_open = [one for one in comparison.functions if one.function == LABEL]
    alone = replace(typed, comparison=replace(comparison, functions=tuple(is_open)))

    assert to_decide(typed).endswith(f"  pytest '-k not slow' {LABEL} {BOTH}9")
    assert to_decide(alone).endswith(f"  pytest evals '-k not slow' {BOTH}9")


def test_the_most_repeats_of_several_functions_decide_all_of_them() -> None:
    judgement = another_model()
    comparison = judgement.comparison
    assert comparison is not None
    needed = (None, 12, 7)
    functions = tuple(
        replace(one, evidence=replace(one.evidence, settle_repeats=repeats))
        for one, repeats in zip(comparison.functions, needed, strict=True)
    )
    judgement = replace(judgement, comparison=replace(comparison, functions=functions))

    command = to_decide(judgement)

    assert command.startswith("to decide test_refund_policy, test_finds_order, type this once")
    assert command.endswith(f":  pytest {REFUND} {ORDER} {BOTH}12")
    for typed, words in (
        (("evals", "-k x"), f"'-k x' {REFUND} {ORDER}"),
        ((f"{SEARCH}::test_finds_order[by-name]",), f"'{SEARCH}::test_finds_order[by-name]'"),
    ):
        assert f"  pytest {words} --llm-b" in to_decide(replace(judgement, typed=typed))


@pytest.mark.parametrize("form", ["regressed", "unchanged", "no_baseline"])
def test_nothing_is_to_be_decided_where_nothing_is_open(form: str) -> None:
    assert to_decide(FORMS[form]()) == ""


def test_repeats_that_decide_nothing_are_not_typed() -> None:
    assert to_decide(deciding(None)) == ""
    (first,) = [one for one in make_report(deciding(None)).side.compared if one.of.effect.changed]
    assert first.sentence.endswith("about 62 more cases would settle it, more repeats hardly would")


def test_typed_rules_and_folders_are_typed_again_and_nothing_else() -> None:
    judgement = deciding(9)
    typed = replace(
        judgement.settings,
        typed=frozenset(("strict", "target", "sequential", "directory", "cache", "baseline")),
        directory=Path("/tmp/our runs"),  # noqa: S108 - nothing is written
        gate=GateRules(strict=True, target=0.2, sequential=False),
    )

    command = to_decide(replace(judgement, settings=typed))

    rules = "--llm-target=0.2 --llm-strict --no-llm-sequential '--llm-dir=/tmp/our runs'"
    assert command.endswith(f"  pytest {LABEL} {rules} {BOTH}9")


def test_a_typed_model_would_be_asked_on_both_sides_so_the_command_is_told_in_words() -> None:
    judgement = deciding(9)
    typed = replace(judgement.settings, typed_model="openai/new")

    command = to_decide(replace(judgement, settings=typed))

    assert command.endswith(
        f":  run the baseline and then this once more, both with {LABEL} --llm-repeats=9"
    )
