"""What is Anthropic's own; what it shares with the others is in ``test_vendors``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import pytest
from anthropic.types import Message

from pytest_llmeval.errors import ProviderFailed, ProviderNotInstalled
from tests.models.conftest import SECRET, CountingTrial, Session
from tests.servers.anthropic_server import AnthropicServer, message
from tests.servers.openai_server import Scripted

NAME = "anthropic/claude-haiku-4-5"
MESSAGES: list[Any] = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnthropicServer]:
    with AnthropicServer() as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
        monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
        yield running


def client(session: Session, trial: CountingTrial) -> anthropic.Anthropic:
    return session.models.client("anthropic", trial)


# ------------------------------------------------------------------------ the wire form


def test_the_bytes_of_a_plain_question_are_frozen(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask("Hello")

    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.body == (
        b'{"model":"claude-haiku-4-5","max_tokens":1024,'
        b'"messages":[{"role":"user","content":"Hello"}]}'
    )


def test_the_wire_form_of_a_question_is_frozen(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask(
        "Name the capital of Perú.", system="One word.", max_tokens=9, temperature=0, top_k=3
    )

    assert server.requests[0].json == {
        "model": "claude-haiku-4-5",
        "max_tokens": 9,
        "system": "One word.",
        "messages": [{"role": "user", "content": "Name the capital of Perú."}],
        "temperature": 0,
        "top_k": 3,
    }


def test_the_key_of_a_question_is_frozen(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    session.alias(server.origin, "https://api.anthropic.com")

    session.model(NAME, trial).ask("Hello", system="Brief.")

    assert trial.calls[0].key == "73b202810b3cb32215feff3398faabcc05579bd2d5896c9284dc2064b7a30e0c"


def test_a_question_has_the_key_it_has_through_the_sdk(
    session: Session, server: AnthropicServer
) -> None:
    asked, said = CountingTrial(0), CountingTrial(0)

    session.model(NAME, asked).ask("Hello", system="Brief.")
    client(session, said).messages.create(
        model="claude-haiku-4-5", max_tokens=1024, system="Brief.", messages=MESSAGES
    )

    assert asked.calls[0].key == said.calls[0].key
    assert len(server.requests) == 1


def test_a_question_tells_key_and_version_in_its_headers(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask("Hello")

    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == (SECRET, "2023-06-01")
    assert "authorization" not in headers


def test_what_the_system_says_leaves_the_messages_whoever_says_it(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    block = {"type": "text", "text": "Polite.", "cache_control": {"type": "ephemeral"}}
    messages: list[dict[str, object]] = [
        {"role": "system", "content": "Brief."},
        {"role": "system", "content": [block]},
        *MESSAGES,
    ]

    session.model(NAME, trial).chat(messages, system="Kind.")

    sent = server.requests[0].json
    assert sent["messages"] == MESSAGES
    assert sent["system"] == [
        {"type": "text", "text": "Kind."},
        {"type": "text", "text": "Brief."},
        block,
    ]


def test_blocks_for_the_system_are_sent_as_they_are(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    block = {"type": "text", "text": "Polite.", "cache_control": {"type": "ephemeral"}}

    session.model(NAME, trial).chat(MESSAGES, system=[block])

    assert server.requests[0].json["system"] == [block]


def test_the_only_system_message_is_sent_as_it_is_even_without_a_text(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).chat([{"role": "system", "content": None}, *MESSAGES])

    assert server.requests[0].json["system"] is None


# ------------------------------------------------------------------------ what a reply tells


@pytest.mark.usefixtures("server")
def test_a_reply_tells_text_model_and_usage(session: Session, trial: CountingTrial) -> None:
    reply = session.model(NAME, trial).ask("Hello", temperature=0.5)

    assert (reply.text, reply.model) == ("reply 0", "claude-haiku-4-5-20260101")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 2)
    (call,) = trial.calls
    assert (call.model, call.served) == (NAME, "claude-haiku-4-5-20260101")
    assert (call.usage.input_tokens, call.usage.output_tokens) == (7, 2)
    assert call.parameters == {"temperature": 0.5}


@pytest.mark.usefixtures("server")
def test_the_raw_reply_is_what_the_sdk_would_have_given(session: Session) -> None:
    asked = session.model(NAME, CountingTrial(0)).ask("Hello").raw

    said = client(session, CountingTrial(0)).messages.create(
        model="claude-haiku-4-5", max_tokens=1024, messages=MESSAGES
    )

    assert isinstance(asked, Message)
    assert asked == said
    assert type(asked.content[0]) is type(said.content[0])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "One "}, {"type": "text", "text": "two"}], "One two"),
        ([{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Yes"}], "Yes"),
        ([{"type": "tool_use", "id": "t1", "name": "locate", "input": {}}], ""),
        ([], ""),
    ],
)
def test_the_text_of_a_reply_is_that_of_all_its_blocks(
    session: Session,
    server: AnthropicServer,
    trial: CountingTrial,
    content: list[dict[str, object]],
    text: str,
) -> None:
    server.then(Scripted(body=message(content, "claude")))

    assert session.model(NAME, trial).ask("Hello").text == text


@pytest.mark.parametrize("body", [{"content": [{}]}, {"content": ["text"]}])
def test_a_reply_without_content_is_an_error(
    session: Session, server: AnthropicServer, trial: CountingTrial, body: object
) -> None:
    server.then(*[Scripted(body=body)] * 3)

    with pytest.raises(ProviderFailed, match="HTTP 502 Bad Gateway: the reply holds"):
        session.model(NAME, trial).ask("Hello")


def test_content_of_the_sdk_can_be_sent_back(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "locate", "input": {"city": "Lima"}}
    server.then(Scripted(body=message([call], "claude")))
    model = session.model(NAME, trial)
    answered = model.ask("Hello").raw
    assert isinstance(answered, Message)

    model.chat([*MESSAGES, {"role": "assistant", "content": answered.content}])

    assert server.requests[1].json["messages"][1] == {"role": "assistant", "content": [call]}


def test_a_failure_is_recorded_with_the_vendors_name_for_it(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=413, body={"error": {"type": "request_too_large"}}))

    with pytest.raises(ProviderFailed):
        session.model(NAME, trial).ask("Hello")

    assert trial.calls[0].reason == "HTTP 413 (request_too_large)"


# ------------------------------------------------------------------------ keys and tokens


@pytest.mark.parametrize(
    ("key", "token", "header"),
    [
        (SECRET, "", {"x-api-key": SECRET}),
        (f"{SECRET}\n", "other", {"x-api-key": SECRET}),
        ("", SECRET, {"authorization": f"Bearer {SECRET}"}),
        (" \n", f"{SECRET}\n", {"authorization": f"Bearer {SECRET}"}),
    ],
)
def test_a_question_prefers_the_key_to_the_token_as_the_sdk_does(
    *,
    session: Session,
    server: AnthropicServer,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    token: str,
    header: dict[str, str],
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", token)

    session.model(NAME, CountingTrial(0)).ask("Hello")
    client(session, CountingTrial(1)).messages.create(
        model="claude", max_tokens=9, messages=MESSAGES
    )

    asked, said = (request.headers for request in server.requests)
    assert header.items() <= asked.items()
    assert "other" not in asked.values()
    assert SECRET in f"{said.get('x-api-key')} {said.get('authorization')}"


@pytest.mark.parametrize("key", [None, "", " \n"])
def test_a_missing_key_is_missed_at_the_first_paid_call(
    session: Session,
    server: AnthropicServer,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    if key is not None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", key)

    with pytest.raises(ProviderFailed, match="ANTHROPIC_API_KEY is not set") as caught:
        session.model(NAME, CountingTrial(0)).ask("Hello")
    with pytest.raises(anthropic.AuthenticationError, match="ANTHROPIC_API_KEY is not set"):
        client(session, CountingTrial(0)).messages.create(
            model="claude", max_tokens=9, messages=MESSAGES
        )

    assert caught.value.failure == "infrastructure"
    assert server.requests == []


def test_a_key_given_to_the_client_is_used(
    session: Session,
    server: AnthropicServer,
    trial: CountingTrial,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")

    client(session, trial).with_options(api_key="mine").messages.create(
        model="claude", max_tokens=9, messages=MESSAGES
    )

    assert "mine" in str(server.requests[0].headers)


def test_without_a_base_url_the_vendor_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_llmeval.models.vendors.anthropic import VENDOR

    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    assert VENDOR.question("any", [], {})[0] == "https://api.anthropic.com/v1/messages"
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://proxy.example/claude/")
    assert VENDOR.question("any", [], {})[0] == "http://proxy.example/claude/v1/messages"


# ------------------------------------------------------------------------ the client


def test_tokens_are_counted_anew_each_time(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    vendor = client(session, trial)

    counts = [vendor.messages.count_tokens(model="claude", messages=MESSAGES) for _ in range(2)]

    assert [count.input_tokens for count in counts] == [3, 3]
    assert len(server.requests) == 2
    assert trial.calls == []


def test_a_beta_makes_it_another_request(session: Session, server: AnthropicServer) -> None:
    for beta in ("context-1m", "context-1m", "files-api"):
        client(session, CountingTrial(0)).messages.create(
            model="claude",
            max_tokens=9,
            messages=MESSAGES,
            extra_headers={"anthropic-beta": beta},
        )

    assert len(server.requests) == 2


def test_the_sdk_does_not_retry_behind_our_back(
    session: Session, server: AnthropicServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(status=502)] * 9)
    insistent = client(session, trial).with_options(max_retries=5)

    with pytest.raises(anthropic.InternalServerError):
        insistent.messages.create(model="claude", max_tokens=9, messages=MESSAGES)

    assert len(server.requests) == 3


def test_a_missing_sdk_says_what_to_install(
    begin: Callable[..., Session], server: AnthropicServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = begin().model(NAME, CountingTrial(0)).ask("Hello")
    monkeypatch.setitem(sys.modules, "anthropic", None)
    monkeypatch.setitem(sys.modules, "anthropic.types", None)

    with pytest.raises(ProviderNotInstalled, match=r'pip install "anthropic>=0\.75,<3"'):
        client(begin(), CountingTrial(0))
    with pytest.raises(ProviderNotInstalled, match="the anthropic SDK cannot be imported"):
        _ = reply.raw
    assert json.loads(server.requests[0].body)["model"] == "claude-haiku-4-5"
