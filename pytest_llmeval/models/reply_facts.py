"""What a reply says of its call, taken only if it can be true.

A server may say anything, and what was stored may have been planted. What makes no sense
counts as not said: a run file, a price or a report could not hold it.
"""

from __future__ import annotations

from collections.abc import Mapping

LARGEST_COUNT = 2**53 - 1  # beyond it readers of JSON round
LONGEST_NAME = 500  # characters of a model or a fingerprint
COUNTS = ("input_tokens", "output_tokens")


def sensible(facts: Mapping[str, object]) -> dict[str, str | int]:
    """Keep the names and counts of tokens that a reply tells, where they make sense.

    Args:
        facts: by name, as the reply has them.
    """
    read = {name: count(said) if name in COUNTS else word(said) for name, said in facts.items()}
    return {name: value for name, value in read.items() if value is not None}


def count(value: object) -> int | None:
    """Read a number of tokens; None if it is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= LARGEST_COUNT else None


def word(value: object) -> str | None:
    """Read a name; None if it is none."""
    return value if isinstance(value, str) and len(value) <= LONGEST_NAME else None


def duration(value: object) -> float | None:
    """Read seconds; None if they are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= LARGEST_COUNT else None  # no NaN is, nor infinity
