"""Questions of our own, posted once."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import ProviderFailed
from pytest_llmeval.models.calls import MAX_REPLY_BYTES
from pytest_llmeval.models.http import sender
from pytest_llmeval.models.http.attempt import NetworkFailed
from pytest_llmeval.models.http.dialect import HttpRequest
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.sender import Sender, newest
from pytest_llmeval.models.limits.deadline import Deadline, TimeIsUp, TimeLimit
from tests.models.conftest import CountingTrial, Session, encrypted
from tests.servers.openai_server import NEVER, OpenAIServer, Scripted

QUESTION = {"model": "gpt", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def line() -> Iterator[Sender]:
    opened = Sender(most=MAX_REPLY_BYTES)
    yield opened
    opened.close()


def unhurried() -> Deadline:
    return Deadline(60, TimeLimit().worker)


def asking(**headers: str) -> HttpRequest:
    every = {"content-type": "application/json", **headers}
    return HttpRequest(
        origin="",
        path="",
        query="",
        headers=every,
        body=QUESTION,
    )


def post(
    line: Sender, server: OpenAIServer, *, query: str = "", deadline: Deadline | None = None
) -> HttpReply:
    url = f"{server.url}/chat/completions{query}"
    return line.post(url, asking(), deadline or unhurried())


def idle(line: Sender) -> list[Any]:
    """List the connections that wait for a call."""
    (connections,) = line._connections.values()
    assert connections is not None
    return [one for idle in connections._idle.values() for one in idle]


def test_a_reply_is_status_headers_and_body(line: Sender, server: OpenAIServer) -> None:
    reply = post(line, server, query="?api-version=1")

    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == "reply 0"
    assert 0 < reply.seconds < 5
    (request,) = server.requests
    assert request.path == "/v1/chat/completions?api-version=1"
    assert request.json == QUESTION
    assert request.headers["user-agent"].startswith("pytest-llm-baseline/")


def test_calls_one_after_the_other_use_one_connection(line: Sender, server: OpenAIServer) -> None:
    for _ in range(3):
        post(line, server)

    assert len({request.port for request in server.requests}) == 1


def test_calls_at_once_use_one_connection_each(line: Sender, server: OpenAIServer) -> None:
    all_have_asked = threading.Event()
    server.then(*[Scripted(until=all_have_asked)] * 3)
    threads = [threading.Thread(target=post, args=(line, server)) for _ in range(3)]
    for thread in threads:
        thread.start()
    server.wait_for_requests(3)
    all_have_asked.set()
    for thread in threads:
        thread.join()

    assert len({request.port for request in server.requests}) == 3


def test_a_connection_that_the_server_closed_meanwhile_is_opened_anew(
    line: Sender, server: OpenAIServer
) -> None:
    server.then(Scripted(headers={"connection": "close"}))
    post(line, server)
    server.then(Scripted())
    post(line, server)
    sock = idle(line)[0][1]._connection._network_stream.get_extra_info("socket")
    sock.shutdown(socket.SHUT_RD)  # what a server that hangs up looks like here

    assert post(line, server).status == 200
    assert len({request.port for request in server.requests}) == 3


@pytest.mark.parametrize("status", [308, 400, 429, 500])
def test_whatever_the_status_it_is_a_reply(line: Sender, server: OpenAIServer, status: int) -> None:
    server.then(Scripted(status=status, headers={"Retry-After": "3", "Location": server.origin}))

    reply = post(line, server)

    assert (reply.status, reply.headers["retry-after"]) == (status, "3")
    assert len(server.requests) == 1


@pytest.mark.parametrize("drop", ["before", "midway"])
def test_a_reply_that_breaks_off_is_none(line: Sender, server: OpenAIServer, drop: str) -> None:
    server.then(Scripted(drop=drop))  # type: ignore[arg-type]  # one of two

    with pytest.raises(NetworkFailed, match="RemoteProtocolError"):
        post(line, server)

    assert post(line, server).status == 200


def test_a_server_that_is_not_there_is_a_network_failure(line: Sender) -> None:
    with pytest.raises(NetworkFailed, match="ConnectionRefusedError"):
        line.post("http://127.0.0.1:9/v1", asking(), unhurried())


@pytest.mark.parametrize("url", ["http://127.0.0.1:999999/v1", "http://exa mple/v1"])
def test_a_url_that_is_none_is_a_network_failure(line: Sender, url: str) -> None:
    with pytest.raises(NetworkFailed):
        line.post(url, asking(), unhurried())


@pytest.mark.parametrize("scripted", [Scripted(delay=NEVER), Scripted(trickle=0.05)])
def test_a_reply_that_is_not_complete_in_time_is_none(
    line: Sender, server: OpenAIServer, scripted: Scripted
) -> None:
    server.then(scripted)
    deadline = Deadline(0.3, TimeLimit().worker)

    with pytest.raises(TimeIsUp):
        post(line, server, deadline=deadline)

    assert not deadline.allows(0)
    assert post(line, server).status == 200  # over a new connection, with all its time


def test_what_one_attempt_took_is_missing_to_the_next(line: Sender, server: OpenAIServer) -> None:
    server.then(Scripted(delay=0.1), Scripted(delay=NEVER))
    deadline = Deadline(2, TimeLimit().worker)

    post(line, server, deadline=deadline)
    assert deadline.left < 1.91
    with pytest.raises(TimeIsUp):
        post(line, server, deadline=deadline)
    with pytest.raises(TimeIsUp):
        post(line, server, deadline=deadline)


def test_a_host_that_cannot_be_reached_in_time_is_given_up(
    line: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(socket, "create_connection", lambda *_args, **_options: ended.wait(300))

    with pytest.raises(TimeIsUp):
        line.post("http://127.0.0.1:9/v1", asking(), Deadline(0.05, TimeLimit().worker))
    ended.set()


def test_a_reply_packed_unasked_is_unpacked(line: Sender, server: OpenAIServer) -> None:
    packed = gzip.compress(b'{"choices": []}')
    headers = {"content-encoding": "gzip", "content-length": str(len(packed))}
    server.then(Scripted(body=packed, headers=headers))

    assert post(line, server).body == b'{"choices": []}'


@pytest.mark.parametrize(("packing", "body"), [("br", b"{}"), ("gzip", b"no gzip")])
def test_a_reply_that_cannot_be_unpacked_is_none(
    line: Sender, server: OpenAIServer, packing: str, body: bytes
) -> None:
    server.then(Scripted(body=body, headers={"content-encoding": packing}))

    with pytest.raises(NetworkFailed):
        post(line, server)


@pytest.mark.parametrize(
    ("packing", "told"), [("br", "'br'"), ("\x1b[31m" + "x" * 99, r"'\\x1b\[31m" + "x" * 35 + "'")]
)
def test_an_encoding_that_was_not_asked_for_is_named(
    session: Session, server: OpenAIServer, packing: str, told: str
) -> None:
    server.then(*[Scripted(body=b"{}", headers={"content-encoding": packing})] * 3)

    with pytest.raises(ProviderFailed, match=f"OSError: the reply is packed as {told}") as caught:
        session.model("openai/gpt", CountingTrial(0)).ask("Hello")

    assert caught.value.failure == "infrastructure"


def test_a_reply_after_the_end_closes_its_connection(server: OpenAIServer) -> None:
    line = Sender(most=MAX_REPLY_BYTES)
    post(line, server)
    (connections,) = line._connections.values()
    assert connections is not None
    connections.close()

    assert post(line, server).status == 200
    assert not idle(line)
    line.close()


@pytest.mark.usefixtures("behind_proxy")
def test_behind_a_proxy_questions_go_to_it(session: Session, server: OpenAIServer) -> None:
    assert session.model("openai/gpt", CountingTrial(0)).ask("Hello").text == "reply 0"
    assert server.requests[0].path == "http://models.invalid/v1/chat/completions"


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_certificate_must_be_trusted(
    line: Sender,
    server: OpenAIServer,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_trusted: bool,
) -> None:
    url = f"{encrypted(server, certificate)}/v1/chat/completions"
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert line.post(url, asking(), unhurried()).status == 200
        return
    with pytest.raises(NetworkFailed, match="SSLCertVerificationError"):
        line.post(url, asking(), unhurried())


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {"x-name": "one\r\nsecond: two"}),
        ("", {"x-name": "one\nsecond: two"}),
        ("", {"x-name": "one\0"}),
        ("", {"x-na\nme": "one"}),
        ("", {"x-name": "\u20ac"}),
        ("?a\nb", {}),
    ],
)
def test_a_head_is_one_head(
    line: Sender, server: OpenAIServer, query: str, headers: dict[str, str]
) -> None:
    url = f"{server.url}/chat/completions{query}"
    with pytest.raises(NetworkFailed):
        line.post(url, asking(**headers), unhurried())

    assert server.requests == []


def test_with_a_version_of_the_library_that_is_not_known_it_sends_itself(
    line: Sender, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sender.CORES, newest().__name__, "another")
    server.then(Scripted(), Scripted(drop="before"))

    assert post(line, server).status == 200
    with pytest.raises(NetworkFailed, match="RemoteProtocolError"):
        post(line, server)
