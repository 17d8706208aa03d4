"""The pace of calls to one provider: decisions alone.

No lock, no clock, no sleep, so that threads and coroutines can share it; ``throttle`` puts
threads in front of it.
"""

from __future__ import annotations

import math

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
LARGEST_JITTER = 0.25
LONGEST_RETRY_AFTER = 120.0
PATIENCE = 300.0


def growing_pause(count: int, *, jitter: float) -> float:
    """Return seconds to wait where the server names none: they double, up to a limit.

    Args:
        count: how many such waits came before, from 0.
        jitter: random, in [0, 1); takes off up to a quarter.
    """
    return float(min(FIRST_PAUSE * 2**count, LONGEST_PAUSE)) * (1 - LARGEST_JITTER * jitter)


class Pace:
    """The number of calls in flight: halved when the provider says "slow down", then raised again.

    The replies to calls that were on their way already when it halved say nothing new:
    64 refusals at once halve once.

    Args:
        ceiling: the most calls in flight, 1 or more.
        processes: how many processes of the session keep a pace of their own. As each of
            them creeps up, each takes so many times longer.

    Attributes:
        limit: how many calls may be in flight now.
        in_flight: how many are, counted by whoever lets them start.
    """

    def __init__(self, ceiling: int, *, processes: int = 1) -> None:
        self.limit = ceiling
        self.in_flight = 0
        self._ceiling = ceiling
        self._processes = processes
        self._resumes = -math.inf
        self._halved = -math.inf
        self._refused_since: float | None = None
        self._successes = 0
        self._streak = 0

    def delay(self, now: float) -> float:
        """Return seconds until the pause is over, 0 if there is none."""
        return max(0.0, self._resumes - now)

    def may_start(self, now: float) -> bool:
        """Whether a call may start; if it does, count it among those in flight."""
        return self.in_flight < self.limit and now >= self._resumes

    def has_given_up(self, now: float) -> bool:
        """Whether waiting is no use: nothing came through for long, or will for long."""
        since = now if self._refused_since is None else self._refused_since
        return now - since >= PATIENCE or self.delay(now) > LONGEST_RETRY_AFTER

    def on_success(self, *, started: float) -> None:
        """Learn that a call brought what was asked for.

        Args:
            started: when it set off.
        """
        self._streak = 0
        self._refused_since = None
        if self.limit == self._ceiling or started <= self._halved:
            return
        self._successes += 1
        if self._successes >= self.limit * self._processes:
            self.limit += 1
            self._successes = 0

    def on_throttled(
        self, now: float, *, started: float, retry_after: float | None, jitter: float = 0.0
    ) -> bool:
        """Learn that the provider wants fewer calls.

        Args:
            now: when it said so.
            started: when the call set off.
            retry_after: the pause it asks for in seconds, None if it names none.
            jitter: random, in [0, 1), for the pause where it names none.

        Returns:
            Whether this halved the limit.
        """
        pause = retry_after or 0.0
        is_news = started > self._halved
        if is_news:
            if self._refused_since is None or now - self._halved > PATIENCE:
                self._refused_since = now
            self._halved = now
            self.limit = max(1, self.limit // 2)
            self._successes = 0
            pause = pause or growing_pause(self._streak, jitter=jitter)
            self._streak += 1
        self._resumes = max(self._resumes, now + pause)
        return is_news
