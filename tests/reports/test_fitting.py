"""Lines and tables are fitted to the width and the characters of the output."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_llmeval.gate.results import Effect, Evidence, FunctionComparison, Interval, Row, Verdict
from pytest_llmeval.reports.notation import Line, aligned, columns
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.tables import DifferenceScale, scale_of
from pytest_llmeval.settings import GateRules

RULES = GateRules()


def fitted(text: str, width: int, encoding: str = "utf-8") -> list[str]:
    return [line.text for line in Page(width, encoding).fitted([Line(text)])]


# --- lines -------------------------------------------------------------------------------


def test_a_line_is_broken_between_words_and_goes_on_indented() -> None:
    assert fitted("  fell by 0.283; chance alone would do this", 24) == [
        "  fell by 0.283; chance",
        "    alone would do this",
    ]


def test_a_line_of_parts_is_broken_between_them() -> None:
    assert fitted("22 cases · 60 calls made, 50 replayed · 6.2 s", 40) == [
        "22 cases · 60 calls made, 50 replayed ·",
        "  6.2 s",
    ]


@pytest.mark.parametrize("width", range(20, 80))
def test_no_line_begins_as_a_command_to_the_ci_service(width: int) -> None:
    text = (
        "fell most  test_a  AssertionError: it says ::error::boom and ::add-mask::a in ##[b] more"
    )

    assert not [line for line in fitted(text, width) if line.lstrip().startswith("::")]


def test_what_is_to_be_typed_is_never_broken() -> None:
    typed = "llm_renamed = evals/test_a.py::test_one -> evals/test_a.py::test_two"
    assert fitted(f"say in the ini file  {typed}  if it was renamed", 40) == [
        "say in the ini file",
        f"  {typed}",
        "  if it was renamed",
    ]


def test_what_would_steer_a_terminal_is_shown_as_text() -> None:
    assert fitted("\x1b[2J::error::", 80) == [r"\x1b[2J::error::"]
    assert fitted("::error::", 80) == [r"\x3a:error::"]


def test_letters_that_the_output_lacks_are_written_otherwise() -> None:
    assert fitted("a · b … ━●━ │ ┊ é", 80, "ascii") == [r"a | b ... -*- | : \xe9"]
    assert fitted("a · é", 80, "latin-1") == ["a · é"]


def test_a_text_is_cut_at_the_columns_that_it_takes() -> None:
    assert Page().cut("abcdef", 6) == "abcdef"
    assert Page().cut("abcdefg", 6) == "abcde…"
    assert Page(encoding="ascii").cut("abcdefg", 6) == "abc..."
    assert Page().cut("日本語の答え", 7) == "日本語…"
    assert columns("日本語") == 6
    assert columns("e\u0301") == 1


# --- tables ------------------------------------------------------------------------------

ROWS = [["verdict", "name", "a", "b", "c"], ["REGRESSED", "test_a_long_name", "1", "22", ""]]


def table(width: int, *order: tuple[int, ...]) -> tuple[list[str], list[int]]:
    return Page(width).table(ROWS, order or ((0,), (1,), (2,), (3,), (4,)), left=2, cut=(1,))


def test_columns_that_have_no_room_are_left_out_and_told() -> None:
    assert table(80) == (
        ["verdict    name              a   b", "REGRESSED  test_a_long_name  1  22"],
        [],  # what is empty is no loss
    )
    assert table(31)[1] == [3]


def test_columns_that_go_together_are_left_out_together() -> None:
    assert table(30, (0,), (1,), (4,), (2, 3))[1] == [2, 3]


def test_a_name_is_cut_where_not_even_the_first_columns_have_room() -> None:
    lines, left_out = table(26)
    assert lines[1] == "REGRESSED  test_a_long…  1"
    assert left_out == [3]


def test_wide_letters_are_lined_up() -> None:
    assert aligned([["日本", "x"], ["ab", "y"]]) == ["日本  x", "ab    y"]


# --- bars --------------------------------------------------------------------------------


def compared(interval: Interval | None, difference: float) -> FunctionComparison:
    return FunctionComparison(
        function="t.py::test_a",
        metric="pass",
        better="higher",
        verdict=Verdict.INCONCLUSIVE,
        row=Row.OPEN,
        effect=Effect(cases=9, changed=9, difference=difference),
        evidence=Evidence(interval=interval),
    )


def bar(interval: Interval | None, difference: float, width: int = 21) -> list[str]:
    function = compared(interval, difference)
    scale = scale_of([function], RULES, width=width)
    assert scale is not None
    return [scale.heading(), scale.bar(function)]


def test_a_bar_has_the_interval_the_difference_0_and_the_target() -> None:
    assert bar((-0.3, 0.1), -0.05) == [
        "      -0.10    0     ",
        "━━━━━━━━━━┊━●━━│━━━━━",
    ]


@pytest.mark.parametrize("interval", [None, (float("-inf"), 0.0)])
def test_without_an_interval_there_is_a_point(interval: Interval | None) -> None:
    _, drawn = bar(interval, -0.2)
    assert drawn == "●         ┊         │"


def test_a_figure_without_room_is_left_out() -> None:
    heading, _ = bar((-2.0, 1.0), 0.0)
    assert heading.split() == ["0"]


def test_where_ratios_are_compared_the_target_is_a_factor() -> None:
    function = replace(compared((-0.2, 0.0), -0.1), scale="log", metric="seconds")
    scale = DifferenceScale(low=-1.0, high=0.0, target=1.0, width=101)
    assert scale.bar(function).index("┊") == 31  # exp(-0.69) is one half


def test_what_was_not_compared_has_no_bar() -> None:
    unchanged = replace(
        compared(None, 0.0), row=Row.UNTOUCHED, effect=Effect(cases=9, difference=0.0)
    )
    refused = replace(compared(None, -0.1), row=Row.NOTHING_IN_COMMON)
    assert scale_of([unchanged, refused], RULES, width=15) is None
    assert DifferenceScale(low=-1.0, high=0.0, target=0.1, width=15).bar(refused) == ""


def test_a_very_long_text_is_cut_at_once() -> None:
    assert Page().cut("word " * 1_000_000, 12) == "word word w…"
    assert Page().cut("e" + "\u0301" * 1_000_000, 4).isprintable()
