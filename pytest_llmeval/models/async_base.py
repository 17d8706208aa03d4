"""What a coroutine asks with: the awaitable twins of what stands in ``base``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pytest_llmeval.models.base import Messages, Reply


class AsyncModel(Protocol):
    """What the fixture ``async_llm`` gives a test: ``Model``, to be awaited."""

    async def ask(
        self, prompt: str, *, system: str | None = None, model: str | None = None, **params: object
    ) -> Reply:
        """Ask one question."""
        ...

    async def chat(
        self, messages: Messages, *, model: str | None = None, **params: object
    ) -> Reply:
        """Continue a conversation of ``{"role": ..., "content": ...}`` messages."""
        ...


class AsyncProvider(Protocol):
    """One vendor behind ``AsyncModel``."""

    async def chat(self, model: str, messages: Messages, *, params: Mapping[str, object]) -> Reply:
        """Ask the model of this name (without the provider) and await the reply."""
        ...
