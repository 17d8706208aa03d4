"""What an attempt over HTTP comes to under a cap."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from pytest_llmeval.errors import BudgetExceeded, ProviderFailed
from pytest_llmeval.models.calls import Services
from pytest_llmeval.models.limits.budget import Budget
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.settings import TokenPrice
from tests.models.conftest import CountingTrial, Session
from tests.servers.openai_server import OpenAIServer, Scripted

PRICES = Prices({"openai/foo": TokenPrice(input=Decimal(0), output=Decimal(10))})


class CappedSession(Session):
    """Room for one call of at most 1000 tokens, and half of another."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        budget = Budget(max_cost=Decimal("0.015"), prices=PRICES)
        self.models.services = Services(retries=0, throttle=self.throttle, budget=budget)

    def ask(self, text: str) -> None:
        self.model("openai/foo", CountingTrial(0)).ask(text, max_tokens=1000)


@pytest.fixture
def capped(directory: Path, server: OpenAIServer) -> Iterator[CappedSession]:
    session = CappedSession(directory)
    yield session
    session.close()


def has_room(capped: CappedSession) -> bool:
    try:
        capped.ask("is there room?")
    except BudgetExceeded:
        return False
    return True


def test_a_reply_gives_back_what_it_did_not_take(capped: CappedSession) -> None:
    capped.ask("a")

    assert has_room(capped)


@pytest.mark.parametrize(
    "scripted",
    [
        Scripted(body=b"no JSON"),
        Scripted(drop="before"),
        Scripted(body={"choices": [{"message": {"content": "yes"}}]}),
        Scripted(body={"choices": [{"message": {}}], "usage": {"completion_tokens": -9}}),
    ],
    ids=["damaged", "lost", "without tokens", "nonsense"],
)
def test_what_is_not_known_to_be_less_counts_at_its_most(
    capped: CappedSession, server: OpenAIServer, scripted: Scripted
) -> None:
    server.then(scripted)
    with contextlib.suppress(ProviderFailed):
        capped.ask("a")

    assert not has_room(capped)


def test_an_error_of_the_provider_costs_nothing(
    capped: CappedSession, server: OpenAIServer
) -> None:
    server.then(Scripted(status=500))
    with pytest.raises(ProviderFailed):
        capped.ask("a")

    assert has_room(capped)


def test_a_call_that_a_cap_left_unmade_is_a_failure_of_the_infrastructure(
    capped: CappedSession, server: OpenAIServer
) -> None:
    trial = CountingTrial(0)
    with pytest.raises(BudgetExceeded):
        capped.model("openai/foo", trial).ask("long", max_tokens=2000)

    (call,) = trial.calls
    assert (call.failure, call.reason) == ("infrastructure", "cap --llm-max-cost=0.015")
    assert server.requests == []
