from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.errors import printable


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
    ],
)
def test_what_steers_a_terminal_or_a_ci_service_is_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "text", ["", "Grüße 日本 🎉", "tests/t.py::test_a[x]", r"C:\x", "# a ## b"]
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(st.text())
def test_whatever_comes_is_one_printable_line_that_can_be_encoded(text: str) -> None:
    shown = printable(text)

    assert shown.isprintable()
    assert not shown.lstrip().startswith("::")
    assert shown.encode().decode() == shown
