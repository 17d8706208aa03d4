"""What sessions in other processes note of themselves, so that a test need not guess by a clock."""

from __future__ import annotations

import time
from pathlib import Path

from tests.forked import ForkedSession

# A conftest.py that writes a line for each trial that the session has taken in.
NOTE_ENDS = """
import os, signal, pytest
from pytest_llmeval.engine.case_trials import CaseTrials

finished = CaseTrials.finished

def noting(self, trial):
    line = f"{self.item.nodeid} {trial.index}\\n"
    finished(self, trial)
    with open("ended.log", "a") as log: log.write(line)

CaseTrials.finished = noting
"""


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def wait_for(process: ForkedSession, log: Path, count: int, line: str = "") -> None:
    """Wait until a log of a session has so many lines, all or those that are alike."""
    while process.poll() is None:
        found = lines(log)
        if (found.count(line) if line else len(found)) >= count:
            return
        time.sleep(0.02)
