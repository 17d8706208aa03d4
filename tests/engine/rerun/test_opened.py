"""Which files a process is noted to have opened, or to have named to another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_llmeval.engine.rerun.opened import OpenedFiles


@pytest.mark.parametrize("word", ["a" * 5000, "a\0b", "\ud800"], ids=["long", "nothing", "odd"])
def test_a_word_that_can_name_no_file_does_no_harm(tmp_path: Path, word: str) -> None:
    """Such as a token in a header, given to a program."""
    opened = OpenedFiles()
    read = tmp_path / "prompt.txt"
    read.touch()
    read.read_text()
    try:
        subprocess.run([sys.executable, "-c", "", word], check=True)
    except ValueError:
        assert len(word) < 9

    (tmp_path / "other").touch()
    (tmp_path / "other").unlink()

    assert read in opened.files
