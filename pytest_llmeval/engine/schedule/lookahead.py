"""Which cases come after one, as far as their trials may be started early."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_llmeval.engine.schedule.case_trials import CaseTrials

STEALING = "llmeval_stealing"  # set by the controller: a worker is not told how work is dealt


class Lookahead:
    """Knows the order in which this process will run its items.

    Args:
        session: after collection.
        trials: the trials of every case, by item.
    """

    def __init__(self, session: pytest.Session, trials: Mapping[pytest.Item, CaseTrials]) -> None:
        config = session.config
        self._items = session.items
        self._trials = trials
        self._position = {item: position for position, item in enumerate(session.items)}
        # After a failure the session may stop: what was started early would be wasted.
        self._is_off = bool(config.getoption("maxfail", 0))
        self._worker = _worker(config)
        self._next: pytest.Item | None = None

    def arrive(self, nextitem: pytest.Item | None) -> None:
        """Hear what comes after the item whose turn it is."""
        self._next = nextitem

    def following(self, head: CaseTrials) -> Iterator[CaseTrials]:
        """Give the cases after one while they may overlap it; stop at the first that may not."""
        if self._is_off:
            return
        for item in self._items_after(head.item):
            trials = self._trials.get(item)
            if trials is None or trials.serial or trials.signature != head.signature:
                return
            yield trials

    def _items_after(self, item: pytest.Item) -> Iterator[pytest.Item]:
        if self._worker is None:
            yield from self._items[self._position[item] + 1 :]
            return
        if self._next is not None:
            yield self._next
            # The other items of the session belong to other workers, but for those that
            # already lie in this one's queue.
            yield from (self._items[position] for position in _queued(self._worker))


def _worker(config: pytest.Config) -> Any:
    """Find xdist's side of this worker, None outside one."""
    if not hasattr(config, "workerinput"):
        return None
    plugins = config.pluginmanager.get_plugins()
    return next((p for p in plugins if type(p).__name__ == "WorkerInteractor"), config)


def _queued(worker: Any) -> list[int]:
    """Positions that xdist has given this worker and may not take away again."""
    queue: Any = getattr(worker, "torun", None)
    if not hasattr(queue, "lock") or worker.config.workerinput.get(STEALING, True):
        return []
    with queue.lock() as waiting:
        return [position for position in waiting if isinstance(position, int)]
