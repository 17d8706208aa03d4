"""Requests of the vendors' clients whose replies are not kept: a list of models, say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import openai
import pytest

from tests.models.conftest import CountingTrial, Session
from tests.servers.openai_server import OpenAIServer, Scripted

LIST = "GET /v1/models"
Ask = Callable[[Session, CountingTrial], object]


def ask(session: Session, trial: CountingTrial) -> object:
    return list(session.client(trial).models.list())


def ask_async(session: Session, trial: CountingTrial) -> object:
    async def listed() -> object:
        async with session.async_client(trial) as client:
            return [model async for model in client.models.list()]

    return asyncio.run(listed())


both = pytest.mark.parametrize("ask", [ask, ask_async], ids=["sync", "async"])


@both
def test_a_success_is_handed_over_and_nothing_is_recorded(
    ask: Ask, session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    assert ask(session, trial) == []
    assert trial.calls == []
    assert trial.uncached == {LIST: ""}


@both
@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 529])
def test_a_provider_that_fails_is_a_loss_of_the_trial(
    status: int, ask: Ask, session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=status, body={"error": {"message": "no"}}))

    with pytest.raises(openai.APIStatusError) as caught:
        ask(session, trial)

    assert caught.value.status_code == status
    assert trial.uncached == {LIST: f"{LIST}: HTTP {status}"}


@both
def test_a_lost_connection_is_a_loss_of_the_trial(
    ask: Ask, session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(drop="before"))

    with pytest.raises(openai.APIConnectionError):
        ask(session, trial)

    assert trial.uncached == {LIST: f"{LIST}: RemoteProtocolError"}


@pytest.mark.parametrize("status", [400, 404, 409])
def test_a_no_is_an_answer(
    status: int, session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=status, body={"error": {"message": "no"}}))

    with pytest.raises(openai.APIStatusError):
        ask(session, trial)

    assert trial.uncached == {LIST: ""}


def test_what_was_lost_and_then_came_is_no_loss(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=500))
    with pytest.raises(openai.InternalServerError):
        ask(session, trial)

    ask(session, trial)

    assert trial.uncached == {LIST: ""}


@both
def test_a_key_that_a_refusal_quotes_is_not_shown(
    ask: Ask,
    session: Session,
    server: OpenAIServer,
    trial: CountingTrial,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1")
    server.then(Scripted(status=401, body={"error": {"message": "not sk-very-secret-1"}}))

    with pytest.raises(openai.AuthenticationError, match=r"not \*\*\*"):
        ask(session, trial)


@both
def test_a_replay_sends_nothing_and_says_why(
    ask: Ask, begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    with pytest.raises(openai.APIStatusError, match=r"is never kept.*--llm-cache=auto"):
        ask(begin(mode="replay"), trial)

    assert server.requests == []
    [refusal] = trial.refusals
    assert f"{LIST} is never kept" in str(refusal)
