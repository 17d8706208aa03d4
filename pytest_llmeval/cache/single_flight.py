"""Calls that are under way: who asks for the same draw meanwhile waits for its reply."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pytest_llmeval.cache.reply import StoredReply
from pytest_llmeval.errors import CallAbandoned


@dataclass(eq=False, slots=True)
class _Flight:
    """One call; ``under_way`` is held until it has ended, with a reply, a failure or neither."""

    under_way: threading.Lock = field(default_factory=threading.Lock)
    reply: StoredReply | None = None
    failure: Exception | None = None


class Flights:
    """The calls that threads of this process have under way, one for each name.

    The first to come makes the call. The others get its reply, as one that they did not pay
    for, or its failure: were each to try in turn, an outage would take as many timeouts as
    there are cases. Only if whoever made the call was interrupted, or gave it up, does the next
    one make it.
    """

    def __init__(self) -> None:
        self._begin()

    def share(self, name: str, pay: Callable[[], StoredReply]) -> StoredReply:
        """Make a call, or wait for the same call of another thread.

        Args:
            name: of the draw.
            pay: makes the call.

        Raises:
            Exception: what ``pay`` raised, here or in the other thread.
        """
        while True:
            flight, is_first = self._board(name)
            if is_first:
                return self._lead(name, flight, pay)
            with flight.under_way:
                pass
            if flight.failure is not None:
                raise flight.failure
            if flight.reply is not None:
                return replace(flight.reply, replayed=True)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}

    def _board(self, name: str) -> tuple[_Flight, bool]:
        if self._pid != os.getpid():  # what the parent has under way never ends in a forked child
            self._begin()
        with self._lock:
            flight = self._flights.get(name)
            if flight is not None:
                return flight, False
            flight = self._flights[name] = _Flight()
            flight.under_way.acquire()
            return flight, True

    def _lead(self, name: str, flight: _Flight, pay: Callable[[], StoredReply]) -> StoredReply:
        try:
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
                del self._flights[name]
            flight.under_way.release()
