"""The cells of a score table: what was written there, as what it means.

A value is a cell's text, None where it is empty, or what JSON made of it. ``ValueError``
tells what is wrong with one.
"""

from __future__ import annotations

import json
import math

from pytest_llmeval.records import PASS_METRIC

LARGEST_REPEAT = 2**53
LARGEST_SCORE = 1e100  # squares of larger ones overflow
PASSES = (0.0, 1.0)
LONGEST = 60


def read_case(value: object) -> str:
    """Read the id of a case: a text or a whole number."""
    if (isinstance(value, str) and value) or type(value) is int:
        return str(value)
    raise ValueError(f"case_id is {_shown(value)}, not a name")


def read_repeat(value: object) -> int:
    """Read the number of a trial."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    if type(value) is int and 0 <= value < LARGEST_REPEAT:
        return value
    raise ValueError(f"repeat is {_shown(value)}, not a whole number from 0")


def read_metric(value: object) -> str:
    """Read the name of a metric."""
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"metric is {_shown(value)}, not a name")


def read_score(value: object, *, metric: str | None) -> float | None:
    """Read a score, None for that of an errored trial.

    Args:
        value: a finite number, or nothing.
        metric: its metric; a pass is 0 or 1.
    """
    if value is None:
        return None
    number = _number(value)
    if not math.isfinite(number):
        remedy = "leave it empty for a failed call"
        if str(value).lower() in ("true", "false"):
            remedy = "write 1 or 0"
        raise ValueError(f"score is {_shown(value)}, not a finite number; {remedy}")
    if abs(number) > LARGEST_SCORE:
        raise ValueError(f"score is {_shown(value)}, beyond {LARGEST_SCORE:g}")
    if metric == PASS_METRIC and number not in PASSES:
        raise ValueError(f"score is {_shown(value)}, but the metric 'pass' is 0 or 1")
    return number


def read_label(value: object) -> str:
    """Read the name of a cluster or a condition; a number of JSON as it is written."""
    return value if isinstance(value, str) else json.dumps(value)


def _number(value: object) -> float:
    """Read a number of a cell or of JSON; NaN for anything else."""
    try:
        if isinstance(value, str):
            return math.nan if "_" in value else float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    return math.nan


def _shown(value: object) -> str:
    return "empty" if value in (None, "") else repr(value)[:LONGEST]
