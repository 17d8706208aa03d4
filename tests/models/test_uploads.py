"""Speech that is uploaded and transcribed: a draw as any other, whatever is random in the form."""

from __future__ import annotations

import io
from typing import Any

import httpx
import openai
import pytest

from pytest_llmeval.models.http.dialect import form_object
from tests.models.conftest import CountingTrial, Session
from tests.models.test_interception import Place, post
from tests.servers.openai_server import OpenAIServer, Scripted

FORM = b"""--%(bound)s\r
Content-Disposition: form-data; name="model"\r
\r
whisper-1\r
--%(bound)s\r
Content-Disposition: form-data; name="file"; filename="%(name)s"\r
Content-Type: audio/wav\r
\r
RI\r\nFF\x00\xff\r
--%(bound)s--\r
"""


@pytest.fixture
def place(session: Session) -> Place:
    return Place(session)


def form(bound: str = "b", name: str = "a.wav") -> tuple[bytes, str]:
    content = FORM % {b"bound": bound.encode(), b"name": name.encode()}
    return content, f"multipart/form-data; boundary={bound}"


def test_what_is_random_in_a_form_is_left_out() -> None:
    read = form_object(*form())

    assert read is not None
    assert read == form_object(*form(bound="other", name="tmp7.wav"))
    assert read != form_object(*form(name="a.mp3"))
    assert read["model"] == "whisper-1"
    assert set(read) == {"model", "file"}


@pytest.mark.parametrize(
    ("content", "content_type"),
    [(b"", "multipart/form-data"), (b"", "multipart/form-data; boundary=b"), (b"x", "")],
)
def test_what_is_no_form_is_none(content: bytes, content_type: str) -> None:
    assert form_object(content, content_type) is None


def transcribed(client: openai.OpenAI, **options: Any) -> Any:
    file = io.BytesIO(b"RIFF\r\n\x00")
    file.name = "speech.wav"
    return client.audio.transcriptions.create(model="whisper-1", file=file, **options)


@pytest.mark.parametrize("options", [{}, {"temperature": 0, "stream": False}])
def test_a_transcript_is_a_draw(place: Place, server: OpenAIServer, options: Any) -> None:
    server.then(*[Scripted(body={"text": text}) for text in ("Lima", "Lina")])
    texts = []
    for index in (0, 1, 0, 1):
        with place.trial(index) as trial, openai.OpenAI() as client:
            texts.append(transcribed(client, **options).text)
        assert [call.model for call in trial.calls] == ["openai/whisper-1"]

    assert texts == ["Lima", "Lina"] * 2
    assert len(server.requests) == 2


def test_our_own_client_has_the_same_draws(
    place: Place, session: Session, server: OpenAIServer
) -> None:
    server.then(Scripted(body={"text": "Lima"}))
    with place.trial(), openai.OpenAI() as client:
        paid = transcribed(client).text
    trial = CountingTrial(0)

    assert transcribed(session.client(trial)).text == paid
    assert [call.replayed for call in trial.calls] == [True]
    assert len(server.requests) == 1


@pytest.mark.parametrize("options", [{"response_format": "srt"}, {"stream": True}])
def test_what_is_not_transcribed_to_json_is_sent_each_time(
    place: Place, server: OpenAIServer, options: Any
) -> None:
    server.then(*[Scripted(body={"text": "Lima"})] * 2)
    for _ in range(2):
        with place.trial() as trial, openai.OpenAI() as client:
            transcribed(client, **options)
        assert trial.calls == []

    assert len(server.requests) == 2


def test_another_upload_is_sent_each_time(place: Place, server: OpenAIServer) -> None:
    server.then(*[Scripted(body={"id": "f"})] * 2)
    for _ in range(2):
        with place.trial() as trial:
            post(httpx, f"{server.url}/files", files={"file": b"{}"}, data={"purpose": "batch"})
        assert trial.calls == []

    assert len(server.requests) == 2


def test_a_reply_without_a_text_is_no_transcript(place: Place, server: OpenAIServer) -> None:
    server.then(*[Scripted(body={"data": []})] * 3)
    with place.trial() as trial, openai.OpenAI() as client, pytest.raises(openai.APIStatusError):
        transcribed(client)

    assert [call.failure for call in trial.calls] == ["infrastructure"]
