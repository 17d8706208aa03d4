"""Journals of a session, by which its workers tell one another something, and its spending.

A journal is a file that is only ever appended to, so no worker waits for another, and one that is
killed leaves nothing locked. Whether the caps granted an entry follows from those before it alone,
so all processes that read them in one order agree without a lock. What a process that was killed
had reserved counts as spent.
"""

from __future__ import annotations

import os
from contextlib import suppress
from decimal import Decimal, DecimalException
from json import dumps, loads
from pathlib import Path
from typing import Any, Literal

from pytest_llmeval.cache.directory import prepare_directory, refuse_link
from pytest_llmeval.originals import Clock, Files
from pytest_llmeval.settings import Settings

Room = Literal["now", "later", "never"]

DAY = 86_400.0  # seconds; a living session that makes calls adds entries more often


class Journal:
    """Entries of all workers in one order, each a list of what JSON can hold.

    Args:
        directory: ``.llmeval``.
        session: name of the session, the same in all its worker processes.
        folder: in the directory; the file is there from the first entry to the end of the session.
    """

    def __init__(self, directory: Path, session: str, *, folder: str = "caps") -> None:
        self._directory = directory
        self._path = directory / folder / f"{session}.jsonl"
        self._read = 0

    @property
    def exists(self) -> bool:
        """Whether any worker has made an entry."""
        with suppress(OSError):
            return bool(Files.stat(self._path))
        return False

    def append(self, *entry: object) -> None:
        """Add an entry.

        Raises:
            OSError: the file cannot be written.
        """
        prepare_directory(self._directory)
        refuse_link(self._path.parent)
        Files.makedirs(self._path.parent, exist_ok=True)
        if not self.exists:
            _remove_left_behind(self._path.parent)
        # In one piece, so that lines of two workers never mix. It begins with a newline, as a
        # worker may be killed while it writes.
        Files.add(self._path, b"\n" + dumps(entry).encode() + b"\n", os.O_APPEND)

    def unread(self) -> list[list[Any]]:
        """Return the entries since the last time, one's own included.

        Raises:
            OSError: the file is there and cannot be read.
        """
        try:
            size = Files.stat(self._path).st_size
            if size == self._read:
                return []
            if size < self._read:  # another worker was done and removed it
                self._read = 0
            content = Files.tail(self._path, self._read)
        except FileNotFoundError:
            return []
        whole = content.rfind(b"\n") + 1
        self._read += whole
        entries = []
        for line in content[:whole].splitlines():
            with suppress(ValueError):
                entries.append(loads(line))
        return [entry for entry in entries if isinstance(entry, list)]

    def remove(self) -> None:
        """Take the file away at the end of the session; every worker may do so."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
            self._path.parent.rmdir()


def process_name(worker: str, settings: Settings) -> str:
    """Name a process in the journal of a session, which may be that of two runs.

    Args:
        worker: its name among the workers; "" where there are none.
        settings: of the process.
    """
    return f"{settings.asked.confirmation}{'base-' * settings.makes_baseline}{worker or 'here'}"


def note_end(journal: Journal, process: str) -> None:
    """Note that a process has ended, if any made an entry."""
    if journal.exists:
        with suppress(OSError):
            journal.append("gone", process)


def _remove_left_behind(folder: Path) -> None:
    """Remove the files of sessions that were killed before they removed their own."""
    with suppress(OSError):
        for file in folder.glob("*.jsonl"):
            if Clock.now().timestamp() - file.lstat().st_mtime > DAY:
                file.unlink(missing_ok=True)


class Spending:
    """Adds up the entries of a session's processes.

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
        self.max_calls = max_calls
        self.max_cost = max_cost
        self._open: dict[str, Decimal] = {}  # what calls under way may cost

    @property
    def has_calls_left(self) -> bool:
        """Whether one more call may be made, as far as their number goes."""
        return self.max_calls is None or self.calls < self.max_calls

    def room(self, cost: Decimal) -> Room:
        """Tell whether a call that may cost as much may be made."""
        if not self.has_calls_left:
            return "never"
        if self.max_cost is None or self.spent + sum(self._open.values()) + cost <= self.max_cost:
            return "now"
        return "later" if self.spent + cost <= self.max_cost else "never"

    def holds(self, name: str) -> bool:
        """Whether a call was granted and has not ended."""
        return name in self._open

    def add(self, entry: list[Any]) -> None:
        """Add the next entry; one that is not ours is passed over."""
        with suppress(ValueError, TypeError, DecimalException):
            match entry:
                case ["take", name, cost] if self.room(Decimal(cost)) == "now":
                    self.calls += 1
                    self._open[name] = Decimal(cost)
                case ["end", name, calls, cost] if name in self._open:
                    # At another price than was reserved, or given back with 0 calls.
                    counted, paid = int(calls), Decimal(cost)
                    del self._open[name]
                    self.calls += counted - 1
                    self.spent += paid
                case ["gone", process]:
                    for name in [one for one in self._open if one.startswith(f"{process}:")]:
                        self.spent += self._open.pop(name)
