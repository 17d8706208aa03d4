"""cohere: chats and embeddings of the second version."""

import os

import cohere

MADE = {"api_key": "test", "base_url": os.environ["GATEWAY"]}
client = cohere.ClientV2(**MADE)
aclient = cohere.AsyncClientV2(**MADE)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOCATE = {"type": "function", "function": {"name": "locate", "parameters": PARAMETERS}}
FORM = {"type": "json_object", "json_schema": PARAMETERS}


def asked(question):
    return {"model": "command-r", "messages": [{"role": "user", "content": question}]}


def embedded(question):
    wanted = {"input_type": "search_query", "embedding_types": ["float"]}
    return {"model": "embed-v4.0", "texts": [question, "Bye"], **wanted}


def content(reply):
    return reply.message.content[0].text


def arguments(reply):
    return reply.message.tool_calls[0].function.arguments


def pieces(event):
    return event.delta.message.content.text if event.type == "content-delta" else event.type


def text(question):
    return content(client.chat(**asked(question)))


def tools(question):
    return arguments(client.chat(**asked(question), tools=[LOCATE]))


def structured(question):
    return content(client.chat(**asked(question), response_format=FORM))


def vectors(question):
    return client.embed(**embedded(question)).embeddings.float_


async def atext(question):
    return content(await aclient.chat(**asked(question)))


async def atools(question):
    return arguments(await aclient.chat(**asked(question), tools=[LOCATE]))


async def astructured(question):
    return content(await aclient.chat(**asked(question), response_format=FORM))


async def avectors(question):
    return (await aclient.embed(**embedded(question))).embeddings.float_


def stream_text(question):
    return [pieces(event) for event in client.chat_stream(**asked(question))]


async def astream_text(question):
    return [pieces(event) async for event in aclient.chat_stream(**asked(question))]


def piece_of_call(event):
    is_piece = event.type == "tool-call-delta"
    return event.delta.message.tool_calls.function.arguments if is_piece else event.type


def stream_tools(question):
    return [piece_of_call(one) for one in client.chat_stream(**asked(question), tools=[LOCATE])]


async def astream_tools(question):
    events = aclient.chat_stream(**asked(question), tools=[LOCATE])
    return [piece_of_call(event) async for event in events]


WAYS = {
    "sync": {"text": text, "tools": tools, "structured": structured, "embeddings": vectors},
    "async": {"text": atext, "tools": atools, "structured": astructured, "embeddings": avectors},
    "stream": {"tools": stream_tools, "text": stream_text},
    "async stream": {"tools": astream_tools, "text": astream_text},
}
