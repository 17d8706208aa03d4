"""The throttle through which every call to a provider goes, and the pace that it keeps."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NamedTuple

from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.errors import ProviderFailed
from pytest_llmeval.models.limits.journal import Journal
from pytest_llmeval.records import Slowdown

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
LARGEST_JITTER = 0.25
LONGEST_RETRY_AFTER = 120.0
PATIENCE = 300.0


# notes why a call is held up by its provider
NoteSetback = Callable[[str], None]


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
        """Whether a call may start now."""
        return self.in_flight < self.limit and now >= self._resumes

    @property
    def is_slowed(self) -> bool:
        """Whether the limit was halved and is not back."""
        return self.limit < self._ceiling

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


class PaceClock(NamedTuple):
    """The clock by which the throttle tells and passes the time.

    Attributes:
        now: seconds on a clock that all processes of the machine share.
        sleep: waits so many seconds.
        jitter: a random number in [0, 1), so that sessions do not come back in step.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


DEFAULT_CEILING = 32


class ProviderThrottle:
    """Let as many calls to one provider through as its pace allows. Safe for threads.

    Attributes:
        refused_with: the status of the last refusal here.

    Args:
        throttle: of all providers.
        provider: and ``origin``: whose calls it lets through.
    """

    def __init__(self, throttle: Throttle, provider: str, origin: str) -> None:
        processes = throttle.processes
        self.provider = provider
        self.refused_with: int = HTTPStatus.TOO_MANY_REQUESTS
        self._origin = origin
        self._throttle = throttle
        self._clock = throttle.clock
        self._pace = Pace(max(1, throttle.ceiling // processes), processes=processes)
        self._changed = threading.Condition(fork_safe_lock())
        self._is_closed = False
        self._times = 0
        self._lowest = self._pace.limit
        self._seconds = 0.0

    @property
    def has_given_up(self) -> bool:
        """Whether the provider let nothing through for so long that nobody waits any more."""
        with self._changed:
            return self._pace.has_given_up(self._clock.now())

    @property
    def holds_back(self) -> bool:
        """Whether a call would have to wait now, for the provider's sake."""
        with self._changed:
            return self._pace.is_slowed and not self._pace.may_start(self._clock.now())

    def enter(self, note: NoteSetback = lambda _: None) -> float | None:
        """Wait until a call may start; ``leave`` must follow.

        Args:
            note: is told where the provider's sake is what holds the call up.

        Returns:
            When it set off; None if it may not, and to wait is no use: do not leave then.

        Raises:
            ProviderFailed: the session ended meanwhile.
        """
        is_told = False
        while True:
            if self._throttle.shared is not None:
                self._throttle.listen(self._throttle.shared)
            with self._changed:
                if self._is_closed:
                    raise ProviderFailed("the session ended before this call was made")
                now = self._clock.now()
                if self._pace.may_start(now):
                    self._pace.in_flight += 1
                    return now
                if self._pace.is_slowed and not is_told:
                    is_told = True
                    note("the provider wanted fewer calls")
                if self._pace.has_given_up(now):
                    return None
                delay = self._pace.delay(now)
                if not delay:
                    self._changed.wait()  # for room
            if delay:
                self._clock.sleep(delay)

    def leave(self, *, answered: float | None = None) -> None:
        """Make room for another call.

        Args:
            answered: what ``enter`` returned for the call, if it was answered.
        """
        with self._changed:
            self._pace.in_flight -= 1
            if answered is not None:
                self._pace.on_success(started=answered)
            self._changed.notify_all()

    def throttled(self, started: float, *, retry_after: float | None) -> None:
        """Note that a call which set off then was refused for being one too many.

        Args:
            started: what ``enter`` returned.
            retry_after: the pause that the provider asks for, in seconds; None if it named none.
        """
        with self._changed:
            now = self._clock.now()
            before = self._pace.delay(now)
            halved = self._pace.on_throttled(
                now, started=started, retry_after=retry_after, jitter=self._clock.jitter()
            )
            pause = self._pace.delay(now)
            self._times += halved
            self._lowest = min(self._lowest, self._pace.limit)
            if pause <= LONGEST_RETRY_AFTER:  # else nobody waits
                self._seconds += pause - before
        shared = self._throttle.shared
        if shared is not None and (halved or pause > before):
            with suppress(OSError):  # of a disk that cannot be written: the others find out
                shared.append(self.provider, self._origin, started, now, pause)

    def hear(self, started: float, now: float, pause: float) -> None:
        """Slow down as another worker was told to.

        Args:
            started: when its call set off.
            now: when that was refused.
            pause: seconds during which no call is to start.
        """
        with self._changed:
            if now <= self._clock.now():  # else of a session before the machine started
                self._pace.on_throttled(now, started=started, retry_after=pause)
                self._lowest = min(self._lowest, self._pace.limit)

    def take_slowdown(self) -> Slowdown | None:
        """Sum up what was noted here since the last time, None if nothing was."""
        with self._changed:
            if not self._times and not self._seconds:
                return None
            times, seconds = self._times, self._seconds
            self._times, self._seconds = 0, 0.0
            lowest = self._lowest * self._throttle.processes
        return Slowdown(
            provider=self.provider,
            times=times,
            lowest=lowest,
            seconds=seconds,
            status=self.refused_with,
        )

    def close(self) -> None:
        """Have the calls that wait fail: the session ends."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


@dataclass(slots=True, kw_only=True)
class Throttle:
    """Hold back the calls of a session in this process, for each provider and origin by itself.

    Attributes:
        ceiling: the most calls in flight to one provider, over all processes.
        processes: how many share that.
        shared: the file by which they hear of one another, None if there is but one. Whatever
            goes wrong with it, each still has its own pace.
        clock: how to pass the time.
    """

    ceiling: int = DEFAULT_CEILING
    processes: int = 1
    shared: Journal | None = None
    clock: PaceClock = field(default_factory=PaceClock)
    _providers: dict[tuple[str, str], ProviderThrottle] = field(default_factory=dict)
    _listening: threading.Lock = field(default_factory=fork_safe_lock)

    def of(self, provider: str, origin: str) -> ProviderThrottle:
        """Return the throttle of one provider."""
        found = self._providers.get((provider, origin))
        if found is not None:  # as nearly always
            return found
        new = ProviderThrottle(self, provider, origin)
        return self._providers.setdefault((provider, origin), new)  # atomic

    def listen(self, shared: Journal) -> None:
        """Read what providers told other workers, and slow down for each of them."""
        with self._listening, suppress(OSError):
            for entry in shared.unread():
                with suppress(ValueError, TypeError):  # not one of ours
                    provider, origin, started, now, pause = entry
                    throttle = self.of(str(provider), str(origin))
                    throttle.hear(float(started), float(now), float(pause))

    def holding_back(self) -> dict[str, int]:
        """Name the providers for whose sake a call would have to wait, with their last status."""
        providers = self._providers.copy().values()
        return {one.provider: one.refused_with for one in providers if one.holds_back}

    def take_slowdowns(self) -> list[Slowdown]:
        """Sum up how providers slowed us down since the last time."""
        taken = (one.take_slowdown() for one in list(self._providers.values()))
        return [one for one in taken if one]

    def close(self) -> None:
        """Have the calls that wait fail, and leave no file behind."""
        for one in list(self._providers.values()):
            one.close()
        if self.shared is not None:
            self.shared.remove()
