"""An attribute of which there is one, such as ``sys.stdout``."""

from __future__ import annotations

from typing import Any

from pytest_llmeval.engine.isolation.part import Part


class OneAttribute(Part[Any]):
    """Swap it; it is None where a test deleted it.

    Args:
        owner: has it.
        name: of it.
        is_seen: other threads look at it.
    """

    def __init__(self, owner: Any, name: str, *, is_seen: bool = False) -> None:
        self._owner = owner
        self._name = name
        self._is_seen = is_seen

    def take_off(self) -> Any:
        """Return what is there."""
        return getattr(self._owner, self._name, None)

    def put_on(self, saved: Any) -> None:
        """Put it back."""
        setattr(self._owner, self._name, saved)

    def is_as(self, saved: Any) -> bool:
        """Whether it is the very same, if anybody looks."""
        return not self._is_seen or self.take_off() is saved
