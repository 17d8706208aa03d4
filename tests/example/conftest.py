from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def example() -> Path:
    return ROOT / "example_project"


@pytest.fixture
def demo() -> Path:
    return ROOT / "demo"


@pytest.fixture
def triage(example: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """The modules of the example's package, imported for this test alone."""
    monkeypatch.syspath_prepend(example)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield SimpleNamespace(
        **{name: _module(name) for name in ("app", "labels", "simulator", "tickets")}
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "triage"]:
        del sys.modules[name]


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"triage.{name}")
