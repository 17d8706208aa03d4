"""Tell whether the thread that has the baton makes no progress."""

from __future__ import annotations

import time
from contextlib import suppress
from math import inf
from os import O_RDONLY, close, read
from os import open as open_file
from time import monotonic

from pytest_llmeval.engine.threads import PooledThread

# Both by name: a test may mock those of the module. Windows has no clock of a thread.
clock_gettime = getattr(time, "clock_gettime", None)


class StallWatch:
    """Tell whether a thread makes no progress: its CPU clock stands still, or nearly so.

    A body that polls, by many short sleeps, takes a core for a few percent of the time.

    The clock of a thread that only waits for a core stands still, too. Linux tells that it
    does; elsewhere a look that itself comes late, as on a machine that is so busy, does not count.

    Where threads have no clock of their own (macOS, Windows) nothing is ever stalled.

    Attributes:
        thread: that is looked at.
        seconds: for which it has stood still.
    """

    PERIOD = 0.05  # seconds
    BUSY = 0.1  # of the time; less is to wait
    CHECKS = 5  # with 2, trials that only waited for a core were taken for stalled (measured)

    def __init__(self, thread: PooledThread) -> None:
        self.thread = thread
        self._still = 0
        self.seconds = 0.0
        self._last: float | None = None
        self._looked = monotonic()

    def look(self) -> bool:
        """Look at the clock, once a period; return whether the thread makes no progress."""
        now, looked = self._clock(), monotonic()
        last, passed = self._last, looked - self._looked
        wants_core = self._wants_core()
        if wants_core is None:
            wants_core = passed > 2 * self.PERIOD
        busy = inf if now is None or last is None else now - last
        is_still = busy < self.BUSY * passed and not wants_core
        self._still = self._still + 1 if is_still else 0
        self.seconds = self.seconds + passed if is_still else 0.0
        self._last, self._looked = now, looked
        return self._still >= self.CHECKS

    def _clock(self) -> float | None:
        with suppress(OSError):  # the thread has just ended
            if clock_gettime and self.thread.clock is not None:
                return float(clock_gettime(self.thread.clock))
        return None

    def _wants_core(self) -> bool | None:
        """Whether the system would run the thread if it had a core; None where it does not say."""
        with suppress(OSError):
            descriptor = open_file(f"/proc/self/task/{self.thread.native_id}/stat", O_RDONLY)
            try:
                return read(descriptor, 256).rpartition(b")")[2].split()[:1] == [b"R"]
            finally:
                close(descriptor)
        return None
