"""The newest complete runs, one of each commit, for their means over commits."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Run
from pytest_llmeval.runs.store import RunStore

_MOST_TRIALS = 100_000  # that are read: a page shall not take minutes


def newest_runs(
    store: RunStore, *, branch: str | None, most: int, besides: Sequence[Run] = ()
) -> tuple[list[Run], list[str]]:
    """Read the newest complete run of each commit, and of changes to it; pass over damaged ones.

    Args:
        store: where they lie.
        branch: only runs of this one; None for all.
        most: how many are read.
        besides: runs that are at hand; they are among those returned.

    Returns:
        The runs, oldest first, and a note for each file that was passed over.
    """
    known = {run.id: run for run in besides}
    commits = {(run.commit, run.dirty) for run in besides}
    trials = sum(len(run.trials) for run in besides)
    listing = store.every()
    notes = list(listing.notes)
    for stored in listing.runs:
        run = stored.header.run
        if len(known) >= most or trials > _MOST_TRIALS:
            break
        if run.id in known or (run.commit, run.dirty) in commits:
            continue
        if run.complete and branch in (None, run.ref):
            try:
                known[run.id] = store.load(stored.path)
            except BaselineUnreadable as exc:
                notes.append(f"passed over: {exc}")
                continue
            commits.add((run.commit, run.dirty))
            trials += stored.header.trials
    return sorted(known.values(), key=lambda run: run.created), notes
