"""openai-agents: agents over chat completions and over responses."""

import os

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
)
from openai import AsyncOpenAI
from pydantic import BaseModel

client = AsyncOpenAI(base_url=os.environ["GATEWAY"] + "/v1", api_key="sk-test")
chat = OpenAIChatCompletionsModel(model="gpt-4o-mini", openai_client=client)
responses = OpenAIResponsesModel(model="gpt-4o-mini", openai_client=client)


class Capital(BaseModel):
    city: str
    inhabitants: int


@function_tool
def locate(city: str) -> str:
    """Locates a city."""
    return f"{city} is in Peru."


AGENTS = {
    "text": Agent(name="Guide", instructions="Be brief.", model=chat),
    "responses": Agent(name="Guide", instructions="Be brief.", model=responses),
    "tools": Agent(name="Guide", instructions="Be brief.", model=chat, tools=[locate]),
    "structured": Agent(name="Guide", model=chat, output_type=Capital),
}


def shown(result):
    """Return all that was said, tools included, and the output."""
    items = [str(item.to_input_item()) for item in result.new_items]
    return [items, str(result.final_output)]


def of(agent):
    def whole(question):
        return shown(Runner.run_sync(agent, question))

    async def awhole(question):
        return shown(await Runner.run(agent, question))

    async def astream(question):
        result = Runner.run_streamed(agent, question)
        kinds = [event.type async for event in result.stream_events()]
        return [kinds, shown(result)]

    return whole, awhole, astream


WAYS = {
    road: {name: of(agent)[place] for name, agent in AGENTS.items()}
    for place, road in enumerate(("sync", "async", "async stream"))
}
