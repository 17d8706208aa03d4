"""What a server quotes of a request is shown without its secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from types import ModuleType
from typing import Any
from urllib.parse import quote

import pytest

from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.http.masking import (
    masked,
    masked_logs,
    masked_url,
    masked_urls,
    secrets_of,
)
from tests.models.conftest import SECRET, Session
from tests.models.test_interception import ASKED, Place, libraries, posts
from tests.servers.openai_server import OpenAIServer, Scripted


@pytest.fixture
def place(session: Session) -> Place:
    return Place(session)


@pytest.mark.parametrize(
    "header", ["Authorization", "x-api-key", "api-key", "x-goog-api-key", "Cookie", "X-My-Token"]
)
def test_the_value_of_a_header_that_authenticates_is_a_secret(header: str) -> None:
    assert secrets_of({header: SECRET, "user-agent": "python-3.11"}, query="") == [SECRET]


def test_a_bearer_is_a_secret_with_and_without_the_word() -> None:
    assert secrets_of({"authorization": f"Bearer {SECRET}"}, query="") == [
        f"Bearer {SECRET}",
        SECRET,
    ]


def test_a_parameter_of_the_query_is_a_secret_as_it_is_meant() -> None:
    assert secrets_of({}, query="key=a%2Fsecret&alt=some-text") == ["a/secret"]


def test_a_word_in_place_of_a_key_is_no_secret() -> None:
    secrets = secrets_of({"authorization": "Bearer ollama"}, query="")
    body = b"try: ollama pull m"
    assert masked(HttpReply(status=404, headers={}, body=body), secrets).body == body


def test_every_place_is_masked() -> None:
    reply = HttpReply(status=401, headers={}, body=f"{SECRET}, not {SECRET}".encode())
    assert masked(reply, (SECRET,)).body == b"***, not ***"


def test_headers_are_masked_too() -> None:
    reply = HttpReply(status=401, headers={"x-echo": f"Bearer {SECRET}", "date": "today"})
    assert masked(reply, (SECRET,)).headers == {"x-echo": "Bearer ***", "date": "today"}


AWKWARD = r"sk-X/a&b+c\d-é"


@pytest.mark.parametrize(
    "quoted",
    [
        AWKWARD,
        json.dumps(AWKWARD)[1:-1],
        json.dumps(AWKWARD)[1:-1].replace("/", r"\/").replace("&", r"\u0026"),
        json.dumps(json.dumps(AWKWARD)[1:-1])[1:-1].replace("/", r"\\\/"),
        "".join(f"\\u{ord(character):04X}" for character in AWKWARD),
        quote(AWKWARD, safe=""),
        quote(AWKWARD, safe="").replace("%2F", "%2f"),
    ],
    ids=["plain", "json", "slashes", "json in json", "numbers", "url", "url, lower case"],
)
def test_a_secret_is_masked_however_it_is_escaped(quoted: str) -> None:
    reply = HttpReply(status=401, body=f'"bad key: {quoted}"'.encode())

    assert masked(reply, (AWKWARD,)).body == b'"bad key: ***"'


def test_another_text_than_the_secret_stays() -> None:
    body = rb"sk-X.abcdefg, sk-x/abcdefg and sk-X\n/abcdefg"

    assert masked(HttpReply(status=401, body=body), ("sk-X/abcdefg",)).body == body


@posts
@libraries
def test_the_refusal_that_a_client_of_the_application_gets_is_masked(
    place: Place, server: OpenAIServer, library: ModuleType, send: Callable[..., Any]
) -> None:
    quoting = {"error": {"message": f"bad key {SECRET}", "code": "invalid_api_key"}}
    server.then(Scripted(status=401, body=quoting))
    headers = {"authorization": f"Bearer {SECRET}"}
    with place.trial():
        reply = send(library, f"{server.url}/chat/completions", json=ASKED, headers=headers)

    assert reply.status_code == 401
    assert json.loads(reply.content)["error"]["message"] == "bad key ***"


@posts
@libraries
@pytest.mark.parametrize(
    ("key", "told", "said"),
    [
        (SECRET, SECRET, "***"),
        (SECRET, SECRET.replace("s", r"\u0073", 1), "***"),
        (SECRET, "5 \u00e9", "5 \u00e9"),
        ("not-needed", "not-needed", "not-needed"),  # a word, as local servers are given
        ("correct-horse-battery-staple", "correct-horse-battery-staple", "***"),
    ],
)
def test_an_answer_is_handed_over_as_it_came_but_for_the_key(
    place: Place,
    server: OpenAIServer,
    library: ModuleType,
    send: Callable[..., Any],
    *,
    key: str,
    told: str,
    said: str,
) -> None:
    body = f'{{"choices": [{{"finish_reason": "length"}}], "said": "{told}"}}'
    server.then(Scripted(body=body.encode()))
    headers = {"authorization": f"Bearer {key}"}
    with place.trial():
        reply = send(library, f"{server.url}/chat/completions", json=ASKED, headers=headers)

    assert json.loads(reply.content)["said"] == said


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (
            "https://me:sk-1@api.com:8/v1?api-key=sk-1&a=b",
            "https://***@api.com:8/v1?api-key=***&a=b",
        ),
        ("https://sk-1@api.com/", "https://***@api.com/"),
        ("https://api.com/v1?a=key&key%5f=1", "https://api.com/v1?a=key&key%5f=1"),
        ("https://api.com/v1", "https://api.com/v1"),
    ],
)
def test_a_url_is_shown_without_password_and_secret_parameters(url: str, shown: str) -> None:
    assert masked_url(url) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("for url 'https://me:sk-1@a.b/c?key=sk-1'\nsee https://c.d", "https://***@a.b/c?key=***'"),
        ("HTTPS://me:sk-1@a.b and https://e@f", "https://***@a.b and https://***@f"),
        ("{'a': 'x://sk-1@[', 'b': 1}", "{'a': '***', 'b': 1}"),
        ("a :// b, HTTP://c.d?", "a :// b, HTTP://c.d?"),
    ],
)
def test_every_url_in_a_text_is_shown_so(text: str, shown: str) -> None:
    assert shown in masked_urls(text)
    assert "sk-1" not in masked_urls(text)


@pytest.mark.parametrize("name", ["openai._base_client", "anthropic._base_client"])
def test_so_are_the_lines_of_sdks(caplog: pytest.LogCaptureFixture, name: str) -> None:
    caplog.set_level(logging.DEBUG)
    with masked_logs():
        logging.getLogger(name).debug("Sent: %s %i", f"https://me:{SECRET}@a.b", 200)
    assert caplog.messages == ["Sent: https://***@a.b 200"]


@posts
@libraries
def test_the_lines_that_a_library_logs_are_masked_until_the_session_ends(
    *,
    server: OpenAIServer,
    caplog: pytest.LogCaptureFixture,
    library: ModuleType,
    send: Callable[..., Any],
) -> None:
    caplog.set_level(logging.INFO)
    url = f"{server.url.replace('://', f'://me:{SECRET}@')}/models?key={SECRET}&limit=5"
    with masked_logs():
        send(library, url)
        logging.getLogger(library.__name__).info("of %(kind)s", {"kind": "another sort"})

    shown = f"{server.url.replace('://', '://***@')}/models?key=***&limit=5"
    assert caplog.messages == [f'HTTP Request: POST {shown} "HTTP/1.1 200 OK"', "of another sort"]
    assert not logging.getLogger(library.__name__).filters
