"""What becomes of a request whose reply is not kept: a list of models, a count of tokens.

It is sent as it is. But a provider that fails is no result of the trial, a key that it quotes
is shown to nobody, and under ``--llm-cache=replay`` nothing is sent at all.
"""

from __future__ import annotations

from http import HTTPStatus

from pytest_llmeval.errors import ReplayMiss
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.exchange import refused, without_wire_headers
from pytest_llmeval.models.masking import masked
from pytest_llmeval.models.refusals import failure_of
from pytest_llmeval.models.retries import WireReply

# An application may well ask whether something is there.
ANSWERS = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class Unkept:
    """One such request.

    Args:
        calls: the calls of the trial that makes it.
        method: of HTTP, in upper case.
        path: of the URL.
        secrets: what no message about it may show.
    """

    def __init__(
        self, calls: CachedCalls, *, method: str, path: str, secrets: tuple[str, ...]
    ) -> None:
        self._calls = calls
        self._name = f"{method} {path}"
        self._secrets = secrets

    def refusal(self) -> WireReply | None:
        """Give the reply that says why it is not sent; None if it may be."""
        if not self._calls.only_replays:
            return None
        miss = ReplayMiss(
            f"the reply to {self._name} is not kept, so there is none to replay, and "
            "--llm-cache=replay makes no call. Make it:  pytest --llm-cache=auto"
        )
        self._calls.trial.refuse(miss)
        return refused(miss)

    def failed(self, reply: WireReply) -> WireReply:
        """Note whose fault a reply that is no success is, and make it fit to be shown."""
        is_lost = failure_of(reply.status, reply.body) == "infrastructure"
        if is_lost and reply.status not in ANSWERS:
            self._calls.trial.note_unkept(self._name, lost=f"{self._name}: HTTP {reply.status}")
        return without_wire_headers(masked(reply, self._secrets))

    def lost(self, error: Exception) -> None:
        """Note that the network failed."""
        self._calls.trial.note_unkept(self._name, lost=f"{self._name}: {type(error).__name__}")

    def answered(self) -> None:
        """Note that it got its reply, if perhaps not at once."""
        self._calls.trial.note_unkept(self._name, lost="")
