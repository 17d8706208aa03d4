"""Cohere by questions of our own, and by requests of clients of the application."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_llmeval.errors import ProviderFailed
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.models.vendors.cohere import VENDOR
from pytest_llmeval.models.vendors.recognition import any_key_is_set
from tests.leaks import files_with
from tests.models.conftest import SECRET, CountingTrial, Session
from tests.models.test_interception import Place, post, posts
from tests.servers.cohere_server import (
    LINES,
    USAGE,
    CohereServer,
    chat,
    chat_1_stream,
    chat_events,
    chat_stream,
    worded,
)
from tests.servers.openai_server import Scripted
from tests.servers.openai_streams import DONE

NAME = "cohere/command-a-03-2025"
MODEL = {"model": "command-a-03-2025"}
ASKED: dict[str, Any] = {
    **MODEL,
    "messages": [{"role": "user", "content": "Hello"}],
    "stream": False,
}
ASKED_1: dict[str, Any] = {**MODEL, "message": "Hello"}
TEXTS = {"model": "embed-v4.0", "texts": ["Hello"], "input_type": "search_query"}
DOCUMENTS = {"model": "rerank-v3.5", "query": "Hello", "documents": ["a"]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CohereServer]:
    with CohereServer() as running:
        monkeypatch.setenv("CO_API_URL", running.url)
        monkeypatch.setenv("CO_API_KEY", SECRET)
        monkeypatch.delenv("COHERE_API_KEY", raising=False)
        yield running


@pytest.fixture
def place(session: Session) -> Place:
    return Place(session)


# ------------------------------------------------------------------------ the wire form


def test_the_bytes_of_a_plain_question_are_frozen(
    session: Session, server: CohereServer, trial: CountingTrial
) -> None:
    reply = session.model(NAME, trial).ask("Hello")

    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v2/chat")
    assert request.body == (
        b'{"model":"command-a-03-2025","messages":[{"role":"user","content":"Hello"}],'
        b'"stream":false}'
    )
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert (reply.text, reply.raw) == ("reply 0", chat("reply 0"))


def test_sampling_parameters_go_by_coheres_names(
    session: Session, server: CohereServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask("Hello", temperature=0, top_p=0.5, seed=7)

    sent = {name: server.requests[0].json.get(name) for name in ("temperature", "p", "seed")}
    assert sent == {"temperature": 0, "p": 0.5, "seed": 7}
    assert "top_p" not in server.requests[0].json
    assert trial.calls[0].parameters == {"temperature": 0, "top_p": 0.5, "seed": 7}


def test_the_key_of_a_question_is_frozen(
    session: Session, server: CohereServer, trial: CountingTrial
) -> None:
    session.alias(server.origin, "https://api.cohere.com")

    session.model(NAME, trial).ask("Hello", temperature=0)

    assert trial.calls[0].key == "0e8a971d4bb3986e7bbdd94ecd0cd5f8acfb2f1c42115b24fcba418d8b1db007"


@pytest.mark.usefixtures("server")
def test_the_key_is_either_of_two(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CO_API_KEY")
    trial = CountingTrial(0)
    with pytest.raises(ProviderFailed, match="CO_API_KEY is not set"):
        session.model(NAME, trial).ask("Hello")
    monkeypatch.setenv("COHERE_API_KEY", "another-key")

    assert VENDOR.question("m", [], {})[1].headers["authorization"] == "Bearer another-key"
    assert any_key_is_set({"COHERE_API_KEY": "k"})


# ------------------------------------------------------------------------ clients


@posts
@pytest.mark.parametrize(
    ("path", "asked", "tokens"),
    [
        ("/v2/chat", ASKED, (7, 2)),
        ("/v2/chat", {**ASKED, "stream": True}, (7, 2)),
        ("/v1/chat", ASKED_1, (7, 2)),
        ("/v1/chat", {**ASKED_1, "stream": True}, (7, 2)),
        ("/v2/embed", TEXTS, (3, None)),
        ("/v1/embed", TEXTS, (3, None)),
        ("/v2/rerank", DOCUMENTS, (None, None)),
        ("/v1/rerank", DOCUMENTS, (None, None)),
    ],
)
def test_what_a_client_asks_is_kept_byte_for_byte(
    *,
    place: Place,
    server: CohereServer,
    directory: Path,
    send: Callable[..., Any],
    path: str,
    asked: dict[str, Any],
    tokens: tuple[int | None, int | None],
) -> None:
    key = {"authorization": f"Bearer {SECRET}"}
    replies = []
    for _ in range(2):
        with place.trial() as trial:
            replies.append(send(httpx, f"{server.url}{path}", json=asked, headers=key))

    assert len(server.requests) == 1
    assert replies[0].status_code == 200
    assert replies[0].content == replies[1].content
    (call,) = trial.calls
    assert (call.replayed, call.model) == (True, f"cohere/{asked['model']}")
    assert (call.usage.input_tokens, call.usage.output_tokens) == tokens
    assert not files_with(SECRET, directory)


def test_a_client_and_llm_share_their_draws(
    session: Session, place: Place, server: CohereServer
) -> None:
    session.model(NAME, CountingTrial(0)).ask("Hello")
    with place.trial() as trial:
        post(httpx, f"{server.url}/v2/chat", json=ASKED)

    assert trial.calls[0].replayed


def test_its_sdk_is_known_wherever_it_sends(
    place: Place, server: CohereServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CO_API_URL")
    for path, asked in (("/v2/chat", ASKED), ("/v1/chat", ASKED_1)):
        with place.trial() as trial:
            post(httpx, f"{server.url}{path}", json=asked, headers={"x-fern-sdk-name": "cohere"})
        assert len(trial.calls) == 1
    assert place.notes == []


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/chat", ASKED_1),
        ("/v2/chat", ASKED),
        ("/v2/embed", TEXTS),
        ("/v2/rerank", DOCUMENTS),
    ],
)
def test_a_host_that_nobody_named_is_left_alone_and_noted(
    place: Place,
    server: CohereServer,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    asked: object,
) -> None:
    monkeypatch.delenv("CO_API_URL")
    with place.trial() as trial:
        post(httpx, f"{server.url}{path}", json=asked)

    assert trial.calls == []
    (note,) = place.notes
    assert "llm_intercept_hosts = 127.0.0.1:" in note


def test_what_it_costs_is_known() -> None:
    assert Prices({}).tariff(NAME) is not None


# ------------------------------------------------------------------------ outcomes

CALL = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (chat("", finish_reason="MAX_TOKENS"), ""),
        (chat("", finish_reason="ERROR_TOXIC"), ""),
        ({"message": {"tool_calls": [CALL], "tool_plan": "I look."}}, ""),
        ({"message": {"content": [{"type": "thinking", "thinking": "Hm"}]}}, ""),
        (chat("Lima"), "Lima"),
    ],
)
def test_an_answer_is_kept(
    session: Session, server: CohereServer, reply: object, text: str
) -> None:
    server.then(Scripted(body=reply))
    for _ in range(2):
        assert session.model(NAME, CountingTrial(0)).ask("Hello").text == text

    assert len(server.requests) == 1


def test_a_text_of_version_1_is_an_answer_though_no_reason_is_told(
    place: Place, server: CohereServer
) -> None:
    server.then(Scripted(body={"text": "Lima"}))
    with place.trial() as trial:
        post(httpx, f"{server.url}/v1/chat", json=ASKED_1)

    assert len(server.requests) == 1
    assert trial.calls[0].failure is None


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"message": "internal error"},
        {"message": {"role": "assistant", "content": []}},
        chat("Li", finish_reason="ERROR"),
        chat("", finish_reason="TIMEOUT"),
    ],
)
def test_a_success_that_answers_nothing_is_asked_again(
    session: Session, server: CohereServer, reply: object
) -> None:
    server.then(Scripted(body=reply))

    assert session.model(NAME, CountingTrial(0)).ask("Hello").text == "reply 1"


@pytest.mark.parametrize(
    ("path", "empty"),
    [
        ("/v2/embed", {"embeddings": {}}),
        ("/v2/embed", {"embeddings": {"float": [[]]}}),
        ("/v1/embed", {"embeddings": [None]}),
        ("/v2/rerank", {"results": None}),
    ],
)
def test_an_empty_result_is_asked_for_again(
    place: Place, server: CohereServer, path: str, empty: object
) -> None:
    server.then(Scripted(body=empty))
    asked = TEXTS if path.endswith("embed") else DOCUMENTS
    with place.trial() as trial:
        reply = post(httpx, f"{server.url}{path}", json=asked)

    assert reply.status_code == 200
    assert len(server.requests) == 2
    assert trial.calls[0].failure is None


@pytest.mark.parametrize(
    ("status", "message", "failure"),
    [
        (400, "invalid request: message must be at least 1 token long", "content"),
        (401, "invalid api token", "infrastructure"),
        (422, "invalid role", "content"),
        (498, "invalid token", "infrastructure"),
        (500, "internal server error", "infrastructure"),
    ],
)
def test_an_error_is_judged_by_the_one_table(
    *,
    session: Session,
    server: CohereServer,
    trial: CountingTrial,
    status: int,
    message: str,
    failure: str,
) -> None:
    server.then(*[Scripted(status=status, body={"id": "f", "message": message})] * 3)

    with pytest.raises(ProviderFailed, match=f"HTTP {status}"):
        session.model(NAME, trial).ask("Hello")

    assert trial.calls[0].failure == failure


EVENTS = chat_events("Lima")


@pytest.mark.parametrize(
    "broken",
    [
        Scripted(chunks=worded(EVENTS[:-1])),
        Scripted(chunks=worded(chat_events("Li", end={"finish_reason": "ERROR", "error": "x"}))),
        Scripted(chunks=chat_stream("Lima"), drop="midway"),
    ],
)
def test_a_stream_that_is_not_whole_is_asked_for_again(
    place: Place, server: CohereServer, broken: Scripted
) -> None:
    server.then(broken)
    with place.trial() as trial:
        reply = post(httpx, f"{server.url}/v2/chat", json={**ASKED, "stream": True})

    assert reply.status_code == 200
    assert len(server.requests) == 2
    assert (trial.calls[0].failure, trial.calls[0].usage.input_tokens) == (None, 7)


def test_a_stream_of_version_1_that_is_cut_is_asked_for_again(
    place: Place, server: CohereServer
) -> None:
    server.then(Scripted(chunks=chat_1_stream("Lima")[:-1], headers=LINES))
    with place.trial() as trial:
        post(httpx, f"{server.url}/v1/chat", json={**ASKED_1, "stream": True})

    assert len(server.requests) == 2
    assert trial.calls[0].failure is None


def test_a_stream_may_have_an_end_mark(place: Place, server: CohereServer) -> None:
    server.then(Scripted(chunks=[*chat_stream("Lima"), DONE]))
    with place.trial() as trial:
        post(httpx, f"{server.url}/v2/chat", json={**ASKED, "stream": True})

    assert len(server.requests) == 1
    assert trial.calls[0].usage.output_tokens == USAGE["billed_units"]["output_tokens"]
