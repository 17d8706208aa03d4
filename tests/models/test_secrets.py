"""No key is in any file, however a vendor's client is given it and whatever becomes of the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import ProviderFailed
from tests.leaks import files_with
from tests.servers.openai_server import OpenAIServer, Scripted

from .conftest import SECRET, CountingTrial, Session
from .vendors import ANTHROPIC, OPENAI, VENDORS, Vendor, done

ECHOES = {"error": {"message": f"bad key {SECRET}", "type": "t"}}
PROMPT = "a prompt that is in the cache"
EVERY_VENDOR = pytest.mark.parametrize("vendor", VENDORS, ids=[v.name for v in VENDORS])
BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.fixture
def serving(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with vendor.server() as server:
        for name, value in vendor.environment(server.url).items():
            monkeypatch.setenv(name, value)
        yield server


def asks(client: Any, vendor: Vendor, **more: Any) -> Any:
    """Ask by the vendor's usual way, with more of what its method takes."""
    messages = [{"role": "user", "content": PROMPT}]
    if vendor is OPENAI:
        return done(client.chat.completions.create(model="m", messages=messages, **more))
    if vendor is ANTHROPIC:
        return done(client.messages.create(model="m", max_tokens=9, messages=messages, **more))
    return done(client.chat("m", messages=messages, **more))


def test_the_search_finds_what_is_packed(
    begin: Callable[..., Session], server: OpenAIServer, directory: Path
) -> None:
    session = begin()
    asks(session.client(CountingTrial(0)), OPENAI)
    session.close()

    assert files_with(PROMPT, directory) == ["cache.db"]


@BOTH
@EVERY_VENDOR
def test_a_key_of_the_environment_is_in_no_file(
    *,
    begin: Callable[..., Session],
    serving: OpenAIServer,
    directory: Path,
    trial: CountingTrial,
    vendor: Vendor,
    is_async: bool,
) -> None:
    session = begin()
    asks(vendor.client(session, trial, is_async=is_async), vendor)
    session.close()

    assert SECRET in str(serving.requests[0].headers)
    assert files_with(PROMPT, directory)
    assert files_with(SECRET, directory) == []
    assert SECRET not in repr(trial.calls)


@EVERY_VENDOR
def test_a_password_in_the_url_is_in_no_file(
    *,
    begin: Callable[..., Session],
    serving: OpenAIServer,
    directory: Path,
    trial: CountingTrial,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
) -> None:
    monkeypatch.setenv(vendor.url_variable, serving.url.replace("://", f"://me:{SECRET}@"))
    session = begin()
    asks(vendor.client(session, trial, is_async=False), vendor)
    done(session.model(f"{vendor.name}/m", trial).ask(PROMPT))
    session.close()

    assert len(serving.requests) == 2
    assert files_with(PROMPT, directory)
    assert files_with(SECRET, directory) == []
    assert {call.host for call in trial.calls} == {serving.origin}
    assert SECRET not in repr(trial.calls)


@pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
@pytest.mark.parametrize(
    "given",
    [
        {"extra_query": {"api-key": SECRET}},
        {"extra_headers": {"x-api-key": SECRET, "cookie": SECRET, "x-goog-api-key": SECRET}},
        {"extra_body": {"api_key": SECRET, "deep": [{"headers": {"x": SECRET}}]}},
    ],
    ids=["query", "headers", "body"],
)
def test_a_key_of_one_request_is_in_no_file(
    *,
    begin: Callable[..., Session],
    serving: OpenAIServer,
    directory: Path,
    trial: CountingTrial,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
    given: dict[str, Any],
) -> None:
    monkeypatch.setenv(vendor.key_variable, "another")
    session = begin()
    asks(vendor.client(session, trial, is_async=False), vendor, **given)
    session.close()

    (request,) = serving.requests
    assert SECRET in f"{request.path} {request.headers} {request.body!r}"
    assert files_with(PROMPT, directory)
    assert files_with(SECRET, directory) == []
    assert SECRET not in repr(trial.calls)


@pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_key_given_to_the_client_is_in_no_file(
    *,
    begin: Callable[..., Session],
    serving: OpenAIServer,
    directory: Path,
    trial: CountingTrial,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
) -> None:
    monkeypatch.delenv(vendor.key_variable)
    session = begin()
    client = vendor.client(session, trial, is_async=False)
    asks(client.with_options(api_key=SECRET), vendor)
    session.close()

    assert SECRET in str(serving.requests[0].headers)
    assert files_with(PROMPT, directory)
    assert files_with(SECRET, directory) == []


@EVERY_VENDOR
@pytest.mark.parametrize("status", [400, 401])
def test_a_key_that_a_refusal_quotes_is_in_no_file(
    *,
    begin: Callable[..., Session],
    serving: OpenAIServer,
    directory: Path,
    trial: CountingTrial,
    vendor: Vendor,
    status: int,
) -> None:
    serving.then(*[Scripted(status=status, body=ECHOES, headers={"x-echo": SECRET})] * 2)
    session = begin()
    with pytest.raises(vendor.errors[status]):
        asks(vendor.client(session, trial, is_async=False), vendor)
    with pytest.raises(ProviderFailed):
        session.model(f"{vendor.name}/m", trial).ask(PROMPT)
    session.close()

    assert len(trial.calls) == 2
    assert files_with(SECRET, directory) == []
    assert SECRET not in repr(trial.calls)


@EVERY_VENDOR
def test_headers_of_a_reply_are_in_no_file(
    begin: Callable[..., Session],
    serving: OpenAIServer,
    directory: Path,
    trial: CountingTrial,
    vendor: Vendor,
) -> None:
    serving.then(Scripted(headers={"set-cookie": SECRET, "x-echo": SECRET}))
    session = begin()
    asks(vendor.client(session, trial, is_async=False), vendor)
    session.close()

    assert files_with(PROMPT, directory)
    assert files_with(SECRET, directory) == []
