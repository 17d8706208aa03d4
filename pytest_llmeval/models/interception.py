"""Interception of the clients that an application builds itself: their questions are kept too.

This module decides which requests are kept; the modules of ``seams`` stand between clients and the
network. What is new goes out through the client's transport. Whatever else the client sends is not
even looked into.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pytest_llmeval.models.attribution import SENDING, CurrentTrial
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.seam import Question, described
from pytest_llmeval.models.http.sender import Sender
from pytest_llmeval.models.vendors.recognition import Certainty, Recognition

# By this header the SDKs of openai and anthropic tell that they try again themselves.
RETRYING = "x-stainless-retry-count"
# Fields in which vendors' requests have what a model is to read.
ASKING = frozenset((
    "content", "contents", "documents", "input", "message", "messages", "prompt", "requests",
    "texts",
))  # fmt: skip

# A request that is a question if its body agrees: what answers it, and whether its host is known,
# or the body has the last word.
Candidate = tuple[Exchange, Certainty]
# By which clients of a library send: its own, and what stands in its place.
Method = Callable[..., Any]


@dataclass(kw_only=True)
class Interception:
    """Decides which requests of an application are kept, and on whose behalf.

    Attributes:
        trial_to_charge: returns the trial that asks; None where a request is to be left alone.
        calls_of: makes the calls of a trial.
        sender: sends what clients of httpx and httpx2 ask.
        recognition: tells questions to models from other traffic.
        note: takes a sentence for the section.
        undoing: puts back what was there, at the end.
    """

    trial_to_charge: Callable[[], CurrentTrial | None]
    calls_of: Callable[[CurrentTrial], CachedCalls]
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
        trial = None if SENDING.get() else self.trial_to_charge()
        if trial is None or request.method != "POST":
            return None
        url, headers = urlsplit(str(request.url)), request.headers
        vendor, certainty = self.recognition.recognize(request.method, url, headers)
        if vendor is None:
            return None
        return Exchange(dialect=vendor, calls=self.calls_of(trial)), certainty

    def question(self, library: Any, request: Any, candidate: Candidate) -> Question | None:
        """Look at the body of a candidate, which has been read; None as above."""
        sent, (exchange, certainty) = described(request), candidate
        if sent is None:
            return None
        if certainty != "known":
            asked = exchange.dialect.read_request(sent.path, sent.body)
            if not isinstance(asked.model, str):
                return None
            shown, host = f"POST {sent.origin}{sent.path}", urlsplit(sent.origin).netloc
            if certainty == "no":
                if not ASKING.isdisjoint(sent.body):
                    self._note_once(
                        shown,
                        f"{shown} was left alone, though it looks like a question to a model. If "
                        f"it is one, name the host in the ini file: llm_intercept_hosts = {host}",
                    )
                return None
            self._note_once(shown, f"{shown} was taken for a question to a model, as it names one")
        return Question(library, request, sent, exchange, RETRYING in request.headers)

    def note_unknown(self, library: Any, why: object) -> None:
        """Note that the clients of a library are left alone."""
        name = library.__name__
        self._note_once(
            name,
            f"what clients of {name} {getattr(library, '__version__', '?')} ask is not kept, as "
            f"{why}: install another version of it",
        )

    def _note_once(self, subject: str, sentence: str) -> None:
        if subject not in self._noted:
            self._noted.add(subject)
            self.note(sentence)
