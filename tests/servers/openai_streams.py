"""How OpenAI words a reply in chunks: server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

DONE = b"data: [DONE]\n\n"
RESPONSE_USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 9,
}


def event(data: Mapping[str, Any], *, name: str | None = None) -> bytes:
    """Word one event."""
    line = b"" if name is None else f"event: {name}\n".encode()
    return line + b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


def chat_stream(text: str, body: Mapping[str, Any]) -> list[bytes]:
    """Word a reply of /chat/completions to a request with ``stream``."""
    deltas = [{"content": piece} for piece in text.partition(" ")]
    options = body.get("stream_options") or {}
    return chat_chunks(deltas, body["model"], with_usage=bool(options.get("include_usage")))


def tool_call_stream(arguments: Iterable[str], model: str) -> list[bytes]:
    """Word a call of the tool ``look_up``, its arguments in pieces."""
    begin = {"index": 0, "id": "call_1", "type": "function"}
    deltas = [{"tool_calls": [{**begin, "function": {"name": "look_up", "arguments": ""}}]}]
    for piece in arguments:
        deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    return chat_chunks(deltas, model, finish="tool_calls")


def chat_chunks(
    deltas: Iterable[Mapping[str, Any]],
    model: str,
    *,
    finish: str = "stop",
    with_usage: bool = False,
) -> list[bytes]:
    """Word the chunks of a chat completion, to the end mark."""
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    choices: list[list[dict[str, Any]]] = [
        [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
        *([{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas),
        [{"index": 0, "delta": {}, "finish_reason": finish}],
    ]
    chunks = [_chat_chunk(model, choices=choice, usage=None) for choice in choices]
    if with_usage:
        chunks.append(_chat_chunk(model, choices=[], usage=usage))
    return [*chunks, DONE]


def _chat_chunk(model: str, *, choices: list[dict[str, Any]], usage: object) -> bytes:
    return event(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": f"{model}-2026-01-01",
            "system_fingerprint": "fp_1",
            "choices": choices,
            "usage": usage,
        }
    )


def response_stream(text: str, model: str) -> list[bytes]:
    """Word a reply of /responses to a request with ``stream``."""
    begun = _response(model, status="in_progress", output=[])
    item = {"id": "msg_1", "type": "message", "role": "assistant"}
    part = {"type": "output_text", "annotations": [], "text": text}
    done = {**item, "status": "completed", "content": [part]}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    whole = {**_response(model, status="completed", output=[done]), "usage": RESPONSE_USAGE}
    return _response_events(
        {"type": "response.created", "response": begun},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []},
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": whole},
    )


def _response_events(*events: dict[str, Any]) -> list[bytes]:
    return [
        event({**one, "sequence_number": number}, name=one["type"])
        for number, one in enumerate(events)
    ]


def _response(model: str, *, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": f"{model}-2026-01-01",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
    }


def response_tool_stream(name: str, arguments: str, model: str) -> list[bytes]:
    """Word a call of a tool in /responses to a request with ``stream``."""
    begun = _response(model, status="in_progress", output=[])
    item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": name}
    done = {**item, "status": "completed", "arguments": arguments}
    place = {"item_id": "fc_1", "output_index": 0}
    added = {**item, "status": "in_progress", "arguments": ""}
    whole = {**_response(model, status="completed", output=[done]), "usage": RESPONSE_USAGE}
    return _response_events(
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        {"type": "response.function_call_arguments.delta", **place, "delta": arguments},
        {
            "type": "response.function_call_arguments.done",
            **place,
            "arguments": arguments,
            "name": name,
        },
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": whole},
    )
