"""Against the vendor's own client and a server that speaks its language."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import openai
import pytest

from pytest_llmeval.errors import (
    Lost,
    ProviderFailed,
    ProviderNotInstalled,
    ReplayMiss,
)
from tests.models.conftest import SECRET, CountingTrial, Session
from tests.servers.openai_server import NEVER, OpenAIServer, Scripted, chat_completion

NAME = "openai/gpt-4o-mini"


def say(client: openai.OpenAI, text: str = "Hello") -> str | None:
    completion = client.chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": text}]
    )
    return completion.choices[0].message.content


def test_a_second_run_makes_no_call_and_needs_no_key(
    begin: Callable[..., Session], server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid = say(begin().client(CountingTrial(0)))
    monkeypatch.delenv("OPENAI_API_KEY")

    replayed = say(begin(mode="replay").client(CountingTrial(0)))

    assert (paid, replayed) == ("reply 0", "reply 0")
    assert len(server.requests) == 1


def test_another_trial_draws_another_reply(session: Session, server: OpenAIServer) -> None:
    replies = [say(session.client(CountingTrial(index))) for index in (0, 1, 0)]

    assert replies == ["reply 0", "reply 1", "reply 0"]
    assert len(server.requests) == 2


def test_the_same_request_twice_in_a_trial_is_two_draws(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    client = session.client(trial)

    assert [say(client), say(client)] == ["reply 0", "reply 1"]


def test_a_call_is_recorded_as_it_was_and_where(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    session.client(trial).chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "user", "content": "Hello"}],
        temperature=0.5,
        seed=7,
        max_tokens=9,
    )

    (call,) = trial.calls
    assert (call.model, call.served) == (NAME, "gpt-4o-mini-2026-01-01")
    assert (call.fingerprint, call.host) == ("fp_1", server.origin)
    assert call.parameters == {"temperature": 0.5, "seed": 7}
    assert (call.usage.input_tokens, call.usage.output_tokens) == (7, 2)
    assert call.seconds is not None
    assert 0 < call.seconds < 5
    assert not call.replayed


@pytest.mark.usefixtures("server")
def test_typed_replies_look_the_same_when_replayed(begin: Callable[..., Session]) -> None:
    paid, replayed = (
        begin()
        .client(CountingTrial(0))
        .embeddings.create(model="embed", input="a", encoding_format="float")
        for _ in range(2)
    )

    assert paid == replayed
    assert replayed.data[0].embedding == [0.25, -0.5]


@pytest.mark.usefixtures("server")
def test_the_raw_api_tells_what_was_cached(begin: Callable[..., Session]) -> None:
    raws = [
        begin()
        .client(CountingTrial(0))
        .chat.completions.with_raw_response.create(model="gpt", messages=[])
        for _ in range(2)
    ]

    assert [raw.headers["x-llmeval-cached"] for raw in raws] == ["false", "true"]
    assert raws[0].text == raws[1].text
    assert raws[1].parse().choices[0].message.content == "reply 0"


@pytest.mark.usefixtures("server")
def test_the_streaming_response_api_works_on_whole_replies(begin: Callable[..., Session]) -> None:
    texts = []
    for _ in range(2):
        client = begin().client(CountingTrial(0))
        with client.chat.completions.with_streaming_response.create(
            model="gpt", messages=[]
        ) as response:
            texts.append(b"".join(response.iter_bytes()))

    assert texts[0] == texts[1]
    assert json.loads(texts[0])["object"] == "chat.completion"


def test_a_compressed_reply_is_kept_decoded(
    begin: Callable[..., Session], server: OpenAIServer
) -> None:
    packed = gzip.compress(json.dumps(chat_completion("packed", "gpt")).encode())
    headers = {"content-encoding": "gzip", "content-length": str(len(packed))}
    server.then(Scripted(body=packed, headers=headers))

    assert [say(begin().client(CountingTrial(0))) for _ in range(2)] == ["packed", "packed"]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "change",
    [{"extra_headers": {"OpenAI-Beta": "realtime=v1"}}, {"extra_query": {"api-version": "1"}}],
)
def test_a_beta_header_or_a_query_makes_it_another_request(
    session: Session, server: OpenAIServer, change: dict[str, dict[str, str]]
) -> None:
    session.client(CountingTrial(0)).embeddings.create(model="embed", input="a")
    session.client(CountingTrial(0)).embeddings.create(
        model="embed",
        input="a",
        extra_headers=change.get("extra_headers"),
        extra_query=change.get("extra_query"),
    )

    assert len(server.requests) == 2


def test_other_headers_are_not_in_the_key(session: Session, server: OpenAIServer) -> None:
    for name in ("a", "b"):
        session.client(CountingTrial(0)).embeddings.create(
            model="embed", input="a", extra_headers={"X-Trace": name}
        )

    assert len(server.requests) == 1


def test_other_requests_pass_through_untouched(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    client = session.client(trial)

    assert [list(client.models.list()) for _ in range(2)] == [[], []]
    assert len(server.requests) == 2
    assert trial.calls == []


def test_closing_a_client_leaves_the_next_trial_connected(
    session: Session, server: OpenAIServer
) -> None:
    with session.client(CountingTrial(0)) as client:
        say(client)

    assert say(session.client(CountingTrial(1))) == "reply 1"
    assert len(server.requests) == 2


def test_failures_that_pass_are_retried_as_the_server_asks(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=500), Scripted(status=429, headers={"retry-after": "3"}))

    assert say(session.client(trial)) == "reply 2"
    assert session.slept == [0.4375, 3]
    assert [call.failure for call in trial.calls] == [None]


def test_the_sdk_does_not_retry_behind_our_back(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(status=502)] * 9)

    with pytest.raises(openai.InternalServerError):
        say(session.client(trial).with_options(max_retries=5))

    assert len(server.requests) == 3
    assert len(trial.calls) == 1


def test_a_long_retry_after_ends_the_call(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=429, headers={"retry-after": "300"}))

    with pytest.raises(openai.RateLimitError):
        say(session.client(trial))

    assert len(server.requests) == 1
    assert session.slept == []


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
    ],
)
def test_a_refusal_is_the_vendors_own_error(
    session: Session,
    server: OpenAIServer,
    trial: CountingTrial,
    status: int,
    error: type[openai.APIStatusError],
) -> None:
    server.then(Scripted(status=status))

    with pytest.raises(error):
        say(session.client(trial))

    assert len(server.requests) == 1
    refused = "key refused: " if status == 401 else ""
    assert trial.calls[0].reason == f"{refused}HTTP {status} (scripted)"


def test_a_redirect_is_a_failure_and_not_followed(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=308, headers={"location": f"{server.origin}/v2"}))

    with pytest.raises(openai.APIStatusError):
        say(session.client(trial))

    assert len(server.requests) == 1
    assert trial.calls[0].failure == "infrastructure"


@pytest.mark.parametrize("drop", ["before", "midway"])
def test_a_dropped_connection_is_retried(
    session: Session, server: OpenAIServer, trial: CountingTrial, drop: Literal["before", "midway"]
) -> None:
    server.then(Scripted(drop=drop))

    assert say(session.client(trial)) == "reply 1"
    assert len(session.slept) == 1


def test_a_lost_network_is_the_vendors_own_error(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(drop="before")] * 3)

    with pytest.raises(openai.APIConnectionError) as caught:
        say(session.client(trial))

    assert type(caught.value.__cause__).__name__ == "RemoteProtocolError"
    assert len(server.requests) == 3
    (call,) = trial.calls
    assert (call.failure, call.reason) == (
        "infrastructure",
        "network: RemoteProtocolError",
    )


def test_a_timeout_is_the_vendors_own_error(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(delay=NEVER)] * 3)

    with pytest.raises(openai.APITimeoutError):
        say(session.client(trial).with_options(timeout=0.5))

    assert len(server.requests) <= 1  # the client waits no longer: we do not try again for it
    assert trial.calls[0].lost is Lost.OWN_TIMEOUT


def test_a_retry_by_the_application_is_the_same_draw(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=400))
    client = begin().client(trial)
    with pytest.raises(openai.BadRequestError):
        say(client)

    assert say(client) == "reply 1"
    assert say(begin(mode="replay").client(CountingTrial(0))) == "reply 1"


def test_malformed_json_is_an_error_and_not_stored(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(body=b'{"id": "chatcmpl')] * 3)

    with pytest.raises(openai.InternalServerError, match="not complete, valid JSON"):
        say(session.client(trial))

    assert len(server.requests) == 3
    assert say(session.client(CountingTrial(0))) == "reply 3"


@pytest.mark.parametrize("key", [None, "", " \n"])
def test_a_missing_key_is_missed_at_the_first_paid_call(
    session: Session,
    server: OpenAIServer,
    trial: CountingTrial,
    monkeypatch: pytest.MonkeyPatch,
    key: str | None,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    client = session.client(trial)

    with pytest.raises(openai.AuthenticationError, match="OPENAI_API_KEY is not set"):
        say(client)

    assert server.requests == []


def test_a_key_given_to_the_client_is_used(
    session: Session, server: OpenAIServer, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")

    say(session.client(trial).with_options(api_key="mine"))

    assert server.requests[0].headers["authorization"] == "Bearer mine"


def test_no_key_is_in_any_stored_file(
    begin: Callable[..., Session], server: OpenAIServer, directory: Path, trial: CountingTrial
) -> None:
    session = begin()
    say(session.client(trial))
    session.close()

    stored = [path.read_bytes() for path in directory.rglob("*") if path.is_file()]

    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert stored
    assert not any(SECRET.encode() in content for content in stored)
    assert SECRET not in repr(trial.calls)


def test_a_password_in_the_base_url_is_not_recorded(
    session: Session, server: OpenAIServer, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("://", f"://me:{SECRET}@"))

    say(session.client(trial))

    assert trial.calls[0].host == server.origin


@pytest.mark.usefixtures("behind_proxy")
def test_an_environment_proxy_is_used(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    assert say(session.client(trial)) == "reply 0"
    assert server.requests[0].path == "http://models.invalid/v1/chat/completions"


# ------------------------------------------------------------------------ llm.ask


def test_the_wire_form_of_a_question_is_frozen(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask(
        "Name the capital of Perú.", system="One word.", temperature=0, top_k=3
    )

    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.json == {
        "model": "gpt-4o-mini",
        "messages": [
            {"role": "system", "content": "One word."},
            {"role": "user", "content": "Name the capital of Perú."},
        ],
        "temperature": 0,
        "top_k": 3,
    }


def test_the_bytes_of_a_plain_question_are_frozen(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask("Hello")

    assert server.requests[0].body == (
        b'{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hello"}]}'
    )


def test_the_key_of_a_question_is_frozen(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    session.alias(server.origin, "https://api.openai.com")

    session.model(NAME, trial).ask("Hello")

    assert trial.calls[0].key == "ef44756e34a6e51114b72599fbbd8c3131b12f4cc3c54fc7565874e6a78c8967"


def test_a_conversation_is_sent_as_it_is(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "Hi", "name": "Ann"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": [{"type": "text", "text": "Bye"}]},
    ]

    session.model(NAME, trial).chat(messages)

    assert server.requests[0].json["messages"] == messages


@pytest.mark.usefixtures("server")
def test_a_reply_tells_text_model_usage_and_whether_it_was_cached(
    begin: Callable[..., Session],
) -> None:
    paid, replayed = (begin().model(NAME, CountingTrial(0)).ask("Hello") for _ in range(2))

    assert (paid.text, paid.model) == ("reply 0", "gpt-4o-mini-2026-01-01")
    assert (paid.usage.input_tokens, paid.usage.output_tokens) == (7, 2)
    assert isinstance(paid.raw, openai.types.chat.ChatCompletion)
    assert (paid.cached, replayed.cached) == (False, True)
    assert replayed.text == paid.text


def test_a_reply_without_text_or_usage_is_still_a_reply(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    said = {"role": "assistant", "content": None}
    choice = {"index": 0, "message": said, "finish_reason": "stop"}
    server.then(Scripted(body={"choices": [choice]}))

    reply = session.model(NAME, trial).ask("Hello")

    assert (reply.text, reply.model) == ("", None)
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (None, None)


@pytest.mark.parametrize("body", [{"choices": ["text"]}, {"data": []}])
def test_a_reply_without_choices_is_an_error(
    session: Session, server: OpenAIServer, trial: CountingTrial, body: object
) -> None:
    server.then(*[Scripted(body=body)] * 3)

    with pytest.raises(ProviderFailed, match="HTTP 502 Bad Gateway: the reply holds"):
        session.model(NAME, trial).ask("Hello")


def test_a_refused_question_names_model_status_and_cause(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=400, body={"error": {"message": "too long", "code": "long"}}))

    with pytest.raises(ProviderFailed) as caught:
        session.model(NAME, trial).ask("Hello")

    assert str(caught.value) == f"{NAME} gave no reply: HTTP 400 Bad Request: too long"
    assert caught.value.failure == "content"
    assert caught.value.in_words == "HTTP 400 (long)"


def test_an_error_page_leaves_the_status(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(status=520, body=b"<html>")] * 3)

    with pytest.raises(ProviderFailed, match="gave no reply: HTTP 520"):
        session.model(NAME, trial).ask("Hello")


def test_a_quoted_key_is_blanked(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=401, body={"error": {"message": f"bad key {SECRET}"}}))

    with pytest.raises(ProviderFailed) as caught:
        session.model(NAME, trial).ask("Hello")

    assert str(caught.value).endswith("HTTP 401 Unauthorized: bad key ***")
    assert caught.value.failure == "infrastructure"


def test_a_question_without_a_key_says_what_to_set(
    session: Session, server: OpenAIServer, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")

    with pytest.raises(ProviderFailed, match="OPENAI_API_KEY is not set") as caught:
        session.model(NAME, trial).ask("Hello")

    assert caught.value.failure == "infrastructure"
    assert server.requests == []


def test_a_question_that_is_not_stored_is_a_replay_miss(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    with pytest.raises(ReplayMiss, match="--llm-cache=replay makes no call"):
        begin(mode="replay").model(NAME, trial).ask("Hello")

    assert server.requests == []


def test_a_replay_miss_names_what_differs_from_the_nearest_question(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    begin().model(NAME, trial).ask("Hello")
    assert len(server.requests) == 1

    with pytest.raises(ReplayMiss, match='content: "Hello!" here, "Hello" stored'):
        begin(mode="replay").model(NAME, trial).ask("Hello!")


def test_a_lost_network_names_the_cause(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(drop="before")] * 3)

    with pytest.raises(ProviderFailed, match="gave no reply: RemoteProtocolError") as caught:
        session.model(NAME, trial).ask("Hello")

    assert caught.value.failure == "infrastructure"
    assert caught.value.in_words == "network: RemoteProtocolError"


def test_a_missing_sdk_says_what_to_install(
    session: Session, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(ProviderNotInstalled, match=r'pip install "openai>=2\.20,<4"'):
        session.client(trial)


def test_a_question_has_the_key_it_has_through_the_sdk(
    session: Session, server: OpenAIServer
) -> None:
    asked, said = CountingTrial(0), CountingTrial(0)

    session.model(NAME, asked).ask("Hello")
    say(session.client(said))

    assert asked.calls[0].key == said.calls[0].key
    assert len(server.requests) == 1


def test_a_question_says_for_whom_it_is_asked(
    session: Session, server: OpenAIServer, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")

    session.model(NAME, trial).ask("Hello")

    headers = server.requests[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org", "project")
    assert headers["authorization"] == f"Bearer {SECRET}"


def test_a_message_of_the_sdk_can_be_sent_back(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    model = session.model(NAME, trial)
    answered = model.ask("Hello").raw
    assert isinstance(answered, openai.types.chat.ChatCompletion)

    model.chat([answered.choices[0].message])  # type: ignore[list-item]  # as the SDK allows

    assert server.requests[1].json["messages"] == [{"role": "assistant", "content": "reply 0"}]


@pytest.mark.usefixtures("server")
def test_the_raw_reply_is_one_object(session: Session, trial: CountingTrial) -> None:
    reply = session.model(NAME, trial).ask("Hello")

    assert reply.raw is reply.raw


def test_a_key_that_is_quoted_is_masked_however_short(
    session: Session,
    server: OpenAIServer,
    trial: CountingTrial,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-123")
    server.then(Scripted(status=401, body={"error": {"message": "wrong key k-123"}}))

    with pytest.raises(ProviderFailed, match=r"wrong key \*\*\*$"):
        session.model(NAME, trial).ask("Hello")


def test_a_replay_imports_neither_sdk_nor_http_library(
    begin: Callable[..., Session], server: OpenAIServer, directory: Path
) -> None:
    begin().model(NAME, CountingTrial(0)).ask("Hello")
    script = f"""
import sys
from pathlib import Path
from pytest_llmeval.models.model_session import ModelSession
from pytest_llmeval.models.course import Course
from pytest_llmeval.records import Slot
from pytest_llmeval.settings import Settings

class Trial:
    course = Course()
    def slot(self, key, wanted): return Slot(0, 0)
    def record(self, call): assert call.replayed

settings = Settings(directory=Path({str(directory)!r}), cache="replay", session="x")
print(ModelSession(settings).model({NAME!r}, Trial()).ask("Hello").text)
print(sorted({{"openai", "httpx", "httpx2", "asyncio"}} & set(sys.modules)))
"""

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout == "reply 0\n[]\n"
    assert len(server.requests) == 1


def test_a_response_that_failed_is_asked_for_again_and_not_kept(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    failed = {
        "id": "resp_1",
        "object": "response",
        "status": "failed",
        "error": {"code": "server_error", "message": "m"},
        "output": [],
    }
    server.then(*[Scripted(body=failed)] * 3)

    with pytest.raises(
        openai.InternalServerError, match=r"m \(the error of a response that failed"
    ):
        session.client(trial).responses.create(model="gpt", input="Hello")

    assert len(server.requests) == 3
    assert trial.calls[0].failure == "infrastructure"


def test_a_response_that_was_cut_short_is_a_reply(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    cut = {
        "id": "resp_1",
        "object": "response",
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [],
    }
    server.then(Scripted(body=cut))
    begin().client(trial).responses.create(model="gpt", input="Hello")

    client = begin(mode="replay").client(CountingTrial(0))
    assert client.responses.create(model="gpt", input="Hello").status == "incomplete"
