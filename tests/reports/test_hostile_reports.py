"""Reports whose texts were made to do harm, as Markdown shows them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import pytest
from markdown_it import MarkdownIt

from pytest_llmeval.reports.json_report import json_text
from pytest_llmeval.reports.make_report import make_report
from pytest_llmeval.reports.markdown import MOST, render
from pytest_llmeval.reports.report import Report
from tests.report_schema import SCHEMA
from tests.reports.judgements import FORMS
from tests.test_safe_text import HOSTILE

TAGS = re.compile(r"</?(?:details|summary|code|pre|br|sub|sup|kbd)>")
CODE = re.compile(r"`[^`\n]*`|<code>[^<\n]*</code>")
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def report(form: str) -> Report:
    return make_report(FORMS[form]())


def words_of(schema: Any) -> Iterator[object]:
    """Every value that the schema knows by name, such as a verdict."""
    if isinstance(schema, dict):
        yield from schema.get("enum", [])
        schema = list(schema.values())
    for value in schema if isinstance(schema, list) else ():
        yield from words_of(value)


WORDS = frozenset(words_of(SCHEMA))


def with_hostile_texts(value: Any) -> Any:
    """The report with an attack in the place of each text that is free."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) or value in WORDS else "".join(HOSTILE)
    if is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in fields(value)]
        return replace(value, **{name: with_hostile_texts(getattr(value, name)) for name in names})
    if isinstance(value, Mapping):
        return {key: with_hostile_texts(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        made = map(with_hostile_texts, value)
        return value._make(made) if hasattr(value, "_make") else tuple(made)
    return value


def assert_harmless(text: str) -> None:
    assert len(text) <= MOST
    text.encode()
    assert not re.search(r"<!--|@\w", text)
    assert not re.search(r"://|www\.|(?<![\w&])#\d|GH-\d", CODE.sub("", text))
    assert all(line.isprintable() or "\u200b" in line for line in text.split("\n"))
    assert not re.search(r"^\s*::|##\w*\[", text, re.MULTILINE)
    assert not re.search(r"<(?!0\.001 )", TAGS.sub("", text))
    tokens = [one for token in MARKDOWN.parse(text) for one in (token, *(token.children or ()))]
    kinds = Counter(token.type for token in tokens)
    assert kinds["link_open"] == kinds["image"] == kinds["blockquote_open"] == 0
    assert kinds["fence"] == kinds["code_block"] == kinds["hr"] == 0


@pytest.mark.parametrize("form", FORMS)
def test_the_page_of_each_form_is_harmless(form: str) -> None:
    assert_harmless(render(report(form)))


@pytest.mark.parametrize("form", FORMS)
def test_a_report_in_which_every_text_attacks_is_harmless(form: str) -> None:
    assert_harmless(render(with_hostile_texts(report(form))))


def test_a_report_of_five_megabytes_is_a_page_that_fits() -> None:
    made = report("regressed")
    times = 5_000_000 // len(json_text(made))
    side = replace(made.side, functions=tuple(made.side.compared * times))
    assert_harmless(render(replace(made, side=side, notes=("@octocat <b> " * 50,) * 100)))
