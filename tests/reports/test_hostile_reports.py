"""Reports that fit the schema and were made to do harm, as a comment shows them."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from markdown_it import MarkdownIt

from pytest_llmeval.errors import ReportRefused
from pytest_llmeval.github.workflow_run import WorkflowRun
from pytest_llmeval.reports import received
from pytest_llmeval.reports.received import LONGEST, MOST_BYTES, marker, misfit, written
from tests.github.jobs import COMMIT, FORK, RUN, URL, report
from tests.reports.judgements import FORMS
from tests.test_safe_text import HOSTILE

JUDGED = WorkflowRun(
    id=RUN,
    event="pull_request",
    commit=COMMIT,
    branch="feature",
    repository=FORK,
    conclusion="failure",
    url=URL,
)
MARKER = marker("evals")
ATTACKS = (*HOSTILE, MARKER, f"\n\n{MARKER}\n", "x" * 10**4, "  ", "")
NUMBERS = (0, -1, 1, 0.5, 1e308, -1e308, 5e-324, 2**53, None)
TAGS = re.compile(r"</?(?:details|summary|code|pre|br|sub|sup|kbd)>")
CODE = re.compile(r"`[^`\n]*`|<code>[^<\n]*</code>")
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def comment_on(document: dict[str, Any]) -> str:
    return written(document, JUDGED, name="evals")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a document that holds something, as the thing around it and its key there."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in list(pairs):
        yield value, key
        if isinstance(entry, dict | list):
            yield from places(entry)


def attack(document: dict[str, Any], chance: random.Random, *, times: int) -> None:
    """Change some places, each so that the document goes on fitting the schema."""
    found = list(places(document))
    for around, key in chance.sample(found, min(times, len(found))):
        if isinstance(around, list) and key >= len(around):
            continue
        old = around[key]
        if isinstance(old, str) and chance.random() < 0.9:
            around[key] = "".join(chance.choices(ATTACKS, k=chance.randint(1, 4)))
        elif isinstance(old, list) and chance.random() < 0.9:
            around[key] = old * chance.choice((0, 2, 50))
        else:
            around[key] = chance.choice((*NUMBERS, True, False, [], {}, "@octocat"))
        if misfit(document):
            around[key] = old


def assert_harmless(text: str) -> None:
    assert text.startswith(f"{MARKER}\nAs reported by the pull request's job for 0123456; ")
    assert len(text) <= LONGEST
    text.encode()
    source = text.removeprefix(MARKER).replace(f"({URL})", "", 1)
    assert not re.search(r"<!--|@\w", source)
    assert not re.search(r"://|www\.|(?<![\w&])#\d|GH-\d", CODE.sub("", source))
    assert all(line.isprintable() or "\u200b" in line for line in text.split("\n"))
    assert not re.search(r"^\s*::|##\w*\[", text, re.MULTILINE)
    assert not re.search(r"<(?!0\.001 )", TAGS.sub("", source))
    tokens = [one for token in MARKDOWN.parse(text) for one in (token, *(token.children or ()))]
    kinds = Counter(token.type for token in tokens)
    assert kinds["link_open"] == 1
    assert kinds["image"] == kinds["fence"] == kinds["code_block"] == kinds["hr"] == 0
    assert kinds["blockquote_open"] == 0


@pytest.mark.parametrize("form", FORMS)
def test_the_comment_on_each_form_is_harmless(form: str) -> None:
    assert_harmless(comment_on(report(form)))


@pytest.mark.parametrize("form", FORMS)
def test_a_report_in_which_every_text_attacks_is_harmless(form: str) -> None:
    document = report(form)
    for around, key in places(document):
        old = around[key]
        if isinstance(old, str):
            around[key] = "".join((*HOSTILE, MARKER))
            if misfit(document):
                around[key] = old
    assert_harmless(comment_on(document))


@pytest.mark.parametrize("form", FORMS)
def test_a_report_that_contradicts_itself_is_shown_harmlessly_or_refused(form: str) -> None:
    for seed in range(2):
        document = report(form)
        attack(document, random.Random(seed), times=40)  # noqa: S311 - no secret
        with suppress(ReportRefused):
            assert_harmless(comment_on(document))


def test_a_text_that_github_would_not_take_ends_with_a_whole_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(received, "render", lambda _: "a whole line\n" * 10**4)
    text = comment_on(report())
    assert LONGEST - 100 < len(text) <= LONGEST
    assert text.endswith("a whole line")


def test_a_report_of_five_megabytes_is_a_comment_that_fits() -> None:
    document = report("regressed")
    functions = document["functions"]
    document["functions"] = functions * (MOST_BYTES // len(json.dumps(functions)))
    document["notes"] = ["@octocat <b> " * 50] * 100
    assert_harmless(comment_on(document))
