"""The schema of the JSON report, and whether a document fits it."""

from __future__ import annotations

import json
from pathlib import Path

SCHEMA_FILE = Path(__file__).with_name("report-schema.json")  # docs/ has the same


def misfit(document: object) -> str:
    """Say in what a document is no report of this schema; "" if it is one.

    Args:
        document: as ``json`` read it, from whatever source.
    """
    import fastjsonschema

    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
    try:
        fastjsonschema.compile(schema, use_default=False)(document)
    except fastjsonschema.JsonSchemaValueException as exc:
        return f"{exc.name or 'the report'}: {exc.message.removeprefix(exc.name or '').strip()}"
    return ""
