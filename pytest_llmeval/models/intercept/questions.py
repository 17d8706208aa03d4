"""Which of the requests that an application sends are kept, and on whose behalf.

Knows requests of httpx and httpx2, which look alike, and neither library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_llmeval.models.base import CurrentTrial
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.http.client_hook import Question, json_object
from pytest_llmeval.models.http.exchange import Dialect, Exchange
from pytest_llmeval.models.intercept.recognition import Head, Recognition
from pytest_llmeval.models.limits.retries import RetryPolicy

# By this header the SDKs of openai and anthropic tell that they try again themselves.
RETRYING = "x-stainless-retry-count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A request that is a question if its body agrees.

    Attributes:
        asker: on whose behalf it is made.
        dialect: the language that it is in.
        head: all but its body.
        is_known: any JSON object will do; else it must name a model.
    """

    asker: CurrentTrial
    dialect: Dialect
    head: Head
    is_known: bool


class Interception:
    """Decides what is kept of what an application sends.

    Args:
        asker: tells who asks; None where that is to be left alone.
        calls_of: makes the calls of whoever asks.
        retries: how to try again.
        recognition: tells questions to models from other traffic.
        note: takes a sentence for the section.

    Attributes:
        most: bytes that are read of a reply.
    """

    def __init__(
        self,
        asker: Callable[[], CurrentTrial | None],
        *,
        calls_of: Callable[[CurrentTrial], CachedCalls],
        retries: RetryPolicy,
        recognition: Recognition,
        note: Callable[[str], None],
    ) -> None:
        self.most = retries.max_reply_bytes
        self._retries = retries
        self._asker = asker
        self._calls_of = calls_of
        self._recognition = recognition
        self._note = note
        self._noted: set[str] = set()

    def sdk_trial(self, request: Any) -> CurrentTrial | None:
        """Return who sends a request by an SDK; None where that is to be left alone."""
        return self._asker() if RETRYING in request.headers else None

    def candidate(self, request: Any) -> Candidate | None:
        """Look at all but the body of a request; None for what is to be left alone."""
        asker = self._asker()
        if asker is None or request.method != "POST":
            return None
        head = Head(method=request.method, url=str(request.url), headers=request.headers)
        dialect = self._recognition.dialect_of(head)
        if dialect is None:
            return None
        certainty = self._recognition.certainty(head, dialect)
        if certainty != "no":
            return Candidate(asker=asker, dialect=dialect, head=head, is_known=certainty == "known")
        if head.parts.path.endswith("/chat/completions"):
            self._tell(
                head,
                "was left alone, though it looks like a question to a model. If it is one, "
                f"name the host in the ini file: llm_intercept_hosts = {_host(head)}",
            )
        return None

    def question(self, library: Any, request: Any, candidate: Candidate) -> Question | None:
        """Look at the body of a candidate, which has been read; None as above."""
        body = json_object(request.content)
        if body is None:
            return None
        if not candidate.is_known:
            if not isinstance(body.get("model"), str):
                return None
            self._tell(candidate.head, "was taken for a question to a model, as it names one")
        exchange = Exchange(
            dialect=candidate.dialect,
            calls=self._calls_of(candidate.asker),
            retries=self._retries,
        )
        return Question(
            library,
            request,
            body=body,
            exchange=exchange,
            retries_errors=RETRYING in request.headers,
        )

    def _tell(self, head: Head, what: str) -> None:
        url = f"{head.parts.scheme}://{_host(head)}{head.parts.path}"
        if url not in self._noted:
            self._noted.add(url)
            self._note(f"POST {url} {what}")


def _host(head: Head) -> str:
    return head.parts.netloc.rpartition("@")[2]  # without user and password
