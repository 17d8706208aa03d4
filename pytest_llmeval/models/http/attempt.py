"""The attempts of a call that is paid for: how one is made, whether another follows, and when.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus

from pytest_llmeval.cache.reply import SUCCESS, sensible, usage_of
from pytest_llmeval.errors import CallAbandoned, Lost, ProviderFailed
from pytest_llmeval.models.calls import Services
from pytest_llmeval.models.http import http_reply
from pytest_llmeval.models.http.answers import Expected, with_facts
from pytest_llmeval.models.http.dialect import HttpRequest
from pytest_llmeval.models.limits.budget import HighestCost, Reservation
from pytest_llmeval.models.limits.deadline import Deadline, TimeIsUp
from pytest_llmeval.models.limits.throttle import NoteSetback, ProviderThrottle, growing_pause

MOST_REFUSALS = 20  # of one call: what is too large for the limit itself never gets through
READ_TIMEOUTS = ("ReadTimeout", "SocketTimeoutError", "TimeoutError")  # of httpx, of aiohttp

# Sends a request once and reads the whole reply; raises ``NetworkFailed``, or ``TimeIsUp`` when
# nothing is left of the time that it is given.
Send = Callable[[Deadline], http_reply.HttpReply]


@cache
def gave_up(status: int) -> http_reply.HttpReply:
    """Word that a call was not made, as others were refused with that status for minutes."""
    todo = "Run the same again when it answers"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        todo = "Lower --llm-concurrency, or see what limits the account"
    told = f"the provider lets nothing through for minutes, so this call was not made. {todo}"
    return http_reply.own_failure(status, told, code="llmeval_gave_up")


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


class OwnDeadline(NetworkFailed, CallAbandoned):
    """The client waited no longer, by a timeout of its own that is shorter than ours."""

    def __init__(self, error: Exception) -> None:
        """Tell it from a network that failed."""
        super().__init__(error)
        self.lost, self.lost_for = Lost.OWN_TIMEOUT, ()


class HttpFailed(ProviderFailed):
    """A call ended in a reply that cannot be used."""

    def __init__(
        self, reply: http_reply.HttpReply, *, is_refusal: bool = False, unset: Sequence[str] = ()
    ) -> None:
        """Describe the reply by status and error code, as its text may quote the prompt."""
        lost = Lost.CONTENT if reply.failure == "content" else Lost.STATUS
        lost = Lost.KEY_REFUSED if reply.refuses_key else lost
        values = str(reply.status), *filter(None, [reply.error.code])
        if unset:
            lost, values = Lost.NO_KEY, tuple(unset)
        message = reply.error.message if is_refusal else lost.told(values)
        super().__init__(message, lost=lost, lost_for=values, is_refusal=is_refusal)
        self.reply = reply


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Attempt:
    """One attempt of a call; the next one is the same again.

    Attributes:
        request: what is asked.
        send: sends it once.
        services: throttle, budget and limits.
        expected: the kind of reply that is wanted.
        most: what an attempt can cost at most; None where no cap asks.
        patience: seconds for which the client waits, None where that is not known.
        note: is told what holds the call up.
    """

    request: HttpRequest
    send: Send
    services: Services
    expected: Expected
    most: HighestCost | None = None
    patience: float | None = None
    note: NoteSetback = lambda _: None

    @property
    def throttle(self) -> ProviderThrottle:
        """The throttle of the provider that is asked."""
        return self.services.throttle.of(self.expected.dialect.provider, self.request.origin)

    def made(self, deadline: Deadline) -> http_reply.HttpReply:
        """Make it once the throttle lets it through, under the caps.

        Args:
            deadline: of all attempts of the call.

        Returns:
            The reply, read to its end: with the facts of its call where it is an answer.

        Raises:
            NetworkFailed: there was no reply.
            TimeIsUp: it was not complete in time.
            BudgetExceeded: a cap leaves no room for it.
            ProviderFailed: the session ended before it was made.
        """
        services, throttle = self.services, self.throttle
        started = throttle.enter(self.note)
        if started is None:
            return gave_up(throttle.refused_with)
        answered = None
        try:
            if self.most is None:
                services.budget.count_sent()
                reply = with_facts(self.send(deadline), self.expected)
            else:
                reply = self._made_under_caps(self.most, deadline)
            if reply.status in SUCCESS:
                answered = started
            elif http_reply.is_throttled(reply):
                throttle.refused_with = reply.status
                throttle.throttled(started, retry_after=http_reply.retry_after(reply.headers))
        except NetworkFailed as exc:
            is_late, limit = type(exc.error).__name__ in READ_TIMEOUTS, services.limit.seconds
            if is_late and self.patience is not None and self.patience < limit:
                raise OwnDeadline(exc.error) from exc
            raise
        finally:
            throttle.leave(answered=answered)
        return reply

    def _made_under_caps(self, most: HighestCost, deadline: Deadline) -> http_reply.HttpReply:
        """Make it in a thread: to wait for room uses up its time."""
        reservation = Reservation(self.services.budget, most)

        def run() -> http_reply.HttpReply:
            reservation.take()
            reply = with_facts(self.send(Deadline(math.inf, None)), self.expected)
            if reply.facts is not None:
                reservation.settle(usage_of(sensible(reply.facts)))
            else:  # one that we found unusable came all the same, and may be charged for
                is_free = http_reply.OWN_TYPE not in reply.error.names
                reservation.settle(counts=not http_reply.is_throttled(reply), is_free=is_free)
            return reply

        try:
            return deadline.run(run)
        finally:
            reservation.close()


def last_reply(attempt: Attempt) -> http_reply.HttpReply:
    """Attempt a call until it succeeds, cannot succeed, or was tried often enough.

    Returns:
        The last reply, whatever its status.

    Raises:
        NetworkFailed: as the last attempt raised it.
        TimedOut: the attempts took too long together.
        BudgetExceeded, ProviderFailed: as ``Attempt.made``.
    """
    services, clock = attempt.services, attempt.services.throttle.clock
    deadline = Deadline(services.limit.seconds, services.limit.worker)
    retries = refusals = 0
    while True:
        failure, pause = None, 0.0
        try:
            reply = attempt.made(deadline)
        except TimeIsUp:
            raise TimedOut(services.limit.seconds) from None
        except NetworkFailed as exc:
            failure = exc
            is_final = isinstance(exc, OwnDeadline)
        else:
            is_final = reply.status in SUCCESS or not http_reply.may_pass(reply)
            is_final = is_final or reply is gave_up(reply.status)
        if failure is None and not is_final and http_reply.is_throttled(reply):
            refusals += 1
            is_final = refusals >= MOST_REFUSALS or attempt.throttle.has_given_up
        elif not is_final:
            is_final = retries >= services.retries
            pause = growing_pause(retries, jitter=clock.jitter())
            retries += 1
        if is_final or not deadline.allows(pause):
            if failure is not None:
                raise failure
            return reply
        attempt.note(f"HTTP {reply.status}" if failure is None else failure.in_words)
        if pause:
            clock.sleep(pause)
