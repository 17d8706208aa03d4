"""No key is in any file, however a vendor's client is given it and whatever becomes of the call."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.errors import ProviderFailed, SettingsError
from pytest_llmeval.models.http.seam import Question
from tests.leaks import files_with
from tests.models.conftest import SECRET, CountingTrial, Session
from tests.models.test_interception import ASKED, Place, libraries, posts
from tests.models.vendors import ANTHROPIC, OPENAI, VENDORS, Vendor, done
from tests.servers.openai_server import OpenAIServer, Scripted

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


@BOTH
@EVERY_VENDOR
def test_a_key_that_an_answer_quotes_is_in_no_file_and_masked_for_the_test_as_well(
    *,
    begin: Callable[..., Session],
    serving: OpenAIServer,
    directory: Path,
    trial: CountingTrial,
    vendor: Vendor,
    is_async: bool,
) -> None:
    serving._answer = lambda _body, _number: f"your key is {SECRET}"
    session = begin()
    fresh = asks(vendor.client(session, trial, is_async=is_async), vendor)
    replayed = asks(vendor.client(session, CountingTrial(0), is_async=is_async), vendor)
    session.close()

    assert files_with("your key is ***", directory)
    assert files_with(SECRET, directory) == []
    assert SECRET not in repr(fresh)
    assert repr(fresh) == repr(replayed)


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


UNSENDABLE = pytest.mark.parametrize(
    "mistake", ["\nsecond", "\u201d", "\u200b", "\u00e9", "\x00x"], ids=ascii
)


def assert_names(variable: str, error: BaseException) -> None:
    shown = "".join(traceback.format_exception(error))
    assert str(error).startswith(f"{variable} holds a character that no HTTP header can have")
    assert SECRET not in shown


@UNSENDABLE
@BOTH
@EVERY_VENDOR
def test_a_key_that_cannot_be_sent_is_refused_by_the_name_of_its_variable(
    *,
    session: Session,
    serving: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
    is_async: bool,
    mistake: str,
) -> None:
    key = f"{SECRET}{mistake}"
    monkeypatch.setattr(os, "environ", {**os.environ, vendor.key_variable: key})  # also a NUL
    trial = CountingTrial(0)
    with pytest.raises(SettingsError) as caught:
        vendor.client(session, trial, is_async=is_async)
    assert_names(vendor.key_variable, caught.value)

    model = session.async_model if is_async else session.model
    with pytest.raises(SettingsError) as caught:
        done(model(f"{vendor.name}/m", trial).ask(PROMPT))
    assert_names(vendor.key_variable, caught.value)
    assert len(trial.refusals) == 1
    assert serving.requests == []


@BOTH
def test_a_token_that_cannot_be_sent_is_refused_likewise(
    session: Session, monkeypatch: pytest.MonkeyPatch, *, is_async: bool
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", f"{SECRET}\u2019")
    with pytest.raises(SettingsError) as caught:
        ANTHROPIC.client(session, CountingTrial(0), is_async=is_async)
    assert_names("ANTHROPIC_AUTH_TOKEN", caught.value)


@posts
@libraries
def test_a_key_of_the_application_that_cannot_be_sent_is_not_quoted(
    session: Session, server: OpenAIServer, *, library: Any, send: Callable[..., Any]
) -> None:
    headers = {"authorization": f"Bearer {SECRET}\nsecond"}
    with Place(session).trial() as trial:
        reply = send(library, f"{server.url}/chat/completions", json=ASKED, headers=headers)

    assert reply.status_code == 401
    assert "OPENAI_API_KEY" in reply.json()["error"]["message"]
    assert SECRET not in reply.text + repr(trial.refusals)
    assert [call.failure for call in trial.calls] == ["infrastructure"]
    assert server.requests == []


@pytest.mark.usefixtures("server")
def test_what_fails_a_call_is_told_by_its_kind_and_not_in_its_own_words(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_kwargs: object) -> None:
        raise ValueError(f"Invalid header value b'{SECRET}'")

    monkeypatch.setattr("pytest_llmeval.models.http.sender.IdleConnections._exchange", fail)
    with pytest.raises(ProviderFailed) as caught:
        session.model("openai/m", CountingTrial(0)).ask(PROMPT)

    assert str(caught.value) == "openai/m gave no reply: ValueError"


def test_an_error_of_the_system_is_told_in_its_words(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with pytest.raises(
        ProviderFailed, match=r": ConnectionRefusedError: Connection refused: is 127"
    ):
        session.model("openai/m", CountingTrial(0)).ask(PROMPT)


def test_no_variable_of_the_call_that_was_refused_is_the_key(
    session: Session, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    server.then(Scripted(status=401, body={"error": {"message": "no"}}))
    with pytest.raises(ProviderFailed) as caught:
        session.model("openai/m", CountingTrial(0)).ask(PROMPT)

    refused = caught.value.__cause__
    assert refused is not None
    frames = [frame for frame, _line in traceback.walk_tb(refused.__traceback__)]
    assert "_perform" in [frame.f_code.co_name for frame in frames]
    assert SECRET not in repr([frame.f_locals for frame in frames])


def test_what_pytest_shows_of_a_question_is_neither_its_prompt_nor_its_url() -> None:
    library: Any = pytest.importorskip("httpx")
    request = library.Request("POST", f"http://model.example/?key={SECRET}")
    exchange: Any = None

    shown = repr(Question(library, request, {"prompt": PROMPT}, exchange))

    assert SECRET not in shown
    assert PROMPT not in shown
