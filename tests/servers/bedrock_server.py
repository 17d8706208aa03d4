"""Replies of Bedrock: as JSON, and as the binary frames of its streams."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from zlib import crc32

FRAMED = {"content-type": "application/vnd.amazon.eventstream"}
CONVERSED = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Lima"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 7, "outputTokens": 2, "totalTokens": 9},
}
INVOKED = {
    "type": "message",
    "content": [{"type": "text", "text": "Lima"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 7, "output_tokens": 2},
}


def frame(event: object, **headers: str) -> bytes:
    """Word one event as Amazon's services do."""
    payload = json.dumps(event).encode()
    named = b"".join(
        bytes([len(name)]) + name + struct.pack(">BH", 7, len(text)) + text.encode()
        for name, text in (
            (f":{key.replace('_', '-')}".encode(), text) for key, text in headers.items()
        )
    )
    begin = struct.pack(">II", 16 + len(named) + len(payload), len(named))
    whole = begin + struct.pack(">I", crc32(begin)) + named + payload
    return whole + struct.pack(">I", crc32(whole))


def own(chunk: object) -> bytes:
    """Word a chunk of a model's own."""
    text = base64.b64encode(json.dumps(chunk).encode()).decode()
    return frame({"bytes": text, "p": "abc"}, event_type="chunk", message_type="event")


def converse_stream(pieces: Sequence[str]) -> list[bytes]:
    """Word a reply of Converse as a stream, an event a chunk."""
    return [
        frame({"role": "assistant"}, event_type="messageStart"),
        *(
            frame({"contentBlockIndex": 0, "delta": {"text": one}}, event_type="contentBlockDelta")
            for one in pieces
        ),
        frame({"contentBlockIndex": 0}, event_type="contentBlockStop"),
        frame({"stopReason": "end_turn"}, event_type="messageStop"),
        frame({"usage": CONVERSED["usage"]}, event_type="metadata"),
    ]


CONVERSE_STREAM = converse_stream(["Li", "ma"])
INVOKE_STREAM = [
    own({"type": "message_start", "message": {**INVOKED, "content": []}}),
    own(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Lima"}}
    ),
    own(
        {
            "type": "message_stop",
            "amazon-bedrock-invocationMetrics": {"inputTokenCount": 7, "outputTokenCount": 2},
        }
    ),
]
NOVA_STREAM = [
    own({"contentBlockDelta": {"delta": {"text": "Lima"}, "contentBlockIndex": 0}}),
    own({"amazon-bedrock-invocationMetrics": {"inputTokenCount": 7, "outputTokenCount": 2}}),
]
