"""HTTP requests to models, whichever library sends them: as calls with keys, and how each is made.

The call of a request is answered by a stored reply, or by a fresh one that is stored first. Where
there is none, it raises why.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.errors import BudgetExceeded, ClientLate, ReplayMiss
from pytest_llmeval.models.calls import CachedCalls, Request, sampling_parameters
from pytest_llmeval.models.http.answers import Expected
from pytest_llmeval.models.http.attempt import Attempt, HttpFailed, NetworkFailed, Send, last_reply
from pytest_llmeval.models.http.dialect import PLACEHOLDER_KEY, Dialect, HttpRequest
from pytest_llmeval.models.http.http_reply import own_failure
from pytest_llmeval.models.http.masking import masked, masked_success, secrets_of
from pytest_llmeval.records import Slot

# Why a request was not answered. An SDK is told by a reply, see ``seam.reply_for_sdk``.
Unanswered = ReplayMiss | BudgetExceeded | ClientLate | HttpFailed | NetworkFailed
UNANSWERED = (ReplayMiss, BudgetExceeded, ClientLate, HttpFailed, NetworkFailed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Answers the requests of one client.

    Attributes:
        dialect: of the vendor whose client it is.
        calls: where replies are kept and calls recorded.
    """

    dialect: Dialect
    calls: CachedCalls

    def call_for(
        self, asked: HttpRequest, send: Send, *, awaits: bool = False, patience: float | None = None
    ) -> tuple[Request, Expected]:
        """Describe a request as the cache and the run know it, and the reply that it wants.

        The call raises ``HttpFailed`` if the reply cannot be used, ``NetworkFailed`` if no
        attempt got one, and ``BudgetExceeded``.

        Args:
            asked: what is to be sent.
            send: sends it once.
            awaits: an attempt goes on only while this event loop runs.
            patience: seconds for which its client waits, None where that is not known.
        """
        dialect, services = self.dialect, self.calls.services
        name, is_stream, sampling = dialect.read_request(asked.path, asked.body)
        answers = dialect.check_of(asked.path)
        expected = Expected(dialect=dialect, is_stream=is_stream, answers=answers)
        canonical = dialect.canonical(asked, self.calls.aliases)
        # Read here and not where the call is made: the environment may be another trial's there.
        unset, base = list[str](), dialect.base_variable
        if PLACEHOLDER_KEY in " ".join((*asked.headers.values(), asked.query)):
            is_unset = base and not os.environ.get(base)
            unset = [dialect.key_variable, base] if is_unset else [dialect.key_variable]
        key = canonical.key()
        model = f"{dialect.provider}/{name}" if isinstance(name, str) else None
        first = Attempt(
            request=asked, send=send, services=services, expected=expected, patience=patience
        )
        call = Request(
            key=key,
            model=model,
            host=asked.origin,
            parameters=sampling_parameters(sampling if isinstance(sampling, Mapping) else {}),
            canonical=canonical,
            accepts=expected.accepts,
            perform=partial(self._perform, first, key=key, model=model, unset=unset),
            awaits=awaits,
            patience=patience,
        )
        return call, expected

    def _perform(
        self, first: Attempt, slot: Slot, *, key: str, model: str | None, unset: Sequence[str]
    ) -> StoredReply:
        """Make the call; anything but a complete success is raised."""
        request, budget = first.request, first.services.budget
        _check_key(request, self.dialect.key_variable, unset=unset)
        most = budget.most(model, request.body, self.dialect.reply_limit)
        note = partial(self.calls.trial.note_setback, key, slot)
        reply = last_reply(replace(first, most=most, note=note))
        # The keys are in no variable: pytest shows those of a call that fails.
        if reply.facts is None:
            raise HttpFailed(masked(reply, secrets_of(request.headers, query=request.query)))
        masked_one = masked_success(reply, secrets_of(request.headers, query=request.query))
        headers = {"content-type": reply.headers.get("content-type", "application/json")}
        return paid_reply(masked_one.body, reply.status, headers=headers, facts=reply.facts)


def _check_key(request: HttpRequest, variable: str, *, unset: Sequence[str]) -> None:
    """Refuse a request whose key is missing or cannot be sent.

    Args:
        request: about to be sent.
        variable: of the environment, from which the key is read.
        unset: the variables for want of which there is no key; none where there is one.
    """
    if unset:
        message = f"{variable} is not set. Set it, or replay a recorded run with --llm-cache=replay"
    elif (request.query or not "".join(request.headers.values()).isprintable()) and not "".join(
        secrets_of(request.headers, query=request.query)
    ).isprintable():
        message = (
            f"the key that goes with the request cannot be sent: it holds a line end, or another "
            f"character that no HTTP header can have. See {variable}, and what else sets it"
        )
    else:
        return
    refusal = own_failure(HTTPStatus.UNAUTHORIZED, message, code="llmeval_no_key")
    raise HttpFailed(refusal, is_refusal=True, unset=unset)
