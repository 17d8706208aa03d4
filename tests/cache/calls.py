"""A request, and calls that answer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_llmeval.cache.replies import Answer
from pytest_llmeval.records import Slot

KEY = "ab" * 32
SLOT = Slot(0, 0)


def says(text: bytes | str, **answer: Any) -> Callable[[], Answer]:
    """A call that brings this text."""
    body = text.encode() if isinstance(text, str) else text
    return lambda: Answer(body, **answer)


def never() -> Answer:
    raise AssertionError("a call was made")
