"""What a coroutine asks with: the awaitable twins of what stands in ``base``."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, NoReturn, Protocol

from pytest_llmeval.models.base import Messages, Reply


class PendingReply(Coroutine[Any, Any, Reply]):
    """A reply that is to be awaited, and says so where it is used without.

    Args:
        coroutine: gets it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Reply]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Reply]:
        """Await the reply."""
        return self._coroutine.__await__()

    def send(self, value: object) -> Any:
        """Go on, as any coroutine."""
        return self._coroutine.send(value)

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> Any:
        """Raise inside, as any coroutine."""
        if isinstance(typ, BaseException):
            return self._coroutine.throw(typ)
        return self._coroutine.throw(typ, val, tb)

    def close(self) -> None:
        """End, as any coroutine."""
        self._coroutine.close()

    def __getattr__(self, name: str) -> NoReturn:
        """Explain.

        Raises:
            AttributeError: always.
        """
        __tracebackhide__ = True
        if name in ("text", "raw", "model", "usage", "cached"):
            self._coroutine.close()  # else it would be said, too, that it was never awaited
            raise AttributeError(
                f"the reply of async_llm was not awaited, so it has no {name!r} yet: type "
                f"(await async_llm.ask(...)).{name} in an async def, or take the fixture llm"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


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
