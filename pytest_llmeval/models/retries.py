"""When a failed attempt is made again, and after how long.

A loop of our own and not a library such as stamina: the wait must come from the
server's Retry-After where there is one, the attempt must be given up at once where
that is too long, and the SDKs must be told that nobody is to retry behind us. With a
library these rules become hooks that are longer than the loop.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from pytest_llmeval.errors import ProviderFailed

LONGEST_RETRY_AFTER = 120.0
FIRST_DELAY = 0.5
LONGEST_DELAY = 8.0
LARGEST_JITTER = 0.25

RETRIED_STATUSES = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.TOO_MANY_REQUESTS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireReply:
    """An HTTP reply, whichever library brought it.

    Attributes:
        headers: by lower-case name.
        body: decoded bytes.
        seconds: how long this one attempt took.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0


class NetworkFailed(ProviderFailed):
    """An attempt brought no reply.

    Attributes:
        error: what the HTTP library raised.
    """

    def __init__(self, error: Exception) -> None:
        """Describe the error by its type: its text may name files and hosts."""
        super().__init__(f"network: {type(error).__name__}")
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often to try again, and how to pass the time.

    Attributes:
        retries: attempts after the first one.
        sleep: waits so many seconds.
        jitter: a random number in [0, 1), so that trials do not come back in step.
    """

    retries: int = 2
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


def send_with_retries(attempt: Callable[[], WireReply], policy: RetryPolicy) -> WireReply:
    """Attempt a call until it succeeds, cannot succeed, or was tried often enough.

    Args:
        attempt: makes the call once.
        policy: how often, and how to wait.

    Returns:
        The last reply, whatever its status.

    Raises:
        NetworkFailed: as the last attempt raised it.
    """
    for retry in range(policy.retries):
        try:
            reply = attempt()
        except NetworkFailed:
            policy.sleep(_backoff(retry, policy.jitter()))
            continue
        delay = delay_before_retry(reply, retry, jitter=policy.jitter())
        if delay is None:
            return reply
        policy.sleep(delay)
    return attempt()


def delay_before_retry(reply: WireReply, retry: int, *, jitter: float) -> float | None:
    """Tell how long to wait before asking again.

    Args:
        reply: what the last attempt brought.
        retry: how many retries were made before this one, from 0.
        jitter: random, in [0, 1).

    Returns:
        Seconds; None if asking again is no use: the reply is no passing failure, the
        server says so, or it wants to be left alone for more than two minutes.
    """
    if reply.status not in RETRIED_STATUSES and reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return None
    if reply.headers.get("x-should-retry") == "false":
        return None
    asked = _retry_after(reply.headers)
    if asked is None:
        return _backoff(retry, jitter)
    return asked if asked <= LONGEST_RETRY_AFTER else None


def _backoff(retry: int, jitter: float) -> float:
    return float(min(FIRST_DELAY * 2**retry, LONGEST_DELAY)) * (1 - LARGEST_JITTER * jitter)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read the wait the server asks for, in seconds; None if it names no sensible one."""
    value = headers.get("retry-after", "")
    seconds = _number(headers.get("retry-after-ms", "")) / 1000
    if math.isnan(seconds):
        seconds = _number(value)
    if math.isnan(seconds):
        seconds = _seconds_until(value)
    return seconds if seconds >= 0 else None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _seconds_until(date: str) -> float:
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
