"""The schema of the JSON report, as the page docs/report-format.md shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "docs" / "report-schema.json").read_text(encoding="utf-8")
)
_CHECK = jsonschema.Draft7Validator(SCHEMA)


def check_report(report: object) -> None:
    """Fail with the place and the reason if this is no report of the schema."""
    _CHECK.validate(report)
