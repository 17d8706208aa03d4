"""google-genai: contents and embeddings of Gemini."""

import os

from google import genai
from google.genai import types
from pydantic import BaseModel

client = genai.Client(api_key="AIza-test", http_options={"base_url": os.environ["GATEWAY"]})
MODEL = "gemini-2.5-flash"


class Capital(BaseModel):
    city: str


def locate(city: str) -> str:
    """Locates a city."""
    return city


def asked(question, **options):
    config = types.GenerateContentConfig(system_instruction="Be brief.", **options)
    return {"model": MODEL, "contents": question, "config": config}


def with_tools(question):
    off = types.AutomaticFunctionCallingConfig(disable=True)
    return asked(question, tools=[locate], automatic_function_calling=off)


def with_schema(question):
    return asked(question, response_mime_type="application/json", response_schema=Capital)


def embedded(question):
    return {"model": "gemini-embedding-001", "contents": [question, "Bye"]}


def text(question):
    return client.models.generate_content(**asked(question)).text


def tools(question):
    (call,) = client.models.generate_content(**with_tools(question)).function_calls
    return call.args


def structured(question):
    return client.models.generate_content(**with_schema(question)).parsed.city


def vectors(question):
    reply = client.models.embed_content(**embedded(question))
    return [one.values for one in reply.embeddings]


async def atext(question):
    return (await client.aio.models.generate_content(**asked(question))).text


async def atools(question):
    (call,) = (await client.aio.models.generate_content(**with_tools(question))).function_calls
    return call.args


async def astructured(question):
    return (await client.aio.models.generate_content(**with_schema(question))).parsed.city


async def avectors(question):
    reply = await client.aio.models.embed_content(**embedded(question))
    return [one.values for one in reply.embeddings]


def stream_text(question):
    return [chunk.text for chunk in client.models.generate_content_stream(**asked(question))]


async def astream_text(question):
    chunks = await client.aio.models.generate_content_stream(**asked(question))
    return [chunk.text async for chunk in chunks]


def stream_tools(question):
    chunks = client.models.generate_content_stream(**with_tools(question))
    return [call.args for chunk in chunks for call in chunk.function_calls or []]


def stream_structured(question):
    chunks = client.models.generate_content_stream(**with_schema(question))
    return [chunk.text for chunk in chunks]


async def astream_tools(question):
    chunks = await client.aio.models.generate_content_stream(**with_tools(question))
    return [call.args async for chunk in chunks for call in chunk.function_calls or []]


async def astream_structured(question):
    chunks = await client.aio.models.generate_content_stream(**with_schema(question))
    return [chunk.text async for chunk in chunks]


WAYS = {
    "sync": {"text": text, "tools": tools, "structured": structured, "embeddings": vectors},
    "async": {"text": atext, "tools": atools, "structured": astructured, "embeddings": avectors},
    "stream": {"tools": stream_tools, "structured": stream_structured, "text": stream_text},
    "async stream": {
        "tools": astream_tools,
        "structured": astream_structured,
        "text": astream_text,
    },
}
