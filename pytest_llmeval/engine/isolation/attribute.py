"""Swap attributes of modules and objects: each trial has its own value."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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


class FilledLater(Part[Sequence[Any]]):
    """Swap what modules keep once somebody has needed it first, or has set it by hand."""

    NAMES = (
        ("asyncio.events", "_event_loop_policy"),
        ("tempfile", "tempdir"),
        ("urllib.request", "_opener"),
    )

    def take_off(self) -> Sequence[Any]:
        """Return what is there, None where nobody has needed it yet."""
        return [getattr(sys.modules.get(module), name, None) for module, name in self.NAMES]

    def put_on(self, saved: Sequence[Any]) -> None:
        """Put it back."""
        for (module, name), value in zip(self.NAMES, saved, strict=True):
            if (found := sys.modules.get(module)) is not None:
                setattr(found, name, value)

    def is_as(self, saved: Sequence[Any]) -> bool:
        """Whether the trial has changed nothing that was filled."""
        now = self.take_off()
        return now == saved or all(was in (None, one) for was, one in zip(saved, now, strict=True))
