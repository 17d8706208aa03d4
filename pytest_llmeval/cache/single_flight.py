"""Calls under way: threads that ask for the same draw wait for the reply of the first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pytest_llmeval.cache.locks import call_in_forked_children
from pytest_llmeval.cache.process_locks import ProcessLocks
from pytest_llmeval.cache.reply import StoredReply
from pytest_llmeval.errors import CallAbandoned


@dataclass(eq=False, slots=True)
class _Flight:
    """One call; ``under_way`` is held until it has ended, with a reply, a failure or neither."""

    under_way: threading.Lock = field(default_factory=threading.Lock)
    reply: StoredReply | None = None
    failure: Exception | None = None


class SingleFlight:
    """The calls that this process has under way, one for each name.

    The first thread makes the call. The others get its reply, as one that they did not pay for, or
    its failure: if each of them tried in turn, an outage would take as many timeouts as cases. The
    next thread makes the call only if the first was interrupted or gave the call up.

    Args:
        locks: held during a call, so that no other process makes it.
    """

    def __init__(self, locks: ProcessLocks) -> None:
        self._locks = locks
        self._begin()
        # In a forked child the calls of the parent never end.
        call_in_forked_children(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}

    def share(self, name: str, pay: Callable[[], StoredReply]) -> StoredReply:
        """Make a call, or wait for the same call of another thread.

        Args:
            name: of the draw.
            pay: makes the call.

        Raises:
            Exception: what ``pay`` raised, here or in the other thread.
        """
        while True:
            with self._lock:
                flight = self._flights.get(name)
                is_first = flight is None
                if flight is None:
                    flight = self._flights[name] = _Flight()
                    flight.under_way.acquire()
            if is_first:
                return self._lead(name, flight, pay)
            with flight.under_way:
                pass
            if flight.failure is not None:
                raise flight.failure
            if flight.reply is not None:
                return replace(flight.reply, replayed=True)

    def _lead(self, name: str, flight: _Flight, pay: Callable[[], StoredReply]) -> StoredReply:
        try:
            with self._locks.locked(name):
                flight.reply = pay()
        except CallAbandoned:
            raise
        except Exception as exc:
            flight.failure = exc
            raise
        else:
            return flight.reply
        finally:
            with self._lock:
                self._flights.pop(name, None)  # gone in a child that this very call has forked
            flight.under_way.release()
