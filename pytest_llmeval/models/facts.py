"""Facts of a reply about its call: who answered, and what it took.

A vendor's module finds the facts in the reply. They are read once, when the reply is paid for, and
kept beside it.
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
    "input_tokens": (int,),
    "output_tokens": (int,),
    "cached_input_tokens": (int,),
    "seconds": (int, float),
}
USUAL_TIERS = (None, "auto", "default", "on_demand", "standard")

Facts = Mapping[str, Parameter]  # by name


def sensible(facts: Mapping[str, Any]) -> dict[str, Any]:
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


def usage_of(facts: Mapping[str, Any]) -> Usage:
    """Pick from sensible facts what the reply took."""
    return Usage(**{field.name: facts.get(field.name) for field in fields(Usage)})
