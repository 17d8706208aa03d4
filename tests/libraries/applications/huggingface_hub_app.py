"""huggingface_hub: its inference clients."""

import os

from huggingface_hub import AsyncInferenceClient, InferenceClient

URL = os.environ["GATEWAY"]
MADE = {"base_url": f"{URL}/v1", "api_key": "hf-test"}
client = InferenceClient(**MADE)
aclient = AsyncInferenceClient(**MADE)
# An endpoint of one's own, which serves one model.
FEATURES = f"{URL}/pipeline/feature-extraction"
features = InferenceClient(model=FEATURES, api_key="hf-test")
afeatures = AsyncInferenceClient(model=FEATURES, api_key="hf-test")
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOCATE = {"type": "function", "function": {"name": "locate", "parameters": PARAMETERS}}
FORM = {"type": "json_schema", "json_schema": {"name": "capital", "schema": PARAMETERS}}


def asked(question):
    return {"model": "qwen", "messages": [{"role": "user", "content": question}]}


def content(reply):
    return reply.choices[0].message.content


def arguments(reply):
    return reply.choices[0].message.tool_calls[0].function.arguments


def text(question):
    return content(client.chat_completion(**asked(question)))


def tools(question):
    return arguments(client.chat_completion(**asked(question), tools=[LOCATE]))


def structured(question):
    return content(client.chat_completion(**asked(question), response_format=FORM))


def vectors(question):
    return features.feature_extraction(question).tolist()


async def atext(question):
    return content(await aclient.chat_completion(**asked(question)))


async def atools(question):
    return arguments(await aclient.chat_completion(**asked(question), tools=[LOCATE]))


async def astructured(question):
    return content(await aclient.chat_completion(**asked(question), response_format=FORM))


async def avectors(question):
    return (await afeatures.feature_extraction(question)).tolist()


def stream_text(question):
    chunks = client.chat_completion(**asked(question), stream=True)
    return [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]


async def astream_text(question):
    chunks = await aclient.chat_completion(**asked(question), stream=True)
    return [chunk.choices[0].delta.content async for chunk in chunks if chunk.choices]


def pieces(chunk):
    calls = chunk.choices[0].delta.tool_calls or [] if chunk.choices else []
    return [call.function.arguments for call in calls]


def stream_tools(question):
    chunks = client.chat_completion(**asked(question), tools=[LOCATE], stream=True)
    return [pieces(chunk) for chunk in chunks]


async def astream_tools(question):
    chunks = await aclient.chat_completion(**asked(question), tools=[LOCATE], stream=True)
    return [pieces(chunk) async for chunk in chunks]


WAYS = {
    "sync": {"text": text, "tools": tools, "structured": structured, "embeddings": vectors},
    "async": {"text": atext, "tools": atools, "structured": astructured, "embeddings": avectors},
    "stream": {"tools": stream_tools, "text": stream_text},
    "async stream": {"tools": astream_tools, "text": astream_text},
}
