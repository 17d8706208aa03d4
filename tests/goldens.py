"""Golden files: what is printed or written for fixed input, to be read by people when it changes.

``make goldens`` writes them anew; the change is then judged in the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden")


def assert_golden(name: str, text: str) -> None:
    """Hold a text against its golden file, or write that file."""
    path = GOLDEN / name
    if os.environ.get("REWRITE_GOLDENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} is another: make goldens, and look"
