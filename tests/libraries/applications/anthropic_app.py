"""anthropic: messages."""

import os

from anthropic import Anthropic, AsyncAnthropic

URL = os.environ["GATEWAY"]
client = Anthropic(base_url=URL, api_key="sk-ant-test")
aclient = AsyncAnthropic(base_url=URL, api_key="sk-ant-test")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LOCATE = {"name": "locate", "description": "Locates a city.", "input_schema": SCHEMA}


def asked(question):
    messages = [{"role": "user", "content": question}]
    return {"model": "claude-haiku-4-5", "max_tokens": 64, "messages": messages}


def forced(question):
    """Structured output: the tool must be called."""
    choice = {"type": "tool", "name": "locate"}
    return {**asked(question), "tools": [LOCATE], "tool_choice": choice, "system": "Be brief."}


def text(question):
    return client.messages.create(**asked(question)).content[0].text


def tools(question):
    return client.messages.create(**asked(question), tools=[LOCATE]).content[0].input


def structured(question):
    return client.messages.create(**forced(question)).content[0].input


async def atext(question):
    return (await aclient.messages.create(**asked(question))).content[0].text


async def atools(question):
    return (await aclient.messages.create(**asked(question), tools=[LOCATE])).content[0].input


async def astructured(question):
    return (await aclient.messages.create(**forced(question))).content[0].input


def stream_text(question):
    with client.messages.stream(**asked(question)) as stream:
        return list(stream.text_stream)


def stream_events(question):
    events = client.messages.create(**asked(question), stream=True)
    return [event.model_dump(mode="json") for event in events]


def stream_tools(question):
    with client.messages.stream(**asked(question), tools=[LOCATE]) as stream:
        return stream.get_final_message().content[0].input


async def astream_text(question):
    async with aclient.messages.stream(**asked(question)) as stream:
        return [piece async for piece in stream.text_stream]


async def astream_tools(question):
    async with aclient.messages.stream(**asked(question), tools=[LOCATE]) as stream:
        return (await stream.get_final_message()).content[0].input


WAYS = {
    "sync": {"text": text, "tools": tools, "structured": structured},
    "async": {"text": atext, "tools": atools, "structured": astructured},
    "stream": {"text": stream_text, "tools": stream_tools, "events": stream_events},
    "async stream": {"text": astream_text, "tools": astream_tools},
}
