"""docs/tutorial.md, typed line by line: ``make test-readme``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.docs.pages import Block, blocks
from tests.fresh.conftest import INSTALL, Reader
from tests.servers.openai_server import OpenAIServer

CAPITALS = {"France": "Paris", "Peru": "Lima"}
BLOCKS = blocks("docs/tutorial.md")
# run ids, commits and times
_DIFFERS = re.compile(
    r"\d{8}T\d{6}-[0-9a-f]{6}|(?<=main@)\w{7}|(?<= for )\w{7}$|\d+\.\d s(?= · \$|$)"
)


def is_red(block: Block) -> bool:
    return block.text.startswith("REGRESSED")


def without_what_differs(text: str) -> str:
    return "\n".join(_DIFFERS.sub("", line) for line in text.splitlines())


def in_order(shown: str, printed: str) -> None:
    """Find each part that is shown in what was printed; ``...`` stands for lines left out."""
    rest = without_what_differs(printed)
    for part in map(without_what_differs, shown.split("...\n")):
        before, found, rest = f"\n{rest}\n".partition(f"\n{part}\n")
        assert found, f"{part}\n\nis not in\n{before}"


class Walk:
    """Somebody who types what the page shows and looks at what is printed."""

    def __init__(self, newcomer: Reader) -> None:
        self._newcomer = newcomer
        self._last = ""
        self._code = 0
        self._printed = ""

    def take(self, block: Block) -> None:
        """Type, read or edit what a block shows."""
        if block.language == "console":
            self._type(block)
        elif block.language == "text":
            in_order(block.text, self._printed)
            assert self._code == is_red(block), self._printed
        elif block.language == "python":
            name = block.text.partition("\n")[0].removeprefix("# ")
            (self._newcomer.folder / name).write_text(block.text)
        else:
            assert block.language == "diff", block
            self._edit(block)

    def _type(self, block: Block) -> None:
        for command in block.commands:
            if command == INSTALL:
                continue  # that made the environment
            assert self._code == 0 or "pytest" in self._last, f"{self._last}\n{self._printed}"
            self._last = command
            self._code, self._printed = self._newcomer.types(command)

    def _edit(self, block: Block) -> None:
        first, *lines = block.text.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
        self._newcomer.edits(first.removeprefix("# ").rstrip(), old, new)

    def ends(self) -> tuple[str, int, str]:
        """Return the last command, its exit code and what it printed."""
        return self._last, self._code, self._printed


@pytest.fixture
def walk(newcomer: Reader) -> Iterator[Walk]:
    def answer(body: Mapping[str, Any], number: int) -> str:
        question = body["messages"][-1]["content"]
        return next((city for land, city in CAPITALS.items() if land in question), "billing")

    with OpenAIServer(answer) as server:
        newcomer.types(f"export OPENAI_BASE_URL={server.url}")
        yield Walk(newcomer)


def test_the_tutorial_works_line_by_line(walk: Walk, newcomer: Reader) -> None:
    for block in BLOCKS:
        walk.take(block)

    command, code, printed = walk.ends()
    assert (command, code) == ("pytest evals", 0), printed
    assert "openai/gpt-6-luna · 60 calls made" in printed
    page = (newcomer.folder / "why.html").read_text(encoding="utf-8")
    assert "test_team[gift-refund]" in page


def test_a_red_gate_takes_at_most_15_lines_typed() -> None:
    red = next(number for number, block in enumerate(BLOCKS) if is_red(block))
    before = [block for block in BLOCKS[:red] if block.language != "text"]

    typed = [command for block in before for command in block.commands]
    edits = [block for block in before if block.language == "diff"]

    assert typed[0] == INSTALL
    assert "llmeval init" in typed
    # an edit is a line that is written anew or taken out
    assert len(typed) + sum(max(1, block.text.count("\n+")) for block in edits) <= 15
