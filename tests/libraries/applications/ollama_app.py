"""ollama: chats, completions, embeddings."""

import os

from ollama import AsyncClient, Client

client = Client(host=os.environ["GATEWAY"])
aclient = AsyncClient(host=os.environ["GATEWAY"])
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def locate(city: str) -> str:
    """Locates a city.

    Args:
        city: its name
    """
    return city


def asked(question):
    return {"model": "llama3.2", "messages": [{"role": "user", "content": question}]}


def arguments(reply):
    return dict(reply.message.tool_calls[0].function.arguments)


def text(question):
    return client.chat(**asked(question)).message.content


def generate(question):
    return client.generate(model="llama3.2", prompt=question).response


def tools(question):
    return arguments(client.chat(**asked(question), tools=[locate]))


def structured(question):
    return client.chat(**asked(question), format=SCHEMA).message.content


def vectors(question):
    return client.embed(model="nomic", input=[question, "Bye"]).embeddings


async def atext(question):
    return (await aclient.chat(**asked(question))).message.content


async def agenerate(question):
    return (await aclient.generate(model="llama3.2", prompt=question)).response


async def atools(question):
    return arguments(await aclient.chat(**asked(question), tools=[locate]))


async def astructured(question):
    return (await aclient.chat(**asked(question), format=SCHEMA)).message.content


async def avectors(question):
    return (await aclient.embed(model="nomic", input=question)).embeddings


def stream_text(question):
    return [part.message.content for part in client.chat(**asked(question), stream=True)]


async def astream_text(question):
    parts = await aclient.chat(**asked(question), stream=True)
    return [part.message.content async for part in parts]


def stream_generate(question):
    parts = client.generate(model="llama3.2", prompt=question, stream=True)
    return [part.response for part in parts]


def stream_tools(question):
    parts = client.chat(**asked(question), tools=[locate], stream=True)
    return [arguments(part) for part in parts if part.message.tool_calls]


def stream_structured(question):
    parts = client.chat(**asked(question), format=SCHEMA, stream=True)
    return [part.message.content for part in parts]


async def astream_tools(question):
    parts = await aclient.chat(**asked(question), tools=[locate], stream=True)
    return [arguments(part) async for part in parts if part.message.tool_calls]


async def astream_structured(question):
    parts = await aclient.chat(**asked(question), format=SCHEMA, stream=True)
    return [part.message.content async for part in parts]


WAYS = {
    "sync": {
        "text": text,
        "tools": tools,
        "structured": structured,
        "embeddings": vectors,
        "generate": generate,
    },
    "async": {
        "text": atext,
        "tools": atools,
        "structured": astructured,
        "embeddings": avectors,
        "generate": agenerate,
    },
    "stream": {
        "tools": stream_tools,
        "structured": stream_structured,
        "generate": stream_generate,
        "text": stream_text,
    },
    "async stream": {
        "tools": astream_tools,
        "structured": astream_structured,
        "text": astream_text,
    },
}
