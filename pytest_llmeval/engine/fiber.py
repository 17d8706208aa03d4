"""What carries a trial through its phases.

Today there is one kind: a trial runs in the thread that resumes it, from its first
line to its last. The interface is the one that overlapping trials need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Fiber(Protocol):
    """Runs one trial, and hands control back while the trial waits."""

    def resume(self) -> None:
        """Run the trial until it waits or ends."""

    def block(self, function: Callable[[], T]) -> T:
        """Run a function that waits for the outside; return what it returns."""


class InlineFiber:
    """A trial in the thread of the session: it never hands control back early."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._body = body

    def resume(self) -> None:
        """Run the trial to its end."""
        self._body()

    def block(self, function: Callable[[], T]) -> T:
        """Call the function."""
        return function()
