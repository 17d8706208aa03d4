"""Write docs/report-schema.json, the JSON schema of a report, from the types of its records."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pytest_llmeval.reports.json_report import indented
from pytest_llmeval.reports.report import INLINE, LEFT_OUT, SCHEMA_VERSION, Report

HERE = Path(__file__).with_name("report-schema.json")
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

Schema = dict[str, Any]
Bound = Mapping[Any, Any]  # what a variable of a type stands for


def main() -> None:
    """Write the file."""
    HERE.write_text(f"{indented(schema())}\n", encoding="utf-8")


def schema() -> Schema:
    """Return the schema of a report; each record is one of its definitions."""
    definitions: dict[str, Schema] = {}
    report = _record(Report, {}, definitions)
    report["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"Report of pytest-llm-baseline, version {SCHEMA_VERSION}",
        "description": "docs/report-format.md tells every key. Keys may be added under the same "
        "schema_version.",
        **report,
        "definitions": dict(sorted(definitions.items())),
    }


def _record(kind: Any, bound: Bound, definitions: dict[str, Schema]) -> Schema:
    """Describe a record, with the fields of those that have no key of their own in it."""
    properties = dict(_fields(kind, bound, definitions))
    required = [name for name in properties if name not in LEFT_OUT]
    return {"type": "object", "required": required, "properties": properties}


def _fields(
    kind: Any, bound: Bound, definitions: dict[str, Schema], taken: frozenset[str] = frozenset()
) -> Iterator[tuple[str, Schema]]:
    hints = get_type_hints(kind)
    names = [one.name for one in fields(kind)] if is_dataclass(kind) else list(kind._fields)
    for name in names:
        of = bound.get(hints[name], hints[name])
        if name in INLINE:
            yield from _fields(of, bound, definitions, taken.union(names))
        elif name not in taken:
            yield name, _value(of, bound, definitions)


def _value(kind: Any, bound: Bound, definitions: dict[str, Schema]) -> Schema:
    """Describe a value of a type."""
    origin, arguments = get_origin(kind), get_args(kind)
    found: Schema
    if origin in (Union, types.UnionType):
        found = _any_of([_value(one, bound, definitions) for one in arguments])
    elif origin is Literal:
        found = {"enum": list(arguments)}
    elif origin is tuple:
        found = {"type": "array", "items": _value(arguments[0], bound, definitions)}
        if arguments[-1] is not Ellipsis:
            found |= {"minItems": len(arguments), "maxItems": len(arguments)}
    elif origin is not None and issubclass(origin, Mapping):
        values = _value(arguments[1], bound, definitions)
        found = {"type": "object", "additionalProperties": values}
    elif kind in PLAIN:
        found = {"type": PLAIN[kind]}
    elif isinstance(kind, type) and issubclass(kind, Enum):
        found = {"enum": [one.value for one in kind]}
    else:
        found = _reference(kind, definitions)
    return found


def _reference(kind: Any, definitions: dict[str, Schema]) -> Schema:
    """Refer to the definition of a record, which is written at its first mention."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    name = origin.__name__ + "".join(one.__name__ for one in arguments)
    if name not in definitions:
        definitions[name] = {}  # a record may hold its like
        variables = getattr(origin, "__parameters__", ())
        bound = dict(zip(variables, arguments, strict=True)) if arguments else {}
        definitions[name] = _record(origin, bound, definitions)
    return {"$ref": f"#/definitions/{name}"}


def _any_of(schemas: list[Schema]) -> Schema:
    """Join schemas; of plain types and words, which need no list of schemas, there is one."""
    flat = [inner for one in schemas for inner in one.get("anyOf", [one])]
    words = [word for one in flat if "enum" in one for word in one["enum"]]
    kinds = sorted(
        (one["type"] for one in flat if list(one) == ["type"]), key=lambda kind: kind == "null"
    )
    others = [one for one in flat if "enum" not in one and list(one) != ["type"]]
    joined = [{"enum": words}] if words else []
    joined += others
    joined += [{"type": kinds[0] if len(kinds) == 1 else kinds}] if kinds else []
    return joined[0] if len(joined) == 1 else {"anyOf": joined}


if __name__ == "__main__":
    main()
