"""Sessions of requests under interception: as clients of httpx, by another library."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from pytest_llmeval.errors import Lost
from tests.models.conftest import SECRET, Session
from tests.models.test_interception import ASKED, Place, post
from tests.servers.openai_server import OpenAIServer, Scripted

requests = pytest.importorskip("requests")
connections = pytest.importorskip("urllib3.connectionpool")

PACKED = {"content-encoding": "gzip", "content-type": "application/json"}
STREAM = {**ASKED, "stream": True}


@pytest.fixture
def place(session: Session) -> Place:
    return Place(session)


@pytest.fixture
def url(server: OpenAIServer) -> str:
    return f"{server.url}/chat/completions"


@pytest.mark.parametrize("asked", [ASKED, STREAM], ids=["plain", "stream"])
def test_each_trial_draws_once_and_the_same_again(
    place: Place, server: OpenAIServer, url: str, asked: Any
) -> None:
    replies = []
    for index in (0, 1, 0, 1):
        with place.trial(index) as trial:
            reply = requests.post(url, json=asked, stream=True)
            replies.append(b"\n".join(reply.iter_lines()))
        assert reply.status_code == 200
        assert reply.request.url == url
        assert len(trial.calls) == 1

    assert replies[:2] == replies[2:]
    assert replies[0] != replies[1]
    assert len(server.requests) == 2


def test_its_draws_are_those_of_httpx(place: Place, server: OpenAIServer, url: str) -> None:
    with place.trial():
        paid = requests.post(url, json=ASKED)
    with place.trial() as trial:
        replayed = post(httpx, url, json=ASKED)

    assert [call.replayed for call in trial.calls] == [True]
    assert replayed.json() == paid.json()
    assert len(server.requests) == 1


def test_what_a_session_adds_to_a_request_is_sent(place: Place, server: OpenAIServer) -> None:
    with place.trial(), requests.Session() as session:
        session.headers["authorization"] = f"Bearer {SECRET}"
        session.cookies["a"] = "1"
        session.params = {"v": "2"}
        # a text, and bytes as a header
        session.post(
            f"{server.url}/chat/completions",
            data=json.dumps(ASKED),
            headers={"Content-Type": "application/json", "x-own": b"b"},
        )

    (request,) = server.requests
    assert request.path == "/v1/chat/completions?v=2"
    assert request.json == ASKED
    assert request.headers["cookie"] == "a=1"
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert request.headers["x-own"] == "b"


def test_a_question_goes_by_the_proxy_of_the_session(place: Place, server: OpenAIServer) -> None:
    proxies = {"http": server.origin}

    with place.trial() as trial:
        url = "http://api.openai.com/v1/chat/completions"
        reply = requests.post(url, json=ASKED, proxies=proxies)

    (request,) = server.requests
    assert (reply.status_code, len(trial.calls)) == (200, 1)
    assert request.path == "http://api.openai.com/v1/chat/completions"


def test_a_packed_reply_is_kept_unpacked(place: Place, server: OpenAIServer, url: str) -> None:
    body = gzip.compress(b'{"choices": [{"message": {"content": "Lima"}}]}')
    server.then(Scripted(chunks=[body], headers=PACKED))
    answers = []
    for _ in range(2):
        with place.trial():
            answers.append(requests.post(url, json=ASKED).json())

    assert answers == [{"choices": [{"message": {"content": "Lima"}}]}] * 2
    assert len(server.requests) == 1


def test_a_failing_call_is_tried_again_by_us_and_ends_as_the_provider_says(
    place: Place, server: OpenAIServer, url: str
) -> None:
    server.then(*[Scripted(status=500)] * 3)
    with place.trial() as trial:
        reply = requests.post(url, json=ASKED)

    assert reply.status_code == 500
    assert [call.failure for call in trial.calls] == ["infrastructure"]
    assert len(server.requests) == 3


@pytest.mark.parametrize("drop", ["before", "midway"])
def test_a_lost_reply_is_the_librarys_own_error(
    place: Place, server: OpenAIServer, url: str, drop: Any
) -> None:
    server.then(*[Scripted(drop=drop)] * 3)
    with place.trial(), pytest.raises(requests.ConnectionError):
        requests.post(url, json=ASKED)

    assert len(server.requests) == 3


def test_a_replay_sends_nothing(
    place: Place, begin: Callable[..., Session], server: OpenAIServer, url: str
) -> None:
    with place.trial():
        paid = requests.post(url, json=ASKED).json()
    with Place(begin(mode="replay")).trial():
        replayed = requests.post(url, json=ASKED).json()
        missed = requests.post(url, json={**ASKED, "temperature": 1})

    assert replayed == paid
    assert missed.status_code == 424
    assert len(server.requests) == 1


def test_a_call_that_takes_too_long_ends_as_a_timeout(
    begin: Callable[..., Session], server: OpenAIServer, url: str
) -> None:
    server.then(Scripted(delay=30))
    with (
        Place(begin(timeout=0.05)).trial() as trial,
        pytest.raises(requests.ReadTimeout, match="--llm-timeout"),
    ):
        requests.post(url, json=ASKED)

    assert [call.failure for call in trial.calls] == ["infrastructure"]


@pytest.mark.parametrize("timeout", [0.05, (5, 0.05)])
def test_the_applications_own_timeout_is_its_own(
    place: Place, server: OpenAIServer, url: str, timeout: Any
) -> None:
    server.then(Scripted(delay=30))
    with place.trial() as trial, pytest.raises(requests.ReadTimeout):
        requests.post(url, json=ASKED, timeout=timeout)

    assert [call.lost for call in trial.calls] == [Lost.OWN_TIMEOUT]
    assert len(server.requests) <= 1  # the server may not have read it yet


@pytest.mark.parametrize(
    "sent",
    [{"data": "x=1"}, {"data": iter([b"{}"])}, {"files": {"file": b"RIFF"}}, {"data": b"{"}],
    ids=["form", "pieces", "upload", "no JSON"],
)
def test_what_is_no_question_passes_as_it_comes(
    place: Place, server: OpenAIServer, url: str, sent: Any
) -> None:
    server.then(*[Scripted(body={})] * 2)
    with place.trial() as trial:
        for _ in range(2):
            requests.post(url, **sent)

    assert trial.calls == []
    assert len(server.requests) == 2


def test_stubs_below_are_left_alone(
    place: Place, server: OpenAIServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Recorder(connections.HTTPConnectionPool.ConnectionCls):  # type: ignore[misc]
        """As vcrpy's, which answers from a cassette."""

    monkeypatch.setattr(connections.HTTPConnectionPool, "ConnectionCls", Recorder)
    with place.trial() as trial:
        requests.post(url, json=ASKED)

    assert trial.calls == []
    assert len(server.requests) == 1


def test_the_method_is_put_back(place: Place) -> None:
    plain = requests.adapters.HTTPAdapter.send
    with place.trial():
        assert requests.adapters.HTTPAdapter.send is not plain

    assert requests.adapters.HTTPAdapter.send is plain
