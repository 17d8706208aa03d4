"""A loopback server that speaks Anthropic's wire format; scripted as its OpenAI relative is."""

from __future__ import annotations

from tests.servers.openai_server import OpenAIServer, Received


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
