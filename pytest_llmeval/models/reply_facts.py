"""Facts that a reply tells of its call, taken only if they can be true.

A server may say anything, and a stored reply may have been planted. A value that makes no
sense counts as not said: a run file, a price or a report could not hold it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LARGEST_NUMBER = 2**53 - 1  # beyond it readers of JSON round
LONGEST_NAME = 500  # characters of a model or a fingerprint
NAMES = ("model", "fingerprint")
NUMBERS: Mapping[str, tuple[type, ...]] = {
    "input_tokens": (int,),
    "output_tokens": (int,),
    "seconds": (int, float),
}


def sensible(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the facts that make sense: names, counts of tokens, and seconds.

    Args:
        facts: by name, as the reply has them.
    """
    kept: dict[str, Any] = {}
    for name in NAMES:
        text = facts.get(name)
        if isinstance(text, str) and len(text) <= LONGEST_NAME:
            kept[name] = text
    for name, kinds in NUMBERS.items():
        number: Any = facts.get(name)
        if type(number) in kinds and 0 <= number <= LARGEST_NUMBER:  # True is no number
            kept[name] = number
    return kept
