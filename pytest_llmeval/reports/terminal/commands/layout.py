"""Texts of any length and language laid out on the lines of a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from pytest_llmeval.reports.formats import columns
from pytest_llmeval.safe_text import printable_lines

_LINES = 40  # of one text
_TOKENS = re.compile(r"\s+|\S+")

Words = tuple[str, str]  # a text, and its style: "", bold, dim, red or green
StyledLine = tuple[Words, ...]


class Layout:
    """Texts laid out for a terminal.

    Args:
        width: columns of a line.
        is_full: no text is cut.
    """

    def __init__(self, width: int, *, is_full: bool) -> None:
        self.width = width
        self._most = None if is_full else _LINES

    def text(
        self, pieces: Sequence[Words], *, label: str = "", indent: int = 2
    ) -> Iterator[StyledLine]:
        """Lay out a text behind its label, of so many lines at most.

        Args:
            pieces: of the text, with line ends in it.
            label: stands before the first line.
            indent: columns before every line; the label has them.
        """
        room = max(self.width - indent, 20)
        lines = _wrapped(self._begun(pieces, room), room)
        for line in lines[: self._most]:
            yield ((label.ljust(indent), "bold"), *line)
            label = ""
        if self._most is not None and len(lines) > self._most:
            total = sum(len(text) for text, _ in pieces)
            more = f"... ({total} characters in all; --full shows them)"
            yield ((" " * indent, ""), (more, "dim"))

    def fit(self, lines: Iterable[StyledLine]) -> Iterator[StyledLine]:
        """Break lines that are too long for the terminal."""
        for line in lines:
            if sum(columns(text) for text, _ in line) <= self.width:
                yield line
                continue
            first, *others = _wrapped(line, self.width)
            yield first
            indent = min(4, self.width // 4)
            rest = [part for other in others for part in other]
            yield from (((" " * indent, ""), *one) for one in _wrapped(rest, self.width - indent))

    def _begun(self, pieces: Sequence[Words], room: int) -> Iterator[Words]:
        """Give what can be seen of a text: nobody waits for the layout of a megabyte."""
        left = None if self._most is None else room * (self._most + 1)
        for text, style in pieces:
            yield text[:left], style
            left = None if left is None else max(0, left - len(text))


def _wrapped(pieces: Iterable[Words], room: int) -> list[StyledLine]:
    lines: list[list[Words]] = [[]]
    column = 0
    for text, style in pieces:
        for place, line in enumerate(printable_lines(text)):
            if place:
                lines.append([])
                column = 0
            for part in (part for token in _TOKENS.findall(line) for part in _cut(token, room)):
                if column and column + columns(part) > room:
                    lines.append([])
                    column = 0
                    part = part.lstrip()  # noqa: PLW2901 - blanks at the end of a line
                lines[-1].append((part, style))
                column += columns(part)
    return list(map(_without_end, lines))


def _without_end(line: list[Words]) -> StyledLine:
    """Leave out the blanks at the end of a line."""
    while line and not line[-1][0].strip():
        line.pop()
    return tuple(line)


def _cut(token: str, room: int) -> Iterator[str]:
    """Cut a word that is wider than a line."""
    while columns(token) > room:
        end = room
        while columns(token[:end]) > room:
            end -= 1
        yield token[:end]
        token = token[end:]
    yield token
