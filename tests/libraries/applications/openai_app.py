"""openai: chat completions, responses, embeddings."""

import os

from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

URL = os.environ["GATEWAY"] + "/v1"
MODEL = "gpt-4o-mini"
client = OpenAI(base_url=URL, api_key="sk-test")
aclient = AsyncOpenAI(base_url=URL, api_key="sk-test")


class Capital(BaseModel):
    city: str
    inhabitants: int


LOCATE = {
    "type": "function",
    "function": {
        "name": "locate",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def asked(question):
    return {"model": MODEL, "messages": [{"role": "user", "content": question}]}


def told(question):
    return {"model": MODEL, "input": question}


def called(reply):
    return reply.choices[0].message.tool_calls[0].function.arguments


def text(question):
    return client.chat.completions.create(**asked(question)).choices[0].message.content


def tools(question):
    return called(client.chat.completions.create(**asked(question), tools=[LOCATE]))


def structured(question):
    reply = client.chat.completions.parse(**asked(question), response_format=Capital)
    return reply.choices[0].message.parsed.model_dump()


def vectors(question):
    reply = client.embeddings.create(model="text-embedding-3-small", input=[question, "Bye"])
    return [one.embedding for one in reply.data]


def responses(question):
    return client.responses.create(**told(question)).output_text


async def atext(question):
    return (await aclient.chat.completions.create(**asked(question))).choices[0].message.content


async def atools(question):
    return called(await aclient.chat.completions.create(**asked(question), tools=[LOCATE]))


async def astructured(question):
    reply = await aclient.chat.completions.parse(**asked(question), response_format=Capital)
    return reply.choices[0].message.parsed.model_dump()


async def avectors(question):
    reply = await aclient.embeddings.create(model="text-embedding-3-small", input=[question])
    return [one.embedding for one in reply.data]


async def aresponses(question):
    return (await aclient.responses.create(**told(question))).output_text


def stream_text(question):
    chunks = client.chat.completions.create(**asked(question), stream=True)
    return [one.choices[0].delta.content for one in chunks if one.choices]


def stream_tools(question):
    with client.chat.completions.stream(**asked(question), tools=[LOCATE]) as stream:
        for _ in stream:
            pass
        return called(stream.get_final_completion())


def stream_structured(question):
    with client.chat.completions.stream(**asked(question), response_format=Capital) as stream:
        return stream.get_final_completion().choices[0].message.parsed.model_dump()


def stream_responses(question):
    with client.responses.stream(**told(question)) as stream:
        return [event.type for event in stream], stream.get_final_response().output_text


async def astream_text(question):
    chunks = await aclient.chat.completions.create(**asked(question), stream=True)
    return [one.choices[0].delta.content async for one in chunks if one.choices]


async def astream_tools(question):
    async with aclient.chat.completions.stream(**asked(question), tools=[LOCATE]) as stream:
        return called(await stream.get_final_completion())


async def astream_structured(question):
    options = {**asked(question), "response_format": Capital}
    async with aclient.chat.completions.stream(**options) as stream:
        reply = await stream.get_final_completion()
    return reply.choices[0].message.parsed.model_dump()


async def astream_responses(question):
    async with aclient.responses.stream(**told(question)) as stream:
        return [getattr(event, "delta", event.type) async for event in stream]


WAYS = {
    "sync": {
        "text": text,
        "tools": tools,
        "structured": structured,
        "embeddings": vectors,
        "responses": responses,
    },
    "async": {
        "text": atext,
        "tools": atools,
        "structured": astructured,
        "embeddings": avectors,
        "responses": aresponses,
    },
    "stream": {
        "text": stream_text,
        "tools": stream_tools,
        "structured": stream_structured,
        "responses": stream_responses,
    },
    "async stream": {
        "text": astream_text,
        "tools": astream_tools,
        "structured": astream_structured,
        "responses": astream_responses,
    },
}
