"""Each vendor's own way of saying the same things, for the tests that hold for all of them."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx
import ollama
import openai
from anthropic.resources import Messages
from pydantic import BaseModel

from tests.models.conftest import SECRET, CountingTrial, Session
from tests.servers.anthropic_server import AnthropicServer, message, message_stream
from tests.servers.ollama_server import OllamaServer, chat_lines, chat_reply
from tests.servers.openai_server import OpenAIServer, Scripted, chat_completion
from tests.servers.openai_streams import chat_stream

MESSAGES = [{"role": "user", "content": "Hello"}]
LIMA = '{"city": "Lima"}'
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "locate", "description": "Locates.", "parameters": SCHEMA}


class Capital(BaseModel):
    city: str


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to ask a client.

    Attributes:
        ask: asks; awaitable if the client is.
        read: what to compare with ``expected``.
        body: of the reply; None for the server's usual one.
        chunks: of a reply that is a stream, of this content type.
    """

    ask: Callable[[Any], Any]
    read: Callable[[Any], object]
    expected: object = "reply 0"
    body: object = None
    chunks: Sequence[bytes] | None = None
    content_type: str = "text/event-stream"

    def well(self, **more: Any) -> Scripted:
        """What the server is to do to answer it."""
        return Scripted(body=self.body, chunks=self.chunks, headers=self._headers, **more)

    def cut(self) -> Scripted:
        """What it does to break off in the middle, as if that were all."""
        assert self.chunks is not None
        return Scripted(chunks=self.chunks[: len(self.chunks) // 2], headers=self._headers)

    @property
    def _headers(self) -> dict[str, str]:
        return {} if self.chunks is None else {"content-type": self.content_type}


@dataclass(frozen=True, kw_only=True)
class Vendor:
    """One SDK, and the server that speaks its language.

    Attributes:
        environment: variables for a server's URL.
        errors: raised for a status; ``lost`` and ``late`` where no reply comes.
    """

    name: str
    server: type[OpenAIServer]
    url_variable: str
    key_variable: str
    ways: dict[str, Way]
    errors: Mapping[int, type[Exception]]
    lost: type[Exception]
    late: type[Exception]

    def client(self, session: Session, trial: CountingTrial, *, is_async: bool) -> Any:
        return session.models.client(self.name, trial, awaits=is_async)

    def environment(self, url: str) -> dict[str, str]:
        return {self.url_variable: url, self.key_variable: SECRET}


def every_chunk(stream: Any) -> Any:
    """Read a stream to its end; awaitable if it is that of an awaitable client."""

    async def collect() -> list[Any]:
        return [chunk async for chunk in await stream]

    return collect() if inspect.isawaitable(stream) else list(stream)


def done(result: Any) -> Any:
    """Wait for what an awaitable client gave; a blocking one has given its reply."""

    async def wait() -> Any:
        return await result

    return asyncio.run(wait()) if inspect.isawaitable(result) else result


def _openai_tool_call() -> dict[str, Any]:
    body: dict[str, Any] = chat_completion("", "gpt")
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "locate", "arguments": LIMA},
    }
    body["choices"][0]["message"] = {"role": "assistant", "content": None, "tool_calls": [call]}
    return body


OPENAI = Vendor(
    name="openai",
    server=OpenAIServer,
    url_variable="OPENAI_BASE_URL",
    key_variable="OPENAI_API_KEY",
    ways={
        "plain": Way(
            ask=lambda c: c.chat.completions.create(model="gpt", messages=MESSAGES),
            read=lambda reply: reply.choices[0].message.content,
        ),
        "tools": Way(
            ask=lambda c: c.chat.completions.create(
                model="gpt", messages=MESSAGES, tools=[{"type": "function", "function": FUNCTION}]
            ),
            read=lambda reply: reply.choices[0].message.tool_calls[0].function.arguments,
            expected=LIMA,
            body=_openai_tool_call(),
        ),
        "structured": Way(
            ask=lambda c: c.chat.completions.parse(
                model="gpt", messages=MESSAGES, response_format=Capital
            ),
            read=lambda reply: reply.choices[0].message.parsed,
            expected=Capital(city="Lima"),
            body=chat_completion(LIMA, "gpt"),
        ),
        "raw": Way(
            ask=lambda c: c.chat.completions.with_raw_response.create(
                model="gpt", messages=MESSAGES
            ),
            read=lambda reply: reply.http_response.content,
            expected=json.dumps(chat_completion("reply 0", "gpt")).encode(),
        ),
        "stream": Way(
            ask=lambda c: every_chunk(
                c.chat.completions.create(model="gpt", messages=MESSAGES, stream=True)
            ),
            read=lambda chunks: "".join(
                chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices
            ),
            chunks=chat_stream("reply 0", {"model": "gpt", "messages": MESSAGES}),
        ),
    },
    errors={
        400: openai.BadRequestError,
        401: openai.AuthenticationError,
        404: openai.NotFoundError,
        429: openai.RateLimitError,
        500: openai.InternalServerError,
        502: openai.InternalServerError,
        529: openai.InternalServerError,
    },
    lost=openai.APIConnectionError,
    late=openai.APITimeoutError,
)

ANTHROPIC = Vendor(
    name="anthropic",
    server=AnthropicServer,
    url_variable="ANTHROPIC_BASE_URL",
    key_variable="ANTHROPIC_API_KEY",
    ways={
        "plain": Way(
            ask=lambda c: c.messages.create(model="claude", max_tokens=9, messages=MESSAGES),
            read=lambda reply: reply.content[0].text,
        ),
        "tools": Way(
            ask=lambda c: c.messages.create(
                model="claude",
                max_tokens=9,
                messages=MESSAGES,
                tools=[{"name": "locate", "input_schema": SCHEMA}],
            ),
            read=lambda reply: reply.content[0].input,
            expected={"city": "Lima"},
            body=message(
                [{"type": "tool_use", "id": "t1", "name": "locate", "input": {"city": "Lima"}}],
                "claude",
            ),
        ),
        "structured": Way(
            ask=lambda c: c.messages.parse(
                model="claude", max_tokens=9, messages=MESSAGES, output_format=Capital
            ),
            read=lambda reply: reply.parsed_output,
            expected=Capital(city="Lima"),
            body=message([{"type": "text", "text": LIMA}], "claude"),
        ),
        "raw": Way(
            ask=lambda c: c.messages.with_raw_response.create(
                model="claude", max_tokens=9, messages=MESSAGES
            ),
            read=lambda reply: reply.http_response.content,
            expected=json.dumps(message([{"type": "text", "text": "reply 0"}], "claude")).encode(),
        ),
        "stream": Way(
            ask=lambda c: every_chunk(
                c.messages.create(model="claude", max_tokens=9, messages=MESSAGES, stream=True)
            ),
            read=lambda events: "".join(
                event.delta.text for event in events if event.type == "content_block_delta"
            ),
            chunks=message_stream("reply 0", "claude"),
        ),
    },
    errors={
        400: anthropic.BadRequestError,
        401: anthropic.AuthenticationError,
        404: anthropic.NotFoundError,
        429: anthropic.RateLimitError,
        500: anthropic.InternalServerError,
        502: anthropic.InternalServerError,
        # SDK 0.75 has two classes for it, and exports none.
        529: getattr(anthropic, "OverloadedError", anthropic.APIStatusError),
    },
    lost=anthropic.APIConnectionError,
    late=anthropic.APITimeoutError,
)

if not hasattr(Messages, "parse"):  # SDK 0.75 has it in its beta alone
    del ANTHROPIC.ways["structured"]

OLLAMA = Vendor(
    name="ollama",
    server=OllamaServer,
    url_variable="OLLAMA_HOST",
    key_variable="OLLAMA_API_KEY",
    ways={
        "plain": Way(
            ask=lambda c: c.chat("llama", messages=MESSAGES),
            read=lambda reply: reply.message.content,
        ),
        "tools": Way(
            ask=lambda c: c.chat(
                "llama", messages=MESSAGES, tools=[{"type": "function", "function": FUNCTION}]
            ),
            read=lambda reply: reply.message.tool_calls[0].function.arguments,
            expected={"city": "Lima"},
            body=chat_reply(
                {
                    "content": "",
                    "tool_calls": [{"function": {"name": "locate", "arguments": {"city": "Lima"}}}],
                }
            ),
        ),
        "structured": Way(
            ask=lambda c: c.chat("llama", messages=MESSAGES, format=Capital.model_json_schema()),
            read=lambda reply: Capital.model_validate_json(reply.message.content),
            expected=Capital(city="Lima"),
            body=chat_reply({"content": LIMA}),
        ),
        "stream": Way(
            ask=lambda c: every_chunk(c.chat("llama", messages=MESSAGES, stream=True)),
            read=lambda parts: "".join(part.message.content for part in parts),
            chunks=chat_lines("reply 0"),
            content_type="application/x-ndjson",
        ),
        "generate": Way(
            ask=lambda c: c.generate("llama", "Hello"), read=lambda reply: reply.response
        ),
        "embed": Way(
            ask=lambda c: c.embed("llama", "Hello"),
            read=lambda reply: reply.embeddings,
            expected=[[0.25, -0.5]],
        ),
        "embeddings": Way(
            ask=lambda c: c.embeddings("llama", "Hello"),
            read=lambda reply: reply.embedding,
            expected=[0.25, -0.5],
        ),
    },
    errors=dict.fromkeys((400, 401, 404, 429, 500, 502, 529), ollama.ResponseError),
    lost=httpx.RemoteProtocolError,
    late=httpx.ReadTimeout,
)

VENDORS = (OPENAI, ANTHROPIC, OLLAMA)
