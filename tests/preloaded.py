"""Imported by the process that sessions are forked off: it imports what they import.

It runs a session first, for what pytest imports, and as pytest rewrites the plugin.
"""

import gc
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.imports import import_package

EVAL = """
from pytest_llmeval import llm_eval

@llm_eval(repeats=2)
def test_first(): pass
"""


def run_a_session() -> None:
    with TemporaryDirectory() as folder, Path(os.devnull).open("w") as nothing:
        (Path(folder) / "test_first.py").write_text(EVAL)
        with redirect_stdout(nothing), redirect_stderr(nothing):
            pytest.main([folder, "-p", "no:cacheprovider"])
    del sys.modules["test_first"]


run_a_session()
import_package()
gc.freeze()  # sessions look for garbage of their own alone
