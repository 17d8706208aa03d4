"""Making a failed attempt again: whether, and after how long.

Two kinds of failure: one that may pass (a lost connection, a 500) is forgiven twice. A
refusal for being one too many (429, 503, 529, or whatever comes with Retry-After) is no
failure at all: the call waits at the throttle of its provider until it is let through.

A loop of our own and not a library such as stamina: the wait must come from the
server's Retry-After where there is one, must be shared by all calls to that provider,
must end where it is too long, and the SDKs must be told that nobody is to retry behind
us. With a library these rules become hooks that are longer than the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Literal, Protocol

from pytest_llmeval.cache.reply import SUCCESS
from pytest_llmeval.errors import CallAbandoned, Lost, ProviderFailed
from pytest_llmeval.models.budget import Budget
from pytest_llmeval.models.deadline import Deadline, TimeIsUp, TimeLimit
from pytest_llmeval.models.http.http_reply import (
    MAX_REPLY_BYTES,
    RETRIED_STATUSES,
    THROTTLING_STATUSES,
    HttpReply,
    own_failure,
)
from pytest_llmeval.models.throttle import ProviderThrottle, Throttle, growing_pause
from pytest_llmeval.originals import Clock

MOST_REFUSALS = 20  # of one call: what is too large for the limit itself never gets through


# Makes a call once and reads the whole reply; raises ``NetworkFailed``, or ``TimeIsUp`` when
# nothing is left of the time that it is given.
Attempt = Callable[[Deadline], HttpReply]
End = Literal["final", "throttled", "may pass"]  # of an attempt


GAVE_UP = own_failure(
    HTTPStatus.TOO_MANY_REQUESTS,
    "the provider lets nothing through for minutes, so this call was not made. "
    "Lower --llm-concurrency, or see what limits the account",
    code="llmeval_gave_up",
)


class NetworkFailed(ProviderFailed):
    """An attempt brought no reply.

    Attributes:
        error: what the HTTP library raised.
    """

    def __init__(self, error: Exception) -> None:
        """Describe the error by its type: its text may quote a key, or name files and hosts."""
        kind, cause = type(error).__name__, getattr(error, "strerror", None)
        told = f"{kind}: {cause}" if isinstance(error, OSError) and cause else kind
        ProviderFailed.__init__(self, told, lost=Lost.NETWORK, lost_for=(kind,))
        self.error = error


class TimedOut(NetworkFailed):
    """A call took longer than ``--llm-timeout`` allows, its retries included."""

    def __init__(self, seconds: float) -> None:
        """Say how long it was waited for, and what to do about it."""
        error = TimeoutError()
        error.strerror = (
            f"nothing came within {seconds:g} s, retries included; if the model needs "
            "longer, raise --llm-timeout"
        )
        super().__init__(error)
        self.lost, self.lost_for = Lost.TIMEOUT, (f"{seconds:g}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every call of a session shares: throttle, budget and limits.

    Attributes:
        retries: attempts after the first one; refusals for being one too many not counted.
        throttle: through which every attempt goes, and whose clock passes the time.
        budget: from which every attempt is paid.
        limit: for all attempts of one call and the waits between them; those at the throttle, for
            the provider's sake, do not count.
        max_reply_bytes: decoded, that are read of a reply.
    """

    retries: int = 2
    throttle: Throttle = field(default_factory=Throttle)
    budget: Budget = field(default_factory=Budget)
    limit: TimeLimit = field(default_factory=TimeLimit)
    max_reply_bytes: int = MAX_REPLY_BYTES


class OwnDeadline(NetworkFailed, CallAbandoned):
    """The client waited no longer, by a timeout of its own that is shorter than ours."""

    def __init__(self, error: Exception) -> None:
        """Tell it from a network that failed."""
        super().__init__(error)
        self.lost, self.lost_for = Lost.OWN_TIMEOUT, ()


class NoteSetback(Protocol):
    """Notes why a call is held up by its provider."""

    def __call__(self, *, why: str) -> None:
        """Note it."""


def note_nothing(*, why: str) -> None:
    """Note of no trial why a call is held up."""


def send_with_retries(
    attempt: Attempt,
    policy: Services,
    throttle: ProviderThrottle,
    *,
    note: NoteSetback = note_nothing,
) -> HttpReply:
    """Attempt a call until it succeeds, cannot succeed, or was tried often enough.

    Args:
        attempt: makes it once.
        policy: how often, and within which limits.
        throttle: of its provider.
        note: is told what holds the call up.

    Returns:
        The last reply, whatever its status.

    Raises:
        NetworkFailed: as the last attempt raised it.
        TimedOut: the attempts took too long together.
        ProviderFailed: the session ended before the call was made.
    """
    clock, deadline = policy.throttle.clock, policy.limit.begin()
    retries = refusals = 0
    while True:
        if throttle.holds_back:
            note(why="the provider wanted fewer calls")
        started = throttle.enter()
        if started is None:
            return GAVE_UP
        try:
            outcome, end = _attempt(attempt, throttle, started=started, deadline=deadline)
        except TimeIsUp:
            raise TimedOut(policy.limit.seconds) from None
        pause = 0.0
        if end == "throttled":
            refusals += 1
            is_final = refusals >= MOST_REFUSALS or throttle.has_given_up
        else:
            is_final = end == "final" or retries >= policy.retries
            if not is_final:
                pause = growing_pause(retries, jitter=clock.jitter())
            retries += 1
        if is_final or not deadline.allows(pause):
            if isinstance(outcome, NetworkFailed):
                raise outcome
            return outcome
        note(why=f"HTTP {outcome.status}" if isinstance(outcome, HttpReply) else outcome.in_words)
        if pause:
            clock.sleep(pause)


def _attempt(
    attempt: Attempt, throttle: ProviderThrottle, *, started: float, deadline: Deadline
) -> tuple[HttpReply | NetworkFailed, End]:
    """Make one attempt, note what was learnt, and tell what may follow."""
    try:
        reply = attempt(deadline)
        if reply.status in SUCCESS:
            throttle.succeeded(started)
            return reply, "final"
        if is_throttled(reply):
            throttle.throttled(started, retry_after=retry_after(reply.headers))
            return reply, "throttled"
    except NetworkFailed as exc:
        return exc, "final" if isinstance(exc, OwnDeadline) else "may pass"
    else:
        return reply, "may pass" if may_pass(reply) else "final"
    finally:
        throttle.leave()


def is_throttled(reply: HttpReply) -> bool:
    """Whether the provider only wants fewer calls, and will answer this one later."""
    if not may_pass(reply) or reply.error.is_unpaid:
        return False
    return reply.status in THROTTLING_STATUSES or retry_after(reply.headers) is not None


def may_pass(outcome: HttpReply) -> bool:
    """Whether asking again may help: not if the server says no, or refuses the request."""
    if outcome.headers.get("x-should-retry") == "false":
        return False
    is_servers_fault = outcome.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if outcome.status not in RETRIED_STATUSES and not is_servers_fault:
        return False
    return outcome.failure == "infrastructure"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read the wait the server asks for, in seconds; None if it names no sensible one."""
    value, milliseconds = headers.get("retry-after", ""), headers.get("retry-after-ms", "")
    for seconds in (_number(milliseconds) / 1000, _number(value), _seconds_until(value)):
        if math.isfinite(seconds):
            return seconds if seconds >= 0 else None
    return None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _seconds_until(date: str) -> float:
    try:
        moment = parsedate_to_datetime(date)
        return (moment.replace(tzinfo=moment.tzinfo or UTC) - Clock.now()).total_seconds()
    except (ValueError, OverflowError):  # the latter by a year or a zone beyond what C counts
        return math.nan
