"""What a request to the gateway wants to have, whichever vendor's format it is worded in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.servers.openai_server import Received

_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked for.

    Attributes:
        number: of this reply; no other has it.
        tool: the one to call; None where a text is wanted.
        filled: an object that fits the schema of the tool, or of the text; None without schema.
    """

    body: Mapping[str, Any]
    number: int
    tool: str | None
    filled: Any

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def json(self) -> str:
        return json.dumps(self.filled)

    @property
    def text(self) -> str:
        return self.json if self.filled is not None else _in_fields(self.body, self.number)

    @property
    def vector(self) -> list[float]:
        return [0.25, -0.5, self.number / 1024]


def asked_of(received: Received, number: int) -> Asked:
    """Read a request."""
    body = received.json
    tools = [] if _has_result(body) else list(_tools(body))
    name, schema = _chosen(tools, body) if tools else (None, _schema(body))
    filled = None if schema is None else _fill(schema, schema, number)
    return Asked(body=body, number=number, tool=name, filled=filled)


def _in_fields(body: Mapping[str, Any], number: int) -> str:
    """Word a free text, in the fields that dspy asks for, if it does."""
    names = dict.fromkeys(_FIELD.findall(str((body.get("messages") or [""])[-1])))
    names.pop("question", None)
    replies = [f"[[ ## {name} ## ]]\nreply {number}" for name in names if name != "completed"]
    return "\n\n".join([*replies, "[[ ## completed ## ]]"]) if names else f"reply {number}"


def _has_result(body: Mapping[str, Any]) -> bool:
    """Tell whether the last word is the result of a tool."""
    told = body.get("messages") or body.get("input") or body.get("contents") or [""]
    last = json.dumps(told[-1]) if isinstance(told, list) else ""
    marks = ('"role": "tool"', '"tool_result"', '"function_call_output"', '"functionResponse"')
    return any(mark in last for mark in marks)


def _tools(body: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found = []
    for tool in body.get("tools") or (body.get("toolConfig") or {}).get("tools") or []:
        whole = tool.get("function") or tool.get("toolSpec") or tool
        for one in tool.get("functionDeclarations") or [whole]:
            schema = one.get("parameters") or one.get("input_schema")
            schema = schema or (one.get("inputSchema") or {}).get("json")
            schema = (
                schema
                or one.get("parametersJsonSchema")
                or one.get("parameters_json_schema")
                or {"type": "object"}
            )
            found.append((one["name"], schema))
    return found


def _chosen(tools: list[tuple[str, Any]], body: Mapping[str, Any]) -> tuple[str, Any]:
    choice = json.dumps(body.get("tool_choice"))
    return next((tool for tool in tools if f'"{tool[0]}"' in choice), tools[0])


def _schema(body: Mapping[str, Any]) -> Any:
    """Return the schema of the text that is wanted; None for free text."""
    form = body.get("response_format") or (body.get("text") or {}).get("format") or {}
    output = body.get("output_format") or (body.get("output_config") or {}).get("format") or {}
    gemini = body.get("generationConfig") or {}
    candidates = (
        (form.get("json_schema") or {}).get("schema"),
        form.get("schema"),
        form.get("value"),
        output.get("schema"),
        gemini.get("responseJsonSchema"),
        gemini.get("responseSchema"),
        body.get("format") or None,
    )
    return next((one for one in candidates if isinstance(one, dict)), None)


def _fill(schema: Mapping[str, Any], root: Mapping[str, Any], number: int) -> Any:
    """Make a value that fits a schema and tells the number."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _fill((root.get("$defs") or root["definitions"])[name], root, number)
    for several in ("anyOf", "allOf", "oneOf"):
        if several in schema:
            return _fill(schema[several][0], root, number)
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type", "object")).lower()
    if kind == "object":
        parts = schema.get("properties") or {}
        return {name: _fill(part, root, number) for name, part in parts.items()}
    if kind == "array":
        return [_fill(schema.get("items") or {"type": "string"}, root, number)]
    return {"integer": number, "number": float(number), "boolean": True}.get(kind, f"Lima {number}")
