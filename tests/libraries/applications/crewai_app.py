"""crewai: a model by itself, an agent, and a crew."""

import os

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from pydantic import BaseModel

MADE = {"base_url": os.environ["GATEWAY"] + "/v1", "api_key": "sk-test"}
model = LLM(model="openai/gpt-4o-mini", **MADE)
streaming = LLM(model="openai/gpt-4o-mini", stream=True, **MADE)


class Capital(BaseModel):
    city: str
    inhabitants: int


@tool("locate")
def locate(city: str) -> str:
    """Locates a city."""
    return f"{city} is in Peru."


def guide(llm, *tools):
    return Agent(
        role="Guide", goal="Answer.", backstory="Knows cities.", llm=llm, tools=list(tools)
    )


def crew(question):
    agent = guide(model)
    task = Task(description=question, expected_output="One city.", agent=agent)
    return Crew(agents=[agent], tasks=[task])


def text(question):
    return model.call(question)


def structured(question):
    return (
        LLM(model="openai/gpt-4o-mini", response_format=Capital, **MADE).call(question).model_dump()
    )


def agent_text(question):
    return guide(model).kickoff(question).raw


def tools(question):
    return guide(model, locate).kickoff(question).raw


def crew_text(question):
    return crew(question).kickoff().raw


async def atools(question):
    return (await guide(model, locate).kickoff_async(question)).raw


async def atext(question):
    return await model.acall(question)


async def aagent_text(question):
    return (await guide(model).kickoff_async(question)).raw


async def acrew_text(question):
    return (await crew(question).kickoff_async()).raw


def stream_text(question):
    return streaming.call(question)


async def astream_text(question):
    return await streaming.acall(question)


WAYS = {
    "sync": {
        "text": text,
        "structured": structured,
        "agent": agent_text,
        "tools": tools,
        "crew": crew_text,
    },
    "async": {"text": atext, "agent": aagent_text, "tools": atools, "crew": acrew_text},
    "stream": {"text": stream_text},
    "async stream": {"text": astream_text},
}
