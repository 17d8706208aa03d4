"""Reference values: what was given, what is expected, how closely, and who says so."""

from __future__ import annotations

import json
from collections import UserDict
from functools import cache
from pathlib import Path
from typing import Any

from pytest_llmeval.stats.sample import Tails

ORACLE = Path(__file__).parent / "oracle.json"


@cache
def vectors() -> dict[str, dict[str, Any]]:
    """All entries by name."""
    entries: dict[str, dict[str, Any]] = json.loads(ORACLE.read_text())
    return entries


def vector(name: str) -> dict[str, Any]:
    """One entry: ``given``, ``expected``, ``tolerance`` and ``source``."""
    return vectors()[name]


def two_sided(tails: Tails) -> float:
    """The p-value of either direction: twice the smaller tail, at most 1."""
    return min(1.0, 2 * min(tails.worse, tails.better))


class Figures(UserDict[str, Any]):
    """What is expected; keeps what nobody asked for yet."""

    def __init__(self, figures: dict[str, Any]) -> None:
        super().__init__(figures)
        self.unread = set(figures)

    def __getitem__(self, name: str) -> Any:
        self.unread.discard(name)
        return super().__getitem__(name)
