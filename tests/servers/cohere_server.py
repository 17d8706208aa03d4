"""A loopback server that speaks Cohere's wire format; scripted as its OpenAI relative is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tests.servers.openai_server import OpenAIServer, Received, Scripted
from tests.servers.openai_streams import event

BILLED = {"input_tokens": 7, "output_tokens": 2}
USAGE = {"billed_units": BILLED, "tokens": {"input_tokens": 70, "output_tokens": 20}}
LINES = {"content-type": "application/stream+json"}


class CohereServer(OpenAIServer):
    """Serves chats and streams of them in versions 1 and 2, embeddings and rankings."""

    @property
    def url(self) -> str:
        """What belongs into CO_API_URL."""
        return self.origin

    def take(self, received: Received) -> Scripted:
        is_usual = not self._script
        scripted = super().take(received)
        if not is_usual or not received.json.get("stream"):
            return scripted
        text = self._answer(received.json, len(self.requests) - 1)
        if received.path == "/v2/chat":
            return replace(scripted, body=None, chunks=chat_stream(text))
        return replace(scripted, body=None, chunks=chat_1_stream(text), headers=LINES)

    def _usual(self, received: Received, number: int) -> object:
        path = received.path
        if path.endswith("/chat"):
            word = chat if path == "/v2/chat" else chat_1
            return word(self._answer(received.json, number))
        meta = {"billed_units": {"input_tokens": 3}}
        if path == "/v2/embed":
            return {"id": "e", "embeddings": {"float": [[0.25, -0.5]]}, "meta": meta}
        if path == "/v1/embed":
            return {"id": "e", "embeddings": [[0.25, -0.5]], "meta": meta}
        if path.endswith("/rerank"):
            return {"id": "r", "results": [{"index": 0, "relevance_score": 0.5}]}
        return {"models": []}

    def _failure(self) -> object:
        return {"id": "f", "message": "scripted"}


def chat(text: str, **more: object) -> dict[str, object]:
    """Word a reply of /v2/chat."""
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"id": "c", "finish_reason": "COMPLETE", "message": message, "usage": USAGE, **more}


def chat_1(text: str) -> dict[str, object]:
    """Word a reply of /v1/chat."""
    return {"text": text, "generation_id": "g", "finish_reason": "COMPLETE", "meta": USAGE}


def chat_events(
    text: str, *, end: Mapping[str, Any] | None = None, thought: str = ""
) -> list[dict[str, Any]]:
    """List the events of a stream of /v2/chat; ``end`` is what the last one tells."""
    last = {"finish_reason": "COMPLETE", "usage": USAGE} if end is None else end
    begin = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    contents = [("thinking", thought), ("text", text)] if thought else [("text", text)]
    events: list[dict[str, Any]] = [
        {"type": "message-start", "id": "c", "delta": {"message": begin}}
    ]
    for index, (kind, said) in enumerate(contents):
        parts = [{"type": kind, kind: ""}, *({kind: piece} for piece in said)]
        for part in parts:
            which = "content-start" if "type" in part else "content-delta"
            delta = {"message": {"content": part}}
            events.append({"type": which, "index": index, "delta": delta})
        events.append({"type": "content-end", "index": index})
    return [*events, {"type": "message-end", "delta": last}]


def chat_stream(text: str) -> list[bytes]:
    """Word a stream of /v2/chat; it has no end mark but its last event."""
    return worded(chat_events(text))


def worded(events: Iterable[Mapping[str, Any]]) -> list[bytes]:
    """Word events as they are sent."""
    return [event(one, name=one["type"]) for one in events]


def chat_1_stream(text: str) -> list[bytes]:
    """Word a stream of /v1/chat, a line an event."""
    end = {"event_type": "stream-end", "finish_reason": "COMPLETE", "response": chat_1(text)}
    events = [
        {"is_finished": False, "event_type": "stream-start", "generation_id": "g"},
        *({"is_finished": False, "event_type": "text-generation", "text": one} for one in text),
        {"is_finished": True, **end},
    ]
    return [json.dumps(one).encode() + b"\n" for one in events]
