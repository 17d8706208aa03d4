"""Gemini by questions of our own, and by requests of clients of the application."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pytest_llmeval.cache.reply import sensible
from pytest_llmeval.errors import ProviderFailed, ReplayMiss, SettingsError
from pytest_llmeval.models.http.dialect import PLACEHOLDER_KEY
from pytest_llmeval.models.limits.prices import Prices, most_input_tokens
from pytest_llmeval.models.vendors.gemini import VENDOR
from pytest_llmeval.models.vendors.recognition import any_key_is_set
from tests.leaks import files_with
from tests.models.conftest import SECRET, CountingTrial, Session
from tests.models.test_interception import Place, libraries, post, posts
from tests.servers.gemini_server import (
    EVENTS,
    GeminiServer,
    array,
    content,
    error,
    events,
    stream_chunks,
)
from tests.servers.openai_server import Scripted

NAME = "gemini/gemini-2.5-flash"
PATH = "/v1beta/models/gemini-2.5-flash"
ASKED: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GeminiServer]:
    with GeminiServer() as running:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", running.url)
        monkeypatch.setenv("GEMINI_API_KEY", SECRET)
        monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
        yield running


@pytest.fixture
def place(session: Session) -> Place:
    return Place(session)


# ------------------------------------------------------------------------ the wire form


def test_the_bytes_of_a_plain_question_are_frozen(
    session: Session, server: GeminiServer, trial: CountingTrial
) -> None:
    session.model(NAME, trial).ask("Hello")

    (request,) = server.requests
    assert (request.method, request.path) == ("POST", f"{PATH}:generateContent")
    assert request.body == b'{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}'
    assert request.headers["x-goog-api-key"] == SECRET


def test_the_wire_form_of_a_question_is_frozen(
    session: Session, server: GeminiServer, trial: CountingTrial
) -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    session.model(NAME, trial).chat(
        [
            {"role": "system", "content": "One word."},
            {"role": "user", "content": ["Name the capital of Perú.", picture]},
            {"role": "assistant", "content": "Lima"},
            {"role": "user", "parts": [{"text": "And of Chile?"}]},
        ],
        temperature=0,
        top_p=0.5,
        seed=7,
        generationConfig={"maxOutputTokens": 9},
        safetySettings=[],
    )

    assert server.requests[0].json == {
        "systemInstruction": {"parts": [{"text": "One word."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Name the capital of Perú."}, picture]},
            {"role": "model", "parts": [{"text": "Lima"}]},
            {"role": "user", "parts": [{"text": "And of Chile?"}]},
        ],
        "generationConfig": {"maxOutputTokens": 9, "temperature": 0, "topP": 0.5, "seed": 7},
        "safetySettings": [],
    }
    assert trial.calls[0].parameters == {"temperature": 0, "top_p": 0.5, "seed": 7}


def test_the_key_of_a_question_is_frozen(
    session: Session, server: GeminiServer, trial: CountingTrial
) -> None:
    session.alias(server.origin, "https://generativelanguage.googleapis.com")

    session.model(NAME, trial).ask("Hello", temperature=0)

    assert trial.calls[0].key == "1cfb1103a45a4bcba63f3021e7e42f73b114cced1fcd2ff6a84d78bc45d42f5b"


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    assert VENDOR.question("../x?y/z", [], {})[0].endswith(
        "/v1beta/models/..%2Fx%3Fy%2Fz:generateContent"
    )


def test_a_replay_needs_no_key_and_no_sdk(
    begin: Callable[..., Session], server: GeminiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin().model(NAME, CountingTrial(0)).ask("Hello")
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.setitem(sys.modules, "google.genai", None)

    trial = CountingTrial(0)
    reply = begin(mode="replay").model(NAME, trial).ask("Hello")

    assert (reply.text, reply.model, reply.cached) == ("reply 0", "gemini-2.5-flash-001", True)
    assert reply.raw == content([{"text": "reply 0"}])
    assert len(server.requests) == 1
    (call,) = trial.calls
    assert (call.model, call.usage.input_tokens, call.usage.output_tokens) == (NAME, 7, 2)
    assert Prices({}).cost(call)


def test_a_stream_is_for_clients(session: Session, server: GeminiServer) -> None:
    with pytest.raises(SettingsError, match="own client: one that is intercepted"):
        session.model(NAME, CountingTrial(0)).ask("Hello", stream=True)
    assert not server.requests


# ------------------------------------------------------------------------ the key


def test_the_key_is_geminis_else_googles(
    session: Session, server: GeminiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "of-google\n")
    session.model(NAME, CountingTrial(0)).ask("Hello")
    monkeypatch.setenv("GEMINI_API_KEY", "")
    session.model(NAME, CountingTrial(1)).ask("Hello")

    keys = [request.headers["x-goog-api-key"] for request in server.requests]
    assert keys == [SECRET, "of-google"]
    assert any_key_is_set({"GOOGLE_API_KEY": "of-google"})


@pytest.mark.usefixtures("server")
def test_a_call_without_a_key_says_which_variable(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")

    trial = CountingTrial(0)
    with pytest.raises(ProviderFailed, match="GEMINI_API_KEY is not set"):
        session.model(NAME, trial).ask("Hello")
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL")  # nothing is sent without a key
    with pytest.raises(ProviderFailed):
        session.model(NAME, trial).ask("Hello")

    reasons = [str(call.reason) for call in trial.calls]
    assert reasons[0].endswith("GEMINI_API_KEY")
    assert reasons[1].endswith("GEMINI_API_KEY, GOOGLE_GEMINI_BASE_URL")


@pytest.mark.usefixtures("server")
def test_a_key_in_the_query_that_is_our_placeholder_is_none(
    place: Place, server: GeminiServer
) -> None:
    with place.trial() as trial:
        url = f"{server.url}{PATH}:generateContent?key={PLACEHOLDER_KEY}"
        reply = post(httpx, url, json=ASKED)

    assert "GEMINI_API_KEY is not set" in reply.json()["error"]["message"]
    assert not server.requests
    assert trial.calls[0].failure == "infrastructure"


@pytest.mark.parametrize("where", ["header", "query"])
def test_the_key_is_in_no_key_row_or_message(
    *, place: Place, server: GeminiServer, directory: Path, where: str, monkeypatch: Any
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")  # known from the request alone
    quoting = error(400, "INVALID_ARGUMENT", f"API key not valid: {SECRET}-1")
    server.then(Scripted(), Scripted(status=400, body=quoting))
    for number in (0, 1):
        secret = f"{SECRET}-{number}" if number else SECRET
        query = f"?key={secret}" if where == "query" else ""
        headers = {"x-goog-api-key": secret} if where == "header" else {}
        with place.trial(number) as trial:
            url = f"{server.url}{PATH}:generateContent{query}"
            reply = post(httpx, url, json=ASKED, headers=headers)
        assert number == 0 or trial.calls[0].failure == "infrastructure"
        assert SECRET not in f"{trial.calls}{reply.text}"
    with place.trial(0) as trial:
        post(httpx, f"{server.url}{PATH}:generateContent?key=another-key", json=ASKED)

    assert trial.calls[0].replayed
    assert len(server.requests) == 2
    assert not files_with(SECRET, directory)


# ------------------------------------------------------------------------ clients


@posts
@libraries
@pytest.mark.parametrize(
    ("asked", "content_type"),
    [
        (":generateContent", "application/json"),
        (":streamGenerateContent", "application/json"),
        (":streamGenerateContent?alt=sse", "text/event-stream"),
        (":embedContent", "application/json"),
    ],
)
def test_what_a_client_asks_is_kept_byte_for_byte(
    *,
    place: Place,
    server: GeminiServer,
    library: Any,
    send: Callable[..., Any],
    asked: str,
    content_type: str,
) -> None:
    replies = []
    for _ in range(2):
        with place.trial() as trial:
            replies.append(send(library, f"{server.url}{PATH}{asked}", json=ASKED))

    assert len(server.requests) == 1
    assert replies[0].content == replies[1].content
    assert {reply.headers["content-type"] for reply in replies} == {content_type}
    (call,) = trial.calls
    assert (call.replayed, call.model) == (True, NAME)
    assert (call.usage.input_tokens is None) == asked.endswith("embedContent")


def test_several_embeddings_are_one_draw(place: Place, server: GeminiServer) -> None:
    body = {"requests": [{"content": ASKED["contents"][0]}] * 2}
    for _ in range(2):
        with place.trial():
            reply = post(httpx, f"{server.url}{PATH}:batchEmbedContents", json=body)

    assert len(reply.json()["embeddings"]) == 2
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("method", "empty"),
    [
        ("embedContent", {"embedding": {"values": []}}),
        ("embedContent", {"embeddings": [{"values": [1]}]}),
        ("batchEmbedContents", {"embeddings": [{"values": [1]}, {}]}),
        ("batchEmbedContents", {"embedding": {"values": [1]}}),
    ],
)
def test_an_empty_embedding_is_asked_for_again(
    place: Place, server: GeminiServer, method: str, empty: object
) -> None:
    server.then(Scripted(body=empty))
    with place.trial():
        reply = post(httpx, f"{server.url}{PATH}:{method}", json={"requests": [{}]})

    assert "0.25" in reply.text
    assert len(server.requests) == 2


def test_a_client_and_llm_share_their_draws(
    session: Session, place: Place, server: GeminiServer
) -> None:
    session.model(NAME, CountingTrial(0)).ask("Hello")
    with place.trial() as trial:
        post(httpx, f"{server.url}{PATH}:generateContent", json=ASKED)

    assert trial.calls[0].replayed


def test_other_methods_pass_untouched(place: Place, server: GeminiServer) -> None:
    with place.trial() as trial:
        post(httpx, f"{server.url}{PATH}:countTokens", json=ASKED)

    assert len(server.requests) == 1
    assert not trial.calls


@pytest.mark.usefixtures("server")
def test_a_question_to_a_host_that_nobody_named_is_noted(
    place: Place, server: GeminiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL")
    url = f"{server.url}{PATH}:generateContent?key={SECRET}"
    with place.trial() as trial:
        post(httpx, url, json=ASKED)

    assert not trial.calls
    assert [note for note in place.notes if "llm_intercept_hosts = 127.0.0.1:" in note]
    assert SECRET not in str(place.notes)


# ------------------------------------------------------------------------ outcomes


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}, ""),
        ({"candidates": [{"finishReason": "SAFETY", "index": 0}]}, ""),
        ({"candidates": [{"finishReason": "MAX_TOKENS", "content": {"role": "model"}}]}, ""),
        (content([{"text": "Hm", "thought": True}, {"text": "Li"}, {"text": "ma"}]), "Lima"),
        (content([{"functionCall": {"name": "f", "args": {}}}]), ""),
        (content([{"text": "Lima"}], reason=None), "Lima"),
    ],
)
def test_an_answer_is_kept_also_a_filters_verdict(
    session: Session, server: GeminiServer, reply: object, text: str
) -> None:
    server.then(Scripted(body=reply))
    for _ in range(2):
        assert session.model(NAME, CountingTrial(0)).ask("Hello").text == text

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"candidates": []},
        {"candidates": [], "promptFeedback": {}},
        {"candidates": [{"index": 0}]},
        {"candidates": [{"finishReason": "FINISH_REASON_UNSPECIFIED", "content": {"parts": []}}]},
        {"candidates": "Lima"},
        error(503, "UNAVAILABLE", "The model is overloaded."),
    ],
)
def test_a_success_that_answers_nothing_is_asked_again(
    session: Session, server: GeminiServer, reply: object
) -> None:
    server.then(Scripted(body=reply))

    assert session.model(NAME, CountingTrial(0)).ask("Hello").text == "reply 1"


@pytest.mark.parametrize(
    ("status", "name", "message", "failure"),
    [
        (400, "INVALID_ARGUMENT", "Unknown name.", "content"),
        (400, "INVALID_ARGUMENT", "API key not valid. Pass a valid API key.", "infrastructure"),
        (400, "FAILED_PRECONDITION", "User location is not supported.", "infrastructure"),
        (403, "PERMISSION_DENIED", "Denied.", "infrastructure"),
        (404, "NOT_FOUND", "models/x is not found.", "infrastructure"),
        (504, "DEADLINE_EXCEEDED", "Too long.", "infrastructure"),
    ],
)
def test_an_error_is_judged_by_the_one_table(
    *,
    session: Session,
    server: GeminiServer,
    trial: CountingTrial,
    status: int,
    name: str,
    message: str,
    failure: str,
) -> None:
    server.then(*[Scripted(status=status, body=error(status, name, message))] * 3)

    with pytest.raises(ProviderFailed, match=f"HTTP {status}"):
        session.model(NAME, trial).ask("Hello")

    refused = "key refused: " if "key" in message or status == 403 else ""
    assert (trial.calls[0].failure, trial.calls[0].reason) == (
        failure,
        f"{refused}HTTP {status} ({name})",
    )


def test_too_many_calls_are_waited_for(session: Session, server: GeminiServer) -> None:
    refusal = error(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.")
    server.then(*[Scripted(status=429, body=refusal)] * 4)

    assert session.model(NAME, CountingTrial(0)).ask("Hello").text == "reply 4"


CHUNKS = stream_chunks("Lima")
ONE_OF_TWO: list[dict[str, object]] = [
    {"candidates": [{"index": 1, "content": {"parts": [{"text": "Li"}]}}]},
    {"candidates": [{"index": 0, "finishReason": "STOP"}]},
]
IN_THE_STREAM = [*CHUNKS[:2], error(503, "UNAVAILABLE", "The model is overloaded.")]


@pytest.mark.parametrize(
    "broken",
    [
        Scripted(chunks=events(CHUNKS[:-1]), headers=EVENTS),
        Scripted(body=array(CHUNKS[:-1])),
        Scripted(body=array(CHUNKS)[:-1]),
        Scripted(body=array(ONE_OF_TWO)),
        Scripted(body=b"[1]"),
        Scripted(body=b"[]"),
        Scripted(chunks=events(IN_THE_STREAM), headers=EVENTS),
        Scripted(body=array(IN_THE_STREAM)),
    ],
)
def test_a_stream_that_is_not_whole_is_asked_for_again(
    place: Place, server: GeminiServer, broken: Scripted
) -> None:
    server.then(broken)
    with place.trial() as trial:
        reply = post(httpx, f"{server.url}{PATH}:streamGenerateContent?alt=sse", json=ASKED)

    assert reply.content == b"".join(events(stream_chunks("reply 0")))
    assert len(server.requests) == 2
    assert trial.calls[0].served == "gemini-2.5-flash-001"


@pytest.mark.usefixtures("server")
def test_under_replay_nothing_goes_out(begin: Callable[..., Session], server: GeminiServer) -> None:
    with pytest.raises(ReplayMiss):
        begin(mode="replay").model(NAME, CountingTrial(0)).ask("Hello")
    with Place(begin(mode="replay")).trial() as trial:
        reply = post(httpx, f"{server.url}{PATH}:generateContent", json=ASKED)

    assert reply.status_code == 424
    assert trial.refusals
    assert not server.requests


# ------------------------------------------------------------------------ tokens


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"promptTokenCount": 7, "candidatesTokenCount": 2, "thoughtsTokenCount": 40}, (7, 42)),
        ({"promptTokenCount": 7, "toolUsePromptTokenCount": 3}, (10, 0)),
        ({"promptTokenCount": 7, "candidatesTokenCount": "2"}, (7, None)),
        ({}, (None, None)),
        (None, (None, None)),
    ],
)
def test_tokens_of_thoughts_and_tools_count(usage: object, tokens: tuple[int, int]) -> None:
    facts = sensible(VENDOR.read_facts({"usageMetadata": usage}))

    assert (facts.get("input_tokens"), facts.get("output_tokens")) == tokens


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"maxOutputTokens": 9}, 9),
        ({"maxOutputTokens": 9, "candidateCount": 3}, 27),
        ({"candidateCount": 3}, None),
        (None, None),
    ],
)
def test_the_most_tokens_of_a_reply_are_known(config: object, limit: int | None) -> None:
    assert VENDOR.reply_limit({"generationConfig": config}) == limit


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"googleSearch": {}}]},
        {"cachedContent": "cachedContents/1"},
        {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/mp3", "data": "AA"}}]}]},
    ],
)
def test_what_points_elsewhere_may_fill_the_window(more: dict[str, Any]) -> None:
    assert most_input_tokens({**ASKED, **more}, window=10**6) == 10**6
    declared = {"tools": [{"functionDeclarations": [{"name": "f"}]}]}
    assert most_input_tokens({**ASKED, **declared}, window=10**6) != 10**6
