"""Questions of an application's clients that go out beside their transport, and by it."""

from __future__ import annotations

import gc
import json
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import openai
import pytest

from pytest_llmeval.models.attribution import charging
from pytest_llmeval.models.http.sender import IdleConnections, _pool_to_copy, newest
from pytest_llmeval.models.interception import Interception
from tests.models.conftest import CountingTrial, Session, encrypted, intercepting, interception_of
from tests.servers.openai_server import OpenAIServer, chat_completion

LIBRARIES = list(dict.fromkeys((httpx, newest())))
libraries = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
QUESTION: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def interception(session: Session) -> Interception:
    return interception_of(session, note=[].append)


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


@libraries
@pytest.mark.usefixtures("trial")
def test_the_connection_of_a_closed_client_that_lives_on_is_closed(library: ModuleType) -> None:
    ended: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(REPLY)
        connection.settimeout(300)
        ended.append(connection.recv(1))

    with answering_once(answer) as url, library.Client() as client:
        client.post(url, json=QUESTION)

    assert ended == [b""]
    assert client.is_closed


class Derived(httpx.HTTPTransport):
    """A transport of the application."""


class DerivedFromNewest(newest().HTTPTransport):
    """The same, of the other library."""


WAYS_OF_ITS_OWN: dict[str, Callable[[Any], Any]] = {
    "bound": lambda library: library.HTTPTransport(limits=library.Limits(max_connections=1)),
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


class Proxying:
    """A wrapper as those of wrapt: it shows all that the wrapped function has."""

    def __init__(self, wrapped: Any, told: list[str]) -> None:
        self._wrapped = wrapped
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def __call__(self, transport: Any, request: Any) -> Any:
        self._told.append(request.method)
        return self._wrapped(transport, request)


def with_a_function(plain: Any, told: list[str]) -> Any:
    def traced(transport: Any, request: Any) -> Any:
        told.append(request.method)
        return plain(transport, request)

    return traced


@libraries
@pytest.mark.parametrize("tracing", [with_a_function, Proxying])
def test_a_tracer_below_us_is_told(
    interception: Interception,
    server: OpenAIServer,
    library: ModuleType,
    tracing: Callable[[Any, list[str]], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    traced = tracing(library.HTTPTransport.handle_request, told)
    monkeypatch.setattr(library.HTTPTransport, "handle_request", traced)
    with intercepting(interception), charging(CountingTrial(0)), library.Client() as client:
        ask(client, server.url)

    assert told == ["POST"]


ANSWER = json.dumps(chat_completion("Hi", "m")).encode()
REPLY = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)


def head_of(connection: socket.socket) -> bytes:
    """Read a request up to its body, of which some may come along."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(4096)
    return head


def read_request(connection: socket.socket) -> None:
    """Read a request to its end."""
    head, _, body = head_of(connection).partition(b"\r\n\r\n")
    left = int(head.lower().partition(b"content-length: ")[2].split()[0]) - len(body)
    while left:
        left -= len(connection.recv(left))


@contextmanager
def answering_once(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server that answers one connection; yield its address."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            answer(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1/chat/completions"
        thread.join()


@libraries
@pytest.mark.usefixtures("trial")
def test_what_is_refused_before_all_of_it_was_sent_has_its_reply(library: ModuleType) -> None:
    def refuse(connection: socket.socket) -> None:
        head_of(connection)
        connection.sendall(b"HTTP/1.1 413 Large\r\ncontent-length: 2\r\n\r\n{}")

    with answering_once(refuse) as url, library.Client() as client:
        reply = client.post(url, json={**QUESTION, "user": "x" * 2**23})

    assert reply.status_code == 413


@libraries
@pytest.mark.usefixtures("trial")
def test_what_comes_before_a_reply_is_none(library: ModuleType) -> None:
    def hint(connection: socket.socket) -> None:
        read_request(connection)
        for status in (100, 102, 103, 103):
            connection.sendall(b"HTTP/1.1 %d Soon\r\nlink: <a>\r\n\r\n" % status)
        connection.sendall(REPLY)

    with answering_once(hint) as url, library.Client() as client:
        reply = client.post(url, json=QUESTION)

    assert (reply.status_code, reply.content, reply.headers.get("link")) == (200, ANSWER, None)


@libraries
@pytest.mark.usefixtures("trial")
def test_a_long_question_may_be_taken_slowly(library: ModuleType) -> None:
    text = "x" * 2**23

    def take(connection: socket.socket) -> None:
        left = len(text)
        while left > 0:
            left -= len(connection.recv(2**16))
            time.sleep(0.02)  # 2.6 s for all
        connection.sendall(REPLY)

    timeout = library.Timeout(2, read=60)
    with answering_once(take) as url, library.Client(timeout=timeout) as client:
        reply = client.post(url, json={**QUESTION, "user": text})

    assert reply.status_code == 200


@libraries
@pytest.mark.usefixtures("trial")
def test_a_context_that_others_have_set_to_http2_is_for_http1_here(
    library: ModuleType, certificate: Path
) -> None:
    spoken: list[str | None] = []
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    shared = ssl.create_default_context(cafile=certificate)
    for context in (serving, shared):
        context.set_alpn_protocols(["h2", "http/1.1"])

    def answer(connection: socket.socket) -> None:
        with serving.wrap_socket(connection, server_side=True) as encrypting:
            spoken.append(encrypting.selected_alpn_protocol())
            read_request(encrypting)
            encrypting.sendall(REPLY)

    with answering_once(answer) as url, library.Client(verify=shared) as client:
        client.post(url.replace("http:", "https:"), json=QUESTION)
        assert not own_connections(client)

    assert spoken == ["http/1.1"]


SETTINGS: dict[str, Callable[[Any], Any]] = {
    "retries": lambda library: library.HTTPTransport(retries=1),
    "address": lambda library: library.HTTPTransport(local_address="127.0.0.2"),
    "no keeping": lambda library: library.HTTPTransport(
        limits=library.Limits(max_keepalive_connections=0)
    ),
    "awaitable": lambda library: library.AsyncHTTPTransport(local_address="127.0.0.2"),
    "socket options": lambda library: library.HTTPTransport(
        socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    ),
    "proxy": lambda library: library.HTTPTransport(proxy="http://me:secret@127.0.0.1:9"),
}


@libraries
@pytest.mark.parametrize("name", SETTINGS)
def test_connections_have_all_settings_of_a_transport(library: ModuleType, name: str) -> None:
    transport = SETTINGS[name](library)
    connections = IdleConnections(library, _pool_to_copy(library, transport), most=1)
    made, own = vars(connections._kind(**connections._options)), vars(transport._pool)
    names = [f"_{name}" for name in connections._options if name != "network_backend"]

    assert {name: made[name] for name in names} == {name: own[name] for name in names}


class Renamed:
    """A transport as a later version may build it."""


@libraries
def test_a_transport_that_is_built_otherwise_is_not_copied(
    library: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "HTTPTransport", Renamed)

    assert _pool_to_copy(library, Renamed()) is None


@libraries
def test_a_pool_that_does_not_keep_how_it_was_made_is_not_copied(library: ModuleType) -> None:
    transport = library.HTTPTransport()
    del transport._pool._local_address

    assert _pool_to_copy(library, transport) is None
