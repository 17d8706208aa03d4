"""The schema of the JSON report, and whether a document fits it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

SCHEMA_FILE = Path(__file__).with_name("report-schema.json")  # docs/ has the same


def misfit(document: object) -> str:
    """Say in what a document is no report of this schema; "" if it is one.

    Args:
        document: as ``json`` read it, from whatever source.
    """
    import fastjsonschema

    try:
        _check()(document)
    except fastjsonschema.JsonSchemaValueException as exc:
        return f"{exc.name or 'the report'}: {exc.message.removeprefix(exc.name or '').strip()}"
    return ""


@cache
def _check() -> Callable[[object], object]:
    """Compile the schema, which takes 0.1 s."""
    import fastjsonschema

    check: Callable[[object], object] = fastjsonschema.compile(
        json.loads(SCHEMA_FILE.read_text(encoding="utf-8")), use_default=False
    )
    return check
