"""The registry of vendors, a line each, for use before a vendor's module is imported.

To add a vendor, write a module that makes its ``VENDOR`` (see ``models/vendors/vendor.py``) and
add its line. Fixtures, names of models, recognition, prices and the header of a run follow. A
service that speaks the dialect of a vendor is a line of ``SERVICES``.
"""

from __future__ import annotations

from typing import NamedTuple


class VendorLine(NamedTuple):
    """One vendor.

    Attributes:
        module: makes the ``VENDOR``.
        sdk: the module of its SDK, and the distribution that brings it; "" where we use none.
        client: the SDK's class of blocking clients; ``async_client`` of awaitable ones.
        is_free: its models run on the user's own machine.
    """

    module: str
    sdk: str = ""
    client: str = ""
    async_client: str = ""
    is_free: bool = False


class ServiceLine(NamedTuple):
    """A service that speaks dialects of vendors.

    Attributes:
        name: the first half of its models' names, as the tables of prices have it; "" if its models
            have the names of the vendor's.
        keys: environment variables from which its clients take a key.
        hosts: of the service; a name that begins with a dot means all hosts below it, ``*`` for a
            part of a name.
    """

    name: str
    keys: tuple[str, ...]
    hosts: tuple[str, ...]


_ROOM = "pytest_llmeval.models.vendors"
VENDORS = {
    "openai": VendorLine(f"{_ROOM}.openai", "openai", "OpenAI", "AsyncOpenAI"),
    "anthropic": VendorLine(f"{_ROOM}.anthropic", "anthropic", "Anthropic", "AsyncAnthropic"),
    "ollama": VendorLine(f"{_ROOM}.ollama", "ollama", "Client", "AsyncClient", is_free=True),
    "gemini": VendorLine(f"{_ROOM}.gemini"),
    "cohere": VendorLine(f"{_ROOM}.cohere"),
    "bedrock": VendorLine(f"{_ROOM}.bedrock"),
}
_ASKING = ("llm", *(f"{name}_client" for name in VENDORS))
# Fixtures of ours that ask a model.
MODEL_FIXTURES = frozenset(f"{way}{name}" for name in _ASKING for way in ("", "async_"))

_AZURES = (".openai.azure.com", ".services.ai.azure.com", ".models.ai.azure.com")
_VERTEXES = (
    "aiplatform.googleapis.com", "*-aiplatform.googleapis.com", "aiplatform.*.rep.googleapis.com"
)  # fmt: skip
SERVICES = (
    # The owner of a deployment names it; Google's models have the vendors' names.
    ServiceLine("", ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"), _AZURES),
    ServiceLine("", ("GOOGLE_APPLICATION_CREDENTIALS",), _VERTEXES),
    ServiceLine("mistral", ("MISTRAL_API_KEY",), (".mistral.ai",)),
    ServiceLine("openrouter", ("OPENROUTER_API_KEY",), ("openrouter.ai", ".openrouter.ai")),
    ServiceLine("groq", ("GROQ_API_KEY",), ("api.groq.com",)),
    ServiceLine("together", ("TOGETHER_API_KEY",), ("api.together.xyz", ".together.ai")),
    ServiceLine(
        "huggingface", ("HF_TOKEN",), ("router.huggingface.co", ".endpoints.huggingface.cloud")
    ),
    ServiceLine("deepseek", ("DEEPSEEK_API_KEY",), ("api.deepseek.com",)),
    ServiceLine("x-ai", ("XAI_API_KEY",), ("api.x.ai",)),
    ServiceLine("fireworks", ("FIREWORKS_API_KEY",), ("api.fireworks.ai",)),
    ServiceLine("perplexity", ("PERPLEXITY_API_KEY",), ("api.perplexity.ai",)),
    ServiceLine("cerebras", ("CEREBRAS_API_KEY",), ("api.cerebras.ai",)),
)
# Hosts that speak other dialects, or for which no variable of a key is known.
OTHER_HOSTS = (
    "api.ai21.com", "api.assemblyai.com", "api.deepgram.com", "api.elevenlabs.io", "api.jina.ai",
    "api.portkey.ai", "api.replicate.com", "api.stability.ai", "api.voyageai.com",
    "bedrock-agent-runtime.*.amazonaws.com", "dashscope.aliyuncs.com", "dashscope-*.aliyuncs.com",
    "fal.run", ".fal.run", "integrate.api.nvidia.com", ".ml.cloud.ibm.com", "models.github.ai",
    "models.inference.ai.azure.com",
)  # fmt: skip
