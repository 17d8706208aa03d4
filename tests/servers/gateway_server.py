"""A loopback server that speaks all vendors' formats; scripted as its OpenAI relative is.

Every reply bears a number that no other reply bears, so that one draw is told from another. A
request with tools gets a call of the first one, one with a schema a JSON object that fits it, and
one that hands over the result of a tool a text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.servers import (
    anthropic_server,
    bedrock_server,
    gemini_server,
    ollama_server,
    openai_streams,
)
from tests.servers.gateway_asks import Asked, asked_of
from tests.servers.openai_server import OpenAIServer, Received, Scripted, chat_completion

NDJSON = {"content-type": "application/x-ndjson"}
SSE = {"content-type": "text/event-stream"}


class GatewayServer(OpenAIServer):
    """Serves what the vendors' clients ask, below one origin.

    Attributes:
        connections: how many were opened.
        unknown: what was asked for and is not served.
    """

    def __init__(self) -> None:
        super().__init__()
        self.connections = 0
        self.unknown: list[str] = []
        self._http.verify_request = self._count  # type: ignore[method-assign]

    def _count(self, _request: object, _address: object) -> bool:
        self.connections += 1
        return True

    def take(self, received: Received) -> Scripted:
        with self._lock:
            number = len(self.requests)
            self.requests.append(received)
        path = received.path.partition("?")[0]
        for ending, word in DIALECTS:
            if received.method == "POST" and ending in path:
                return word(asked_of(received, number))
        self.unknown.append(f"{received.method} {path}")
        return Scripted(status=404, body={"error": {"message": f"{path} is not served"}})


def _chat(asked: Asked) -> Scripted:
    model = asked.body.get("model", "model")
    if not asked.streams:
        reply: Any = chat_completion(asked.text, model)
        if asked.tool is not None:
            call = {"id": "call00001", "type": "function", "function": _function(asked)}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            reply["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}
        return Scripted(body=reply)
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in _pieces(asked.text)]
    if asked.tool is not None:
        begin = {"index": 0, "id": "call00001", "type": "function"}
        first = {**begin, "function": {"name": asked.tool, "arguments": ""}}
        rest = [{"index": 0, "function": {"arguments": one}} for one in _pieces(asked.json)]
        whole = {**begin, "function": _function(asked)}  # Mistral cuts no call up
        cut = (whole,) if model.startswith("mistral") else (first, *rest)
        deltas = [{"tool_calls": [one]} for one in cut]
    finish = "stop" if asked.tool is None else "tool_calls"
    chunks = openai_streams.chat_chunks(deltas, model, finish=finish, with_usage=True)
    return Scripted(chunks=chunks)


def _function(asked: Asked) -> dict[str, str]:
    return {"name": asked.tool or "", "arguments": asked.json}


def _pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _responses(asked: Asked) -> Scripted:
    events = openai_streams.response_stream(asked.text, asked.body["model"])
    if asked.tool is not None:
        events = openai_streams.response_tool_stream(asked.tool, asked.json, asked.body["model"])
    if asked.streams:
        return Scripted(chunks=events)
    last = events[-1].partition(b"data: ")[2]
    return Scripted(body=json.loads(last)["response"])


def _embeddings(asked: Asked) -> Scripted:
    told = asked.body["input"]
    texts = told if isinstance(told, list) and not isinstance(told[0], int) else [told]
    data = [
        {"object": "embedding", "index": place, "embedding": asked.vector}
        for place, _ in enumerate(texts)
    ]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    return Scripted(
        body={
            "id": "e1",
            "object": "list",
            "model": asked.body["model"],
            "data": data,
            "usage": usage,
        }
    )


def _messages(asked: Asked) -> Scripted:
    model = asked.body["model"]
    if asked.tool is None:
        text = asked.text
        if asked.streams:
            return Scripted(chunks=anthropic_server.message_stream(text, model))
        return Scripted(body=anthropic_server.message([{"type": "text", "text": text}], model))
    use = {"type": "tool_use", "id": "toolu_1", "name": asked.tool, "input": asked.filled}
    if asked.streams:
        return Scripted(chunks=anthropic_server.tool_stream(use, model))
    return Scripted(body=anthropic_server.message([use], model) | {"stop_reason": "tool_use"})


def _contents(asked: Asked) -> Scripted:
    return Scripted(body=gemini_server.content([_gemini_part(asked)]))


def _gemini_part(asked: Asked) -> dict[str, object]:
    if asked.tool is None:
        return {"text": asked.text}
    return {"functionCall": {"name": asked.tool, "args": asked.filled}}


def _content_stream(asked: Asked) -> Scripted:
    chunks = gemini_server.stream_chunks(asked.text)
    if asked.tool is not None:
        chunks = [gemini_server.content([_gemini_part(asked)])]
    return Scripted(chunks=gemini_server.events(chunks), headers=SSE)


def _content_embeddings(asked: Asked) -> Scripted:
    if "requests" not in asked.body:
        return Scripted(body={"embedding": {"values": asked.vector}})
    return Scripted(body={"embeddings": [{"values": asked.vector} for _ in asked.body["requests"]]})


def _ollama_chat(asked: Asked) -> Scripted:
    message: dict[str, object] = {"content": asked.text}
    if asked.tool is not None:
        call = {"function": {"name": asked.tool, "arguments": asked.filled}}
        message = {"content": "", "tool_calls": [call]}
    if not asked.body.get("stream", True):  # without `stream` ollama streams
        return Scripted(body=ollama_server.chat_reply(message))
    lines = ollama_server.chat_lines("" if asked.tool else asked.text)
    if asked.tool is not None:
        first = {**ollama_server.chat_reply(message), "done": False}
        lines = [json.dumps(first).encode() + b"\n", *lines]
    return Scripted(chunks=lines, headers=NDJSON)


def _ollama_generate(asked: Asked) -> Scripted:
    reply = {"model": asked.body["model"], "response": asked.text, **ollama_server.DONE}
    return Scripted(body=reply)


def _ollama_embed(asked: Asked) -> Scripted:
    told = asked.body["input"]
    vectors = [asked.vector for _ in (told if isinstance(told, list) else [told])]
    return Scripted(body={"model": asked.body["model"], "embeddings": vectors})


def _cohere_chat(asked: Asked) -> Scripted:
    content = [{"type": "text", "text": asked.text}]
    message: dict[str, object] = {"role": "assistant", "content": content}
    if asked.tool is not None:
        call = {"id": "call00001", "type": "function", "function": _function(asked)}
        message = {"role": "assistant", "tool_plan": "I look it up.", "tool_calls": [call]}
    usage = {"tokens": {"input_tokens": 7, "output_tokens": 2}}
    finish = "COMPLETE" if asked.tool is None else "TOOL_CALL"
    if not asked.streams:
        reply = {"id": "c1", "message": message, "finish_reason": finish, "usage": usage}
        return Scripted(body=reply)
    begin = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": []}
    events = [
        {"type": "message-start", "id": "c1", "delta": {"message": begin}},
        *(_cohere_text(asked) if asked.tool is None else _cohere_call(asked)),
        {"type": "message-end", "delta": {"finish_reason": finish, "usage": usage}},
    ]
    return Scripted(chunks=[openai_streams.event(one, name=str(one["type"])) for one in events])


def _cohere_text(asked: Asked) -> list[dict[str, object]]:
    begin = {"message": {"content": {"type": "text", "text": ""}}}
    deltas = [{"message": {"content": {"text": piece}}} for piece in _pieces(asked.text)]
    return [
        {"type": "content-start", "index": 0, "delta": begin},
        *({"type": "content-delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content-end", "index": 0},
    ]


def _cohere_call(asked: Asked) -> list[dict[str, object]]:
    function = {"name": asked.tool, "arguments": ""}
    call = {"id": "call00001", "type": "function", "function": function}
    pieces = [{"function": {"arguments": piece}} for piece in _pieces(asked.json)]
    deltas = [{"message": {"tool_calls": piece}} for piece in pieces]
    return [
        {"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": call}}},
        *({"type": "tool-call-delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "tool-call-end", "index": 0},
    ]


def _cohere_embed(asked: Asked) -> Scripted:
    texts = asked.body.get("texts", [""])
    body = {"id": "e1", "texts": texts, "embeddings": {"float": [asked.vector for _ in texts]}}
    meta = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": 3}}
    return Scripted(body=body | {"response_type": "embeddings_by_type", "meta": meta})


def _ollama_show(_asked: Asked) -> Scripted:
    return Scripted(body={"model_info": {}, "template": "", "capabilities": ["completion"]})


def _features(asked: Asked) -> Scripted:
    return Scripted(body=[asked.vector])


def _converse(asked: Asked) -> Scripted:
    part: dict[str, object] = {"text": asked.text}
    if asked.tool is not None:
        part = {"toolUse": {"toolUseId": "t1", "name": asked.tool, "input": asked.filled}}
    message = {"role": "assistant", "content": [part]}
    ending = {"stopReason": "end_turn", "usage": bedrock_server.CONVERSED["usage"]}
    return Scripted(body={"output": {"message": message}, "metrics": {"latencyMs": 1}, **ending})


def _converse_stream(asked: Asked) -> Scripted:
    chunks = bedrock_server.converse_stream(_pieces(asked.text))
    return Scripted(chunks=chunks, headers=bedrock_server.FRAMED)


def _invoke(asked: Asked) -> Scripted:
    content = [{"type": "text", "text": asked.text}]
    return Scripted(body=bedrock_server.INVOKED | {"content": content})


# What is in a path, and what answers it; the first that fits.
DIALECTS: tuple[tuple[str, Callable[[Asked], Scripted]], ...] = (
    ("/chat/completions", _chat),
    ("/responses", _responses),
    ("/v1/embeddings", _embeddings),
    ("/v1/messages", _messages),
    (":streamGenerateContent", _content_stream),
    (":generateContent", _contents),
    (":embedContent", _content_embeddings),
    (":batchEmbedContents", _content_embeddings),
    ("/api/chat", _ollama_chat),
    ("/api/generate", _ollama_generate),
    ("/api/embed", _ollama_embed),
    ("/api/show", _ollama_show),
    ("/v2/chat", _cohere_chat),
    ("/v2/embed", _cohere_embed),
    ("/feature-extraction", _features),
    ("/converse-stream", _converse_stream),
    ("/converse", _converse),
    ("/invoke", _invoke),
)
