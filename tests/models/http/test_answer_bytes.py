"""Bytes of streams, and what they are taken for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.cache.reply import sensible
from pytest_llmeval.models.calls import MAX_REPLY_BYTES
from pytest_llmeval.models.http.answers import Expected, NoAnswer, read_stream
from pytest_llmeval.models.http.answers import with_facts as settle
from pytest_llmeval.models.http.dialect import AnswerCheck
from pytest_llmeval.models.http.http_reply import HttpReply, Reading
from pytest_llmeval.models.http.stream import MOST_OPEN
from pytest_llmeval.models.vendors import anthropic, ollama
from pytest_llmeval.models.vendors.openai import VENDOR
from pytest_llmeval.originals import Clock
from tests.servers.openai_streams import (
    DONE,
    chat_stream,
    event,
    response_stream,
    tool_call_stream,
)

REQUEST = {"model": "gpt", "stream": True, "stream_options": {"include_usage": True}}

MESSAGE_START = {
    "type": "message_start",
    "message": {
        "model": "claude-1",
        "content": [],
        "usage": {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1},
    },
}
MESSAGE_DELTA = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"input_tokens": None, "output_tokens": 2},
}
MESSAGES = [
    event(MESSAGE_START, name="message_start"),
    event({"type": "ping"}, name="ping"),
    event({"type": "content_block_delta", "delta": {"text": "Hi"}}, name="content_block_delta"),
    event(MESSAGE_DELTA, name="message_delta"),
    event({"type": "message_stop"}, name="message_stop"),
]
LINES = [
    b'{"model": "llama", "message": {"content": "Hi"}, "done": false}\n',
    b'{"model": "llama", "message": {"content": ""}, "done": true, "eval_count": 2}\n',
]
COMPLETE = {
    "chat": chat_stream("Grüße aus Lima", REQUEST),
    "tool call": tool_call_stream(['{"city"', ': "Lima"}'], "gpt"),
    "responses": response_stream("Hello", "gpt"),
    "messages": MESSAGES,
    "lines": LINES,
}
SPOKEN = {"messages": anthropic.VENDOR, "lines": ollama.VENDOR}


def with_facts(
    sent: HttpReply, *, was_asked_for: bool, answers: AnswerCheck | None = None
) -> HttpReply:
    """Settle a reply whose facts are all that it says."""
    return settle(
        sent,
        Expected(
            dialect=replace(VENDOR, read_facts=lambda says: {"says": json.dumps(says)}),
            is_stream=was_asked_for,
            answers=answers,
        ),
    )


def says(reply: HttpReply) -> object:
    assert reply.facts is not None
    return json.loads(str(reply.facts["says"]))


def failure_of(body: bytes) -> NoAnswer:
    with pytest.raises(NoAnswer) as caught:
        read_stream(body, VENDOR)
    return caught.value


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("chat", {"model": "gpt-2026-01-01", "fingerprint": "fp_1"}),
        ("responses", {"model": "gpt-2026-01-01"}),
        ("messages", {"model": "claude-1"}),
    ],
)
def test_a_complete_stream_tells_who_answered_and_what_it_took(
    kind: str, facts: dict[str, str]
) -> None:
    tokens = {"input_tokens": 7, "output_tokens": 2}

    vendor = SPOKEN.get(kind, VENDOR)

    assert sensible(vendor.read_facts(read_stream(b"".join(COMPLETE[kind]), vendor))) == {
        **facts,
        **tokens,
    }


def test_what_only_the_first_chunk_knows_is_not_lost() -> None:
    usage = read_stream(b"".join(MESSAGES), anthropic.VENDOR)["usage"]

    assert usage == {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 2}


def test_a_stream_of_lines_tells_what_its_last_line_does() -> None:
    summary = read_stream(b"".join(LINES), ollama.VENDOR)

    assert (summary["model"], summary["eval_count"]) == ("llama", 2)


@pytest.mark.parametrize(
    "body",
    [
        DONE,
        b"data:[DONE]\n\n",
        b"data: [DONE]",
        b"data: [DONE]\n",
        b": keep-alive\n\nretry: 10\nid: 1\n\ndata: {}\n\ndata: [DONE]\n\n",
        b'data: {"a":\ndata: 1}\n\ndata: [DONE]\n\n',
        b'data: {"error": null}\n\ndata: [DONE]\n\n',
        b"data: {}\n\ndata: [DONE]\n\nnot read any more",
        b'data: {"type": "response.incomplete", "response": {"model": "gpt"}}\n\n',
        b'{"done": true}',
        b'\n{"done": false}\r\n\r\n{"done": true}\n\n',
    ],
)
def test_a_stream_with_its_end_mark_is_complete(body: bytes) -> None:
    read_stream(body, VENDOR)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b": nothing but a comment\n\n",
        b"<html>Bad gateway</html>",
        b'data: {"a": 1}\n\n',
        b'data: {"type": "message_stop"}\n',
        b'data: {"text": "[DONE]"}\n\n',
        b'{"done": false}\n',
        b'{"done": "true"}\n',
    ],
)
def test_a_stream_without_its_end_mark_is_none(body: bytes) -> None:
    failure = failure_of(body)

    assert (failure.status, failure.error["code"]) == (502, "llmeval_stream_cut")
    assert "without stream=True" in str(failure)


@pytest.mark.parametrize(
    "data", [b"{", b"[1]", b"null", b'"text"', b"\xff", b"[" * 100_000, b"[done]"]
)
def test_a_stream_with_a_damaged_line_is_none(data: bytes) -> None:
    failure = failure_of(b"data: " + data + b"\n\ndata: [DONE]\n\n")

    assert (failure.status, failure.error["code"]) == (502, "llmeval_stream_damaged")


def test_a_whole_object_over_several_lines_is_no_stream() -> None:
    assert failure_of(b'{\n "choices": []\n}').error["code"] == "llmeval_stream_damaged"


@pytest.mark.parametrize(
    ("piece", "status"),
    [
        ({"error": {"message": "m", "type": "server_error", "code": None}}, 500),
        ({"error": {"message": "m", "code": "rate_limit_exceeded"}}, 429),
        ({"error": {"message": "m", "type": "x", "code": "insufficient_quota"}}, 429),
        ({"error": {"message": "m", "type": "BadRequestError", "code": 400}}, 400),
        ({"error": {"message": "m", "code": 503}}, 503),
        ({"error": {"message": "m", "code": 7}}, 500),
        ({"error": "m"}, 500),
        ({"type": "error", "message": "m", "code": "context_length_exceeded"}, 400),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, 529),
        ({"type": "error", "error": {"type": "billing_error", "message": "m"}}, 402),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "m"}}, 400),
        (
            {
                "type": "response.failed",
                "response": {"error": {"code": "server_error", "message": "m"}},
            },
            500,
        ),
        (
            {
                "type": "response.failed",
                "response": {"error": {"code": "invalid_prompt", "message": "m"}},
            },
            400,
        ),
    ],
)
def test_an_error_in_a_stream_is_the_failure_it_would_have_been_before_it(
    piece: dict[str, object], status: int
) -> None:
    failure = failure_of(event({"a": 1}) + event(piece) + DONE)

    assert (failure.status, str(failure)) == (status, "m (an error that ended the stream)")


FAILED = {
    "object": "response",
    "status": "failed",
    "error": {"code": "server_error", "message": "m"},
}


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        ({"code": "server_error", "message": "m"}, 500, "m"),
        ({"code": "rate_limit_exceeded", "message": "m"}, 429, "m"),
        ({"code": "invalid_prompt", "message": "m"}, 400, "m"),
        (None, 500, "it says no more"),
    ],
)
def test_a_plain_response_that_failed_is_the_failure_that_its_stream_is(
    error: object, status: int, told: str
) -> None:
    sent = HttpReply(status=200, body=json.dumps({**FAILED, "error": error}).encode())

    reply = with_facts(sent, was_asked_for=False)

    assert reply.status == status
    assert (
        json.loads(reply.body)["error"]["message"]
        == f"{told} (the error of a response that failed)"
    )


def test_a_response_that_failed_and_does_not_say_what_it_is_has_failed() -> None:
    failed = {"status": "failed", "error": {"code": "server_error"}, "output": [{"type": "m"}]}

    reply = with_facts(HttpReply(status=200, body=json.dumps(failed).encode()), was_asked_for=False)

    assert reply.status == 500


@pytest.mark.parametrize(
    "body",
    [
        {"object": "response", "status": "completed", "error": None, "output": [{"a": "failed"}]},
        {"object": "response", "status": "incomplete", "error": None, "output": []},
        {"object": "list", "status": "failed", "data": []},
    ],
    ids=["completed", "incomplete", "of something else"],
)
def test_a_response_that_did_not_fail_is_left_alone(body: object) -> None:
    sent = HttpReply(status=200, body=json.dumps(body).encode())

    reply = with_facts(sent, was_asked_for=False)

    assert says(reply) == body
    assert replace(reply, facts=None) == sent


@pytest.mark.parametrize("body", [b'{"status": "failed"', b"", b"<html>", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_a_failure(body: bytes) -> None:
    reply = with_facts(HttpReply(status=200, body=body), was_asked_for=False)

    assert reply.status == 502
    assert json.loads(reply.body)["error"]["code"] == "llmeval_not_json"


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"error": {"message": "m", "code": 502}}, 502, "m"),
        ({"error": {"message": "m", "code": 429}, "choices": None}, 429, "m"),
        ({"error": {"message": "m", "code": "rate_limit_exceeded"}, "choices": []}, 429, "m"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, 529, "m"),
        ({"object": "error", "message": "m", "code": 503}, 503, "m"),
        ({"error": "m"}, 500, "m"),
        ({"error": True, "message": "m"}, 500, "m"),
        ({"error": {}, "type": "error"}, 500, "it says no more"),
    ],
)
def test_a_reply_that_is_only_an_error_is_a_failure(body: object, status: int, told: str) -> None:
    reply = with_facts(HttpReply(status=200, body=json.dumps(body).encode()), was_asked_for=False)

    assert reply.status == status
    assert json.loads(reply.body)["error"]["message"] == f"{told} (an error in place of a reply)"


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": 'an "error"'}}], "error": {"message": "m"}},
        {"content": [{"type": "text", "text": "error"}], "type": "message", "error": "m"},
        {"message": {"content": "Hi"}, "error": "m"},
        {"embeddings": [[0.1]], "error": "m"},
        {"output": [{}], "error": {"code": "m"}},
        {"data": [{}], "error": "m"},
        {"choices": [{}], "error": None},
    ],
)
def test_a_reply_that_answers_is_left_alone_whatever_error_it_names(body: object) -> None:
    sent = HttpReply(status=200, body=json.dumps(body).encode())

    reply = with_facts(sent, was_asked_for=False)

    assert says(reply) == body
    assert replace(reply, facts=None) == sent


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"detail": "Service overloaded"},
        {"message": "Internal server error"},
        {"errors": [{"message": "x"}]},
        {"status": "error", "msg": "rate limit"},
        {"choices": []},
        {"choices": None, "error": None},
        {"content": None},
    ],
)
def test_a_reply_without_an_answer_is_a_failure(body: object) -> None:
    reply = with_facts(HttpReply(status=200, body=json.dumps(body).encode()), was_asked_for=False)

    assert reply.status == 502
    assert json.loads(reply.body)["error"]["code"] == "llmeval_no_answer"


@pytest.mark.parametrize("body", [b"[]", b" null", b'"error"', b"7", b'["failed"]'])
def test_a_reply_that_is_no_object_is_a_failure(body: bytes) -> None:
    reply = with_facts(HttpReply(status=200, body=body), was_asked_for=False)

    assert reply.status == 502
    assert json.loads(reply.body)["error"]["code"] == "llmeval_no_object"


@pytest.mark.parametrize("response", [None, {}, {"error": None}])
def test_a_failed_response_fails_though_it_does_not_say_why(response: object) -> None:
    assert failure_of(event({"type": "response.failed", "response": response})).status == 500


@pytest.mark.parametrize("kind", COMPLETE)
@given(data=st.data())
def test_a_cut_stream_is_never_taken_for_a_complete_one(kind: str, data: st.DataObject) -> None:
    whole = b"".join(COMPLETE[kind])
    end = len(whole.rstrip(b"\n")) - 1
    if kind in ("responses", "messages"):
        end = len(whole) - 1  # their end mark is an event, which its blank line ends

    failure_of(whole[: data.draw(st.integers(0, end))])


@pytest.mark.parametrize("kind", COMPLETE)
@given(data=st.data())
def test_where_chunks_are_cut_makes_no_difference(kind: str, data: st.DataObject) -> None:
    whole = b"".join(COMPLETE[kind])
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    edges = zip([0, *places], [*places, len(whole)], strict=True)

    body = Reading(0.0, MAX_REPLY_BYTES).add_all(whole[start:end] for start, end in edges)
    reply = with_facts(HttpReply(status=200, body=body), was_asked_for=True)

    assert reply.body == whole
    assert says(reply) == read_stream(whole, VENDOR)


@pytest.mark.parametrize("kind", ["chat", "tool call", "responses", "messages"])
@given(line_end=st.sampled_from([b"\r", b"\n", b"\r\n"]), comments=st.lists(st.integers(0, 9)))
def test_line_ends_and_comments_make_no_difference(
    kind: str, line_end: bytes, comments: list[int]
) -> None:
    events = list(COMPLETE[kind])
    for place in comments:
        events.insert(place, b": PROCESSING\n\n")
    if not events[-1].startswith(DONE):
        events.append(b": bye\n\n")

    assert read_stream(b"".join(events).replace(b"\n", line_end), VENDOR) == read_stream(
        b"".join(COMPLETE[kind]), VENDOR
    )


@given(st.binary())
def test_whatever_comes_is_a_reply_or_a_failure(noise: bytes) -> None:
    reply = with_facts(HttpReply(status=200, body=noise), was_asked_for=True)

    assert reply.status in (200, 502)


@pytest.mark.parametrize(
    "content_type",
    ["text/event-stream", "Text/Event-Stream; charset=utf-8", "application/x-ndjson"],
)
def test_a_stream_that_nobody_asked_for_is_one_all_the_same(content_type: str) -> None:
    sent = HttpReply(status=200, headers={"content-type": content_type}, body=b"data: {}\n\n")

    assert with_facts(sent, was_asked_for=False).status == 502


@pytest.mark.parametrize(
    ("sent", "was_asked_for"),
    [
        (HttpReply(status=500, body=b"<html>"), True),
        (HttpReply(status=429, headers={"content-type": "text/event-stream"}), True),
    ],
)
def test_other_replies_are_left_alone(sent: HttpReply, was_asked_for: bool) -> None:
    assert with_facts(sent, was_asked_for=was_asked_for) is sent


def test_a_failure_is_worded_as_a_vendor_does_and_keeps_the_headers() -> None:
    body = event({"error": {"message": "m", "code": "server_error", "param": "p"}})
    headers = {"content-type": "text/event-stream", "x-request-id": "req_1"}

    reply = with_facts(HttpReply(status=200, headers=headers, body=body), was_asked_for=True)

    assert reply.headers == {"content-type": "application/json", "x-request-id": "req_1"}
    assert json.loads(reply.body) == {
        "error": {
            "message": "m (an error that ended the stream)",
            "code": "server_error",
            "param": "p",
        }
    }


def test_a_reply_that_a_model_is_to_answer_is_shown_to_the_check() -> None:
    sent = HttpReply(status=200, body=b'{"choices": [{}]}')

    refused = with_facts(sent, was_asked_for=False, answers=lambda says: says != {"choices": [{}]})

    assert refused.status == 502
    assert with_facts(sent, was_asked_for=False, answers=lambda _says: True).status == 200


def test_pieces_of_a_choice_are_put_together() -> None:
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "H"}, "finish_reason": None}]},
        {"choices": [{"index": 1, "delta": {"content": "I"}}, None]},
        {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 7}},
    ]

    said = read_stream(b"".join(map(event, chunks)) + DONE, VENDOR)

    assert said["choices"] == [
        {"index": 0, "message": {"content": "H"}, "finish_reason": "stop"},
        {"index": 1, "message": {"content": "I"}},
    ]


@pytest.mark.parametrize("depth", [10, 200, 400, 600, 800, 950, 5000])
def test_a_stream_nested_however_deep_is_a_reply_or_a_failure(depth: int) -> None:
    chunk = b'data: {"a":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}\n\n"
    reply = with_facts(HttpReply(status=200, body=chunk + DONE), was_asked_for=True)

    assert (reply.facts is None) == (reply.status == 502)


def test_a_piece_is_looked_for_among_the_latest_items_alone() -> None:
    indexes = [*range(MOST_OPEN + 1), 1, 0]  # else so many items would take as many squared looks
    chunks = [{"choices": [{"index": index, "delta": {"content": "a"}}]} for index in indexes]

    choices = VENDOR.join(chunks)["choices"]

    assert [one["index"] for one in choices] == [*range(MOST_OPEN + 1), 0]
    assert choices[1]["message"] == {"content": "aa"}


def test_the_time_of_the_first_chunk_is_noted() -> None:
    reading = Reading(Clock.seconds() - 100, MAX_REPLY_BYTES)

    assert reading.add_all([b"a", b"", b"b"]) == b"ab"
    assert reading.first is not None
    assert 100 <= reading.first < 200


def test_nothing_has_no_first_chunk() -> None:
    reading = Reading(0.0, MAX_REPLY_BYTES)

    assert (reading.add_all([]), reading.first) == (b"", None)


@pytest.mark.parametrize(
    ("body", "times"),
    [
        (b'{"output": []}', {"seconds": 2.0}),
        (b"data: [DONE]\n\n", {"first_chunk_seconds": 0.5, "seconds": 2.0}),
    ],
    ids=["plain", "stream"],
)
def test_only_a_stream_has_a_first_chunk_to_tell_of(body: bytes, times: dict[str, float]) -> None:
    sent = HttpReply(status=200, body=body, seconds=2.0, first_chunk_seconds=0.5)

    facts = with_facts(sent, was_asked_for=body.startswith(b"data")).facts

    assert facts is not None
    assert {name: value for name, value in facts.items() if name != "says"} == times
