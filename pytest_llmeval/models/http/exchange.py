"""HTTP requests to models, whichever library sends them: as calls with keys, and how each is made.

The call of a request is answered by a stored reply, or by a fresh one that is stored first. Where
there is none, it raises why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.errors import BudgetExceeded, Lost, ProviderFailed, ReplayMiss
from pytest_llmeval.models.budget import Bill
from pytest_llmeval.models.calls import CachedCalls, Request, sampling_parameters
from pytest_llmeval.models.deadline import Deadline
from pytest_llmeval.models.facts import usage_of
from pytest_llmeval.models.http.answers import Expected, settled
from pytest_llmeval.models.http.dialect import PLACEHOLDER_KEY, Dialect, HttpRequest
from pytest_llmeval.models.http.http_reply import OWN_TYPE, HttpReply, own_failure
from pytest_llmeval.models.http.masking import masked, masked_success, secrets_of
from pytest_llmeval.models.http.retries import (
    Attempt,
    NetworkFailed,
    Services,
    is_throttled,
    send_with_retries,
)
from pytest_llmeval.records import Slot

# Posts a question of our own once: URL, headers, body, and the time that is left for it. Raises
# ``NetworkFailed`` and ``TimeIsUp``.
Post = Callable[[str, Mapping[str, str], bytes, Deadline], HttpReply]


class HttpFailed(ProviderFailed):
    """A call ended in a reply that cannot be used."""

    def __init__(
        self, reply: HttpReply, *, is_refusal: bool = False, unset: Sequence[str] = ()
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


# Why a request was not answered. An SDK is told by a reply, see ``seam.reply_for_sdk``.
Unanswered = ReplayMiss | BudgetExceeded | HttpFailed | NetworkFailed
UNANSWERED = (ReplayMiss, BudgetExceeded, HttpFailed, NetworkFailed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Answers the requests of one client.

    Attributes:
        dialect: of the vendor whose client it is.
        calls: where replies are kept and calls recorded.
        services: throttle, budget and limits.
    """

    dialect: Dialect
    calls: CachedCalls
    services: Services

    def call_for(
        self, request: HttpRequest, attempt: Attempt, *, awaits: bool = False
    ) -> tuple[Request, Expected]:
        """Describe a request as the cache and the run know it, and the reply that it wants.

        The call raises ``HttpFailed`` if the reply cannot be used, ``NetworkFailed`` if no
        attempt got one, and ``BudgetExceeded``.

        Args:
            request: what is to be sent.
            attempt: sends it once.
            awaits: an attempt goes on only while this event loop runs.
        """
        dialect, body = self.dialect, request.body
        canonical = dialect.canonical(request, self.calls.aliases)
        asked = dialect.read_request(request.path, body)
        name, sampling = asked.model, asked.sampling
        model = f"{dialect.provider}/{name}" if isinstance(name, str) else None
        expected = Expected(
            dialect=dialect, is_stream=asked.is_stream, answers=dialect.check_of(request.path)
        )
        # Read here and not where the call is made: the environment may be another trial's there.
        has_no_key = PLACEHOLDER_KEY in " ".join((*request.headers.values(), request.query))
        unset = _unset_variables(dialect) if has_no_key else ()
        key = canonical.key()
        call = Request(
            key=key,
            model=model,
            host=request.origin,
            parameters=sampling_parameters(sampling if isinstance(sampling, Mapping) else {}),
            canonical=canonical,
            accepts=expected.accepts,
            perform=partial(
                self._perform, request, expected, attempt, model=model, unset=unset, key=key
            ),
            awaits=awaits,
        )
        return call, expected

    def _perform(
        self,
        request: HttpRequest,
        expected: Expected,
        attempt: Attempt,
        slot: Slot,
        *,
        model: str | None,
        unset: Sequence[str],
        key: str,
    ) -> StoredReply:
        """Make the call; anything but a complete success is raised."""
        dialect, services = self.dialect, self.services
        _check_key(request, dialect.key_variable, unset=unset)
        throttle = services.throttle.of(dialect.provider, request.origin)
        with services.budget.metered(
            lambda deadline: settled(attempt(deadline), expected),
            _bill,
            model=model,
            body=request.body,
            own_limit=dialect.reply_limit,
        ) as metered:
            reply = send_with_retries(
                metered, services, throttle, note=partial(self.calls.trial.note_setback, key, slot)
            )
        # The keys are in no variable: pytest shows those of a call that fails.
        if reply.facts is None:
            raise HttpFailed(
                masked(reply, secrets_of(request.headers.items(), query=request.query))
            )
        return paid_reply(
            body=masked_success(
                reply, secrets_of(request.headers.items(), query=request.query)
            ).body,
            status=reply.status,
            headers={"content-type": reply.headers.get("content-type", "application/json")},
            facts=reply.facts,
        )


def _bill(reply: HttpReply) -> Bill:
    """Tell the budget what an attempt took."""
    if reply.facts is not None:
        return Bill(usage=usage_of(reply.facts))
    # A reply that we found unusable came all the same, and may be charged for.
    is_free = OWN_TYPE not in reply.error.names
    return Bill(counts=not is_throttled(reply), is_free=is_free)


def _unset_variables(dialect: Dialect) -> tuple[str, ...]:
    """Name the variable of a key that is missing, and that of the base URL if it is so too."""
    base = dialect.base_variable
    is_unset = base and not os.environ.get(base)
    return (dialect.key_variable, base) if is_unset else (dialect.key_variable,)


def _check_key(request: HttpRequest, variable: str, *, unset: Sequence[str]) -> None:
    """Refuse a request whose key is missing or cannot be sent.

    Args:
        request: about to be sent.
        variable: of the environment, from which the key is read.
        unset: the variables for want of which there is no key; none where there is one.
    """
    if unset:
        message = f"{variable} is not set. Set it, or replay a recorded run with --llm-cache=replay"
    elif not "".join(secrets_of(request.headers.items(), query=request.query)).isprintable():
        message = (
            f"the key that goes with the request cannot be sent: it holds a line end, or another "
            f"character that no HTTP header can have. See {variable}, and what else sets it"
        )
    else:
        return
    refusal = own_failure(HTTPStatus.UNAUTHORIZED, message, code="llmeval_no_key")
    raise HttpFailed(refusal, is_refusal=True, unset=unset)
