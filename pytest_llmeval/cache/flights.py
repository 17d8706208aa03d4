"""The calls under way: one thread of a process pays for a draw, and the others wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
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

    The first thread makes the call. The others get its reply, as a replayed one, or its failure: if
    each thread tried in turn, an outage would take as many timeouts as cases. The next thread makes
    the call only if the first was interrupted or gave the call up.

    Args:
        locks: held during a call, so that no other process makes it.
    """

    def __init__(self, locks: ProcessLocks) -> None:
        self._locks = locks
        self._forget()
        # In a forked child the calls of the parent never end.
        call_in_forked_children(self._forget)

    def _forget(self) -> None:
        self._flights: dict[str, _Flight] = {}

    def share(self, name: str, pay: Callable[[], StoredReply]) -> StoredReply:
        """Make a call, or wait for the same call of another thread.

        Args:
            name: of the draw.
            pay: makes the call, unless another process has made it meanwhile.

        Raises:
            Exception: what ``pay`` raised, here or in the other thread.
        """
        own = _Flight()
        own.under_way.acquire()
        while (flight := self._flights.setdefault(name, own)) is not own:
            with flight.under_way:
                pass
            if flight.failure is not None:
                raise flight.failure
            if flight.reply is not None:
                return replace(flight.reply, replayed=True)
        try:
            release = self._locks.take(name)
            try:
                own.reply = pay()
            finally:
                with suppress(OSError):
                    release()
        except CallAbandoned:
            raise
        except Exception as exc:
            own.failure = exc
            raise
        else:
            return own.reply
        finally:
            self._flights.pop(name, None)  # gone in a child that this very call has forked
            own.under_way.release()
