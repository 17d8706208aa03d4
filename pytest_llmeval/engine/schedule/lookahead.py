"""The items that come after the current one, in the order in which this process runs them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

# Set by the controller, as a worker of xdist does not know how work is dealt: whether items that
# lie in its queue may be taken away, and whether cases of a function go to several workers.
STEALING = "llmeval_stealing"
SPLITTING = "llmeval_splitting"


class Lookahead:
    """Know the order in which this process will run its items.

    Args:
        session: after collection.

    Attributes:
        next_item: comes after the current one; None if that is the last, or none was begun.
    """

    def __init__(self, session: pytest.Session) -> None:
        config = session.config
        self._items = session.items
        self._position = {item: position for position, item in enumerate(session.items)}
        # After a failure the session may stop: what was started early would be wasted.
        self._is_off = bool(config.getoption("maxfail", 0))
        self._worker = _worker(config)
        self.next_item: pytest.Item | None = None

    def after(
        self, item: pytest.Item, *, beyond: pytest.Item | None = None
    ) -> Iterator[pytest.Item]:
        """Give the items after one that may be started early.

        Args:
            item: the current one.
            beyond: one of them; those up to it are left out.
        """
        if self._is_off:
            return
        if self._worker is None:
            first = self._position[beyond or item] + 1
            yield from (self._items[position] for position in range(first, len(self._items)))
            return
        if self.next_item is not None:
            # The other items of the session belong to other workers, but for those that
            # already lie in this one's queue.
            queued = (self._items[position] for position in _queued(self._worker))
            coming = chain((self.next_item,), queued)
            if beyond is None or any(one is beyond for one in coming):
                yield from coming


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
