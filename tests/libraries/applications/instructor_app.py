"""instructor over openai: structured output by tools and by a schema, whole and in parts."""

import os

import instructor
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

MADE = {"base_url": os.environ["GATEWAY"] + "/v1", "api_key": "sk-test"}
by_tools = instructor.from_openai(OpenAI(**MADE))
by_schema = instructor.from_openai(OpenAI(**MADE), mode=instructor.Mode.JSON_SCHEMA)
aby_tools = instructor.from_openai(AsyncOpenAI(**MADE))
aby_schema = instructor.from_openai(AsyncOpenAI(**MADE), mode=instructor.Mode.JSON_SCHEMA)


class Capital(BaseModel):
    city: str
    inhabitants: int


def asked(question):
    messages = [{"role": "user", "content": question}]
    return {"model": "gpt-4o-mini", "messages": messages, "response_model": Capital}


def tools(question):
    return by_tools.chat.completions.create(**asked(question)).model_dump()


def structured(question):
    return by_schema.chat.completions.create(**asked(question)).model_dump()


async def atools(question):
    return (await aby_tools.chat.completions.create(**asked(question))).model_dump()


async def astructured(question):
    return (await aby_schema.chat.completions.create(**asked(question))).model_dump()


def stream_tools(question):
    parts = by_tools.chat.completions.create_partial(**asked(question))
    return [part.model_dump() for part in parts]


async def astream_tools(question):
    parts = aby_tools.chat.completions.create_partial(**asked(question))
    return [part.model_dump() async for part in parts]


WAYS = {
    "sync": {"tools": tools, "structured": structured},
    "async": {"tools": atools, "structured": astructured},
    "stream": {"tools": stream_tools},
    "async stream": {"tools": astream_tools},
}
