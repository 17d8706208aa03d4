"""pydantic-ai: agents over openai, anthropic and gemini."""

import os

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider

URL = os.environ["GATEWAY"]
gpt = OpenAIChatModel(
    "gpt-4o-mini", provider=OpenAIProvider(base_url=f"{URL}/v1", api_key="sk-test")
)
claude = AnthropicModel(
    "claude-haiku-4-5", provider=AnthropicProvider(base_url=URL, api_key="sk-ant-test")
)
gemini = GoogleModel("gemini-2.5-flash", provider=GoogleProvider(base_url=URL, api_key="AIza-test"))


class Capital(BaseModel):
    city: str
    inhabitants: int


# Else pieces are put together by the clock.
EACH_PIECE = {"delta": True, "debounce_by": None}

texts = {"openai": Agent(gpt), "anthropic": Agent(claude), "gemini": Agent(gemini)}
located = Agent(gpt, output_type=str)
capital = Agent(gpt, output_type=Capital)


@located.tool_plain
def locate(city: str) -> str:
    """Locates a city."""
    return f"{city} is in Peru."


def of(agent):
    def text(question):
        return agent.run_sync(question).output

    async def atext(question):
        return (await agent.run(question)).output

    async def astream_text(question):
        async with agent.run_stream(question) as result:
            return [piece async for piece in result.stream_text(**EACH_PIECE)]

    def stream_text(question):
        with agent.run_stream_sync(question) as result:
            return list(result.stream_text(**EACH_PIECE))

    return text, atext, stream_text, astream_text


VENDORS = {name: of(agent) for name, agent in texts.items()}


def heard(result):
    """Return all that the agent and the model said to each other."""
    parts = [part for message in result.new_messages() for part in message.parts]
    said = [str(getattr(part, "args", None) or part.content) for part in parts]
    return [said, result.output]


def tools(question):
    return heard(located.run_sync(question))


def structured(question):
    return capital.run_sync(question).output.model_dump()


async def atools(question):
    return heard(await located.run(question))


async def astructured(question):
    return (await capital.run(question)).output.model_dump()


async def astream_structured(question):
    async with capital.run_stream(question) as result:
        return [part.model_dump() async for part in result.stream_output(debounce_by=None)]


WAYS = {
    "sync": {
        **{name: ways[0] for name, ways in VENDORS.items()},
        "tools": tools,
        "structured": structured,
    },
    "async": {
        **{name: ways[1] for name, ways in VENDORS.items()},
        "tools": atools,
        "structured": astructured,
    },
    "stream": {name: ways[2] for name, ways in VENDORS.items()},
    "async stream": {
        **{name: ways[3] for name, ways in VENDORS.items()},
        "structured": astream_structured,
    },
}
