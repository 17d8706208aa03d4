"""All that messages of the package tell people to type, read out of its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest_llmeval

PACKAGE = Path(pytest_llmeval.__file__).parent
OPTION = r"--[a-z][a-z-]*[a-z](?:=[^\s,;)'\"]*)?"
GIT = "add|branch|fetch|init|lfs|pull|push|rebase|rm|stash|switch|tag|update-index"
# What looks like something to type: an option of ours, one behind a verb, a command, an ini line.
TYPED = re.compile(
    rf"(?P<option>(?<![\w-])--(?:no-)?llm-[a-z-]+)"
    rf"|(?:[Aa]dd|[Cc]hoose|[Nn]ame|[Rr]aise|[Ss]ay|[Tt]ype|and|by|in|or|with|is)\s+(?P<other>{OPTION})"
    rf"|(?P<llmeval>llmeval [a-z]+)"
    rf"|(?P<git>git (?:{GIT})\b)"
    rf"|(?P<pip>pip install \S+)"
    rf"|(?P<ini>\bllm_[a-z_]+ = )"
    rf"|(?P<pytest>\bpytest -|:\s+(?:\{{[\w.]*)?pytest\b|\(pytest\))"
)
# Modules whose strings are options and what --help says of them.
OF_OPTIONS = ("settings.py",)
QUOTES = "'"
FRAGMENTS = ("--llm-fetch", "git stash", "git switch {self._where(wanted)}")  # of longer texts


@dataclass(frozen=True, slots=True)
class Advice:
    """A message that tells what to type.

    Attributes:
        module: where it stands.
        text: its words; braces stand for what is put in.
    """

    module: str
    text: str


@cache
def advice() -> tuple[Advice, ...]:
    """List the messages, in the order of the source."""
    return tuple(
        Advice(module, text)
        for path in sorted(PACKAGE.rglob("*.py"))
        if (module := path.relative_to(PACKAGE).as_posix()) not in OF_OPTIONS
        for text in _texts(ast.parse(path.read_text(encoding="utf-8")))
        if TYPED.search(text) and (" " in text.strip() or text in FRAGMENTS)
    )


def _put_in(value: ast.expr) -> str:
    return ast.unparse(value.value) if isinstance(value, ast.FormattedValue) else ast.unparse(value)


def _texts(tree: ast.AST) -> Iterator[str]:
    """List the strings that are no docstrings; a formatted one is one text."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(one.value) if isinstance(one, ast.Constant) else f"{{{_put_in(one)}}}"
                for one in node.values
            )
        elif isinstance(node, ast.Constant):
            yield node.value if isinstance(node.value, str) else ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "pasted":
            yield f"pasted {ast.unparse(node.args[0]).strip(QUOTES)} = "
            yield from _texts(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield from _texts(node)
