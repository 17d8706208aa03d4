"""Interception of the clients that an application builds itself: their questions are kept too.

The seam is what every client of httpx and httpx2 sends through in the end, the public
``handle_request`` of their ``HTTPTransport``. It is taken at the class, so it does not matter
when and where a client was built; and once somebody has imported the library, so a session imports
none for its own sake. What is asked anew goes out through the client's transport. Whatever else the
client sends is not even looked into.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from inspect import signature
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit
from weakref import ref

from pytest_llmeval.models.attribution import CurrentTrial, is_sending
from pytest_llmeval.models.calls import CachedCalls, is_on_asyncio
from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.retries import Services
from pytest_llmeval.models.http.seam import (
    Question,
    body_of,
    send_once_async,
    uncached,
)
from pytest_llmeval.models.http.sender import Sender, is_stubbed
from pytest_llmeval.models.http.urllib3_seam import sending_by_botocore, sending_by_requests
from pytest_llmeval.models.vendors.recognition import Certainty, Recognition

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

# By this header the SDKs of openai and anthropic tell that they try again themselves.
RETRYING = "x-stainless-retry-count"
# Fields in which vendors' requests have what a model is to read.
ASKING = frozenset(
    {
        "content", "contents", "documents", "input", "message", "messages", "prompt", "requests",
        "texts",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A request that is a question if its body agrees.

    Attributes:
        exchange: answers it.
        url: where it goes.
        certainty: whether its host is known, or the body has the last word.
    """

    exchange: Exchange
    url: SplitResult = field(repr=False)  # a query may hold a key
    certainty: Certainty


@dataclass(kw_only=True)
class Interception:
    """Decides which requests of an application are kept, and on whose behalf.

    Attributes:
        trial_to_charge: returns the trial that asks; None where a request is to be left alone.
        calls_of: makes the calls of a trial.
        services: throttle, budget and limits.
        sender: sends what clients of httpx and httpx2 ask.
        recognition: tells questions to models from other traffic.
        note: takes a sentence for the section.
        undoing: puts back what was there, at the end.
    """

    trial_to_charge: Callable[[], CurrentTrial | None]
    calls_of: Callable[[CurrentTrial], CachedCalls]
    services: Services
    sender: Sender
    recognition: Recognition
    note: Callable[[str], None]
    undoing: ExitStack = field(default_factory=ExitStack)
    _noted: set[str] = field(default_factory=set)

    def sdk_trial(self, request: Any) -> CurrentTrial | None:
        """Return the trial that sends a request by an SDK; None where it is to be left alone."""
        return self.trial_to_charge() if RETRYING in request.headers else None

    def candidate(self, request: Any) -> Candidate | None:
        """Look at all but the body of a request; None for one that is to be left alone."""
        trial = None if is_sending() else self.trial_to_charge()
        if trial is None or request.method != "POST":
            return None
        url, headers = urlsplit(str(request.url)), request.headers
        vendor, certainty = self.recognition.recognize(request.method, url, headers)
        if vendor is None:
            return None
        exchange = Exchange(dialect=vendor, calls=self.calls_of(trial), services=self.services)
        return Candidate(exchange=exchange, url=url, certainty=certainty)

    def question(self, library: Any, request: Any, candidate: Candidate) -> Question | None:
        """Look at the body of a candidate, which has been read; None as above."""
        body = body_of(request)
        if body is None:
            return None
        if candidate.certainty != "known":
            url = candidate.url
            asked = candidate.exchange.dialect.read_request(url.path, body)
            if not isinstance(asked.model, str):
                return None
            if candidate.certainty == "no":
                if not ASKING.isdisjoint(body):
                    self._tell(
                        url,
                        "was left alone, though it looks like a question to a model. If it is one, "
                        f"name the host in the ini file: llm_intercept_hosts = {_host(url)}",
                    )
                return None
            self._tell(url, "was taken for a question to a model, as it names one")
        return Question(
            library,
            request,
            body=body,
            exchange=candidate.exchange,
            retries_errors=RETRYING in request.headers,
        )

    def seam(self, library: Any, kind: str, name: str, *, arguments: int) -> Any:
        """Find the class of a library that has a method; None, with a note, if it has it no more.

        Args:
            library: a module.
            kind: the class.
            name: the method.
            arguments: how many it is to take.
        """
        owner = getattr(library, kind, None)
        try:
            signature(vars(owner)[name]).bind(*range(arguments))
        except (KeyError, TypeError, ValueError):
            self.note_unknown(library, f"{kind}.{name} is not as expected")
            return None
        return owner

    def note_unknown(self, library: Any, why: object) -> None:
        """Note that the clients of a library are left alone."""
        name = library.__name__
        self._note_once(
            name,
            f"what clients of {name} {getattr(library, '__version__', '?')} ask is not kept, as "
            f"{why}: install another version of it",
        )

    def _tell(self, url: SplitResult, what: str) -> None:
        shown = f"{url.scheme}://{_host(url)}{url.path}"
        self._note_once(shown, f"POST {shown} {what}")

    def _note_once(self, subject: str, sentence: str) -> None:
        if subject not in self._noted:
            self._noted.add(subject)
            self.note(sentence)


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]  # without user and password


def take_over(library: ModuleType, interception: Interception) -> None:
    """Stand between all clients of a library of ``SEAMS`` and the network.

    Args:
        library: is imported.
        interception: decides which requests are kept.
    """
    for kind, name, arguments, patched in SEAMS[library.__name__]:
        owner = interception.seam(library, kind, name, arguments=arguments)
        if owner is not None:
            plain = getattr(owner, name)
            setattr(owner, name, patched(plain, library, interception))
            interception.undoing.callback(setattr, owner, name, plain)


def _blocking(
    plain: Callable[[Any, Any], Any], library: Any, interception: Interception
) -> Callable[[Any, Any], Any]:
    """Make the method by which blocking clients send."""

    def handle_request(transport: Any, request: Any) -> Any:
        if is_sending() or is_stubbed(library, awaits=False):
            return plain(transport, request)
        candidate = interception.candidate(request)
        if candidate is not None:
            request.read()
            question = interception.question(library, request, candidate)
            if question is not None:
                return question.answer(
                    interception.sender.attempt(library, transport, request, plain)
                )
        with uncached(interception.sdk_trial(request), request) as came:
            return came(plain(transport, request))

    return handle_request


class EventLoops:
    """The event loops from which requests came."""

    def __init__(self) -> None:
        self._last: Callable[[], AbstractEventLoop | None] = lambda: None
        self._number = 0

    def may_change(self) -> bool:
        """Tell whether the next request of a client may come from another loop than this one.

        A connection that was kept belongs to the loop on which it was opened. A request from
        another loop would be sent on it, and paid for, but its reply could not be read.
        """
        import asyncio  # where nothing awaits nobody needs it

        loop = asyncio.get_running_loop()
        is_new = self._last() is not loop
        if is_new:
            self._last = ref(loop)
            self._number += 1
        return is_new or self._number > 1


def _awaitable(
    plain: Callable[[Any, Any], Awaitable[Any]], library: Any, interception: Interception
) -> Callable[[Any, Any], Awaitable[Any]]:
    """Make the method by which awaitable clients send; off asyncio it lets all pass.

    An attempt that is made through the transport itself runs on the loop, where its connections
    are; what waits for it and keeps the reply does so in a thread.
    """
    loops, most = EventLoops(), interception.services.max_reply_bytes

    async def handle_async_request(transport: Any, request: Any) -> Any:
        if is_sending() or is_stubbed(library, awaits=True):
            return await plain(transport, request)
        candidate = interception.candidate(request)
        if candidate is not None and is_on_asyncio():
            await request.aread()
            question = interception.question(library, request, candidate)
            if question is not None:
                beside = interception.sender.beside(library, transport, request, plain, awaits=True)
                if beside is not None:
                    return await question.answer_async(beside)
                if loops.may_change():
                    request.headers["connection"] = "close"
                send = partial(plain, transport)
                return await question.answer_on_loop(
                    partial(send_once_async, library, send, request, most=most)
                )
        with uncached(interception.sdk_trial(request), request) as came:
            return came(await plain(transport, request))

    return handle_async_request


def _connecting(
    plain: Callable[..., Awaitable[Any]], library: Any, interception: Interception
) -> Callable[..., Awaitable[Any]]:
    """Make the method by which connectors of aiohttp get a connection for a request.

    Its adapter takes httpx, which is imported once an eval sends by aiohttp, and not before.
    """

    @cache
    def adapted() -> Callable[..., Awaitable[Any]]:
        try:
            from pytest_llmeval.models.http.aiohttp_seam import connecting
        except Exception as exc:  # a version whose parts are others
            interception.note_unknown(library, f"its parts are others ({type(exc).__name__})")
            return plain
        return connecting(plain, library, interception)

    async def connect(connector: Any, sent: Any, traces: Any, timeout: Any) -> Any:
        is_eval = interception.trial_to_charge() is not None
        return await (adapted() if is_eval else plain)(connector, sent, traces, timeout)

    return connect


Seam = tuple[str, str, int, Callable[..., Any]]
# Class, method, how many arguments it takes, and what makes another of it, by module of ``SEEN``.
_OF_HTTPX: tuple[Seam, ...] = (
    ("HTTPTransport", "handle_request", 2, _blocking),
    ("AsyncHTTPTransport", "handle_async_request", 2, _awaitable),
)
SEAMS: Mapping[str, tuple[Seam, ...]] = {
    "httpx": _OF_HTTPX,
    "httpx2": _OF_HTTPX,
    "aiohttp": (("BaseConnector", "connect", 4, _connecting),),
    "requests.adapters": (("HTTPAdapter", "send", 2, sending_by_requests),),
    "botocore.httpsession": (("URLLib3Session", "send", 2, sending_by_botocore),),
}
