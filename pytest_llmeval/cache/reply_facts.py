"""Facts of a reply about its call: who answered, and what it took.

A vendor's module finds them in the reply when it is paid for. Those that make sense are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pytest_llmeval.records import Parameter, Usage

LARGEST_NUMBER = 2**53 - 1  # beyond it readers of JSON round
LONGEST_NAME = 500  # characters of a model, a fingerprint or a tier
_NAMES = ("model", "fingerprint", "tier")
_NUMBERS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("input_tokens", "output_tokens", "cached_input_tokens"), (int,)),
    **dict.fromkeys(("first_chunk_seconds", "seconds"), (int, float)),
}
_USAGE = tuple(field.name for field in fields(Usage))
USUAL_TIERS = (None, "auto", "default", "on_demand", "standard")

Told = Mapping[str, Any]  # by name, as a reply has them
Facts = Mapping[str, Parameter]  # by name, those that make sense


def sensible(facts: Told) -> dict[str, Any]:
    """Keep the facts that make sense: names, counts of tokens, and seconds.

    Args:
        facts: by name, as the reply has them.
    """
    kept: dict[str, Any] = {}
    for name in _NAMES:
        text = facts.get(name)
        if isinstance(text, str) and len(text) <= LONGEST_NAME:
            kept[name] = text
    for name, kinds in _NUMBERS.items():
        number: Any = facts.get(name)
        if type(number) in kinds and 0 <= number <= LARGEST_NUMBER:  # True is no number
            kept[name] = number
    if kept.get("tier") in USUAL_TIERS:
        kept.pop("tier", None)
    return kept


def usage_of(facts: Facts) -> Usage:
    """Pick from sensible facts what the reply took."""
    told: Any = facts.get
    return Usage(**dict(zip(_USAGE, map(told, _USAGE), strict=True)))
