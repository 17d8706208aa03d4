"""The spending of a session so far, told by entries that its processes share.

Whether an entry was granted follows from those before it alone, so all processes that read them
in one order agree without a lock. What a process that was killed had reserved counts as spent.
"""

from __future__ import annotations

import contextlib
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import Any, Literal

from pytest_llmeval.models.limits.shared_file import SharedFile

Room = Literal["now", "later", "never"]


def journal_of(directory: Path, session: str) -> SharedFile:
    """Take the file in which the workers of a session note their calls."""
    return SharedFile(directory, "caps", session)


def note_end(journal: SharedFile, process: str) -> None:
    """Note that a process has ended, if any made an entry."""
    if journal.exists:
        with contextlib.suppress(OSError):
            journal.append("gone", process)


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

    def add(self, entry: list[Any]) -> None:
        """Add the next entry; one that is not ours is passed over."""
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
