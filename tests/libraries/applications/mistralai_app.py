"""mistralai: chats and embeddings."""

import os

from mistralai.client import Mistral
from pydantic import BaseModel

client = Mistral(api_key="test", server_url=os.environ["GATEWAY"])


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
    return {"model": "mistral-small-latest", "messages": [{"role": "user", "content": question}]}


def embedded(question):
    return {"model": "mistral-embed", "inputs": [question, "Bye"]}


def arguments(reply):
    return reply.choices[0].message.tool_calls[0].function.arguments


def parsed(reply):
    return reply.choices[0].message.parsed.model_dump()


def text(question):
    return client.chat.complete(**asked(question)).choices[0].message.content


def tools(question):
    return arguments(client.chat.complete(**asked(question), tools=[LOCATE]))


def structured(question):
    return parsed(client.chat.parse(**asked(question), response_format=Capital))


def vectors(question):
    return [one.embedding for one in client.embeddings.create(**embedded(question)).data]


async def atext(question):
    return (await client.chat.complete_async(**asked(question))).choices[0].message.content


async def atools(question):
    return arguments(await client.chat.complete_async(**asked(question), tools=[LOCATE]))


async def astructured(question):
    return parsed(await client.chat.parse_async(**asked(question), response_format=Capital))


async def avectors(question):
    reply = await client.embeddings.create_async(**embedded(question))
    return [one.embedding for one in reply.data]


def stream_text(question):
    with client.chat.stream(**asked(question)) as events:
        return [str(one.data.choices[0].delta.content) for one in events if one.data.choices]


async def astream_text(question):
    async with await client.chat.stream_async(**asked(question)) as events:
        parts = [one.data.choices[0].delta async for one in events if one.data.choices]
    return [str(part.content) for part in parts]


def pieces(event):
    """Return the pieces of the arguments of a call in an event."""
    calls = event.data.choices[0].delta.tool_calls or [] if event.data.choices else []
    return [call.function.arguments for call in calls]


def stream_tools(question):
    with client.chat.stream(**asked(question), tools=[LOCATE]) as events:
        return [pieces(event) for event in events]


async def astream_tools(question):
    async with await client.chat.stream_async(**asked(question), tools=[LOCATE]) as events:
        return [pieces(event) async for event in events]


WAYS = {
    "sync": {"text": text, "tools": tools, "structured": structured, "embeddings": vectors},
    "async": {"text": atext, "tools": atools, "structured": astructured, "embeddings": avectors},
    "stream": {"tools": stream_tools, "text": stream_text},
    "async stream": {"tools": astream_tools, "text": astream_text},
}
