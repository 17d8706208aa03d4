"""HTTP requests to models, whichever library sends them: as calls with keys, and how each is made.

The call of a request is answered by a stored reply, or by a fresh one that is stored first. Where
there is none, it raises why.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from http import HTTPStatus
from typing import Any, NamedTuple

from pytest_llmeval.cache.key import Canonical, canonical_request
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.errors import BudgetExceeded, Lost, ProviderFailed, ReplayMiss
from pytest_llmeval.models.budget import Bill, OwnLimit, no_own_limit
from pytest_llmeval.models.calls import CachedCalls, Request, sampling_parameters
from pytest_llmeval.models.deadline import Deadline
from pytest_llmeval.models.facts import Facts, usage_of
from pytest_llmeval.models.http.answers import (
    ANSWER_FIELDS,
    AnswerCheck,
    AnswerFields,
    Expected,
    no_answer,
    settled,
)
from pytest_llmeval.models.http.http_reply import OWN_TYPE, HttpReply, own_failure
from pytest_llmeval.models.http.masking import masked, masked_success, secrets_of
from pytest_llmeval.models.http.retries import (
    Attempt,
    NetworkFailed,
    RetryPolicy,
    is_throttled,
    send_with_retries,
)
from pytest_llmeval.models.http.stream import JsonObject, joined
from pytest_llmeval.models.http.uploads import FORM
from pytest_llmeval.models.message import ASKING, said_in
from pytest_llmeval.records import Slot

# Posts a question of our own once: URL, headers, body, and the time that is left for it. Raises
# ``NetworkFailed`` and ``TimeIsUp``.
Post = Callable[[str, Mapping[str, str], bytes, Deadline], HttpReply]

PLACEHOLDER_KEY = "llmeval-no-key-is-set"

# Types of a body that may be JSON: LiteLLM names none to ollama, and aiohttp puts in its own.
MAYBE_JSON = ("application/json", "", "application/octet-stream")


class RequestFacts(NamedTuple):
    """The facts that a request tells in its path and its body.

    Attributes:
        model: the name of the model; no text where it names none.
        is_stream: a stream is wanted.
        sampling: an object that has the sampling parameters, by our names, among others.
    """

    model: object
    is_stream: bool
    sampling: object


@cache
def ending_in(ends: tuple[str, ...]) -> re.Pattern[str]:
    """Compile patterns for ends of paths; of the one that fits best there is a numbered group.

    It begins first: /api/embeddings of one vendor ends as /embeddings of another does.
    """
    return re.compile(f"(?:{'|'.join(f'({end})' for end in ends)})$")


def read_body(_path: str, body: JsonObject) -> RequestFacts:
    """Read the facts of a request that has them in its body, as most vendors' have."""
    return RequestFacts(model=body.get("model"), is_stream=bool(body.get("stream")), sampling=body)


def as_it_is(value: Any) -> Any:
    """Change nothing."""
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The language of one vendor: its paths, its headers and its replies.

    Attributes:
        provider: the first half of a model name.
        speaks_as: the vendor whose dialect this is, which stands in keys; "" for the provider.
        paths: patterns for the ends of the paths whose replies are kept.
        uploads: likewise of paths that take a form with a file.
        key_variable: environment variable of the API key.
        base_variable: that of the base URL, whose host is part of every key; "" for none.
        beta_header: request header that changes what a request means, "" for none.
        read_facts: picks model, fingerprint and tokens out of a reply.
        read_request: reads model, stream and sampling parameters out of path and body.
        part_of: words a chunk of a stream as a part of a reply in one piece, see ``joined``.
        is_whole: tells whether such a reply is whole, where the vendor sends no end mark.
        asking: fields of a request that hold messages, in the order in which a model reads them,
            and who says those that name nobody.
        said: lists what a reply says: messages, parts of one, or texts.
        common: words any of these as most vendors do, see ``messages_in``.
        answer_fields: fields of a reply that have room for an answer, and their types.
        reply_limit: reads the most tokens of a reply from a field that no other vendor has.
        answers: by the end of a path, a check whether the reply of a model is an answer. It is
            given the reply, in one piece.
    """

    provider: str
    speaks_as: str = ""
    paths: tuple[str, ...]
    uploads: tuple[str, ...] = ()
    key_variable: str
    read_facts: Callable[[JsonObject], Facts]
    base_variable: str = ""
    beta_header: str = ""
    read_request: Callable[[str, JsonObject], RequestFacts] = read_body
    part_of: Callable[[JsonObject], JsonObject] = as_it_is
    is_whole: AnswerCheck = no_answer
    asking: Mapping[str, str] = field(default_factory=lambda: ASKING)
    said: Callable[[JsonObject], Iterable[object]] = said_in
    common: Callable[[Any], Any] = as_it_is
    answer_fields: AnswerFields = field(default_factory=lambda: ANSWER_FIELDS)
    reply_limit: OwnLimit = no_own_limit
    answers: Mapping[str, AnswerCheck] = field(default_factory=dict)

    def keeps(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        """Return whether the reply to such a request is kept, if its body can be read.

        Args:
            method: in upper case.
            path: without query.
            headers: by lower-case name.
        """
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        ends = self.paths if content_type in MAYBE_JSON else ()
        ends = self.uploads if content_type == FORM else ends
        return method == "POST" and bool(ends) and ending_in(ends).search(path) is not None

    def expected(self, path: str, asked: RequestFacts) -> Expected:
        """Tell what kind of reply a request to a path wants."""
        answers = self.answers.get(next(filter(path.endswith, self.answers), ""))
        return Expected(dialect=self, is_stream=asked.is_stream, answers=answers)

    def join(self, chunks: Iterable[JsonObject]) -> JsonObject:
        """Put the chunks of a stream together to the reply that they would be in one piece."""
        return joined(map(self.part_of, chunks))

    def canonical(self, request: HttpRequest, aliases: Sequence[tuple[str, str]]) -> Canonical:
        """Write a request in the form of which its key is made.

        Args:
            request: what is to be sent.
            aliases: pairs of origins; a request to the first has the key of the second.
        """
        return canonical_request(
            provider=self.speaks_as or self.provider,
            method=request.method,
            origin=request.origin,
            path=request.path,
            query=request.query,
            body=request.body,
            beta=request.headers.get(self.beta_header) if self.beta_header else None,
            aliases=aliases,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request whose reply is kept.

    Attributes:
        origin: scheme, host and port, without user or password.
        path: as sent; ``query`` likewise, "" for none.
        headers: by lower-case name. They hold the key, so none is kept and nothing shows them.
        body: the JSON object that is sent.
    """

    method: str
    origin: str
    path: str
    query: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False, compare=False)
    body: JsonObject = field(repr=False)


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


# Why a request was not answered. An SDK is told by a reply, see ``client_hook.reply_for_sdk``.
Unanswered = ReplayMiss | BudgetExceeded | HttpFailed | NetworkFailed
UNANSWERED = (ReplayMiss, BudgetExceeded, HttpFailed, NetworkFailed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Answers the requests of one client.

    Attributes:
        dialect: of the vendor whose client it is.
        calls: where replies are kept and calls recorded.
        retries: how to try again.
    """

    dialect: Dialect
    calls: CachedCalls
    retries: RetryPolicy

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
        expected = dialect.expected(request.path, asked)
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
        dialect, retries = self.dialect, self.retries
        _check_key(request, dialect.key_variable, unset=unset)
        throttle = retries.throttle.of(dialect.provider, request.origin)
        with retries.budget.metered(
            lambda deadline: settled(attempt(deadline), expected),
            _bill,
            model=model,
            body=request.body,
            own_limit=dialect.reply_limit,
        ) as metered:
            reply = send_with_retries(
                metered, retries, throttle, note=partial(self.calls.trial.note_setback, key, slot)
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
