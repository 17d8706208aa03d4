"""Pages and messages use one name a thing: docs/glossary.md has the list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.pages import PAGES, ROOT, chapter, text_of

GLOSSARY = "docs/glossary.md"
# turns of phrase that had to be read twice; those that are names of things are in the glossary
PHRASES = (
    "held against", "hold against", "holds against", "asked it", "asks anew", "as ever",
    "lets expect", "such statements are right", "a mark more", "one of which", "stands in for",
    "stand in for", "that of the", "is meant", "lets itself off", "would be had",
    "is no matter of", "likewise", "but for", "in flight", "draw by draw", "drawn anew",
    "what becomes of", "speaks of", "speaks about",
)  # fmt: skip
# the design has terms of its own for what the cache holds and what the gate looks at
DESIGN, TERMS = "docs/design.md", {"draw", "draws", "stored draw", "touched"}


def banned() -> tuple[str, ...]:
    """List what the last column of the glossary's table names, and the phrases."""
    rows = re.findall(
        r"^\|[^|]*\|[^|]*\| ([^|]+) \|$", chapter(GLOSSARY, "One name a thing"), re.MULTILINE
    )
    named = [name for row in rows[1:] for name in row.split(", ")]
    assert len(named) > 5
    return (*named, *PHRASES)


@cache
def pattern() -> re.Pattern[str]:
    words = "|".join(rf"{re.escape(one)}s?".replace(r"\ ", r"\s+") for one in banned())
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE)


def found_in(text: str) -> list[str]:
    return [" ".join(found.lower().split()) for found in pattern().findall(text)]


def prose(page: str) -> str:
    """Return a page without what it quotes: blocks, what is in backticks, comments, targets."""
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`]*`|<!--.*?-->|\]\([^)]*\)|^:::.*?$", "`", text, flags=re.DOTALL | re.M)
    if page == GLOSSARY:
        text = re.sub(r"^(\|[^|]*\|[^|]*\|)[^|]+\|$", r"\1", text, flags=re.MULTILINE)
    return text


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_none_of_the_words_that_the_glossary_replaces(page: str) -> None:
    assert set(found_in(prose(page))) <= (TERMS if page == DESIGN else set())


def messages() -> Iterator[str]:
    """Yield the texts in the code of the package, docstrings left out."""
    for path in (ROOT / "pytest_llmeval").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        # a text that stands alone is a docstring
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and " " in text and id(node) not in alone:
                yield text


def test_a_message_has_none_of_them() -> None:
    assert {message: found for message in messages() if (found := found_in(message))} == {}


def test_a_word_is_found_in_prose_alone() -> None:
    assert found_in("it was touched, asked\nanew and held  against") == [
        "touched", "asked anew", "held against",
    ]  # fmt: skip
    assert found_in("untouched, `drawing`, a one-of-which") == []
