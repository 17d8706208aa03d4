"""Rows that threads want to add at the same time, written with one sync of the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_llmeval.cache.storage.queries import NewRow

Outcome = bool | Exception


@dataclass(eq=False, slots=True)
class _Batch:
    """Rows that are committed together, and those who wait for that, each at a lock of its own.

    At one for all, everybody would wake up whenever anything was committed.
    """

    rows: list[NewRow] = field(default_factory=list)
    outcomes: Sequence[Outcome] | None = None
    waiting: list[threading.Lock] = field(default_factory=list)


class GroupCommit:
    """While one thread commits, the rows of those that come form the next batch.

    The first of a batch commits it whole, once the one before has ended. If it is interrupted
    there are no outcomes, and the next of the batch commits it anew.

    Args:
        commit: writes rows in one transaction; one outcome a row, an exception if it is refused.
            Must not call ``add``, which would wait for itself.
    """

    def __init__(self, commit: Callable[[Sequence[NewRow]], Sequence[Outcome]]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._is_busy = False
        self._open = _Batch()

    def add(self, name: str, value: bytes, *, beside: Sequence[NewRow] = ()) -> bool:
        """Add a row and return when it is durable.

        Args:
            name: of the row.
            value: of the row.
            beside: rows to write along with it; what becomes of these is not told.

        Returns:
            Whether it was written.

        Raises:
            Exception: what its row was refused with, or what the transaction failed with.
        """
        turn = None
        with self._lock:
            batch, place = self._open, len(self._open.rows)
            batch.rows += ((name, value), *beside)
            if self._is_busy:
                turn = threading.Lock()
                turn.acquire()
                batch.waiting.append(turn)
            else:
                self._is_busy = True
                self._open = _Batch()
        if turn is not None:
            self._wait(turn, batch)
        outcomes = batch.outcomes or self._lead(batch)  # without outcomes the turn is ours
        outcome = outcomes[place]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _wait(self, turn: threading.Lock, batch: _Batch) -> None:
        """Wait until the batch is committed, or it is this thread's turn to commit it."""
        try:
            turn.acquire()
        except BaseException:  # Ctrl-C: others will commit the row
            with self._lock:
                if turn in batch.waiting:
                    batch.waiting.remove(turn)
                elif not batch.outcomes:
                    self._hand_on(batch)
            raise

    def _lead(self, batch: _Batch) -> Sequence[Outcome]:
        try:
            batch.outcomes = self._commit(batch.rows)
        except Exception as exc:
            batch.outcomes = [exc] * len(batch.rows)
        finally:
            with self._lock:
                self._hand_on(batch)
        return batch.outcomes

    def _hand_on(self, batch: _Batch) -> None:
        """Wake those who waited for a batch, and one who is to commit the next."""
        if batch.outcomes:
            while batch.waiting:
                batch.waiting.pop().release()
        following = batch if batch.waiting else self._open
        self._is_busy = bool(following.waiting)
        if following is self._open and self._is_busy:
            self._open = _Batch()
        if self._is_busy:
            following.waiting.pop(0).release()
