"""Styled lines and columns of text, which the section is made of; the plugin writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def aligned(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Line rows up in columns.

    Args:
        rows: equally long; the first is usually the heading.
        left: how many columns from the left, and the last one, are set flush left;
            those between hold figures and are set flush right.

    Returns:
        One line a row, without trailing blanks.
    """
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if index < left or index == last else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
