"""litellm: models of several vendors by one function."""

import os

import litellm
from pydantic import BaseModel

URL = os.environ["GATEWAY"]
OPENAI = {"model": "openai/gpt-4o-mini", "api_base": f"{URL}/v1", "api_key": "sk-test"}
ANTHROPIC = {"model": "anthropic/claude-haiku-4-5", "api_base": URL, "api_key": "sk-ant-test"}
OLLAMA = {"model": "ollama_chat/llama3.2", "api_base": URL}
MISTRAL = {"model": "mistral/mistral-small-latest", "api_base": f"{URL}/v1", "api_key": "test"}
GEMINI = {"model": "gemini/gemini-2.5-flash", "api_base": f"{URL}/v1beta", "api_key": "AIza-test"}
COHERE = {"model": "cohere/command-r", "api_base": f"{URL}/v2/chat", "api_key": "test"}
VECTORS = {**OPENAI, "model": "openai/text-embedding-3-small"}


class Capital(BaseModel):
    city: str
    inhabitants: int


LOCATE = {
    "type": "function",
    "function": {
        "name": "locate",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def asked(question):
    return {"messages": [{"role": "user", "content": question}]}


def content(reply):
    return reply.choices[0].message.content


def arguments(reply):
    return reply.choices[0].message.tool_calls[0].function.arguments


def of(vendor):
    def text(question):
        return content(litellm.completion(**vendor, **asked(question)))

    async def atext(question):
        return content(await litellm.acompletion(**vendor, **asked(question)))

    def stream_text(question):
        chunks = litellm.completion(**vendor, **asked(question), stream=True)
        return [chunk.choices[0].delta.content for chunk in chunks]

    async def astream_text(question):
        chunks = await litellm.acompletion(**vendor, **asked(question), stream=True)
        return [chunk.choices[0].delta.content async for chunk in chunks]

    return text, atext, stream_text, astream_text


VENDORS = {
    "openai": of(OPENAI),
    "anthropic": of(ANTHROPIC),
    "ollama": of(OLLAMA),
    "mistral": of(MISTRAL),
    "gemini": of(GEMINI),
    "cohere": of(COHERE),
}
# It reads a stream of cohere as JSON lines, which it is not.
STREAMING = [name for name in VENDORS if name != "cohere"]


def tools(question):
    return arguments(litellm.completion(**OPENAI, **asked(question), tools=[LOCATE]))


def structured(question):
    return content(litellm.completion(**OPENAI, **asked(question), response_format=Capital))


def vectors(question):
    return [one["embedding"] for one in litellm.embedding(**VECTORS, input=[question, "Bye"]).data]


async def atools(question):
    return arguments(await litellm.acompletion(**OPENAI, **asked(question), tools=[LOCATE]))


async def astructured(question):
    reply = await litellm.acompletion(**OPENAI, **asked(question), response_format=Capital)
    return content(reply)


async def avectors(question):
    reply = await litellm.aembedding(**VECTORS, input=[question])
    return [one["embedding"] for one in reply.data]


def pieces(chunk):
    return [call.function.arguments for call in chunk.choices[0].delta.tool_calls or []]


def stream_tools(question):
    chunks = litellm.completion(**OPENAI, **asked(question), tools=[LOCATE], stream=True)
    return [pieces(chunk) for chunk in chunks]


async def astream_tools(question):
    chunks = await litellm.acompletion(**OPENAI, **asked(question), tools=[LOCATE], stream=True)
    return [pieces(chunk) async for chunk in chunks]


WAYS = {
    "sync": {
        **{name: ways[0] for name, ways in VENDORS.items()},
        "tools": tools,
        "structured": structured,
        "embeddings": vectors,
    },
    "async": {
        **{name: ways[1] for name, ways in VENDORS.items()},
        "tools": atools,
        "structured": astructured,
        "embeddings": avectors,
    },
    "stream": {
        **{name: ways[2] for name, ways in VENDORS.items() if name in STREAMING},
        "tools": stream_tools,
    },
    "async stream": {
        **{name: ways[3] for name, ways in VENDORS.items() if name in STREAMING},
        "tools": astream_tools,
    },
}
