"""A vendor that does not exist: all of it but its line in the registry."""

from __future__ import annotations

from typing import Any

from pytest_llmeval.models.calls import sensible
from pytest_llmeval.models.http.masking import key_of_environment
from pytest_llmeval.models.providers.vendor import Vendor, from_environment
from pytest_llmeval.vendors import VendorLine

# Its SDK is a plain HTTP client.
LINE = VendorLine("tests.models.toy_vendor", "httpx", "Client", "AsyncClient", is_free=True)

VENDOR = Vendor(
    provider="toy",
    paths=("/toy/completions",),  # they end as those of another vendor do
    key_variable="TOY_KEY",
    read_facts=lambda reply: sensible({"model": reply.get("model")}),
    answers={"/toy/completions": lambda reply: bool(reply.get("content"))},
    requirement="toy>=1",
    base_url=from_environment("TOY_URL", "https://api.toy.example"),
    chat_path="/toy/completions",
    headers=lambda: {"authorization": key_of_environment("TOY_KEY")},
    body=lambda model, messages, params: {"model": model, "asked": messages, **params},
    text=lambda reply: reply["content"],
    rebuild=dict[str, Any],
    client_options=lambda transport: {"transport": transport},
    hosts=(".toy.example",),
)
