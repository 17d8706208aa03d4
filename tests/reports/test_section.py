"""The section in every form of a result: golden files, and what holds at any width."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest._io import TerminalWriter

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.judging import judged
from pytest_llmeval.records import CiJob, Outcome
from pytest_llmeval.reports.notation import RED, columns, recorded_by
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.headline import failure_line
from pytest_llmeval.settings import GateRules, Settings
from tests.goldens import assert_golden
from tests.reports.judgements import (
    BRANCH,
    FORMS,
    LABEL,
    MAIN,
    SUPPORT,
    TICKETS,
    function_of,
    judgement_of,
    relabelled,
    section_of,
    suite,
    untouched,
)

PAGES = {
    "60 columns": Page(60),
    "80 columns": Page(80),
    "80 columns, ASCII": Page(80, "ascii"),
    "80 columns, -v": Page(80, verbose=True),
    "120 columns": Page(120),
    "200 columns": Page(200),
    "200 columns, -v": Page(200, verbose=True),
}
ANSI = re.compile(r"\x1b\[([0-9;]*)m")


def texts(judgement: Judgement, page: Page) -> list[str]:
    return [line.text for line in section_of(judgement, page)]


def coloured(judgement: Judgement) -> list[str]:
    """The lines that have a colour, as pytest writes them, with ``<31>`` for a code."""
    file = io.StringIO()
    writer = TerminalWriter(file)
    writer.hasmarkup = True
    for line in section_of(judgement, Page(80)):
        writer.line(line.text, **line.markup)
    lines = [ANSI.sub(r"<\1>", line) for line in file.getvalue().splitlines()]
    return [line for line in lines if line.startswith("<")]


@pytest.mark.parametrize("form", FORMS)
def test_golden_section(form: str) -> None:
    judgement = FORMS[form]()
    shown = {name: texts(judgement, page) for name, page in PAGES.items()}
    shown["80 columns, the lines in colour"] = coloured(judgement)

    parts = [f"## {name}\n" + "".join(f"{one}\n" for one in lines) for name, lines in shown.items()]
    assert_golden(f"terminal/{form}.txt", "\n".join(parts))


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("form", FORMS)
def test_only_what_is_typed_is_wider_than_the_page(form: str, width: int) -> None:
    judgement = FORMS[form]()
    for verbose in (False, True):
        for text in texts(judgement, Page(width, verbose=verbose)):
            is_one_piece = re.fullmatch(r" *(\S*|(llm_\w+ = |llmeval |pytest ).*)", text)
            assert columns(text) <= width or is_one_piece


@pytest.mark.parametrize("width", [1, 12, 32])
@pytest.mark.parametrize("form", FORMS)
def test_no_terminal_is_too_narrow_for_the_verdict(form: str, width: int) -> None:
    judgement = FORMS[form]()
    narrow, wide = (texts(judgement, Page(each))[0] for each in (width, 500))
    assert wide.startswith(narrow)


@pytest.mark.parametrize("form", FORMS)
def test_an_ascii_page_has_ascii_alone(form: str) -> None:
    assert "\n".join(texts(FORMS[form](), Page(80, "ascii"))).isascii()


def test_replies_are_told_from_where_they_part_where_they_are_long() -> None:
    judgement = FORMS["regressed"]()
    (worst, *_) = sorted(judgement.excerpts)
    alike = "The customer writes that the parcel has not arrived and asks what to do. " * 3
    case = f"{LABEL}[late-refund]"
    assert worst.startswith(LABEL)
    judgement = replace(judgement, excerpts={case: (f"{alike}billing", f"{alike}other")})

    before, after = [
        line for line in texts(judgement, Page(80)) if line.startswith(("    main", "    here"))
    ]

    assert before.startswith("    main  …")
    assert before.endswith("asks what to do. billing")
    assert after.endswith("asks what to do. other")


def test_what_fell_most_is_named_in_full_where_its_short_name_fits_several() -> None:
    judgement = FORMS["regressed"]()
    assert texts(judgement, Page(80))[-1].endswith("llmeval diff 'test_label[late-refund]'")

    comparison = judgement.comparison
    assert comparison is not None
    regressed, *others = comparison.functions
    twin = replace(
        others[0],
        compared=tuple(
            replace(case, case="evals/more.py::test_label[late-refund]")
            for case in others[0].compared[:1]
        ),
    )
    judgement = replace(
        judgement, comparison=replace(comparison, functions=(regressed, twin, *others[1:]))
    )
    assert texts(judgement, Page(80))[-1].endswith(f"llmeval diff '{LABEL}[late-refund]'")


def test_where_nothing_fell_no_command_ends_the_section() -> None:
    for form in ("unchanged", "no_significant_change", "new", "no_baseline"):
        assert "llmeval diff" not in "\n".join(texts(FORMS[form](), Page(80)))


def test_both_runs_are_named_where_a_session_of_its_own_did_not_compare_them() -> None:
    judgement = FORMS["regressed"]()
    assert judgement.run is not None
    merged = replace(judgement, run=replace(judgement.run, compared_with=None))

    *_, last = texts(merged, Page(200))
    assert last.endswith(f"llmeval diff 'test_label[late-refund]' main {judgement.run.id}")


def test_where_no_case_was_answered_the_section_says_what_to_do() -> None:
    run = suite(BRANCH, *untouched(), label=relabelled(("eeeee",) * len(TICKETS)))

    page = "\n".join(texts(judgement_of(run, baseline=suite()), Page(200)))

    assert "errored trials, not scored: 60 here, 0 in the baseline: run again; only calls" in page


def test_a_run_that_an_outage_makes_no_baseline_says_so() -> None:
    judgement = FORMS["regressed"]()
    assert judgement.run is not None
    lost = [replace(each, outcome=Outcome.ERRORED) for each in judgement.run.trials[:20]]
    run = replace(judgement.run, trials=(*lost, *judgement.run.trials[20:]))
    of = len(run.trials)

    page = "\n".join(texts(replace(judgement, run=run), Page(200)))
    assert f"(not usable as a baseline: 20 of {of} trials errored)" in page
    page = "\n".join(texts(replace(judgement, run=replace(run, complete=False)), Page(200)))
    assert f"(not usable as a baseline: the run is incomplete; 20 of {of} trials errored)" in page


def test_a_run_that_could_not_be_recorded_is_not_to_be_looked_at() -> None:
    judgement = replace(FORMS["regressed"](), path=None)
    assert "llmeval diff" not in "\n".join(texts(judgement, Page(80)))


def test_where_many_functions_fell_those_after_the_first_show_one_case_each() -> None:
    judgement = FORMS["regressed"]()
    comparison = judgement.comparison
    assert comparison is not None
    regressed = comparison.functions[0]
    functions = [replace(regressed, function=f"t.py::test_{number}") for number in range(5)]
    many = replace(judgement, comparison=replace(comparison, functions=tuple(functions)))

    def count(page: Page) -> int:
        return sum(line.startswith("  fell most") for line in texts(many, page))

    assert count(Page(80)) == 5
    assert count(Page(80, verbose=True)) == 5 * 3


def test_the_name_of_the_function_is_left_out_where_it_makes_rows_too_wide() -> None:
    judgement = FORMS["regressed"]()
    wide, narrow = texts(judgement, Page(80)), texts(judgement, Page(40))
    assert any(line.startswith("  fell most  test_label[late-refund]  5/5 -> 0/5") for line in wide)
    assert "  fell most  [late-refund]  5/5 -> 0/5" in narrow


def test_new_functions_have_a_line_each() -> None:
    judgement = FORMS["new"]()
    comparison = judgement.comparison
    assert comparison is not None
    *others, new = comparison.functions
    twin = replace(new, function="t.py::test_twin", name="test_twin")
    judgement = replace(judgement, comparison=replace(comparison, functions=(*others, new, twin)))

    lines = texts(judgement, Page(80))
    at = lines.index("test_tone: new: the baseline does not have it (mean 0.800 [0.06, 1.00])")
    assert lines[at - 1] == ""
    assert lines[at + 1].startswith("test_twin: new: ")


def test_where_strictness_fails_the_build_that_is_said_in_red() -> None:
    judgement = FORMS["inconclusive"]()
    assert texts(judgement, Page(80))[0].endswith("(does not fail the build)")

    strict = Settings(directory=Path(), session="s", gate=GateRules(strict=True))
    assert judgement.run is not None
    first, *_ = section_of(judged(replace(judgement, settings=strict), judgement.run), Page(80))
    assert first.text.endswith("(fails the build: --llm-strict)")
    assert first.markup == RED


def test_the_last_line_of_pytest_names_the_function_that_fell_most() -> None:
    judgement = FORMS["regressed"]()
    comparison = judgement.comparison
    assert comparison is not None
    worst, *others = comparison.functions
    effect = replace(worst.effect, difference=-0.1)
    milder = replace(worst, function="t.py::test_milder", effect=effect)
    functions = (milder, worst, *others)

    line = failure_line(replace(judgement, comparison=replace(comparison, functions=functions)))
    assert line.startswith("llm evals: test_label fell by 0.283 ")
    assert line.endswith(" (and 1 more function)")
    milder = replace(milder, function=worst.function, metric="seconds")
    functions = (milder, worst, *others)
    line = failure_line(replace(judgement, comparison=replace(comparison, functions=functions)))
    assert line.endswith(" (and 1 more comparison)")


@pytest.mark.parametrize(
    ("provider", "event", "said"),
    [
        ("github", "push", " by github's push"),
        ("jenkins", None, " by a job of jenkins"),
        ("other", None, " by a job of CI"),
    ],
)
def test_a_baseline_is_said_to_be_of_the_system_that_recorded_it(
    provider: str, event: str | None, said: str
) -> None:
    assert recorded_by("merge-base", CiJob(provider=provider, event=event)) == said
    assert recorded_by("rerun", CiJob(provider=provider, event=event)) == " here"


@pytest.mark.parametrize(
    ("toml", "lines"),
    [
        (False, ["llm_accept = test_label:pass >= ", "test_tone:pass >= "]),
        (True, ['llm_accept = ["test_label:pass >= ', '"test_tone:pass >= ']),
    ],
)
def test_the_lines_of_two_drops_are_pasted_under_one_key(*, toml: bool, lines: list[str]) -> None:
    """An ini file has a key once, and so pytest refuses two lines with it."""
    worse, tone = [*["mmmmm"] * 8, *["ppppp"] * 4], f"{SUPPORT}::test_tone"
    suites = [
        suite(
            commit,
            function_of(tone, TICKETS, ends, prompt=commit.ref, replayed=False),
            label=function_of(LABEL, TICKETS, ends, prompt=commit.ref, replayed=False),
        )
        for commit, ends in ((MAIN, ["ppppp"] * 12), (BRANCH, worse))
    ]
    judgement = judgement_of(suites[1], baseline=suites[0])
    judgement = replace(judgement, settings=replace(judgement.settings, toml=toml))
    shown = [line for line in texts(judgement, Page(300)) if "to accept" in line]
    told = [line.partition(")  ")[2] for line in shown]
    assert told[0].startswith(lines[0])
    assert told[1].startswith(lines[1])
    assert told[1].endswith("  in a line of its own below llm_accept")
