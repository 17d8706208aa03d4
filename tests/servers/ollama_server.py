"""A loopback server that speaks Ollama's wire format; scripted as its OpenAI relative is."""

from __future__ import annotations

import json

from tests.servers.openai_server import OpenAIServer, Received


class OllamaServer(OpenAIServer):
    """Serves chats, completions, embeddings and a list of models."""

    @property
    def url(self) -> str:
        """What belongs into OLLAMA_HOST."""
        return self.origin

    def _usual(self, received: Received, number: int) -> object:
        path = received.path
        if path == "/api/chat":
            return chat_reply({"content": self._answer(received.json, number)})
        if path == "/api/generate":
            return {"model": "llama", "response": self._answer(received.json, number), **DONE}
        if path == "/api/embed":
            return {"model": "llama", "embeddings": [[0.25, -0.5]], "prompt_eval_count": 3}
        if path == "/api/embeddings":
            return {"embedding": [0.25, -0.5]}
        return {"models": []}

    def _failure(self) -> object:
        return {"error": "scripted"}


DONE = {"done": True, "done_reason": "stop", "prompt_eval_count": 7, "eval_count": 2}


def chat_reply(message: dict[str, object]) -> dict[str, object]:
    """Word a reply of /api/chat."""
    return {"model": "llama", "message": {"role": "assistant", **message}, **DONE}


def chat_lines(text: str) -> list[bytes]:
    """Word a reply of /api/chat as a stream, a line a chunk."""
    parts = [
        *({**chat_reply({"content": letter}), "done": False} for letter in text),
        chat_reply({"content": ""}),
    ]
    return [json.dumps(part).encode() + b"\n" for part in parts]
