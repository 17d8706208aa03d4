from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pytest_llmeval.safe_text import (
    TAB,
    code_span,
    html_code,
    printable,
    printable_lines,
    prose,
)

# What replies are made of, and what they attack with.
HOSTILE = (
    *("@team", "@org/team ", "<!-- llmeval -->", "-->", "</details>", "<details>", "<img src=x>"),
    *("</code>", "</pre>", "<script>", "![i](http://h/x.png)", "[a](javascript:x)", "[a]: http:"),
    *("http://h.example/x.png", "www.h.example", "a@b.example", "#12", "GH-12", "o/r#1", ":+1:"),
    *("::error::x", "##[group]", "##vso[task.complete]", "##teamcity[a]", "# ", "- ", "> ", "1. "),
    *("```", "~~~", "`", "``", "|", "---", "===", "**", "__", "_a_", "$`x`$", "$$", "\\", "&lt;"),
    *("&#60;", "\x1b[31m", "\x1b]0;a\x07", "\u202e", "\u2066", "\u200b", "\r", "\n", "\n\n", "\t"),
    *(" ", "    ", "word", "test_a[x]", "Größe", "日本", "🎉", "\x00", "\x85", "\u2028", "\ud800"),
)
texts = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=4), max_size=8).map("".join)
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
BREAK = "\u200b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;PWN\x07", r"\x1b]0;PWN\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("\u202eabc\u2028", r"\u202eabc\u2028"),
        ("\ud800", r"\ud800"),
        ("::error::x", r"\x3a:error::x"),
        ("  ::error::x", r"  \x3a:error::x"),
        ("x ##[error]y ##vso[task.x]", r"x \x23#[error]y \x23#vso[task.x]"),
        ("##teamcity[blockOpened]", r"\x23#teamcity[blockOpened]"),
    ],
)
def test_what_steers_a_terminal_or_a_ci_service_is_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "text", ["", "Grüße 日本 🎉", "tests/t.py::test_a[x]", r"C:\x", "# a ## b"]
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(texts)
def test_whatever_comes_is_one_printable_line_that_can_be_encoded(text: str) -> None:
    shown = printable(text)

    assert shown.isprintable()
    assert not shown.lstrip().startswith("::")
    assert not re.search(r"##\w*\[", shown)
    assert shown.encode().decode() == shown
    assert printable(shown) == shown


@given(texts)
def test_each_line_of_a_text_is_printable(text: str) -> None:
    lines = printable_lines(text)

    assert lines == [printable(line) for line in lines]
    assert len(lines) == text.count("\n") + 1


def test_a_tab_within_a_text_of_several_lines_is_blanks() -> None:
    assert printable_lines("a\tb\r\nc") == ["a" + " " * (TAB - 1) + "b", "c"]


def tokens_of(source: str) -> list[Token]:
    found = MARKDOWN.parse(source)
    return [one for token in found for one in (token, *(token.children or ()))]


def seen_in(tokens: list[Token]) -> str:
    """Put together the texts that a reader sees."""
    shown = (token for token in tokens if token.type in ("text", "text_special", "code_inline"))
    return "".join(token.content for token in shown)


def html_in(tokens: list[Token]) -> set[str]:
    """List pieces of HTML, by the lines they are on where they are blocks."""
    found = (token.content for token in tokens if token.type in ("html_inline", "html_block"))
    return {line for content in found for line in content.splitlines()}


@given(texts)
@example("``` a")
@example("a ` b `` c")
@example("x|y")
def test_code_in_markdown_is_seen_as_it_is_and_is_nothing_else(text: str) -> None:
    for written in (code_span(text), html_code(text)):
        for source in (written, f"- {written}\n", f"so: {written}, done"):
            tokens = tokens_of(source)

            assert html_in(tokens) <= {"<code>", "</code>"}
            assert printable(text).strip() in seen_in(tokens)
            assert not {"link_open", "image", "em_open", "heading_open"} & {t.type for t in tokens}


@given(texts)
def test_code_in_a_cell_of_a_table_stays_in_its_cell(text: str) -> None:
    tokens = tokens_of(f"| a | b |\n|---|---|\n| {code_span(text)} | end |\n")

    assert [token.type for token in tokens].count("td_open") == 2
    assert printable(text).strip() in seen_in(tokens)


@given(texts)
def test_the_source_of_code_holds_nothing_that_a_bot_obeys(text: str) -> None:
    for source in (code_span(text), html_code(text), prose(text)):
        inside = re.sub("</?code>", "", source)
        assert not re.search(r"@\w|<", inside)
        for line in source.split("\n"):
            assert line.isprintable() or BREAK in line
            assert not line.lstrip().startswith(("::", "/"))
            assert not re.search(r"##\w*\[", line)


@given(texts)
@example("1. a")
@example("[a][b] ![c](d)")
@example("[a]: http://h.example")
def test_a_sentence_in_markdown_is_seen_as_it_is(text: str) -> None:
    for source in (prose(text), f"| a | b |\n|---|---|\n| {prose(text)} | end |\n"):
        tokens = tokens_of(source)
        seen = seen_in(tokens).replace(BREAK, "")

        assert not html_in(tokens)
        assert printable(text.strip()).strip() in seen
        assert not {"link_open", "image", "em_open", "heading_open"} & {t.type for t in tokens}
        assert not {"code_inline", "bullet_list_open"} & {t.type for t in tokens}


@given(texts)
def test_no_sentence_in_markdown_mentions_or_links(text: str) -> None:
    seen = seen_in(tokens_of(prose(text)))

    assert not re.search(r"@\w|#\w|GH-\d|://|www\.|:\w+:", seen, re.IGNORECASE)


@pytest.mark.parametrize(
    ("sentence", "written"),
    [
        ("test_label fell by 0.04 [0.02, 0.06]", "test_label fell by 0.04 [0.02, 0.06]"),
        ("test_label[t026] _x_", "test_label[t026] \\_x\\_"),
    ],
)
def test_a_sentence_without_markup_can_be_read_in_the_source(sentence: str, written: str) -> None:
    assert prose(sentence) == written


def test_an_id_of_a_case_can_be_read_in_the_source() -> None:
    assert code_span("evals/test_a.py::test_label[t026]") == "`evals/test_a.py::test_label[t026]`"
