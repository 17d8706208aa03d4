"""The tries of a loop at a prompt: the runs that were compared with one baseline."""

from __future__ import annotations

from contextlib import suppress

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.runs.run_file import read_run_header
from pytest_llmeval.runs.store import RunStore, StoredRun

_DAY = 8  # characters of a run id; clocks may differ by less


def tries_against(store: RunStore, baseline: str) -> list[StoredRun]:
    """List the runs that were compared with a baseline and paid for calls, oldest first.

    Runs of dirty trees are among them, runs of CI are not.

    Args:
        store: where they lie; only headers are read.
        baseline: id of its run.
    """
    tries = []
    for run_id, path in sorted(store.files().items()):
        if run_id[:_DAY] >= baseline[:_DAY]:
            with suppress(BaselineUnreadable):
                header = read_run_header(path)
                run = header.run
                if run.compared_with == baseline and run.ci is None and run.attempts != 0:
                    tries.append(StoredRun(path, header))
    return tries
