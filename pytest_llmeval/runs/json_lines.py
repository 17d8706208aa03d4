"""One line of JSON: written sparsely, read strictly.

A converter takes what ``json`` made of a value and returns it as the type wanted, or raises
``Malformed``. The fields and types of a record say how it is read: ``record`` makes its converter.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pytest_llmeval.cache.key import parse_json
from pytest_llmeval.records import Outcome, Parameter, Setting, Slot

T = TypeVar("T")
Converter = Callable[[object], T]
Line = Mapping[str, object]


_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class Malformed(ValueError):
    """A line, or a file of lines, that does not fit the format."""


def dump_line(line: Line) -> bytes:
    """Write a line as ASCII JSON, newline included.

    Raises:
        ValueError: a number in it is not finite.
    """
    return f"{_ENCODER.encode(line)}\n".encode("ascii")


def sparse(record: object) -> dict[str, object]:
    """List the fields of a dataclass: those without a default, and those that differ from it."""
    line: dict[str, object] = {}
    for name, default, is_mapping in _defaults(cast("Any", type(record))):
        value = getattr(record, name)
        if default is MISSING or (value is not None and value != default):
            # Equal runs are equal bytes, in whatever order a mapping was filled.
            line[name] = dict(sorted(value.items())) if is_mapping else value
    return line


@cache
def _defaults(kind: Any) -> tuple[tuple[str, object, bool], ...]:
    """Return the default of each field, and whether it is a mapping."""
    hints, rows = get_type_hints(kind), []
    for one in fields(kind):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        rows.append((one.name, default, get_origin(hints[one.name]) is Mapping))
    return tuple(rows)


def parse_line(data: bytes) -> Line:
    """Read one line.

    Raises:
        Malformed: it is no JSON object, or was cut.
    """
    if not data.endswith(b"\n"):
        raise Malformed("cut off")
    try:
        parsed = parse_json(data)
    except ValueError as exc:
        raise Malformed("not JSON") from exc
    return as_object(parsed)


def need(line: Line, name: str, convert: Converter[T]) -> T:
    """Read a field that must be there."""
    if name not in line:
        raise Malformed(f"'{name}' is missing")
    try:
        return convert(line[name])
    except Malformed as exc:
        raise Malformed(f"'{name}' {exc}") from exc


def _unlike(value: object, wanted: str) -> Malformed:
    return Malformed(f"is {reprlib.repr(value)}, not {wanted}")


def _instance(kind: type[T], wanted: str) -> Converter[T]:
    def checked(value: object) -> T:
        if isinstance(value, kind):
            return value
        raise _unlike(value, wanted)

    return checked


as_object: Converter[Line] = _instance(dict, "a JSON object")
as_text = _instance(str, "a text")
as_flag = _instance(bool, "true or false")


def as_count(value: object) -> int:
    """A whole number from 0 that every reader of JSON keeps exactly."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
        return value
    raise _unlike(value, "a whole number from 0")


def as_number(value: object) -> float:
    """A finite number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            if math.isfinite(value):  # JSON's 1e999 is read as infinity
                return float(value)
        except OverflowError:
            pass
    raise _unlike(value, "a finite number")


def as_parameter(value: object) -> Parameter:
    """A text, a finite number, true, false or null."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return as_number(value)


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
    return lambda value: {name: convert(item) for name, item in as_object(value).items()}


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


def as_setting(value: object) -> Setting:
    """A parameter, or a list of texts."""
    return many(as_text)(value) if isinstance(value, list) else as_parameter(value)


# int() alone would also read "-1", " 1", "1_0" and the digits of other scripts.
_slot_text = like(r"(?:shared|[0-9]{1,9})/[0-9]{1,9}", "a slot such as 3/0")


def as_slot(value: object) -> Slot:
    """A slot as ``Slot`` writes itself."""
    return Slot.parse(_slot_text(value))


_OF_TYPE: Mapping[Any, Converter[Any]] = {
    str: as_text,
    bool: as_flag,
    int: as_count,
    float: as_number,
    Parameter: as_parameter,
    Setting: as_setting,
    Slot: as_slot,
    Outcome: one_of(tuple(Outcome)),
}


def record(
    kind: type[T], *, names: Mapping[str, str] | None = None, **converters: Converter[Any]
) -> Converter[T]:
    """Make the converter of a record: a field with a default may be missing, all others are needed.

    Args:
        kind: a dataclass.
        names: what fields are called in the file, if not as in the record.
        converters: of the fields whose type does not tell how they are read.
    """
    hints = get_type_hints(kind)
    rows = []
    for field in fields(cast("Any", kind)):
        is_needed = field.default is MISSING and field.default_factory is MISSING
        convert = converters.get(field.name) or _of_type(hints[field.name], may_be_null=is_needed)
        rows.append((field.name, (names or {}).get(field.name, field.name), convert, is_needed))

    def read(value: object) -> T:
        line = as_object(value)
        return kind(
            **{
                attribute: need(line, name, convert)
                for attribute, name, convert, is_needed in rows
                if is_needed or name in line
            }
        )

    return read


def _of_type(hint: Any, *, may_be_null: bool) -> Converter[Any]:
    """Choose the converter of a type; an optional field is left out of a file, and never null."""
    if hint in _OF_TYPE:
        return _OF_TYPE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        convert = _of_type(arguments[0], may_be_null=False)
        return nullable(convert) if may_be_null else convert
    if origin is Literal:
        return one_of(arguments)
    if origin is tuple:
        return many(_of_type(arguments[0], may_be_null=True))
    if origin is Mapping:
        return table(_of_type(arguments[1], may_be_null=True))
    return record(hint)
