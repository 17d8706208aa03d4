"""A vendor that does not exist: all of it but its line in the registry.

It is asked ``{"model": ..., "asked": [...]}``, and answers ``{"content": "yes", "took": [7, 2]}``.
A stream tells ``{"more": "ye"}``, ``{"more": "s"}`` and ``{"took": [7, 2]}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_llmeval.cache.reply import Facts, sensible
from pytest_llmeval.models.message import USER
from pytest_llmeval.models.vendors.vendor import Vendor, from_environment
from pytest_llmeval.vendors import VendorLine

# Its SDK is a plain HTTP client.
LINE = VendorLine("tests.models.toy_vendor", "httpx", "Client", "AsyncClient")


def _read_facts(reply: Mapping[str, Any]) -> Facts:
    read, written = reply.get("took", (None, None))
    tokens = {"input_tokens": read, "output_tokens": written}
    return sensible({"model": reply.get("model"), **tokens})


VENDOR = Vendor(
    provider="toy",
    paths=("/toy/completions",),  # they end as those of another vendor do
    key_variable="TOY_KEY",
    read_facts=_read_facts,
    answers={"/toy/completions": lambda reply: bool(reply.get("content"))},
    part_of=lambda chunk: {"content": chunk.get("more", ""), **chunk},
    is_whole=lambda reply: "took" in reply,
    asking={"asked": USER},
    requirement="toy>=1",
    base_url=from_environment("TOY_URL", "https://api.toy.example"),
    chat_path="/toy/completions",
    headers=lambda key: {"authorization": key},
    body=lambda model, messages, params: {"model": model, "asked": messages, **params},
    rebuild="builtins:dict",
    client_options=lambda transport: {"transport": transport},
    hosts=(".toy.example",),
)
