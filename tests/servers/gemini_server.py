"""A loopback server that speaks Gemini's wire format; scripted as its OpenAI relative is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.servers.openai_server import OpenAIServer, Received, Scripted

USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9}
EVENTS = {"content-type": "text/event-stream"}


class GeminiServer(OpenAIServer):
    """Serves contents, streams of them, and embeddings."""

    @property
    def url(self) -> str:
        """What belongs into GOOGLE_GEMINI_BASE_URL."""
        return self.origin

    def take(self, received: Received) -> Scripted:
        scripted = super().take(received)
        path, _, query = received.path.partition("?")
        is_usual = isinstance(scripted.body, dict) and "candidates" in scripted.body
        if not path.endswith(":streamGenerateContent") or not is_usual:
            return scripted
        chunks = stream_chunks("reply 0")
        if "alt=sse" in query:
            return replace(scripted, body=None, chunks=events(chunks), headers=EVENTS)
        return replace(scripted, body=array(chunks))

    def _usual(self, received: Received, number: int) -> object:
        path = received.path.partition("?")[0]
        if path.endswith(":embedContent"):
            return {"embedding": {"values": [0.25, -0.5]}}
        if path.endswith(":batchEmbedContents"):
            return {"embeddings": [{"values": [0.25, -0.5]} for _ in received.json["requests"]]}
        if path.endswith("enerateContent"):
            return content([_part(received.json, self._answer(received.json, number))])
        return {"models": []}

    def _failure(self) -> object:
        return error(500, "INTERNAL", "scripted")


def _part(asked: Mapping[str, Any], text: str) -> dict[str, object]:
    if asked.get("tools"):
        return {"functionCall": {"name": "locate", "args": {"city": "Lima"}}}
    is_json = "json" in asked.get("generationConfig", {}).get("responseMimeType", "")
    return {"text": '{"city": "Lima"}' if is_json else text}


def content(parts: Sequence[object], *, reason: str | None = "STOP") -> dict[str, object]:
    """Word a reply of :generateContent."""
    ended = {} if reason is None else {"finishReason": reason}
    return {
        "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0, **ended}],
        "usageMetadata": USAGE,
        "modelVersion": "gemini-2.5-flash-001",
        "responseId": "r1",
    }


def error(code: int, status: str, message: str) -> dict[str, object]:
    """Word an error."""
    return {"error": {"code": code, "message": message, "status": status}}


def stream_chunks(text: str) -> list[dict[str, object]]:
    """Cut a reply into the objects that a stream consists of; the last says why it ended."""
    pieces = [content([{"text": letter}], reason=None) for letter in text]
    return [*pieces, content([{"text": ""}])]


def events(chunks: list[dict[str, object]]) -> list[bytes]:
    """Word a stream of alt=sse; it has no end mark."""
    return [b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks]


def array(chunks: list[dict[str, object]]) -> bytes:
    """Word a stream without alt=sse."""
    return b"[" + b"\n,\r\n".join(json.dumps(chunk, indent=2).encode() for chunk in chunks) + b"\n]"
