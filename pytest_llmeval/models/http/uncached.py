"""What becomes of a request whose reply is not kept: a list of models, a count of tokens.

It is sent as it is. But a provider that fails is no result of the trial, a key that it quotes
is shown to nobody, and under ``--llm-cache=replay`` nothing is sent at all.
"""

from __future__ import annotations

from http import HTTPStatus

from pytest_llmeval.errors import ReplayMiss
from pytest_llmeval.models.base import CurrentTrial
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.http.exchange import refused, without_wire_headers
from pytest_llmeval.models.http.masking import masked
from pytest_llmeval.models.http_errors import ANSWERING_STATUSES, failure_of
from pytest_llmeval.models.limits.retries import WireReply


def refusal(calls: CachedCalls, request: str) -> WireReply | None:
    """Give the reply that says why it is not sent; None if it may be.

    Args:
        calls: the calls of the trial that makes it.
        request: method and path.
    """
    if not calls.only_replays:
        return None
    miss = ReplayMiss(
        f"the reply to {request} is not kept, so there is none to replay, and "
        "--llm-cache=replay makes no call. Make it:  pytest --llm-cache=auto"
    )
    calls.trial.refuse(miss)
    return refused(miss)


def shown(reply: WireReply, secrets: tuple[str, ...]) -> WireReply:
    """Make a reply that is no success, and was read, fit to be handed on and shown."""
    return without_wire_headers(masked(reply, secrets))


def note_status(trial: CurrentTrial, request: str, status: int, *, body: bytes = b"") -> None:
    """Note what the status of a reply says of the provider.

    Args:
        trial: that asked.
        request: method and path.
        status: of the reply.
        body: likewise, if it was read.
    """
    is_answer = status < HTTPStatus.BAD_REQUEST or status in ANSWERING_STATUSES
    is_lost = not is_answer and failure_of(status, body) == "infrastructure"
    trial.note_unkept(request, lost=f"{request}: HTTP {status}" if is_lost else "")


def note_error(trial: CurrentTrial, request: str, error: Exception) -> None:
    """Note that the network failed."""
    trial.note_unkept(request, lost=f"{request}: {type(error).__name__}")
