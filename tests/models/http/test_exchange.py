from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pytest_llmeval.cache.reply import StoredReply, sensible
from pytest_llmeval.errors import CacheError
from pytest_llmeval.models.calls import Services
from pytest_llmeval.models.http.attempt import HttpFailed, NetworkFailed, Send
from pytest_llmeval.models.http.dialect import PLACEHOLDER_KEY, HttpRequest
from pytest_llmeval.models.http.exchange import UNANSWERED, Exchange
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.seam import described, reply_for_sdk
from pytest_llmeval.models.http.sender import newest
from pytest_llmeval.models.limits.deadline import Deadline
from pytest_llmeval.models.vendors.openai import VENDOR
from tests.models.conftest import CountingTrial, Session

BODY: dict[str, object] = {"model": "gpt", "messages": []}
NO_KEY = {"authorization": f"Bearer {PLACEHOLDER_KEY}"}
CHOICES = b'"choices": [{"message": {"content": "Hi"}}]'
ANSWER = HttpReply(status=200, body=b"{" + CHOICES + b"}")


def request(**changes: object) -> HttpRequest:
    fields: dict[str, object] = {
        "origin": "https://api.example",
        "path": "/v1/chat/completions",
        "query": "",
        "headers": {},
        "body": BODY,
    }
    every: dict[str, Any] = {**fields, **changes}
    return HttpRequest(**every)


def answer(exchange: Exchange, sent: HttpRequest, send: Send) -> StoredReply:
    call, _ = exchange.call_for(sent, send)
    return exchange.calls.call(call)


def ask(
    session: Session,
    reply: HttpReply,
    *,
    trial: CountingTrial | None = None,
    **changes: object,
) -> HttpReply:
    exchange = Exchange(dialect=VENDOR, calls=session.calls(trial or CountingTrial(0)))
    try:
        return reply_for_sdk(answer(exchange, request(**changes), lambda _deadline: reply))
    except UNANSWERED as exc:
        return reply_for_sdk(exc)


def error_of(reply: HttpReply) -> dict[str, str]:
    error: dict[str, str] = json.loads(reply.body)["error"]
    return error


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/embeddings",
        "/v1/moderations",
        "/openai/deployments/mine/chat/completions",
    ],
)
def test_posts_of_json_to_known_paths_are_cached(path: str) -> None:
    assert VENDOR.keeps("POST", path, {"content-type": "Application/JSON; charset=utf-8"})


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/octet-stream"}])
def test_a_body_whose_kind_nobody_names_may_be_json(headers: dict[str, str]) -> None:
    assert VENDOR.keeps("POST", "/v1/responses", headers)


@pytest.mark.parametrize(
    ("method", "path", "content_type"),
    [
        ("GET", "/v1/responses", "application/json"),
        ("POST", "/v1/batches", "application/json"),
        ("POST", "/v1/responses/resp_1/cancel", "application/json"),
        ("POST", "/v1/responses", "multipart/form-data"),
        ("POST", "/v1/responses", "text/plain"),
    ],
)
def test_other_requests_are_not_cached(method: str, path: str, content_type: str) -> None:
    assert not VENDOR.keeps(method, path, {"content-type": content_type})


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff"])
def test_a_body_that_is_no_json_object_is_not_cached(content: bytes) -> None:
    assert described(newest().Request("POST", "http://localhost", content=content)) is None


def test_the_key_of_a_request_never_changes(session: Session, trial: CountingTrial) -> None:
    ask(session, ANSWER, trial=trial)

    # A change of this voids every baseline there is.
    assert trial.calls[0].key == "2b3a4a90feddcd3479f4d8e692bfb68ad14e2f839c15695bf6512845f0b23b5c"


@pytest.mark.parametrize(
    "change",
    [
        {"origin": "https://other.example"},
        {"path": "/v2/chat/completions"},
        {"query": "api-version=1"},
        {"headers": {"openai-beta": "assistants=v2"}},
        {"body": {**BODY, "seed": 1}},
    ],
)
def test_what_changes_a_request_changes_its_key(
    session: Session, change: dict[str, object]
) -> None:
    plain, changed = CountingTrial(0), CountingTrial(0)
    ask(session, ANSWER, trial=plain)
    ask(session, ANSWER, trial=changed, **change)

    assert plain.calls[0].key != changed.calls[0].key


def test_an_aliased_origin_has_the_key_of_its_target(session: Session) -> None:
    session.alias("http://127.0.0.1:*", "https://api.example")
    plain, aliased = CountingTrial(0), CountingTrial(0)
    ask(session, ANSWER, trial=plain)
    ask(
        session,
        ANSWER,
        trial=aliased,
        origin="http://127.0.0.1:4711",
    )

    assert aliased.calls[0].key == plain.calls[0].key
    assert aliased.calls[0].replayed


def test_a_fresh_reply_and_its_replay_differ_only_in_being_cached(
    begin: Callable[..., Session],
) -> None:
    sent = HttpReply(
        status=201,
        body=ANSWER.body,
        headers={"content-type": "text/json", "set-cookie": "x=1"},
    )

    fresh = ask(begin(), sent)
    replay = ask(begin(), HttpReply(status=500))

    assert (fresh.status, fresh.body) == (replay.status, replay.body) == (201, sent.body)
    assert fresh.headers == {"content-type": "text/json", "x-llmeval-cached": "false"}
    assert replay.headers == {"content-type": "text/json", "x-llmeval-cached": "true"}


def test_a_reply_without_content_type_is_taken_for_json(session: Session) -> None:
    reply = ask(session, ANSWER)

    assert reply.headers["content-type"] == "application/json"


def test_a_call_is_recorded_with_model_parameters_and_seconds(
    session: Session, trial: CountingTrial
) -> None:
    ask(
        session,
        HttpReply(status=200, body=b'{"model": "gpt-2026", ' + CHOICES + b"}", seconds=1.5),
        trial=trial,
        body={**BODY, "temperature": 0},
    )

    (call,) = trial.calls
    assert (call.model, call.served, call.seconds) == ("openai/gpt", "gpt-2026", 1.5)
    assert (call.host, call.parameters) == ("https://api.example", {"temperature": 0})


def test_a_request_without_model_is_recorded_without(
    session: Session, trial: CountingTrial
) -> None:
    ask(session, ANSWER, trial=trial, body={"input": "a"})

    assert trial.calls[0].model is None


@pytest.mark.parametrize(
    ("status", "failure"), [(400, "content"), (404, "infrastructure"), (503, "infrastructure")]
)
def test_a_failing_reply_is_handed_on_and_not_to_be_retried(
    session: Session, trial: CountingTrial, status: int, failure: str
) -> None:
    sent = HttpReply(
        status=status,
        body=b'{"error": {"code": "some_code"}}',
        headers={"retry-after": "1", "content-encoding": "gzip", "location": "/x"},
    )

    reply = ask(session, sent, trial=trial)

    assert (reply.status, reply.body) == (status, sent.body)
    assert reply.headers == {
        "retry-after": "1",
        "x-should-retry": "false",
        "x-llmeval-failure": failure,
    }
    (call,) = trial.calls
    assert (call.failure, call.reason) == (failure, f"HTTP {status} (some_code)")


def test_a_failing_reply_is_not_stored(begin: Callable[..., Session]) -> None:
    ask(begin(), HttpReply(status=500))

    assert ask(begin(), ANSWER).headers["x-llmeval-cached"] == "false"


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b'"text"',
        b'{"error": "text"}',
        b'{"error": {"code": null}}',
        b'{"error": {"code": "Your prompt was: hello"}}',
    ],
)
def test_a_reason_quotes_nothing_but_a_code(body: bytes) -> None:
    assert str(HttpFailed(HttpReply(status=500, body=body))) == "HTTP 500"


@pytest.mark.parametrize("body", [b'{"a": ', b"", b"<html>", b"\xff\xfe", b"[" * 100_000])
def test_a_success_that_is_no_json_is_a_failure_and_not_stored(
    begin: Callable[..., Session], trial: CountingTrial, body: bytes
) -> None:
    reply = ask(begin(), HttpReply(status=200, body=body), trial=trial)

    assert reply.status == 502
    assert "not complete, valid JSON" in error_of(reply)["message"]
    assert trial.calls[0].failure == "infrastructure"
    assert trial.calls[0].reason == "HTTP 502 (llmeval_not_json)"
    again = ask(begin(), ANSWER)
    assert again.headers["x-llmeval-cached"] == "false"


def test_without_a_key_a_miss_says_what_to_set(session: Session, trial: CountingTrial) -> None:
    reply = ask(
        session,
        ANSWER,
        trial=trial,
        headers=NO_KEY,
    )

    assert reply.status == 401
    assert error_of(reply)["message"] == (
        "OPENAI_API_KEY is not set. Set it, or replay a recorded run with --llm-cache=replay"
    )
    assert reply.headers["x-should-retry"] == "false"
    assert trial.calls[0].reason == "not set: OPENAI_API_KEY, OPENAI_BASE_URL"


def test_without_a_key_a_replay_works(begin: Callable[..., Session]) -> None:
    ask(begin(), ANSWER)

    assert ask(begin(), HttpReply(status=500), headers=NO_KEY).status == 200


def test_a_replay_miss_is_a_failed_dependency(
    begin: Callable[..., Session], trial: CountingTrial
) -> None:
    reply = ask(begin(mode="replay"), ANSWER, trial=trial)

    assert reply.status == 424
    assert reply.headers["x-should-retry"] == "false"
    assert reply.headers["x-llmeval-failure"] == "infrastructure"
    assert error_of(reply)["code"] == "llmeval_replay_miss"
    assert trial.calls[0].failure == "infrastructure"


def test_a_network_error_is_recorded_by_its_type(session: Session, trial: CountingTrial) -> None:
    def attempt(_deadline: Deadline) -> HttpReply:
        raise NetworkFailed(TimeoutError("secret host"))

    calls = replace(session.calls(trial), services=Services(retries=0))
    exchange = Exchange(dialect=VENDOR, calls=calls)
    with pytest.raises(NetworkFailed):
        answer(exchange, request(), attempt)

    (call,) = trial.calls
    assert (call.failure, call.reason) == ("infrastructure", "network: TimeoutError")


@pytest.mark.parametrize(
    ("reply", "facts"),
    [
        (
            {
                "model": "gpt",
                "system_fingerprint": "fp",
                "usage": {"prompt_tokens": 7, "completion_tokens": 0},
            },
            {"model": "gpt", "fingerprint": "fp", "input_tokens": 7, "output_tokens": 0},
        ),
        (
            {"model": "gpt", "usage": {"input_tokens": 7, "output_tokens": 2}},
            {"model": "gpt", "input_tokens": 7, "output_tokens": 2},
        ),
        ({"model": "embed", "usage": {"prompt_tokens": 3}}, {"model": "embed", "input_tokens": 3}),
        ({"model": None, "usage": None, "system_fingerprint": ["fp"]}, {}),
        ({}, {}),
    ],
)
def test_facts_are_read_from_every_kind_of_reply(
    reply: dict[str, object], facts: dict[str, object]
) -> None:
    assert sensible(VENDOR.read_facts(reply)) == facts


def test_a_reply_that_is_no_object_has_no_facts(session: Session, trial: CountingTrial) -> None:
    ask(session, HttpReply(status=200, body=b"[1]"), trial=trial)

    assert trial.calls[0].served is None


def test_a_damaged_store_is_not_taken_for_a_reply(
    session: Session, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CacheError("full")

    monkeypatch.setattr(session.replies, "lookup", refuse)

    with pytest.raises(CacheError):
        ask(session, HttpReply(status=200), trial=trial)
