"""An attribute of which there is one."""

from __future__ import annotations

from typing import Any

from pytest_llmeval.engine.isolation.part import Part


class OneAttribute(Part[Any]):
    """Swap it; it is None where a test deleted it.

    Args:
        owner: has it.
        name: of it.
    """

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = owner
        self._name = name

    def take_off(self) -> Any:
        """Return what is there."""
        return getattr(self._owner, self._name, None)

    def put_on(self, saved: Any) -> None:
        """Put it back."""
        setattr(self._owner, self._name, saved)
