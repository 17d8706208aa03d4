"""JSON as its standard has it: no NaN, no Infinity, and one error for all that is wrong."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def parse(text: bytes) -> Any:
    """Parse the bytes of one JSON value.

    Raises:
        ValueError: they are no JSON, or nested beyond what can be read.
    """
    try:
        return _DECODER.decode(text.decode())
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse)  # to make one takes as long as a header
