from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.cache.key import PARTS
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.models.message import Message
from pytest_llmeval.transcripts.messages import dialect_of, read_reply, read_request
from pytest_llmeval.vendors import VENDORS
from tests.servers.anthropic_server import message_stream
from tests.servers.cohere_server import chat, chat_1_stream, chat_events, worded
from tests.servers.gemini_server import array, content, events
from tests.servers.ollama_server import chat_lines
from tests.servers.openai_streams import chat_stream, event, response_stream, tool_call_stream


def reply_of(body: bytes | object) -> StoredReply:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return paid_reply(body=content)


def said(body: bytes | object, vendor: str = "openai") -> list[tuple[str, str]]:
    dialect = dialect_of({"provider": vendor})
    return [(message.kind, message.text) for message in read_reply(reply_of(body), dialect)]


def asked(body: object, **parts: str) -> list[Message]:
    return list(read_request({**dict.fromkeys(PARTS, ""), "body": body, **parts}).messages)


CHAT = {"choices": [{"message": {"role": "assistant", "content": "Lima"}}]}
RESPONSE = {
    "text": {"format": {"type": "text"}},
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Peru..."}]},
        {"type": "function_call", "name": "look_up", "arguments": '{"q": "Peru"}'},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Lima"}],
        },
    ],
}
CLAUDE = {
    "content": [
        {"type": "thinking", "thinking": "Peru..."},
        {"type": "tool_use", "name": "look_up", "input": {"q": "Peru"}},
        {"type": "text", "text": "Lima"},
    ]
}
OLLAMA = {
    "message": {
        "role": "assistant",
        "thinking": "Peru...",
        "content": "Lima",
        "tool_calls": [{"function": {"name": "look_up", "arguments": {"q": "Peru"}}}],
    }
}
GEMINI_PARTS = [
    {"text": "Peru...", "thought": True},
    {"functionCall": {"name": "look_up", "args": {"q": "Peru"}}},
    {"text": "Lima"},
]
GEMINI = {"candidates": [{"content": {"parts": GEMINI_PARTS, "role": "model"}}]}
CALL = ("call", 'look_up({"q": "Peru"})')
THOUGHT = ("thought", "Peru...")


@pytest.mark.parametrize(
    ("body", "expected", "vendor"),
    [
        ({"text": "Lima"}, [("text", "Lima")], "openai"),
        ({"text": ""}, [("text", "")], "openai"),
        (CHAT, [("text", "Lima")], "openai"),
        ({"choices": [{"text": "Lima"}]}, [("text", "Lima")], "openai"),
        ({"choices": [{"message": {"refusal": "No."}}]}, [("text", "No.")], "openai"),
        ({"choices": [{"message": {"content": ""}}]}, [("text", "")], "openai"),
        (RESPONSE, [THOUGHT, CALL, ("text", "Lima")], "openai"),
        (CLAUDE, [THOUGHT, CALL, ("text", "Lima")], "anthropic"),
        (OLLAMA, [THOUGHT, ("text", "Lima"), CALL], "ollama"),
        (GEMINI, [THOUGHT, CALL, ("text", "Lima")], "gemini"),
        ({"candidates": [{"finishReason": "SAFETY"}]}, [("text", "")], "gemini"),
        ({"candidates": [7, {"content": 7}]}, [("text", "")], "gemini"),
        (
            {"promptFeedback": {"blockReason": "SAFETY"}},
            [("other", '{"promptFeedback": {"blockReason": "SAFETY"}}')],
            "gemini",
        ),
        ({"embedding": {"values": [6]}}, [("other", "an embedding of 1 number: 6")], "gemini"),
        (
            {"embeddings": [{"values": [6]}, {"values": [7]}, 8]},
            [
                ("other", "an embedding of 1 number: 6"),
                ("other", "an embedding of 1 number: 7"),
            ],
            "gemini",
        ),
        ({"response": "Lima", "done": True}, [("text", "Lima")], "ollama"),
        (
            {"data": [{"embedding": [0.1, 2, 3, 4, 5]}]},
            [("other", "an embedding of 5 numbers: 0.1, 2, 3, 4, ...")],
            "openai",
        ),
        (
            {"embeddings": [[1, 2, 3, 4, 5], [6]]},
            [
                ("other", "an embedding of 5 numbers: 1, 2, 3, 4, ..."),
                ("other", "an embedding of 1 number: 6"),
            ],
            "ollama",
        ),
        ({"data": [{"embedding": "AAAA"}]}, [("other", "an embedding of 4 characters")], "openai"),
        ({"results": [1]}, [("other", '{"results": [1]}')], "cohere"),
        (b"no json \xff", [("other", "no json \ufffd")], "openai"),
        (b"", [("other", "")], "openai"),
        (b"[" * 100_000, [("other", "[" * 100_000)], "openai"),
    ],
)
def test_a_reply_is_read_as_what_was_said(
    body: bytes | object, expected: list[tuple[str, str]], vendor: str
) -> None:
    assert said(body, vendor) == expected


TOOL_OF_CLAUDE = [
    event({"type": "message_start", "message": {"role": "assistant", "content": []}}),
    event({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}}),
    event({"type": "content_block_delta", "index": 0, "delta": {"thinking": "Peru..."}}),
    event(
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "name": "look_up", "input": {}},
        }
    ),
    event({"type": "content_block_delta", "index": 1, "delta": {"partial_json": '{"q": '}}),
    event({"type": "content_block_delta", "index": 1, "delta": {"partial_json": '"Peru"}'}}),
    event({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
]
OLLAMA_CALL = {"function": {"name": "look_up", "arguments": {"q": "Peru"}}}
TOOL_OF_OLLAMA = [
    json.dumps({"message": message, "done": False}).encode() + b"\n"
    for message in (
        {"role": "assistant", "thinking": "Pe", "content": ""},
        {"role": "assistant", "thinking": "ru...", "content": ""},
        {"role": "assistant", "content": "", "tool_calls": [OLLAMA_CALL]},
        {"role": "assistant", "content": "", "tool_calls": [OLLAMA_CALL]},
    )
]


@pytest.mark.parametrize(
    ("chunks", "expected", "vendor"),
    [
        (chat_stream("Lima it is", {"model": "m"}), [("text", "Lima it is")], "openai"),
        (tool_call_stream(['{"q": ', '"Peru"}'], "m"), [CALL], "openai"),
        (response_stream("Lima it is", "m"), [("text", "Lima it is")], "openai"),
        (message_stream("Lima it is", "m"), [("text", "Lima it is")], "anthropic"),
        (chat_lines("Lima it is"), [("text", "Lima it is")], "ollama"),
        (TOOL_OF_CLAUDE, [THOUGHT, CALL], "anthropic"),
        (TOOL_OF_OLLAMA, [THOUGHT, CALL, CALL], "ollama"),
        (
            [b'{"response": "Li", "done": false}\n{"response": "ma", "done": true}\n'],
            [("text", "Lima")],
            "ollama",
        ),
        (
            [
                event({"type": "transcript.text.delta", "delta": "Li"}),
                event({"type": "transcript.text.done", "text": "Lima"}),
            ],
            [("text", "Lima")],
            "openai",
        ),
    ],
)
def test_a_stream_is_read_as_if_it_had_come_in_one_piece(
    chunks: list[bytes], expected: list[tuple[str, str]], vendor: str
) -> None:
    assert said(b"".join(chunks), vendor) == expected


def call_chunk(name: str | None, arguments: object, call: str | None = None) -> bytes:
    """Word a chunk of a tool call of a provider that says ``index: 0`` of each."""
    function = {"name": name, "arguments": arguments}
    delta = {"tool_calls": [{"index": 0, "id": call, "type": "function", "function": function}]}
    return event({"choices": [{"index": 0, "delta": delta}]})


LIMA, OSLO = 'look_up({"q": "Lima"})', 'look_up({"q": "Oslo"})'
TWO_BLOCKS = [
    event(one)
    for name in ("Lima", "Oslo")
    for one in (
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "name": "look_up", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"partial_json": f'{{"q": "{name}"}}'},
        },
    )
]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param(
            [
                call_chunk("look_up", '{"q": "Lima"}', "a"),
                call_chunk("look_up", '{"q": "Oslo"}', "b"),
            ],
            [LIMA, OSLO],
            id="ids",
        ),
        pytest.param(
            [call_chunk("look_up", '{"q": "Lima"}'), call_chunk("look_up", '{"q": "Oslo"}', "")],
            [LIMA, OSLO],
            id="no ids",
        ),
        pytest.param(
            [call_chunk("look_up", '{"q": ', "a"), call_chunk("look_up", '"Lima"}', "a")],
            [LIMA],
            id="id and name with each piece",
        ),
        pytest.param(
            [call_chunk("look_up", '{"q": '), call_chunk("look_up", '"Lima"}')],
            [LIMA],
            id="name with each piece",
        ),
        pytest.param(
            [call_chunk("look", "", "a"), call_chunk("_up", '{"q": "Lima"}')],
            [LIMA],
            id="a name in pieces",
        ),
        pytest.param(
            [
                call_chunk("look_up", '{"q": ', "a"),
                call_chunk(None, '"Lima"}'),
                call_chunk("look_up", "", "b"),
                call_chunk(None, '{"q": "Oslo"}'),
            ],
            [LIMA, OSLO],
            id="arguments in pieces",
        ),
        pytest.param(
            [call_chunk("look_up", {"q": "Lima"}), call_chunk("look_up", {"q": "Oslo"})],
            [LIMA, OSLO],
            id="arguments as objects",
        ),
        pytest.param(TWO_BLOCKS, [LIMA, OSLO], id="blocks"),
    ],
)
def test_calls_that_are_all_numbered_0_are_not_glued(
    chunks: list[bytes], expected: list[str]
) -> None:
    vendor = "anthropic" if chunks is TWO_BLOCKS else "openai"

    assert [text for kind, text in said(b"".join(chunks), vendor) if kind == "call"] == expected


FIELDS = (
    *("text", "choices", "message", "delta", "content", "output", "type", "role", "function"),
    *("arguments", "name", "tool_calls", "images", "data", "embedding", "embeddings", "response"),
    *("content_block", "index", "input", "summary", "thinking", "refusal"),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "text",
                    "choices",
                    "message",
                    "delta",
                    "content",
                    "output",
                    "type",
                    "role",
                    "function",
                    "arguments",
                    "name",
                    "tool_calls",
                    "images",
                    "data",
                    "embedding",
                    "embeddings",
                    "response",
                    "content_block",
                    "tool_plan",
                    "index",
                    "input",
                    "summary",
                    "thinking",
                    "refusal",
                ]
            )
            | st.text(max_size=2),
            inner,
            max_size=4,
        )
        | st.sampled_from(["tool_use", "tool_result", "image_url", "function_call", "tool"])
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("vendor", [*VENDORS, "function"])
@given(json_values, st.booleans())
def test_no_form_of_a_reply_or_request_is_too_odd(vendor: str, value: Any, is_stream: bool) -> None:
    text = json.dumps(value).encode()
    body = b"data: " + text + b"\n\n" + text + b"\n" if is_stream else text
    messages = read_reply(reply_of(body), dialect_of({"provider": vendor}))
    question = {"messages": value, "input": value, "contents": value}

    assert messages
    assert all(isinstance(message.text, str) for message in messages)
    assert all(isinstance(one.role, str) for one in asked(question, provider=vendor))
    assert asked(value, provider=vendor) or isinstance(value, dict)


def test_a_request_is_read_in_the_order_of_the_model() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    body = {
        "model": "m",
        "temperature": 0.5,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]},
            {"role": "assistant", "content": None, "tool_calls": [OLLAMA_CALL]},
            {"role": "tool", "tool_call_id": "1", "content": "a cat"},
        ],
        "system": "Be brief.",
    }

    read = read_request({**dict.fromkeys(PARTS, ""), "provider": "openai", "body": body})

    assert read.messages == (
        Message("system", "Be brief."),
        Message("user", "What is it?"),
        Message("user", "image of 26 characters", "media"),
        Message("assistant", *reversed(CALL)),
        Message("tool", "a cat", "result"),
    )
    assert read.settings == {"model": '"m"', "temperature": "0.5"}


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (
            {"type": "input_image", "image_url": "https://h.example/a.png"},
            "image https://h.example/a.png",
        ),
        (
            {"type": "image", "source": {"data": "A" * 9, "media_type": "image/png"}},
            "image of 9 characters",
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "A... (70000 characters, sha256 0)"}},
            "audio of 70000 characters",
        ),
        ({"type": "tool_result", "content": [{"type": "text", "text": "a cat"}]}, "a cat"),
        ({"type": "function_call_output", "output": "a cat"}, "a cat"),
        ({"type": "web_search_call", "id": 1}, '{"type": "web_search_call", "id": 1}'),
    ],
)
def test_parts_that_are_no_text_are_named(part: object, shown: str) -> None:
    assert [message.text for message in asked({"input": [part]})] == [shown]


def test_a_request_of_embeddings_and_one_of_a_function() -> None:
    assert asked({"input": ["a", "b"]}) == [Message("user", "a"), Message("user", "b")]
    body = {"messages": [{"role": "user", "content": "hi"}], "params": {"temperature": 0}}
    read = read_request(
        {**dict.fromkeys(PARTS, ""), "provider": "function", "path": "m:f", "body": body}
    )
    assert read.settings == {"function": '"m:f"', "params.temperature": "0"}


def test_pictures_of_ollama_are_named() -> None:
    message = {"role": "user", "content": "What?", "images": ["AAAA"]}

    assert asked({"messages": [message]})[1] == Message("user", "image of 4 characters", "media")


@pytest.mark.parametrize("depth", [10, 200, 400, 600, 800, 950, 5000])
def test_however_deep_a_text_is_nested_it_is_shown(depth: int) -> None:
    body = b'{"content":' + b"[" * depth + b'"deep"' + b"]" * depth + b"}"
    nested: Any = "deep"
    for _ in range(depth):
        nested = [nested]

    assert "deep" in read_reply(reply_of(body), dialect_of({"provider": "anthropic"}))[0].text
    assert asked({"messages": nested})[0].text in ("deep", "nested too deeply to be shown")


GEMINI_CHUNKS = [
    content([{"text": "Pe", "thought": True}], reason=None),
    content([{"text": "ru...", "thought": True}], reason=None),
    content([{"functionCall": {"name": "look_up", "args": {"q": "Peru"}}}], reason=None),
    content([{"text": "Li"}], reason=None),
    content([{"text": "ma"}], reason=None),
    content([{"text": ""}]),
]


@pytest.mark.parametrize("body", [b"".join(events(GEMINI_CHUNKS)), array(GEMINI_CHUNKS)])
def test_a_stream_of_gemini_is_read_in_both_of_its_forms(body: bytes) -> None:
    assert said(body, "gemini") == [THOUGHT, CALL, ("text", "Lima")]


def test_a_thought_of_gemini_ends_where_its_answer_begins() -> None:
    assert said(array([GEMINI_CHUNKS[0], *GEMINI_CHUNKS[3:]]), "gemini") == [
        ("thought", "Pe"),
        ("text", "Lima"),
    ]


def test_a_question_to_gemini_is_read_and_its_path_names_the_model() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    result = {"functionResponse": {"name": "look_up", "response": {"a": 1}}}
    body = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Capital?"}, picture]},
            {"role": "model", "parts": [GEMINI_PARTS[1]]},
            {"role": "user", "parts": [result]},
        ],
        "generationConfig": {"temperature": 0},
    }
    path = "/v1beta/models/gemini-2.5-flash:generateContent"
    parts = {**dict.fromkeys(PARTS, ""), "provider": "gemini", "body": body, "path": path}
    read = read_request(parts)

    assert list(read.messages) == [
        Message("system", "Be brief."),
        Message("user", "Capital?"),
        Message("user", "image of 4 characters", "media"),
        Message("assistant", 'look_up({"q": "Peru"})', "call"),
        Message("tool", '{"a": 1}', "result"),
    ]
    assert read.settings == {"path": f'"{path}"', "generationConfig.temperature": "0"}


@pytest.mark.parametrize(
    "body",
    [
        {"content": {"parts": [{"text": "Peru"}]}},
        {"requests": [{"content": {"parts": [{"text": "Peru"}]}}]},
    ],
)
def test_what_gemini_is_to_embed_is_read(body: object) -> None:
    assert asked(body, provider="gemini") == [Message("user", "Peru")]


def test_a_chat_of_cohere_is_read_in_each_of_its_forms() -> None:
    thinking = {"type": "thinking", "thinking": "Peru"}
    text = {"type": "text", "text": "Lima"}
    whole = chat("", message={"role": "assistant", "content": [thinking, text]})
    streamed = b"".join(worded(chat_events("Lima", thought="Peru")))

    wanted = [("thought", "Peru"), ("text", "Lima")]
    assert said(whole, "cohere") == said(streamed, "cohere") == wanted
    assert said(b"".join(chat_1_stream("Lima")), "cohere") == [("text", "Lima")]


def test_a_call_of_a_tool_by_cohere_is_read_in_both_of_its_forms() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": '{"q":1}'}}
    begin = call | {"function": {"name": "look_up", "arguments": ""}}
    pieces: list[tuple[str, object]] = [
        ("tool_plan", "I look "),
        ("tool_plan", "it up."),
        ("tool_calls", begin),
        ("tool_calls", {"function": {"arguments": '{"q"'}}),
        ("tool_calls", {"function": {"arguments": ":1}"}}),
    ]
    events = [
        {"type": "delta", "index": 0, "delta": {"message": {name: piece}}} for name, piece in pieces
    ]
    whole = chat("", message={"tool_plan": "I look it up.", "tool_calls": [call]})

    wanted = [("thought", "I look it up."), ("call", 'look_up({"q":1})')]
    assert said(whole, "cohere") == said(b"".join(worded(events)), "cohere") == wanted


@pytest.mark.parametrize("body", [{"message": "Peru"}, {"texts": ["Peru"]}, {"query": "Peru"}])
def test_what_cohere_is_to_read_is_read(body: object) -> None:
    assert asked(body, provider="cohere") == [Message("user", "Peru")]
