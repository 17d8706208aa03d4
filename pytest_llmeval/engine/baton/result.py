"""What became of something that ran elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Result(Generic[T]):
    """Its value, or what it raised: to be had in the thread that waits for it."""

    def __init__(self) -> None:
        self._value: list[T] = []
        self._raised: list[BaseException] = []

    def keep(self, function: Callable[[], T]) -> None:
        """Call a function and keep what becomes of it."""
        __tracebackhide__ = True
        try:
            self._value.append(function())
        except BaseException as exc:  # raised again where it is asked for
            self._raised.append(exc)

    async def keep_awaited(self, awaitable: Awaitable[T]) -> None:
        """Await something and keep what becomes of it."""
        try:
            self._value.append(await awaitable)
        except BaseException as exc:  # likewise
            self._raised.append(exc)

    def get(self) -> T:
        """Return the value, or raise."""
        __tracebackhide__ = True
        if self._raised:
            raise self._raised.pop()
        return self._value[0]
