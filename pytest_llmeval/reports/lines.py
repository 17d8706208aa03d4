"""Styled lines: what the section is made of; the plugin writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RED = {"red": True, "bold": True}
GREEN = {"green": True}
YELLOW = {"yellow": True}
BOLD = {"bold": True}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the section; ``markup`` as pytest's terminal writer takes it."""

    text: str = ""
    markup: Mapping[str, bool] = field(default_factory=dict)
