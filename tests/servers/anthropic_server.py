"""A loopback server that speaks Anthropic's wire format; scripted as its OpenAI relative is."""

from __future__ import annotations

import json

from tests.servers.openai_server import OpenAIServer, Received
from tests.servers.openai_streams import event


class AnthropicServer(OpenAIServer):
    """Serves messages, counts tokens and lists models."""

    @property
    def url(self) -> str:
        """What belongs into ANTHROPIC_BASE_URL."""
        return self.origin

    def _usual(self, received: Received, number: int) -> object:
        path = received.path.partition("?")[0]
        if path == "/v1/messages":
            text = self._answer(received.json, number)
            return message([{"type": "text", "text": text}], received.json["model"])
        if path == "/v1/messages/count_tokens":
            return {"input_tokens": 3}
        return {"data": [], "has_more": False, "first_id": None, "last_id": None}

    def _failure(self) -> object:
        return {"type": "error", "error": {"type": "scripted_error", "message": "scripted"}}


def message(content: list[dict[str, object]], model: str) -> dict[str, object]:
    """Word a reply of /v1/messages."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": f"{model}-20260101",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 2},
    }


def message_stream(text: str, model: str) -> list[bytes]:
    """Word a reply of /v1/messages as a stream, an event a chunk."""
    begin = message([], model) | {
        "stop_reason": None,
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": begin},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": letter},
            }
            for letter in text
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 2},
        },
        {"type": "message_stop"},
    ]
    return [event(one, name=str(one["type"])) for one in events]


def tool_stream(use: dict[str, object], model: str) -> list[bytes]:
    """Word a call of a tool as a stream."""
    begin = message([], model) | {"stop_reason": None}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(use["input"])}
    ended = {"stop_reason": "tool_use", "stop_sequence": None}
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": begin},
        {"type": "content_block_start", "index": 0, "content_block": use | {"input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    return [event(one, name=str(one["type"])) for one in events]
