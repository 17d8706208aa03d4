"""Dates, times and ids in requests, by which each build asks something new."""

from __future__ import annotations

import re

from pytest_llmeval.transcripts.messages import Asked

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_NUMBERS = r"\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
_DATE = rf"{_NUMBERS}|{_MONTH} \d{{1,2}}\b|\d{{1,2}} {_MONTH}"
# as many digits as seconds since 1970, hexadecimal digits, or a long name with a digit
_ID = r"\d{9,}(?:\.\d+)?|(?=[a-f-]*\d)[0-9a-f-]{8,}|(?=[a-z_]*\d)\w{16,}"
_VARYING = re.compile(rf"\b(?:(?:{_DATE})(?:T{_CLOCK})?Z?|{_CLOCK}|{_DAY}|{_ID})\b", re.IGNORECASE)


def differ_in_varying(one: Asked, other: Asked) -> bool:
    """Tell whether two requests differ, and in nothing but dates, times and ids.

    An edited prompt or another model is a further difference.
    """
    return one != other and _without(one) == _without(other)


def _without(asked: Asked) -> tuple[list[tuple[str, str]], dict[str, str]]:
    messages = [(message.label, _VARYING.sub("", message.text)) for message in asked.messages]
    # the name of a model has a date in it
    settings = {
        name: value if name == "model" else _VARYING.sub("", value)
        for name, value in asked.settings.items()
    }
    return messages, settings
