"""What clients ask services that speak a vendor's dialect, on the services' own hosts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from pytest_llmeval.models.http.dialect import PLACEHOLDER_KEY
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.models.vendors.recognition import any_key_is_set, services
from pytest_llmeval.records import Usage
from pytest_llmeval.vendors import SERVICES
from tests.leaks import files_with
from tests.models.conftest import SECRET, Session
from tests.models.test_interception import LIBRARIES, Place, post, posts
from tests.servers.anthropic_server import message
from tests.servers.openai_server import OpenAIServer, Received, Scripted
from tests.servers.openai_streams import DONE, chat_chunks, event

AZURE = "https://team.openai.azure.com/openai/deployments/gpt-4o-mini"
VERTEX = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers"
AZURE_KEY = "AZURE_OPENAI_API_KEY"
AT_GOOGLE = "`gemini/`, `anthropic/`, `openai/`, at Google Cloud"
ASKED: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
GROQS_USAGE = {"prompt_tokens": 7, "completion_tokens": 2}


class Chat(NamedTuple):
    """A question to a service: the model as the body has it, and as a run has it."""

    url: str
    asked_model: str | None
    model: str
    header: str = "authorization"

    def asked(self, **more: object) -> dict[str, object]:
        model = {} if self.asked_model is None else {"model": self.asked_model}
        return {**ASKED, **model, **more}

    def key(self, key: str = SECRET) -> dict[str, str]:
        return {self.header: key if self.header == "api-key" else f"Bearer {key}"}


CHATS = {
    "azure": Chat(
        f"{AZURE}/chat/completions?api-version=2024-10-21",
        None,
        "openai/gpt-4o-mini",
        header="api-key",
    ),
    "mistral": Chat(
        "https://api.mistral.ai/v1/chat/completions",
        "mistral-small-latest",
        "mistral/mistral-small-latest",
    ),
    "openrouter": Chat(
        "https://openrouter.ai/api/v1/chat/completions",
        "openai/gpt-4o-mini",
        "openrouter/openai/gpt-4o-mini",
    ),
    "groq": Chat(
        "https://api.groq.com/openai/v1/chat/completions",
        "llama-3.3-70b-versatile",
        "groq/llama-3.3-70b-versatile",
    ),
    "together": Chat(
        "https://api.together.xyz/v1/chat/completions",
        "meta-llama/Llama-3.3-70B-Instruct-Turbo",
        "together/meta-llama/Llama-3.3-70B-Instruct-Turbo",
    ),
    "huggingface": Chat(
        "https://router.huggingface.co/v1/chat/completions",
        "Qwen/Qwen3-32B:groq",
        "huggingface/Qwen/Qwen3-32B:groq",
    ),
}
chats = pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)


class AnyModelServer(OpenAIServer):
    """Answers as OpenAI does, also where the model stands in the path."""

    def _usual(self, received: Received, number: int) -> object:
        body = json.dumps({"model": "deployed", **received.json}).encode()
        return super()._usual(replace(received, body=body), number)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """All hosts there are, as far as clients of httpx and httpx2 can tell."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with AnyModelServer() as running:
        for library in LIBRARIES:
            lead_to(running.origin, library, monkeypatch)
        yield running


def lead_to(origin: str, library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = library.HTTPTransport.handle_request
    plain_async = library.AsyncHTTPTransport.handle_async_request

    def led(request: Any) -> Any:
        url = f"{origin}{request.url.raw_path.decode()}"
        return library.Request(request.method, url, headers=request.headers, stream=request.stream)

    async def handle_async(transport: Any, request: Any) -> Any:
        return await plain_async(transport, led(request))

    monkeypatch.setattr(
        library.HTTPTransport, "handle_request", lambda self, request: plain(self, led(request))
    )
    monkeypatch.setattr(library.AsyncHTTPTransport, "handle_async_request", handle_async)


@pytest.fixture
def place(session: Session) -> Place:
    return Place(session)


@chats
@posts
@pytest.mark.parametrize("stream", [False, True])
def test_what_a_client_asks_is_kept_byte_for_byte(
    *,
    place: Place,
    server: OpenAIServer,
    directory: Path,
    send: Callable[..., Any],
    stream: bool,
    chat: Chat,
) -> None:
    if stream:
        usage = event({"choices": [], "usage": GROQS_USAGE})
        chunks = [*chat_chunks([{"content": "Li"}, {"content": "ma"}], "m")[:-1], usage, DONE]
        server.then(Scripted(chunks=chunks))
    asked = chat.asked(stream=stream, temperature=0.5)
    replies = []
    for _ in range(2):
        with place.trial() as trial:
            replies.append(send(httpx, chat.url, json=asked, headers=chat.key()))

    assert len(server.requests) == 1
    assert server.requests[0].headers[chat.header].endswith(SECRET)
    assert replies[0].content == replies[1].content
    (call,) = trial.calls
    assert (call.replayed, call.model) == (True, chat.model)
    assert (call.usage.input_tokens, call.usage.output_tokens) == (7, 2)
    assert call.parameters == {"temperature": 0.5}
    assert call.host == f"https://{chat.url.split('/')[2]}"
    assert place.notes == []
    assert not files_with(SECRET, directory)


@chats
def test_what_it_costs_is_known(chat: Chat) -> None:
    tariff = Prices({}).tariff(chat.model)

    if chat.model.startswith("huggingface/"):  # whoever serves it has prices of its own
        assert tariff is None
    else:
        assert tariff is not None
        assert tariff.cost(Usage(input_tokens=10**6, output_tokens=10**6)) > Decimal("0.1")


@chats
@posts
@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (Scripted(status=401, body={"message": f"no such key: {SECRET}"}), "infrastructure"),
        (Scripted(status=422, body={"detail": [{"msg": "no such role"}]}), "content"),
        (Scripted(body={"error": {"code": 402, "message": "no credits"}}), "infrastructure"),
    ],
)
def test_an_error_is_no_answer_and_quotes_no_key(
    *,
    place: Place,
    server: OpenAIServer,
    directory: Path,
    send: Callable[..., Any],
    reply: Scripted,
    failure: str,
    chat: Chat,
) -> None:
    server.then(*[reply] * 3)
    with place.trial() as trial:
        told = send(httpx, chat.url, json=chat.asked(), headers=chat.key())

    assert told.status_code >= 400
    assert SECRET not in told.text
    (call,) = trial.calls
    assert (call.model, call.failure, call.draw) == (chat.model, failure, None)
    assert not files_with(SECRET, directory)


@chats
def test_a_replay_needs_neither_key_nor_network(
    begin: Callable[..., Session],
    server: OpenAIServer,
    chat: Chat,
) -> None:
    for mode, sent in (("auto", SECRET), ("replay", PLACEHOLDER_KEY)):
        with Place(begin(mode=mode)).trial() as trial:
            post(httpx, chat.url, json=chat.asked(), headers=chat.key(sent))

    assert [call.replayed for call in trial.calls] == [True]
    assert len(server.requests) == 1


def test_every_variable_of_a_key_is_called_one() -> None:
    """Only such variables are looked at before the vendors are imported."""
    names = {name for line in services() for name in line.keys}
    others = {name for name in names if "KEY" not in name and "TOKEN" not in name}
    assert others == {"GOOGLE_APPLICATION_CREDENTIALS"}  # a path, which no header has


def test_a_stream_of_groqs_tells_its_tokens_in_a_place_of_its_own(
    place: Place, server: OpenAIServer
) -> None:
    chat = CHATS["groq"]
    end = {"choices": [], "x_groq": {"id": "r", "usage": GROQS_USAGE}}
    chunks = [*chat_chunks([{"content": "Lima"}], "m")[:-1], event(end), DONE]
    server.then(Scripted(chunks=chunks))
    with place.trial() as trial:
        post(httpx, chat.url, json=chat.asked(stream=True), headers=chat.key())

    assert (trial.calls[0].usage.input_tokens, trial.calls[0].usage.output_tokens) == (7, 2)


@pytest.mark.parametrize("method", ["rawPredict", "streamRawPredict"])
def test_claude_at_google_is_kept_with_the_model_of_its_url(
    place: Place, server: OpenAIServer, method: str
) -> None:
    whole = message([{"type": "text", "text": "Lima"}], "claude-4")
    begin, end = {"type": "message_start", "message": whole}, {"type": "message_stop"}
    chunks = [event(begin), event(end)] if method.startswith("stream") else None
    server.then(Scripted(body=whole, chunks=chunks))
    models, replies = set(), []
    for token in ("a", "b"):
        with place.trial() as trial:
            asked = {**ASKED, "anthropic_version": "vertex-2023-10-16", "max_tokens": 9}
            headers = {"authorization": f"Bearer {SECRET}{token}"}
            url = f"{VERTEX}/anthropic/models/claude-4@5:{method}"
            replies.append(post(httpx, url, json=asked, headers=headers).content)
        models |= {(call.model, call.usage.input_tokens) for call in trial.calls}

    assert models == {("anthropic/claude-4@5", 7)}
    assert replies[0] == replies[1]
    assert b"Lima" in replies[0]
    assert len(server.requests) == 1


def test_a_stream_of_openrouters_may_say_that_it_waits(place: Place, server: OpenAIServer) -> None:
    chat = CHATS["openrouter"]
    chunks = [b": OPENROUTER PROCESSING\n\n", *chat_chunks([{"content": "Lima"}], "m")]
    server.then(Scripted(chunks=chunks))
    replies = []
    for _ in range(2):
        with place.trial():
            asked = chat.asked(stream=True)
            replies.append(post(httpx, chat.url, json=asked, headers=chat.key()).content)

    assert replies == [b"".join(chunks)] * 2
    assert len(server.requests) == 1


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    "line", [line for line in SERVICES if line.name in CHATS or AZURE_KEY in line.keys]
)
def test_a_call_without_a_key_says_which_variable(place: Place, line: Any) -> None:
    chat = CHATS[line.name or "azure"]
    with place.trial() as trial:
        reply = post(httpx, chat.url, json=chat.asked(), headers=chat.key(PLACEHOLDER_KEY))

    assert f"{line.keys[0]} is not set" in reply.text
    assert trial.calls[0].reason == f"not set: {line.keys[0]}"
    assert any_key_is_set({line.keys[0]: "k"})


def test_a_client_shares_the_draws_of_one_whose_host_the_ini_file_names(
    session: Session, server: OpenAIServer
) -> None:
    chat = CHATS["mistral"]
    models = []
    for hosts in ((), ("api.mistral.ai",)):
        with Place(session, hosts=hosts).trial() as trial:
            post(httpx, chat.url, json=chat.asked(), headers=chat.key())
        models.append(trial.calls[0].model)

    assert len(server.requests) == 1
    assert models == ["mistral/mistral-small-latest", "openai/mistral-small-latest"]


UNKNOWN = [
    ("/llm/v1/chat/completions", {"model": "m", **ASKED}),
    ("/openai/deployments/m/chat/completions?api-version=1", ASKED),
    ("/v1/responses", {"model": "m", "input": "Hello"}),
    ("/v1/embeddings", {"model": "m", "input": ["Hello"]}),
    ("/v1/messages", {"model": "m", **ASKED}),
    ("/api/chat", {"model": "m", **ASKED}),
    ("/api/generate", {"model": "m", "prompt": "Hello"}),
    ("/v1beta/models/m:generateContent", {"contents": []}),
]


@posts
@pytest.mark.parametrize(("path", "asked"), UNKNOWN)
def test_a_host_that_is_not_known_is_left_alone_and_named(
    place: Place, server: OpenAIServer, send: Callable[..., Any], path: str, asked: object
) -> None:
    with place.trial() as trial:
        send(httpx, f"https://gateway.example.com:8443{path}", json=asked)

    assert trial.calls == []
    assert len(server.requests) == 1
    assert json.loads(server.requests[0].body) == asked
    (note,) = place.notes
    assert note.startswith(
        f"POST https://gateway.example.com:8443{path.partition('?')[0]} was left"
    )
    assert note.endswith("llm_intercept_hosts = gateway.example.com:8443")


@posts
def test_a_body_that_is_made_while_it_is_sent_arrives_whole(
    place: Place, monkeypatch: pytest.MonkeyPatch, send: Callable[..., Any]
) -> None:
    sent = json.dumps({"model": "m", **ASKED}).encode()
    arrived = []

    def pieces() -> Iterator[bytes]:
        yield from (sent[:9], sent[9:])

    async def pieces_async() -> AsyncIterator[bytes]:
        for piece in pieces():
            yield piece

    def handle(_transport: object, request: httpx.Request) -> httpx.Response:
        arrived.append(b"".join(request.stream))
        return httpx.Response(200)

    async def handle_async(_transport: object, request: httpx.Request) -> httpx.Response:
        arrived.append(b"".join([piece async for piece in request.stream]))
        return httpx.Response(200)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle_async)
    content = pieces() if send is post else pieces_async()
    with place.trial():
        url, json_type = (
            "https://gateway.example.com/api/chat",
            {"content-type": "application/json"},
        )
        send(httpx, url, content=content, headers=json_type)

    assert arrived == [sent]
    assert len(place.notes) == 1


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/api/chat", {"message": "Hello"}),
        ("/api/chat", {"model": 7, "messages": []}),
        ("/orders/responses", {"model": "T-shirt", "size": "M"}),
    ],
)
def test_what_does_not_ask_a_model_is_not_named(
    place: Place, server: OpenAIServer, path: str, asked: object
) -> None:
    with place.trial() as trial:
        post(httpx, f"https://shop.example.com{path}", json=asked)

    assert (trial.calls, place.notes, len(server.requests)) == ([], [], 1)


def test_the_docs_name_every_host_and_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "clients.md").read_text()
    for line in services():
        unnamed = "`openai/`, the deployment on Azure" if AZURE_KEY in line.keys else AT_GOOGLE
        begin = f"| `{line.name}/` |" if line.name else f"| {unnamed} |"
        (row,) = (row for row in page.splitlines() if row.startswith(begin))
        names = [*line.keys, *(f"*{host}" if host[0] == "." else host for host in line.hosts)]
        assert all(f"`{name}`" in row for name in names)
