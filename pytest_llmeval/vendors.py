"""The registry of vendors, a line each: all that is known of one before its module is imported.

To add a vendor, write a module that makes its ``VENDOR`` (see ``models/providers/vendor.py``) and
add its line. Fixtures, names of models, recognition, prices and the header of a run follow.
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


_PROVIDERS = "pytest_llmeval.models.providers"
VENDORS = {
    "openai": VendorLine(f"{_PROVIDERS}.openai", "openai", "OpenAI", "AsyncOpenAI"),
    "anthropic": VendorLine(f"{_PROVIDERS}.anthropic", "anthropic", "Anthropic", "AsyncAnthropic"),
    "ollama": VendorLine(f"{_PROVIDERS}.ollama", "ollama", "Client", "AsyncClient", is_free=True),
    "gemini": VendorLine(f"{_PROVIDERS}.gemini"),
}
