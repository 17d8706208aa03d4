"""What is Ollama's own; what it shares with the others is in ``test_vendors``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import ollama
import pytest

from pytest_llmeval.errors import ProviderFailed, ProviderNotInstalled, SettingsError
from pytest_llmeval.models.vendors.ollama import VENDOR
from tests.models.conftest import CountingTrial, Session
from tests.servers.ollama_server import OllamaServer, chat_reply
from tests.servers.openai_server import Scripted

NAME = "ollama/llama3.2:1b"
MESSAGES: list[Any] = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        monkeypatch.setenv("OLLAMA_HOST", running.url)
        monkeypatch.delenv("OLLAMA_API_KEY", raising=False)
        yield running


def client(session: Session, trial: CountingTrial) -> ollama.Client:
    return session.models.client("ollama", trial)


# ------------------------------------------------------------------------ the wire form


def test_the_bytes_of_a_plain_question_are_frozen(
    session: Session, server: OllamaServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask("Hello")

    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/chat")
    assert request.body == (
        b'{"model":"llama3.2:1b","messages":[{"role":"user","content":"Hello"}],"stream":false}'
    )
    assert "authorization" not in request.headers


def test_the_wire_form_of_a_question_is_frozen(
    session: Session, server: OllamaServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask(
        "Name the capital of Perú.",
        system="One word.",
        temperature=0,
        seed=7,
        options={"num_ctx": 512},
        think=False,
    )

    assert server.requests[0].json == {
        "model": "llama3.2:1b",
        "messages": [
            {"role": "system", "content": "One word."},
            {"role": "user", "content": "Name the capital of Perú."},
        ],
        "stream": False,
        "think": False,
        "options": {"num_ctx": 512, "temperature": 0, "seed": 7},
    }
    assert trial.calls[0].parameters == {"temperature": 0, "seed": 7}


def test_the_key_of_a_question_is_frozen(
    session: Session, server: OllamaServer, trial: CountingTrial
) -> None:
    session.alias(server.origin, "http://127.0.0.1:11434")

    session.model(NAME, trial).ask("Hello", temperature=0)

    assert trial.calls[0].key == "73055521fe96cfa53451a1169b12097513f5607158600c2fbf6958f8965a2128"


def test_options_are_sent_alone_and_as_the_sdk_has_them(
    session: Session, server: OllamaServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask("Hello", options=ollama.Options(num_ctx=512))

    assert server.requests[0].json["options"] == {"num_ctx": 512}


def test_a_key_for_a_hosted_server_is_sent(
    session: Session, server: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "mine\n")
    session.model(NAME, CountingTrial(0)).ask("Hello")
    monkeypatch.setenv("OLLAMA_API_KEY", "mine")
    client(session, CountingTrial(0)).chat("llama", messages=MESSAGES)

    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == ["Bearer mine", "Bearer mine"]


# ------------------------------------------------------------------------ OLLAMA_HOST

HOSTS = [
    "", "1.2.3.4", ":56789", "1.2.3.4:56789", "http://1.2.3.4", "https://1.2.3.4",
    "https://1.2.3.4:56789", "http://1.2.3.4:80", "example.com", "example.com:56789",
    "http://example.com", "https://example.com:443", "example.com/", "example.com:56789/",
    "example.com/path", "example.com:56789/path/", "https://example.com:56789/path",
    "[0001:002:003:0004::1]", "[0001:002:003:0004::1]:56789", "http://[0001:002:003:0004::1]",
    "[0001:002:003:0004::1]/path", "https://[0001:002:003:0004::1]:56789/path/",
    "localhost", "0.0.0.0:80", "http://", "Example.COM:80", "http://me:pass@example.com:1234",
    "1.2.3.4:0",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_means_what_it_means_to_the_sdk(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[httpx.URL] = []

    def note(request: httpx.Request) -> httpx.Response:
        seen.append(request.url)
        return httpx.Response(200, json=chat_reply({"content": ""}))

    monkeypatch.setenv("OLLAMA_HOST", host)
    ollama.Client(transport=httpx.MockTransport(note)).chat("llama", messages=MESSAGES)

    assert VENDOR.question("any", [], {})[0] == str(seen[0])


def test_without_a_host_the_local_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)

    assert VENDOR.question("any", [], {})[0] == "http://127.0.0.1:11434/api/chat"


@pytest.mark.parametrize("host", ["1.2.3.4:port", "tcp://1.2.3.4", "http://[::1", "me:s3cret@h:x"])
def test_a_host_that_is_none_is_a_mistake(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)

    with pytest.raises(SettingsError, match=r"OLLAMA_HOST=.* Write a host, host:port") as caught:
        VENDOR.question("any", [], {})[0]

    assert "s3cret" not in str(caught.value)


# ------------------------------------------------------------------------ what a reply tells


@pytest.mark.usefixtures("server")
def test_a_reply_tells_text_model_and_usage(session: Session, trial: CountingTrial) -> None:
    reply = session.model(NAME, trial).ask("Hello")

    assert (reply.text, reply.model) == ("reply 0", "llama")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 2)
    (call,) = trial.calls
    assert (call.model, call.served) == (NAME, "llama")
    assert (call.usage.input_tokens, call.usage.output_tokens) == (7, 2)


@pytest.mark.usefixtures("server")
def test_a_call_of_the_client_is_recorded_with_its_options(
    session: Session, trial: CountingTrial
) -> None:
    client(session, trial).chat("llama", messages=MESSAGES, options={"temperature": 0.5})

    (call,) = trial.calls
    assert (call.model, call.served) == ("ollama/llama", "llama")
    assert call.parameters == {"temperature": 0.5}


@pytest.mark.usefixtures("server")
def test_the_raw_reply_is_what_the_sdk_would_have_given(
    session: Session, trial: CountingTrial
) -> None:
    asked = session.model(NAME, trial).ask("Hello").raw

    assert isinstance(asked, ollama.ChatResponse)
    assert asked.message.content == "reply 0"


def test_a_tool_call_has_no_text_and_can_be_sent_back(
    session: Session, server: OllamaServer, trial: CountingTrial
) -> None:
    call = {"function": {"name": "locate", "arguments": {"city": "Lima"}}}
    server.then(Scripted(body=chat_reply({"content": "", "tool_calls": [call]})))
    model = session.model(NAME, trial)
    reply = model.ask("Hello")
    assert isinstance(reply.raw, ollama.ChatResponse)

    model.chat([*MESSAGES, reply.raw.message])

    assert reply.text == ""
    sent = server.requests[1].json["messages"][1]
    assert (sent["role"], sent["tool_calls"]) == ("assistant", [call])


@pytest.mark.parametrize("body", [{"response": "text"}, {"embeddings": []}])
def test_a_reply_without_a_message_is_an_error(
    session: Session, server: OllamaServer, trial: CountingTrial, body: object
) -> None:
    server.then(*[Scripted(body=body)] * 3)

    with pytest.raises(ProviderFailed, match="HTTP 502 Bad Gateway: the reply holds"):
        session.model(NAME, trial).ask("Hello")


# ------------------------------------------------------------------------ the client


def test_other_requests_pass_through_untouched(
    session: Session, server: OllamaServer, trial: CountingTrial
) -> None:
    vendor = client(session, trial)

    assert [vendor.list().models for _ in range(2)] == [[], []]
    assert [request.method for request in server.requests] == ["GET", "GET"]
    assert "transfer-encoding" not in server.requests[0].headers
    assert trial.calls == []


def test_the_same_request_twice_in_a_trial_is_two_draws(
    session: Session, server: OllamaServer, trial: CountingTrial
) -> None:
    vendor = client(session, trial)

    texts = [vendor.chat("llama", messages=MESSAGES).message.content for _ in range(2)]

    assert texts == ["reply 0", "reply 1"]
    assert len(server.requests) == 2


def test_a_server_that_is_not_there_is_the_sdks_own_error(
    session: Session, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OllamaServer() as gone:
        monkeypatch.setenv("OLLAMA_HOST", gone.url)

    with pytest.raises(ConnectionError, match="Failed to connect to Ollama"):
        client(session, trial).chat("llama", messages=MESSAGES)

    assert trial.calls[0].reason == "network: ConnectError"


def test_a_redirect_is_a_failure_and_not_followed(
    session: Session, server: OllamaServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=308, headers={"location": f"{server.origin}/v2"}))

    with pytest.raises(ollama.ResponseError):
        client(session, trial).chat("llama", messages=MESSAGES)

    assert len(server.requests) == 1


def test_a_missing_sdk_says_what_to_install(
    begin: Callable[..., Session], server: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = begin().model(NAME, CountingTrial(0)).ask("Hello")
    monkeypatch.setitem(sys.modules, "ollama", None)

    with pytest.raises(ProviderNotInstalled, match=r'pip install "ollama>=0\.6,<1"'):
        client(begin(), CountingTrial(0))
    with pytest.raises(ProviderNotInstalled, match="the ollama SDK cannot be imported"):
        _ = reply.raw
    assert len(server.requests) == 1
