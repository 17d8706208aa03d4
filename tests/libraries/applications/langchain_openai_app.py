"""langchain-openai: chat models and embeddings."""

import os

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

MADE = {"base_url": os.environ["GATEWAY"] + "/v1", "api_key": "sk-test"}
model = ChatOpenAI(model="gpt-4o-mini", **MADE)
by_responses = ChatOpenAI(model="gpt-4o-mini", use_responses_api=True, **MADE)
# Else tiktoken, which counts tokens, downloads its table.
embeddings = OpenAIEmbeddings(check_embedding_ctx_length=False, **MADE)


class Capital(BaseModel):
    """A capital."""

    city: str
    inhabitants: int


@tool
def locate(city: str) -> str:
    """Locates a city."""
    return city


def arguments(reply):
    return reply.tool_calls[0]["args"]


def text(question):
    return model.invoke(question).content


def tools(question):
    return arguments(model.bind_tools([locate]).invoke(question))


def structured(question):
    return model.with_structured_output(Capital).invoke(question).model_dump()


def vectors(question):
    return embeddings.embed_documents([question, "Bye"])


def responses(question):
    return by_responses.invoke(question).content


async def atext(question):
    return (await model.ainvoke(question)).content


async def atools(question):
    return arguments(await model.bind_tools([locate]).ainvoke(question))


async def astructured(question):
    return (await model.with_structured_output(Capital).ainvoke(question)).model_dump()


async def avectors(question):
    return await embeddings.aembed_query(question)


async def aresponses(question):
    return (await by_responses.ainvoke(question)).content


def stream_text(question):
    return [chunk.content for chunk in model.stream(question)]


def stream_tools(question):
    chunks = model.bind_tools([locate]).stream(question)
    return [chunk.tool_call_chunks for chunk in chunks]


async def astream_text(question):
    return [chunk.content async for chunk in model.astream(question)]


async def astream_tools(question):
    chunks = model.bind_tools([locate]).astream(question)
    return [chunk.tool_call_chunks async for chunk in chunks]


def stream_structured(question):
    parts = model.with_structured_output(Capital).stream(question)
    return [part.model_dump() for part in parts]


async def astream_structured(question):
    parts = model.with_structured_output(Capital).astream(question)
    return [part.model_dump() async for part in parts]


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
    "stream": {"structured": stream_structured, "text": stream_text, "tools": stream_tools},
    "async stream": {
        "structured": astream_structured,
        "text": astream_text,
        "tools": astream_tools,
    },
}
