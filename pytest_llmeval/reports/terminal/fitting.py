"""Lines and texts of any length and language, fitted to the page that shows them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_llmeval.reports.notation import Line, aligned, columns
from pytest_llmeval.safe_text import printable, printable_lines

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_ASCII = {ord(char): plain for char, plain in zip("\N{MIDDLE DOT}━●│┊", "|-*|:", strict=True)}
# A command stands between double blanks, and must stay in one piece in a log.
_TYPED = re.compile(r"(?<=  )(?:llm_\w+ = |llmeval |pytest |git )\S.*?(?=  |$)")
_GLUE = "\0"  # stands for a blank at which no line ends; nothing printable holds it
_LEAST = 12  # columns of what is cut short
_MOST_OF_A_COLUMN = 8  # letters: some take none
_PARTED = " \N{MIDDLE DOT} "
_LINES = 40  # of one text
_TOKENS = re.compile(r"\s+|\S+")

Words = tuple[str, str]  # a text, and its style: "", bold, dim, red or green
StyledLine = tuple[Words, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Where lines are shown.

    Attributes:
        width: in columns.
        encoding: of the output.
        verbose: lines that few readers want are shown, too.
        full: no text is cut.
    """

    width: int = 80
    encoding: str = "utf-8"
    verbose: bool = False
    full: bool = False

    def shown(self, text: str) -> str:
        """Write a text as one printable line, in characters that the output has."""
        text = printable(text)
        if self._has(text):
            return text
        plain = text.translate(_ASCII).replace(_ELLIPSIS, "...")
        return plain.encode(self.encoding, "backslashreplace").decode(self.encoding)

    def cut(self, text: str, room: int) -> str:
        """Write the beginning of a text, where it is too long for so many columns."""
        text = self.shown(text[: _MOST_OF_A_COLUMN * room])  # the text may be a whole web page
        if columns(text) <= room:
            return text
        end = _ELLIPSIS if self._has(_ELLIPSIS) else "..."
        while text and columns(text + end) > room:
            text = text[:-1]
        return text.rstrip() + end

    def fitted(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Break lines that are too wide between words; indent the further lines."""
        for line in lines:
            for text in self._broken(self.shown(line.text)):
                yield replace(line, text=text)

    def table(
        self,
        rows: Sequence[Sequence[str]],
        order: Sequence[tuple[int, ...]],
        *,
        left: int = 1,
        cut: Collection[int] = (0,),
    ) -> tuple[list[str], list[int]]:
        """Line up as many columns as there is room for.

        Args:
            rows: at least one, equally long; the first is the heading.
            order: groups of columns, the most important first; three of them always have room.
            left: how many columns from the left are set flush left, the others flush right.
            cut: columns that may be cut short.

        Returns:
            One line a row, and the columns that had no room; empty ones are in neither.
        """
        shown = [list(map(self.shown, row)) for row in rows]
        widths = [max(map(columns, column)) for column in zip(*shown, strict=True)]
        full = [tuple(at for at in group if any(row[at] for row in shown[1:])) for group in order]
        needed = [at for group in full[:3] for at in group]
        room = self.width + 2 - sum(widths[at] + 2 for at in needed)
        first = next((at for at in needed if at in cut), None)
        if room < 0 and first is not None:
            self._cut_column(shown, first, max(_LEAST, widths[first] + room))
        kept = list(needed)
        for group in full[3:]:
            wanted = sum(widths[at] + 2 for at in group)
            if wanted > room >= _LEAST + 2 and len(group) == 1 and group[0] in cut:
                self._cut_column(shown, group[0], room - 2)
                wanted = room
            if wanted <= room:
                room -= wanted
                kept += group
        left_out = [at for group in full for at in group if at not in kept]
        kept.sort()
        cells = [[*(row[at] for at in kept), ""] for row in shown]  # the last is set flush left
        return aligned(cells, left=range(sum(at < left for at in kept))), left_out

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
        seen = pieces if self.full else _beginning(pieces, room * (_LINES + 1))
        lines = _wrapped(seen, room)
        most = len(lines) if self.full else _LINES
        for line in lines[:most]:
            yield ((label.ljust(indent), "bold"), *line)
            label = ""
        if len(lines) > most:
            total = sum(len(text) for text, _ in pieces)
            more = f"... ({total} characters in all; --full shows them)"
            yield ((" " * indent, ""), (more, "dim"))

    def fitted_words(self, lines: Iterable[StyledLine]) -> Iterator[StyledLine]:
        """Break lines of several styles that are too wide."""
        for line in lines:
            if sum(columns(text) for text, _ in line) <= self.width:
                yield line
                continue
            first, *others = _wrapped(line, self.width)
            indent = min(4, self.width // 4)
            rest = _wrapped([part for other in others for part in other], self.width - indent)
            yield from (first, *(((" " * indent, ""), *one) for one in rest))

    def _cut_column(self, rows: Sequence[list[str]], at: int, room: int) -> None:
        for row in rows:
            row[at] = self.cut(row[at], room)

    def _has(self, text: str) -> bool:
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            return False
        return True

    def _broken(self, text: str) -> list[str]:
        if columns(text) <= self.width:
            return [text]
        indent = " " * (len(text) - len(text.lstrip()) + 2)
        glued = _TYPED.sub(lambda found: found[0].replace(" ", _GLUE), text)
        between = self.shown(_PARTED)
        first, *parts = glued.split(between)
        room = self.width - len(indent) - 2
        whole = (part.replace(" ", _GLUE) if len(part) < room else part for part in parts)
        glued = f"{_GLUE}{between.strip()} ".join((first, *whole))
        broken = textwrap.wrap(
            glued,
            max(20, self.width),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        # A line from the middle of a text may begin like a command to the CI service.
        return [printable(line.replace(_GLUE, " ").rstrip()) for line in broken]


def _beginning(pieces: Sequence[Words], most: int) -> Iterator[Words]:
    """Return the visible part of a text: laying out a megabyte takes too long."""
    for text, style in pieces:
        yield text[:most], style
        most = max(0, most - len(text))


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
    for ended in lines:
        while ended and not ended[-1][0].strip():
            ended.pop()
    return list(map(tuple, lines))


def _cut(token: str, room: int) -> Iterator[str]:
    """Cut a word that is wider than a line."""
    while columns(token) > room:
        end = room
        while columns(token[:end]) > room:
            end -= 1
        yield token[:end]
        token = token[end:]
    yield token
