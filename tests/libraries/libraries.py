"""The libraries of the table in docs/clients.md, an environment each: `make test-libraries`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
APPLICATIONS = Path(__file__).with_name("applications")
ROADS = ("sync", "async", "stream", "async stream")


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library, and the application that uses it.

    Attributes:
        name: as the table has it.
        distribution: whose version is shown; "" for the name.
        uses: how the application's name begins; "" for the distribution.
        reasons: for each road that does not hold, or is not there, why.
        besides: paths of what it asks that is no question to a model, each with why.
        switches: what has to be set for it, each with what that switches off; `NAME=value` is
            set in the environment, the rest the application writes.
    """

    name: str
    distribution: str = ""
    uses: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    besides: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, str] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """The name to ask for its version."""
        return self.distribution or self.name

    @property
    def application(self) -> Path:
        """The module whose WAYS says what is asked on each road, by name."""
        return APPLICATIONS / f"{self.uses or self.package.replace('-', '_')}_app.py"

    @property
    def environment(self) -> str:
        """Its name in the Makefile."""
        return re.sub(r"[^\w-]+", "-", self.name).strip("-")

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return ROOT / f".venv-library-{self.environment}" / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """What of the switches is set in the environment."""
        pairs = (re.fullmatch(r"([A-Z_]+)=(.*)", switch) for switch in self.switches)
        return {pair[1]: pair[2] for pair in pairs if pair}


OWN_LANGUAGE = "its `feature_extraction` speaks a language of its own"
NONE_AWAITS = "it has none"
LITELLM_SWITCH = {"LITELLM_LOCAL_MODEL_COST_MAP=True": "the download of the map of models"}
CACHE_OF_DSPY = {
    "dspy.LM(..., cache=False)": "its own cache, which gives each trial the first reply"
}

LIBRARIES = (
    Library(name="openai 2", distribution="openai"),
    Library(name="openai 3", distribution="openai"),
    Library(name="anthropic"),
    Library(name="ollama"),
    Library(name="google-genai"),
    Library(name="google-genai[aiohttp]", distribution="google-genai"),
    Library(name="instructor"),
    Library(
        name="langchain-openai",
        switches={
            "OpenAIEmbeddings(check_embedding_ctx_length=False)": "a download by tiktoken, which "
            "counts tokens",
        },
    ),
    Library(name="mistralai"),
    Library(name="cohere"),
    Library(
        name="huggingface_hub",
        reasons=dict.fromkeys(("sync", "async"), OWN_LANGUAGE),
        switches={"HF_HUB_DISABLE_TELEMETRY=1": "telemetry, and a question to its hub for it"},
    ),
    Library(
        name="litellm",
        switches=LITELLM_SWITCH,
        besides={"/api/show": "what a model of ollama can do that is not in its map"},
    ),
    Library(
        name="dspy",
        switches={
            'dspy.LM(..., engine="litellm")': "sockets of its own, which are not seen",
            **CACHE_OF_DSPY,
            **LITELLM_SWITCH,
        },
    ),
    Library(
        name="dspy (its own engine)",
        distribution="dspy",
        uses="dspy_own_engine",
        reasons=dict.fromkeys(ROADS, 'it has sockets of its own; write `engine="litellm"`'),
        switches=CACHE_OF_DSPY | LITELLM_SWITCH,
    ),
    Library(name="llama-index"),
    Library(name="pydantic-ai"),
    Library(
        name="openai-agents",
        reasons={"stream": "it has none"},
        switches={"OPENAI_AGENTS_DISABLE_TRACING=1": "traces, which go to OpenAI"},
    ),
    Library(
        name="crewai",
        switches={
            "CREWAI_DISABLE_TELEMETRY=true": "telemetry",
        },
    ),
    Library(name="boto3", reasons=dict.fromkeys(("async", "async stream"), NONE_AWAITS)),
    Library(name="requests", reasons=dict.fromkeys(("async", "async stream"), NONE_AWAITS)),
)
