"""The most tokens that a request can take, told from what is sent alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

# Tokens that a vendor adds unseen: the frame of each message, instructions on how to use
# tools (Anthropic tells of up to some 700).
ADDED_TOKENS = 1024

LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
COPIES = ("n", "best_of")

# What stands for more than its own text: a picture, a file, a conversation kept by the vendor.
POINTERS = frozenset(
    {
        "conversation", "document", "file", "file_data", "file_id", "image", "image_url", "images",
        "input_audio", "previous_response_id", "source",
    }
)  # fmt: skip
OWN_TOOLS = (None, "custom", "function")


def most_input_tokens(body: Mapping[str, Any], *, window: int | None) -> int | None:
    """Tell the most tokens that a request can have read.

    A token is at least one byte, so text cannot have more tokens than bytes.

    Args:
        body: what is sent.
        window: the most tokens that the model can read and write, None if not known.

    Returns:
        For what points to more than its text the window, None if that is not known.
    """
    if _points_elsewhere(body):
        return window
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass")) + ADDED_TOKENS


def most_output_tokens(body: Mapping[str, Any], *, window: int | None) -> int | None:
    """Tell the most tokens that a request can have written.

    Returns:
        What the request names as its limit; without one the window, None if that is not known.
    """
    options = body.get("options")
    ollama = options.get("num_predict") if isinstance(options, Mapping) else None
    named = _counts(*map(body.get, LIMITS), ollama)
    limit = max(named) if named else window
    copies = max(1, *_counts(*map(body.get, COPIES)), 1)
    return None if limit is None else limit * copies


def _counts(*values: object) -> list[int]:
    return [value for value in values if isinstance(value, int) and value > 0]


def _points_elsewhere(body: Mapping[str, Any]) -> bool:
    tools = body.get("tools")
    hosted = isinstance(tools, list) and any(
        not isinstance(tool, Mapping) or tool.get("type") not in OWN_TOOLS for tool in tools
    )
    return hosted or isinstance(body.get("prompt"), Mapping) or not POINTERS.isdisjoint(_keys(body))


def _keys(value: object) -> Iterator[str]:
    """List the names of all fields that hold something, however deep."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if item is not None:
                yield name
                yield from _keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys(item)
