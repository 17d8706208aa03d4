"""Rows that threads want to add at the same time, written with one sync of the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

NewRow = tuple[str, bytes]
Outcome = bool | Exception


@dataclass(eq=False, slots=True)
class _Batch:
    rows: list[NewRow] = field(default_factory=list)
    outcomes: Sequence[Outcome] | None = None


class Commits:
    """Group commit: while one thread commits, those that come form the next batch.

    The first of a batch to get the turn commits it whole. If it is interrupted there are no
    outcomes, and the next of the batch commits it anew.

    Args:
        commit: writes rows in one transaction; one outcome a row, an exception if it is refused.
            Must not call ``add``, which would wait for itself.
    """

    def __init__(self, commit: Callable[[Sequence[NewRow]], Sequence[Outcome]]) -> None:
        self._commit = commit
        self._turn = threading.Lock()
        self._changed = threading.Condition()
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
        with self._changed:
            batch, place = self._open, len(self._open.rows)
            batch.rows += ((name, value), *beside)
            self._changed.wait_for(lambda: batch.outcomes or self._turn.acquire(blocking=False))
            if self._open is batch:
                self._open = _Batch()
        outcomes = batch.outcomes or self._lead(batch)  # without outcomes the turn is ours
        outcome = outcomes[place]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _lead(self, batch: _Batch) -> Sequence[Outcome]:
        try:
            batch.outcomes = self._commit(batch.rows)
        except Exception as exc:
            batch.outcomes = [exc] * len(batch.rows)
        finally:
            self._turn.release()
            with self._changed:
                self._changed.notify_all()
        return batch.outcomes
