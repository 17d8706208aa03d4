"""What README and the pages of docs/ show: their blocks, commands, tables and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_eval(self) -> bool:
        return self.language == "python" and "@llm_eval" in self.text

    @property
    def commands(self) -> list[str]:
        """What a console block types, comments left out."""
        lines = [line for line in self.text.splitlines() if line.startswith("$ ")]
        return [re.sub(r" +#.*", "", line[2:]) for line in lines]


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(*pages: str, language: str | None = None) -> list[Block]:
    """List the blocks in a language or in any, of these pages or of all."""
    return [
        block
        for page in pages or PAGES
        for block in _blocks(page)
        if language in (None, block.language)
    ]


@cache
def _blocks(page: str) -> list[Block]:
    text = text_of(page)
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2])
        for found in _BLOCK.finditer(text)
    ]


def languages() -> set[str]:
    return {block.language for page in PAGES for block in _blocks(page)}


def commands(page: str) -> list[str]:
    """List what the console blocks of a page type, comments left out."""
    return [typed for block in blocks(page, language="console") for typed in block.commands]


def in_backticks(page: str) -> Iterator[str]:
    """List what stands between backticks outside of blocks."""
    for found in _INLINE.finditer(_BLOCK.sub("", text_of(page))):
        yield found[1].replace("\\|", "|")


def chapter(page: str, heading: str) -> str:
    """Return the text below a heading of the second level."""
    _, found, rest = text_of(page).partition(f"\n## {heading}\n")
    assert found, f"{page} has no chapter {heading}"
    return rest.partition("\n## ")[0]
