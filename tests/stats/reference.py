"""Reference values: what was given, what is expected, how closely, and who says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ORACLE = Path(__file__).parent / "oracle.json"


def vector(name: str) -> dict[str, Any]:
    """One entry: ``given``, ``expected``, ``tolerance`` and ``source``."""
    entry: dict[str, Any] = json.loads(ORACLE.read_text())[name]
    return entry
