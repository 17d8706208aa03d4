from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["pytest_llmeval.gate.scoring", "pytest_llmeval.gate.results"])
def test_records_are_imported_without_numpy_and_scipy(module: str) -> None:
    code = f"import sys, {module}; print({{'numpy', 'scipy'}} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
