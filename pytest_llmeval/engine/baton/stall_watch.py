"""Notice that the thread of a trial blocks without telling."""

from __future__ import annotations

from os import O_RDONLY, close, read
from os import open as open_file
from time import clock_gettime, monotonic  # by name: a test may mock those of the module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_llmeval.engine.baton.thread_pool import PooledThread


class StallWatch:
    """Tell whether a thread makes no progress: its CPU clock stands still.

    The clock of a thread that only waits for a core stands still, too. Linux tells that it
    does; elsewhere a look that itself comes late, as on a machine that is so busy, does not count.

    Where threads have no clock of their own (macOS, Windows) nothing is ever stalled.
    """

    PERIOD = 0.05  # seconds
    CHECKS = 5  # with 2, trials that only waited for a core were taken for stalled (measured)

    def __init__(self, thread: PooledThread) -> None:
        self._thread = thread
        self._still = 0
        self._last = -1.0
        self._looked = monotonic()

    def is_stalled(self) -> bool:
        """Look at the clock; call once a period."""
        now, looked = self._clock(), monotonic()
        is_late = looked - self._looked > 2 * self.PERIOD
        is_still = now is not None and now == self._last and not is_late
        stands_still = is_still and not self._wants_core()
        self._still = self._still + 1 if stands_still else 0
        self._last = -1.0 if now is None else now
        self._looked = looked
        return self._still >= self.CHECKS

    def _clock(self) -> float | None:
        if self._thread.clock is None:
            return None
        try:
            return clock_gettime(self._thread.clock)
        except OSError:  # the thread has just ended
            return None

    def _wants_core(self) -> bool:
        """Whether the system would run the thread if it had a core; False where it does not say."""
        try:
            descriptor = open_file(f"/proc/self/task/{self._thread.native_id}/stat", O_RDONLY)
        except OSError:
            return False
        try:
            state = read(descriptor, 256).rpartition(b")")[2].split()[:1]
        finally:
            close(descriptor)
        return state == [b"R"]
