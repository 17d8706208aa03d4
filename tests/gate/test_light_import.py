from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["scoring", "results", "describe"])
def test_records_are_imported_without_numpy_and_scipy(module: str) -> None:
    code = f"import sys, pytest_llmeval.gate.{module}\n"
    code += "print({'numpy', 'scipy'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
