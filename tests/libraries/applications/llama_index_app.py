"""llama-index: its OpenAI models and embeddings."""

import os

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai import OpenAIEmbedding
from llama_index.llms.openai import OpenAI, OpenAIResponses
from pydantic import BaseModel

MADE = {"api_base": os.environ["GATEWAY"] + "/v1", "api_key": "sk-test"}
model = OpenAI(model="gpt-4o-mini", **MADE)
by_responses = OpenAIResponses(model="gpt-4o-mini", **MADE)
embedding = OpenAIEmbedding(model="text-embedding-3-small", **MADE)


class Capital(BaseModel):
    """A capital."""

    city: str
    inhabitants: int


def locate(city: str) -> str:
    """Locates a city."""
    return f"{city} is in Peru."


located = FunctionTool.from_defaults(locate)


def asked(question):
    return [ChatMessage(role="user", content=question)]


def text(question):
    return model.complete(question).text


def chat(question):
    return model.chat(asked(question)).message.content


def tools(question):
    return str(model.predict_and_call([located], question))


def structured(question):
    return model.as_structured_llm(Capital).complete(question).raw.model_dump()


def vectors(question):
    return embedding.get_text_embedding_batch([question, "Bye"])


def responses(question):
    return by_responses.chat(asked(question)).message.content


async def atext(question):
    return (await model.acomplete(question)).text


async def achat(question):
    return (await model.achat(asked(question))).message.content


async def atools(question):
    return str(await model.apredict_and_call([located], question))


async def astructured(question):
    return (await model.as_structured_llm(Capital).acomplete(question)).raw.model_dump()


async def avectors(question):
    return await embedding.aget_text_embedding(question)


async def aresponses(question):
    return (await by_responses.achat(asked(question))).message.content


def stream_text(question):
    return [part.delta for part in model.stream_complete(question)]


def stream_chat(question):
    return [part.delta for part in model.stream_chat(asked(question))]


async def astream_text(question):
    return [part.delta async for part in await model.astream_complete(question)]


async def astream_chat(question):
    return [part.delta async for part in await model.astream_chat(asked(question))]


def stream_structured(question):
    parts = model.as_structured_llm(Capital).stream_chat(asked(question))
    return [part.raw.model_dump() for part in parts]


async def astream_structured(question):
    parts = await model.as_structured_llm(Capital).astream_chat(asked(question))
    return [part.raw.model_dump() async for part in parts]


WAYS = {
    "sync": {
        "text": text,
        "chat": chat,
        "tools": tools,
        "structured": structured,
        "embeddings": vectors,
        "responses": responses,
    },
    "async": {
        "text": atext,
        "chat": achat,
        "tools": atools,
        "structured": astructured,
        "embeddings": avectors,
        "responses": aresponses,
    },
    "stream": {"structured": stream_structured, "text": stream_text, "chat": stream_chat},
    "async stream": {"structured": astream_structured, "text": astream_text, "chat": astream_chat},
}
