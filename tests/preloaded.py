"""Imported by the process that sessions are forked off: it imports what they import.

It runs sessions first: for what pytest imports, as pytest rewrites the plugin, and for patterns
that are compiled once a process.
"""

import gc
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.imports import import_package, read_installed_once

EVAL = """
from pytest_llmeval import llm_eval

def answer(messages, *, draw, **params):
    return "yes" if draw.trial else "no"

@llm_eval(repeats=2)
def test_first(llm):
    assert llm.ask("Say yes").text == "yes"
"""

INI = """
[pytest]
pythonpath = .
llm_model = function/test_first:answer
"""


def run_session(folder: str, *more: str) -> None:
    with Path(os.devnull).open("w") as to, redirect_stdout(to), redirect_stderr(to):
        assert pytest.main([folder, "-p", "no:cacheprovider", *more]) == 0
    del sys.modules["test_first"]


read_installed_once(pytest.MonkeyPatch())  # for good: this process runs no test itself
with TemporaryDirectory() as folder:
    (Path(folder) / "pytest.ini").write_text(INI)
    (Path(folder) / "test_first.py").write_text(EVAL)
    run_session(folder)
    import_package()
    run_session(folder, "--llm-baseline=last")  # now with all that it reads of libraries
gc.freeze()  # sessions look for garbage of their own alone
