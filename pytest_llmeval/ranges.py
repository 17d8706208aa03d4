"""Which values the rules of the gate may have, wherever they are typed.

A check takes what was typed and returns it as a number, or raises ``ValueError`` with the
end of a sentence: what the value must be, and an example.
"""

from __future__ import annotations

import math
from typing import cast, get_args

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import GateTest

# those that can hold a margin against a spread
MARGIN_TESTS: tuple[GateTest, ...] = ("paired-t", "log-ratio")


def number(value: object) -> float:
    """Read a finite number."""
    try:
        found = float(str(value))
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError("must be a number, such as 0.05")
    return found


def alpha(value: object) -> float:
    """Read the one-sided level of a test."""
    found = number(value)
    if not 0 < found < 0.5:  # noqa: PLR2004 - a one-sided test needs less than a coin
        raise ValueError("must lie above 0 and below 0.5, such as 0.05")
    return found


def chance(value: object) -> float:
    """Read a probability that is no certainty."""
    found = number(value)
    if not 0 < found < 1:
        raise ValueError("must lie above 0 and below 1, such as 0.80")
    return found


def positive(value: object) -> float:
    """Read a number above 0."""
    found = number(value)
    if found <= 0:
        raise ValueError("must be above 0, such as 0.10")
    return found


def not_negative(value: object) -> float:
    """Read a number from 0."""
    found = number(value)
    if found < 0:
        raise ValueError("must be 0 or more, such as 0.02")
    return found


def share(value: object) -> float:
    """Read a share of a whole."""
    found = number(value)
    if not 0 <= found <= 1:
        raise ValueError("must lie between 0 and 1, such as 0.10")
    return found


def check_margin(margin: float, *, target: float, given: bool, prefix: str) -> None:
    """Refuse a margin that leaves nothing to be ruled out.

    Args:
        margin: the drop that is allowed.
        target: the drop that must be ruled out.
        given: the target was typed and is not the default.
        prefix: what the options begin with, ``--llm-`` or ``--``.

    Raises:
        SettingsError: the margin is not below the target.
    """
    if margin < target:
        return
    default = "" if given else " (the default)"
    raise SettingsError(
        f"{prefix}margin={margin:g} must be smaller than {prefix}target={target:g}{default}: "
        "a drop that is allowed cannot be one that must be ruled out. "
        f"Raise the target, as in {prefix}target={margin * 2:g}."
    )


def gate_test(value: object) -> GateTest:
    """Read the name of a test that is valid for a gate."""
    known = ", ".join(get_args(GateTest))
    if value in ("welch", "cmh", "chi-square", "chi-square-plain", "two-proportion-z"):
        raise ValueError(
            "is not valid for a gate (docs/statistics.md has its false alarms and its power); "
            f"must be one of {known}"
        )
    if value == "exact-within-case":
        raise ValueError(
            "speaks of these very cases only: the gate takes it by itself below 6 changed cases; "
            f"must be one of {known}"
        )
    if value not in get_args(GateTest):
        raise ValueError(f"must be one of {known}")
    return cast("GateTest", value)


def check_test(test: GateTest, *, margin: float, prefix: str) -> None:
    """Refuse a margin beside a test that knows none.

    Args:
        test: the test that was chosen.
        margin: the drop that is allowed.
        prefix: what the options begin with, ``--llm-`` or ``--``.

    Raises:
        SettingsError: the two do not go together.
    """
    if margin > 0 and test not in MARGIN_TESTS:
        raise SettingsError(
            f"{prefix}margin={margin:g} with {prefix}test={test}: it tests for any drop and takes "
            f"no margin. Leave the margin out, or choose {' or '.join(MARGIN_TESTS)}."
        )
