"""Questions of an application's own clients that go out by plain HTTP, and those that do not."""

from __future__ import annotations

import gc
import socket
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx
import openai
import pytest

from pytest_llmeval.models.attribution import charging, trial_to_charge
from pytest_llmeval.models.http.libraries import connecting, newest
from pytest_llmeval.models.interception import Interception, intercepting
from pytest_llmeval.models.providers.vendor import Recognition
from tests.models.conftest import CountingTrial, Session, encrypted
from tests.servers.openai_server import OpenAIServer

LIBRARIES = list(dict.fromkeys((httpx, newest)))
libraries = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
QUESTION: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def interception(session: Session) -> Interception:
    return Interception(
        trial_to_charge,
        calls_of=session.calls,  # type: ignore[arg-type]  # of the one kind of trial that is here
        retries=session.models.retries,
        recognition=Recognition(()),
        note=[].append,
    )


@pytest.fixture
def trial(interception: Interception) -> Iterator[CountingTrial]:
    trial = CountingTrial(0)
    with intercepting(interception), charging(trial):
        yield trial


def ask(client: Any, url: str) -> Any:
    reply = client.post(f"{url}/chat/completions", json=QUESTION)
    assert reply.status_code == 200
    return reply


def own_connections(client: Any) -> int:
    """Count the connections that a client's own transport has opened."""
    return len(client._transport._pool.connections)


def test_a_question_arrives_as_the_sdk_alone_sends_it(
    interception: Interception, server: OpenAIServer
) -> None:
    headers = {"X-Trace": "1"}
    with openai.OpenAI(max_retries=0, default_headers=headers) as client:
        with intercepting(interception), charging(CountingTrial(0)):
            client.chat.completions.create(**QUESTION)
        client.chat.completions.create(**QUESTION)

    ours, alone = server.requests
    assert ours.head == alone.head
    assert (ours.method, ours.path, ours.body) == (alone.method, alone.path, alone.body)


@libraries
def test_a_client_asks_by_one_connection_which_ends_with_it(
    trial: CountingTrial, server: OpenAIServer, library: ModuleType
) -> None:
    for _ in range(2):
        client = library.Client()
        for _ in range(2):
            ask(client, server.url)
        assert not own_connections(client)
        gone = weakref.ref(client._transport)
        client.close()
        del client
        gc.collect()
        assert gone() is None  # and a socket that was left open would be an error

    ports = [request.port for request in server.requests]
    assert ports[0] == ports[1] != ports[2] == ports[3]
    assert len(trial.calls) == 4


class Derived(httpx.HTTPTransport):
    """A transport of the application."""


class DerivedFromNewest(newest.HTTPTransport):
    """The same, of the other library."""


WAYS_OF_ITS_OWN: dict[str, Callable[[Any], Any]] = {
    "retries": lambda library: library.HTTPTransport(retries=1),
    "address": lambda library: library.HTTPTransport(local_address="127.0.0.1"),
    "bound": lambda library: library.HTTPTransport(limits=library.Limits(max_connections=1)),
    "expiry": lambda library: library.HTTPTransport(limits=library.Limits(keepalive_expiry=1)),
    "derived": lambda library: Derived() if library is httpx else DerivedFromNewest(),
}


@libraries
@pytest.mark.parametrize("way", WAYS_OF_ITS_OWN)
@pytest.mark.usefixtures("trial")
def test_a_transport_with_a_way_of_its_own_sends_itself(
    server: OpenAIServer, library: ModuleType, way: str
) -> None:
    with library.Client(transport=WAYS_OF_ITS_OWN[way](library)) as client:
        ask(client, server.url)
        assert own_connections(client) == 1


@libraries
@pytest.mark.usefixtures("trial")
def test_a_client_asks_by_its_proxy(server: OpenAIServer, library: ModuleType) -> None:
    with library.Client(proxy=server.origin) as client:
        ask(client, "http://api.openai.com/v1")

    assert server.requests[0].path == "http://api.openai.com/v1/chat/completions"


@libraries
@pytest.mark.usefixtures("trial")
def test_each_client_trusts_whom_it_was_told_to(
    server: OpenAIServer, library: ModuleType, certificate: Path
) -> None:
    url = f"{encrypted(server, certificate)}/v1"
    with library.Client(verify=False) as trusting, library.Client() as wary:
        assert ask(trusting, url)
        assert not own_connections(trusting)
        with pytest.raises(library.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            wary.post(f"{url}/chat/completions", json={**QUESTION, "seed": 1})


@libraries
@pytest.mark.usefixtures("trial")
def test_socket_options_of_a_client_are_set(server: OpenAIServer, library: ModuleType) -> None:
    unknown = library.HTTPTransport(socket_options=[(socket.SOL_SOCKET, 9999, 1)])
    known = library.HTTPTransport(socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)])

    with library.Client(transport=known) as client:
        ask(client, server.url)
    with library.Client(transport=unknown) as client, pytest.raises(library.ConnectError):
        client.post(f"{server.url}/chat/completions", json={**QUESTION, "seed": 1})

    assert len(server.requests) == 1


@libraries
def test_a_tracer_below_us_is_told(
    interception: Interception,
    server: OpenAIServer,
    library: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    plain = library.HTTPTransport.handle_request

    def traced(transport: Any, request: Any) -> Any:
        told.append(request.method)
        return plain(transport, request)

    monkeypatch.setattr(library.HTTPTransport, "handle_request", traced)
    with intercepting(interception), charging(CountingTrial(0)), library.Client() as client:
        ask(client, server.url)

    assert told == ["POST"]


class Renamed:
    """A transport as a later version may build it."""

    def __init__(self, **_options: object) -> None:
        self.connections: list[object] = []


def test_how_a_transport_that_is_built_otherwise_connects_is_unknown() -> None:
    assert connecting(SimpleNamespace(HTTPTransport=Renamed), Renamed()) is None
