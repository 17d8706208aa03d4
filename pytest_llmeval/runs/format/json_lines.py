"""One line of JSON: written sparsely, read strictly.

A converter takes what ``json`` made of a value and returns it as the type wanted,
or raises ``Malformed``; ``need`` and ``maybe`` apply one to a field of a line.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import TypeVar

from pytest_llmeval.records import Call, Case, Parameter, Trial

T = TypeVar("T")
D = TypeVar("D")
Converter = Callable[[object], T]
Line = Mapping[str, object]


class Malformed(ValueError):
    """A line, or a file of lines, is not what the format says."""


def dump_line(line: Line) -> bytes:
    """Write a line as ASCII JSON, newline included.

    Raises:
        ValueError: a number in it is not finite.
    """
    text = json.dumps(line, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return f"{text}\n".encode("ascii")


def sparse(record: Case | Trial | Call) -> dict[str, object]:
    """List the fields of a record that differ from their default."""
    line: dict[str, object] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if value is not None and value != default:
            # Equal runs are equal bytes, in whatever order a mapping was filled.
            line[field.name] = dict(sorted(value.items())) if isinstance(value, Mapping) else value
    return line


def parse_line(data: bytes) -> Line:
    """Read one line.

    Raises:
        Malformed: it is no JSON object, or was cut.
    """
    if not data.endswith(b"\n"):
        raise Malformed("cut off")
    try:
        return json_object(json.loads(data.decode(), parse_constant=_refuse_constant))
    except Malformed:
        raise
    except (ValueError, RecursionError) as exc:  # the latter by brackets nested by the thousand
        raise Malformed("not JSON") from exc


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def need(line: Line, name: str, convert: Converter[T]) -> T:
    """Read a field that must be there."""
    if name not in line:
        raise Malformed(f"'{name}' is missing")
    try:
        return convert(line[name])
    except Malformed as exc:
        raise Malformed(f"'{name}' {exc}") from exc


def maybe(line: Line, name: str, convert: Converter[T], default: D) -> T | D:
    """Read a field that is left out where it has its default value."""
    return need(line, name, convert) if name in line else default


def _unlike(value: object, wanted: str) -> Malformed:
    return Malformed(f"is {reprlib.repr(value)}, not {wanted}")


def json_object(value: object) -> Line:
    """A JSON object."""
    if isinstance(value, dict):
        return value
    raise _unlike(value, "a JSON object")


def text(value: object) -> str:
    """Any text."""
    if isinstance(value, str):
        return value
    raise _unlike(value, "a text")


def flag(value: object) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise _unlike(value, "true or false")


def count(value: object) -> int:
    """A whole number from 0 that every reader of JSON keeps exactly."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
        return value
    raise _unlike(value, "a whole number from 0")


def number(value: object) -> float:
    """A finite number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            if math.isfinite(value):  # JSON's 1e999 is read as infinity
                return float(value)
        except OverflowError:
            pass
    raise _unlike(value, "a finite number")


def parameter(value: object) -> Parameter:
    """A text, a finite number, true, false or null."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return number(value)


def nullable(convert: Converter[T]) -> Converter[T | None]:
    """Null, or what ``convert`` reads."""
    return lambda value: None if value is None else convert(value)


def many(convert: Converter[T]) -> Converter[tuple[T, ...]]:
    """A list of what ``convert`` reads."""

    def converted(value: object) -> tuple[T, ...]:
        if isinstance(value, list):
            return tuple(convert(item) for item in value)
        raise _unlike(value, "a list")

    return converted


def table(convert: Converter[T]) -> Converter[dict[str, T]]:
    """A JSON object whose values are what ``convert`` reads."""
    return lambda value: {name: convert(item) for name, item in json_object(value).items()}


def one_of(words: tuple[T, ...]) -> Converter[T]:
    """One of these words."""

    def chosen(value: object) -> T:
        for word in words:
            if word == value:
                return word
        raise _unlike(value, " or ".join(str(word) for word in words))

    return chosen


def like(pattern: str, wanted: str) -> Converter[str]:
    """A text that matches the whole pattern."""
    compiled = re.compile(pattern)

    def matched(value: object) -> str:
        if isinstance(value, str) and compiled.fullmatch(value):
            return value
        raise _unlike(value, wanted)

    return matched
