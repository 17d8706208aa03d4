"""A report made safe for terminals, logs and other plugins.

What a test raised and printed mostly holds a reply of a model.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from pytest_llmeval.models.http.masking import keys_of_environment, masked_text
from pytest_llmeval.safe_text import printable_lines

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # pytest's own records of logging have some, too


def safe_failure(longrepr: Any) -> Any:
    """Make pytest's rendering of a failure safe: keys are masked, and commands are spelled out.

    Args:
        longrepr: of a report; changed in place.

    Returns:
        The same, or its text where a version of pytest allows no change.
    """
    if longrepr is None:
        return None
    keys = keys_of_environment()
    try:
        return _spelled_out(longrepr, keys)
    except (AttributeError, TypeError):
        return _safe(str(longrepr), keys)


def safe_output(sections: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Do the same with what was printed and logged; it loses its colours."""
    keys = keys_of_environment() if sections else ()
    return [(title, _safe(_COLOUR.sub("", text), keys)) for title, text in sections]


def _safe(text: str, keys: Sequence[str]) -> str:
    return "\n".join(printable_lines(masked_text(text, keys)))


def _spelled_out(value: Any, keys: Sequence[str]) -> Any:
    """Make all texts of a value safe; pytest's renderings are dataclasses and lists of them."""
    if isinstance(value, str):
        return _safe(value, keys)
    if type(value) in (list, tuple):
        return type(value)(_spelled_out(each, keys) for each in value)
    if is_dataclass(value) and type(value).__module__.startswith("_pytest."):
        for each in fields(value):
            setattr(value, each.name, _spelled_out(getattr(value, each.name), keys))
    return value
