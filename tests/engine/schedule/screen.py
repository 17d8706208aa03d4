"""pytest on a terminal, and what is left on its screen."""

from __future__ import annotations

import os
import re
import select
from dataclasses import dataclass
from pathlib import Path

from tests.forked import ForkedSession
from tests.platforms import needs

pty = needs("pty", "there are no pseudo terminals")

_PIECE = re.compile(r"\x1b\[(\d*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")


@dataclass(frozen=True)
class Seen:
    """Attributes: raw: every byte that was sent; text: what the screen shows in the end."""

    raw: str
    text: str


def run_on_terminal(
    folder: Path,
    *arguments: str,
    term: str = "xterm",
    columns: int = 80,
    encoding: str = "utf-8",
) -> Seen:
    """Run pytest in a pseudo terminal of so many columns."""
    parent, child = pty.openpty()
    environment = os.environ | {
        "TERM": term,
        "COLUMNS": str(columns),
        "NO_COLOR": "1",
        "PYTHONIOENCODING": encoding,
    }
    session = ForkedSession(
        folder,
        *("-p", "no:cacheprovider", *arguments),
        output=Path(os.ttyname(child)),
        environment=environment,
    )
    received = bytearray()
    while True:
        has_ended = session.poll() is not None
        if select.select([parent], [], [], 0 if has_ended else 0.02)[0]:
            received += os.read(parent, 65536)
        elif has_ended:
            break
    os.close(child)
    os.close(parent)
    raw = received.decode()
    return Seen(raw, screen(raw, columns=columns))


def screen(raw: str, *, columns: int) -> str:
    """Put characters where a terminal would, as far as pytest and we make use of it."""
    rows: list[list[str]] = [[]]
    row = column = 0
    for number, command, control, text in _PIECE.findall(raw):
        if control == "\r":
            column = 0
        elif control == "\n":
            row += 1
        elif command == "A":
            row -= int(number or 1)
        elif command == "C":
            column += int(number or 1)
        elif command == "J":
            del rows[row][column:]
            del rows[row + 1 :]
        elif command and command != "m":
            raise AssertionError(command)
        for character in text:
            if column == columns:
                row, column = row + 1, 0
            while len(rows) <= row:
                rows.append([])
            line = rows[row]
            line += " " * (column + 1 - len(line))
            line[column] = character
            column += 1
        while len(rows) <= row:
            rows.append([])
    return "\n".join("".join(line).rstrip() for line in rows)
