"""Rows that threads want to add at the same time, written with one sync of the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pytest_llmeval.cache.storage.queries import NewRow

Outcome = bool | Exception


@dataclass(eq=False, slots=True)
class _Batch:
    """Rows that are committed together, and a lock for each thread that waits for the commit.

    With one lock for all, every thread would wake up at every commit.
    """

    rows: list[NewRow] = field(default_factory=list)
    outcomes: Sequence[Outcome] | None = None
    waiting: list[threading.Lock] = field(default_factory=list)


class GroupCommit:
    """Collects the rows that threads add while another thread commits, and commits them together.

    The first thread of a batch commits the whole batch, once the batch before is done. If that
    thread is interrupted, the next thread of the batch commits it.

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
            beside: rows to write in the same transaction, without an outcome.

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
        """Wake the threads that waited for a batch, and the one that is to commit the next."""
        if batch.outcomes:
            while batch.waiting:
                batch.waiting.pop().release()
        following = batch if batch.waiting else self._open
        self._is_busy = bool(following.waiting)
        if following is self._open and self._is_busy:
            self._open = _Batch()
        if self._is_busy:
            following.waiting.pop(0).release()
