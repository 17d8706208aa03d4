"""What a test raised and printed, made safe for the terminals, logs and files of all reports.

pytest prints both as they are. Of an eval they mostly hold a reply of a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from pytest_llmeval.safe_text import printable_lines

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # pytest's own records of logging have some, too


def safe_failure(longrepr: Any) -> Any:
    """Spell out in pytest's rendering of a failure what would steer a terminal or a CI service.

    Args:
        longrepr: of a report; changed in place.

    Returns:
        The same, or its text where a version of pytest allows no change.
    """
    try:
        return _spelled_out(longrepr)
    except (AttributeError, TypeError):
        return _safe(str(longrepr))


def safe_output(sections: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Do the same with what was printed and logged; it loses its colours."""
    return [(title, _safe(_COLOUR.sub("", text))) for title, text in sections]


def _safe(text: str) -> str:
    return "\n".join(printable_lines(text))


def _spelled_out(value: Any) -> Any:
    """Spell out all texts of a value; pytest's renderings are dataclasses and lists of them."""
    if isinstance(value, str):
        return _safe(value)
    if type(value) in (list, tuple):
        return type(value)(map(_spelled_out, value))
    if is_dataclass(value) and type(value).__module__.startswith("_pytest."):
        for each in fields(value):
            setattr(value, each.name, _spelled_out(getattr(value, each.name)))
    return value
