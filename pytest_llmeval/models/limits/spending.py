"""What the calls of a session have taken so far, told by a journal that its processes share.

The journal is only ever appended to, and who comes to it reads it in its order. Whether an
entry was granted follows from those before it alone, so all processes agree without a lock,
and one that is killed leaves nothing locked. What it had reserved counts as spent.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import Literal

from pytest_llmeval.cache.storage.directory import prepare_directory, refuse_link

FOLDER = "caps"
DAY = 86_400.0  # seconds; a living session that makes calls adds entries more often

Room = Literal["now", "later", "never"]


class Journal:
    """Entries in the order in which they came; a list of this process if it has no path.

    Args:
        path: of the file, made by the first entry.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._read = 0

    @classmethod
    def of_session(cls, directory: Path, session: str) -> Journal:
        """Take the file that the workers of a session share."""
        return cls(directory / FOLDER / f"{session}.jsonl")

    def append(self, *entry: str) -> None:
        """Add an entry.

        Raises:
            OSError: the file cannot be written.
        """
        line = json.dumps(entry).encode()
        if self._path is None:
            self._lines.append(line)
            return
        prepare_directory(self._path.parent.parent)
        refuse_link(self._path.parent)
        self._path.parent.mkdir(exist_ok=True)
        if not self._path.exists():
            _remove_left_behind(self._path.parent)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # In one piece, and beginning with a newline: a worker may be killed as it writes.
            os.write(descriptor, b"\n" + line + b"\n")
        finally:
            os.close(descriptor)

    def note_end(self, process: str) -> None:
        """Note that a process has ended, if any made an entry."""
        if self._path is not None and self._path.exists():
            with contextlib.suppress(OSError):
                self.append("gone", process)

    def unread(self) -> list[list[str]]:
        """Return what was added since the last time, one's own included."""
        if self._path is None:
            lines, self._lines = self._lines, []
            return list(_entries(lines))
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content.rfind(b"\n") + 1
        self._read += whole
        return list(_entries(content[:whole].splitlines()))

    def remove(self) -> None:
        """Take the file away, at the end of the session."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
                self._path.parent.rmdir()


class Tally:
    """Adds up the entries of a journal.

    Attributes:
        calls: how many were granted and not given back.
        spent: dollars of calls that have ended, or of which nobody will hear any more.

    Args:
        max_calls: the most calls, None for any number.
        max_cost: the most dollars, None for any sum.
    """

    def __init__(self, *, max_calls: int | None, max_cost: Decimal | None) -> None:
        self.calls = 0
        self.spent = Decimal(0)
        self._max_calls = max_calls
        self._max_cost = max_cost
        self._open: dict[str, Decimal] = {}  # what calls under way may cost

    @property
    def has_calls_left(self) -> bool:
        """Whether one more call may be made, as far as their number goes."""
        return self._max_calls is None or self.calls < self._max_calls

    def room(self, cost: Decimal) -> Room:
        """Tell whether a call that may cost as much may be made."""
        if not self.has_calls_left:
            return "never"
        if self._max_cost is None or self.spent + sum(self._open.values()) + cost <= self._max_cost:
            return "now"
        return "later" if self.spent + cost <= self._max_cost else "never"

    def holds(self, name: str) -> bool:
        """Whether a call was granted and has not ended."""
        return name in self._open

    def add(self, entry: list[str]) -> None:
        """Take in the next entry; what is none of ours says nothing."""
        with contextlib.suppress(ValueError, TypeError, DecimalException):
            kind, *fields = entry
            if kind == "take":
                self._take(*fields)
            elif kind == "end":
                self._end(*fields)
            elif kind == "gone":
                self._gone(*fields)

    def _take(self, name: str, cost: str) -> None:
        if self.room(Decimal(cost)) == "now":
            self.calls += 1
            self._open[name] = Decimal(cost)

    def _end(self, name: str, calls: str, cost: str) -> None:
        """End a call: at another price than was reserved, or given back with 0 calls."""
        counted, paid = int(calls), Decimal(cost)
        if name in self._open:
            del self._open[name]
            self.calls += counted - 1
            self.spent += paid

    def _gone(self, process: str) -> None:
        for name in [name for name in self._open if name.startswith(f"{process}:")]:
            self.spent += self._open.pop(name)


def _remove_left_behind(folder: Path) -> None:
    """Remove the files of sessions that were killed before they could."""
    with contextlib.suppress(OSError):
        for file in folder.glob("*.jsonl"):
            if time.time() - file.lstat().st_mtime > DAY:
                file.unlink(missing_ok=True)


def _entries(lines: list[bytes]) -> Iterator[list[str]]:
    for line in lines:
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, list) and all(isinstance(field, str) for field in entry):
                yield entry
