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


WAYS = {
    "sync": {"text": text, "tools": tools, "structured": structured, "embeddings": vectors},
    "async": {"text": atext, "tools": atools, "structured": astructured, "embeddings": avectors},
    "stream": {"text": stream_text},
    "async stream": {"text": astream_text},
}
